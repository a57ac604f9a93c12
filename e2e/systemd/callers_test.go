//go:build e2e

package systemd

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
)

// The life of a cluster by the calls of scripts that know the retired etcdadm: a playbook,
// a program that makes the certificates itself, one that reads info, the page of a restore,
// and a reset of all machines at once.
func TestCallsOfScripts(t *testing.T) {
	t.Parallel()
	machines := Start(t, 3)
	m1, m2, m3 := machines[0], machines[1], machines[2]
	m3.Do("etcdadm reset") // nothing is there yet
	const release = " --version " + older + " --release-url https://mirror.invalid/etcd -l debug"
	out := m1.Do("etcdadm init --name m1" + release)
	contains(t, "the output of init", out+"\n", "\tetcdadm join "+url(m1)+"\n")
	for _, m := range machines[1:] {
		m1.Give(m, "/etc/etcd/pki/ca.crt", "/etc/etcd/pki/ca.key")
	}
	m2.Do("etcdadm join " + url(m1) + " --name m2" + release)

	madeBefore(t, m3)
	sum := "cd /etc/etcd/pki; sha256sum *.crt *.key"
	made := m3.Do(sum)
	// Who wants no retries tries again itself: etcd takes a change some seconds after the last.
	m3.Await(soon, "etcdadm join --name=m3 --server-cert-extra-sans= --disk-priorities=Nice=-5 --retry=false "+
		"--install-dir /usr/local/bin --certs-dir /etc/etcd/pki --version "+older+" -l debug "+url(m1)+"/")
	if now := m3.Do(sum); now != made {
		t.Errorf("the certificates were\n%s, and are\n%s", made, now)
	}
	m3.Do("mkdir -p /opt/bin; ln -s /usr/local/bin/etcdctl.sh /opt/bin/etcdctl.sh\n" +
		"curl -sS --resolve etcd.somebody:2379:" + m3.IP + " --cacert /etc/etcd/pki/ca.crt --cert /etc/etcd/pki/server.crt " +
		"--key /etc/etcd/pki/server.key https://etcd.somebody:2379/health")
	awaitHealthy(t, machines...)
	checkMembers(t, m2, machines...)
	for _, m := range machines {
		readInfo(t, m)
	}
	restoreByThePage(t, machines)

	say(t, "reset all at once")
	for _, m := range machines {
		m.Do("(set +e; etcdadm reset >/root/reset.out 2>&1; echo $? >/root/reset.rc) </dev/null >/dev/null 2>&1 &")
	}
	for _, m := range machines {
		m.Await(runTime, "test -s /root/reset.rc")
		if code := m.Do("cat /root/reset.rc"); code != "0" {
			t.Errorf("%s: exit code %s\n%s", m.Name, code, m.Do("cat /root/reset.out"))
		}
		m.Do(gone)
	}
}

// madeBefore puts certificates into the machine that are of its authority, and were made by
// somebody else: with other names, and more of them.
func madeBefore(t *testing.T, m *Machine) {
	t.Helper()
	for pair, r := range map[string]certs.Request{
		"server": {Server: true, Client: true}, "peer": {Server: true, Client: true},
		"etcdctl-etcd-client":   {Client: true, Organization: []string{certs.MastersGroup}},
		"apiserver-etcd-client": {Client: true, Organization: []string{certs.MastersGroup}},
	} {
		r.CommonName = "somebody-" + pair
		if r.Server {
			r.DNSNames = []string{"etcd.somebody", m.Name, "localhost"}
			r.IPs = []net.IP{net.ParseIP(m.IP), net.IPv4(127, 0, 0, 1)}
		}
		m.issue("/etc/etcd/pki/"+pair, r)
	}
}

// issue writes a pair of RSA that is of the machine's authority.
func (m *Machine) issue(path string, r certs.Request) {
	m.t.Helper()
	dir := m.t.TempDir()
	for _, name := range []string{"ca.crt", "ca.key"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(m.Read("/etc/etcd/pki/"+name)), 0o600); err != nil {
			m.t.Fatal(err)
		}
	}
	ca, err := certs.LoadCA(dir, "ca", time.Now())
	if err != nil {
		m.t.Fatal(err)
	}
	r.RSA, r.Lifetime = true, 300*24*time.Hour
	leaf, err := ca.Issue(r, time.Now())
	if err != nil {
		m.t.Fatal(err)
	}
	key, err := leaf.KeyPEM()
	if err != nil {
		m.t.Fatal(err)
	}
	m.Write(path+".crt", string(leaf.CertPEM()), 0o644)
	m.Write(path+".key", string(key), 0o600)
}

// readInfo reads info from both outputs together, as a program does through ssh.
func readInfo(t *testing.T, m *Machine) {
	t.Helper()
	var info struct {
		ID                   uint64
		Name                 string
		PeerURLs, ClientURLs []string
	}
	out := m.Do("etcdadm info 2>&1")
	if err := json.Unmarshal([]byte(out), &info); err != nil {
		t.Fatalf("%s: %v in %s", m.Name, err, out)
	}
	if e := members(t, m)[m.Name]; info.ID != e.ID || info.Name != m.Name || len(info.ClientURLs) != 1 ||
		info.ClientURLs[0] != url(m) || len(info.PeerURLs) != 1 {
		t.Errorf("info of %s is %+v, and the list has %+v", m.Name, info, e)
	}
	m.Do("test -z \"$(etcdadm version --short 2>&1 >/dev/null)\"; test $(etcdadm version --short | wc -l) = 1")
}

// restoreByThePage restores all members from a snapshot, as EKS Anywhere's page says: values
// come out of etcd.env, and the directory member is exchanged under the stopped service.
func restoreByThePage(t *testing.T, machines []*Machine) {
	say(t, "restore by the page")
	m1 := machines[0]
	put(m1, "k", "saved")
	m1.Do(". /etc/etcd/etcdctl.env; /opt/bin/etcdctl snapshot save /root/s.db")
	put(m1, "k", "too late")
	var all []string
	for _, m := range machines {
		if m != m1 {
			m1.Give(m, "/root/s.db")
		}
		all = append(all, m.Name+"=https://"+m.IP+":2380")
	}
	for _, m := range machines {
		m.Do(strings.ReplaceAll(`. /etc/etcd/etcdctl.env
PATH=$PATH:/opt/bin
name=$(grep ^ETCD_NAME= /etc/etcd/etcd.env | cut -d= -f2)
url=$(grep ^ETCD_INITIAL_ADVERTISE_PEER_URLS= /etc/etcd/etcd.env | cut -d= -f2)
systemctl stop etcd.service
etcdctl snapshot restore s.db --name=$name --initial-cluster=@ALL@ --initial-cluster-token=etcd-cluster-1 \
  --initial-advertise-peer-urls=$url
mv /var/lib/etcd/member member.bak
mv $name.etcd/member /var/lib/etcd/`, "@ALL@", strings.Join(all, ",")))
	}
	for _, m := range machines {
		// Each waits for the others.
		m.Do("systemctl start etcd.service </dev/null >/dev/null 2>&1 &")
	}
	awaitHealthy(t, machines...)
	for _, m := range machines {
		if got := get(m, "k"); got != "saved" {
			t.Errorf("%s has %q", m.Name, got)
		}
		m.Do("etcdadm status; etcdadm info")
	}
}
