//go:build e2e

package systemd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
)

const (
	// sentinel is by what a Cluster API provider knows that a machine is ready.
	sentinel = "/run/cluster-api/bootstrap-success.complete"
	// unanswered is what a join says while the first member is not there.
	unanswered = "waiting: the cluster does not answer"
)

// providerFiles are what the provider has cloud-init write: the certificate
// authority that the controller has made, and the directory of the sentinel.
func providerFiles(t *testing.T) []cloudFile {
	t.Helper()
	ca, err := certs.NewCA(certs.CASpec{CommonName: "kubernetes", Lifetime: 24 * time.Hour, RSA: true}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := ca.Write(dir, "ca"); err != nil {
		t.Fatal(err)
	}
	files := []cloudFile{{Path: "/run/cluster-api/placeholder", Owner: "root:root", Permissions: "0640", Content: "empty"}}
	for name, mode := range map[string]string{"ca.crt": "0640", "ca.key": "0600"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, cloudFile{
			Path: "/etc/etcd/pki/" + name, Owner: "root:root", Permissions: mode, Content: string(b),
		})
	}
	return files
}

// A cluster as EKS Anywhere makes it, on a bad day: all machines are made at once, the
// archives of EKS Distro come slowly, one endpoint is dead, the first member is minutes
// late, and cloud-init runs each command once. Then a controller takes a member out by
// etcd's API, while the machine that replaces it joins.
func TestCloudInitWhileTheFirstMemberIsLate(t *testing.T) {
	t.Parallel()
	machines := Start(t, 4)
	m1, m2, m3, m4 := machines[0], machines[1], machines[2], machines[3]
	mirror, files := NewMirror(t, m1, newer), providerFiles(t)
	dead := "https://" + m1.IP[:strings.LastIndex(m1.IP, ".")] + ".250:2379"
	m1.prepareUserData("init", newer, mirror, files)
	for _, m := range machines[1:] {
		m.prepareUserData("join "+dead+","+url(m1), newer, mirror, files)
	}
	began := time.Now()
	m2.powerOn()
	m3.powerOn()
	say(t, "m2 and m3 wait for m1")
	// Once, after a minute, and after another one: longer than a join used to wait.
	times := 3
	if testing.Short() {
		times = 2
	}
	for _, m := range []*Machine{m2, m3} {
		m.Await(2*runTime, fmt.Sprintf("test $(grep -c '%s' %s) -ge %d", unanswered, cloudErrors, times))
		m.Do("test ! -e " + sentinel)
	}
	say(t, "m1 comes")
	m1.powerOn()
	for _, m := range machines[:3] {
		m.ready(began)
	}
	awaitHealthy(t, m1, m2, m3)
	checkMembers(t, m1, m1, m2, m3)
	put(m1, "k", "v")

	say(t, "m4 joins while a controller removes m3")
	gone := fmt.Sprintf("%x", members(t, m1)[m3.Name].ID)
	m4.powerOn()
	m4.Await(soon, "grep -F '[install]' "+cloudErrors)
	m2.Await(soon, removes(client, gone))
	m4.ready(time.Now())
	checkMembers(t, m4, m1, m2, m4)
	if got := get(m4, "k"); got != "v" {
		t.Errorf("m4 has %q", got)
	}
	// The controller's own client speaks TLS 1.2 with that suite alone.
	m4.Do("curl -sS --tls-max 1.2 --ciphers ECDHE-RSA-AES128-GCM-SHA256 --cacert /etc/etcd/pki/ca.crt --cert " +
		"/etc/etcd/pki/apiserver-etcd-client.crt --key /etc/etcd/pki/apiserver-etcd-client.key " + url(m4) +
		"/readyz | grep -Fx ok")
}

// prepareUserData gives the machine, which is off then, the provider's user data. Its image
// has no archives.
func (m *Machine) prepareUserData(command, version string, mirror *Mirror, files []cloudFile) {
	m.t.Helper()
	m.Do("rm -r /var/cache/etcdadm")
	m.Trust(mirror)
	m.PrepareCloudInit(fmt.Sprintf(
		"      etcdadm %s --init-system systemd --version %s --release-url %s --install-dir /usr/bin --cipher-suites %s && "+
			"echo success > %s", command, version, mirror.URL, suites, sentinel), files...)
	m.down()
}

// ready waits until the machine's user data has succeeded, and checks what it said.
func (m *Machine) ready(began time.Time) {
	m.t.Helper()
	m.Await(runTime, "test -e "+sentinel)
	m.awaitBoot()
	r := m.CloudInitResult()
	if r.Code != 0 {
		m.t.Errorf("cloud-init of %s: %s", m.Name, r)
	}
	if n := strings.Count(r.Stderr, unanswered); n > 2+int(time.Since(began).Minutes()) {
		m.t.Errorf("%s says %d times why it waits: %s", m.Name, n, r)
	}
	m.Do("test ! -e /usr/bin/etcdutl; mkdir -p /opt/bin; ln -sf /usr/bin/etcdctl.sh /opt/bin/etcdctl.sh")
}
