//go:build e2e

package systemd

import (
	"strings"
	"testing"
)

// cloudConfig is what a Cluster API provider adds to the command, by which it
// knows that the machine is ready.
const cloudConfig = ` && echo success >/run/cluster-api-success.complete`

// The life of a cluster on machines that are made by cloud-init: the first one
// bootstraps it, the others join while they boot, and it survives what machines go
// through.
func TestCloudInitMakesACluster(t *testing.T) {
	t.Parallel()
	machines := Start(t, 3)
	m1, m2, m3 := machines[0], machines[1], machines[2]

	say(t, "init in the cloud-init of m1")
	u := begin(t, machines)
	runcmd := func(i int) string {
		text := strings.TrimSpace(block(t, "docs/cluster-api.md", "# Cluster API and cloud-init", i, 2))
		_, line, _ := strings.Cut(text, "runcmd:\n  - ")
		return strings.NewReplacer(u.texts...).Replace(line)
	}
	const flags = " --install-dir /usr/bin" +
		" --cipher-suites TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
	initLine := runcmd(0) + flags
	r := m1.CloudInit(initLine + cloudConfig)
	if r.Code != 0 {
		t.Fatalf("init: %s", r)
	}
	contains(t, "the output of init", r.Stdout, "etcdadm join "+url(m1))
	m1.Do("test -e /run/cluster-api-success.complete")

	say(t, "join in the cloud-init of m2 and m3, which boot at once")
	// m3 is given an endpoint that may not be there yet, too.
	for m, line := range map[*Machine]string{
		m2: "etcdadm join " + url(m1) + strings.TrimPrefix(initLine, "etcdadm init"), m3: runcmd(1) + flags,
	} {
		m1.Give(m, "/etc/etcd/pki/ca.crt", "/etc/etcd/pki/ca.key")
		m.PrepareCloudInit(line + cloudConfig)
		m.down()
	}
	m2.powerOn()
	m3.powerOn()
	for _, m := range []*Machine{m2, m3} {
		m.awaitBoot()
		if r := m.CloudInitResult(); r.Code != 0 {
			t.Fatalf("join of %s: %s", m.Name, r)
		}
		m.Do("test -e /run/cluster-api-success.complete")
	}
	for _, m := range machines {
		m.Do("mkdir -p /opt/bin; ln -s /usr/bin/etcdctl.sh /opt/bin/etcdctl.sh")
	}
	awaitHealthy(t, machines...)
	checkMembers(t, m2, machines...)
	checkFiles(t, m2)
	put(m1, "k", "v1")

	say(t, "the same commands again")
	before := pid(m1) + pid(m2)
	for m, line := range map[*Machine]string{
		m1: initLine, m2: "etcdadm join " + url(m1) + strings.TrimPrefix(initLine, "etcdadm init"),
	} {
		m.Do(line)
	}
	if after := pid(m1) + pid(m2); after != before {
		t.Errorf("a second time the same command restarted etcd: %s, %s", before, after)
	}

	say(t, "reboot m2")
	m2.Reboot()
	awaitHealthy(t, machines...)
	say(t, "power cut of m3")
	m3.Kill()
	m1.Await(soon, client+"put k v2") // it may have led
	m3.Boot()
	awaitHealthy(t, machines...)
	say(t, "power cut of all")
	for _, m := range machines {
		m.Kill()
	}
	for _, m := range machines {
		m.powerOn()
	}
	for _, m := range machines {
		m.awaitBoot()
		if got := get(m, "k"); got != "v2" {
			t.Errorf("%s has %q", m.Name, got)
		}
	}
	checkMembers(t, m3, machines...)
}

// checkFiles checks what scripts and documents of others rely on.
func checkFiles(t *testing.T, m *Machine) {
	t.Helper()
	for name, script := range map[string]string{
		"name": `test "$(grep ^ETCD_NAME= /etc/etcd/etcd.env | cut -d= -f2)" = ` + m.Name,
		"peer URL": `test "$(grep ^ETCD_INITIAL_ADVERTISE_PEER_URLS= /etc/etcd/etcd.env | cut -d= -f2)" = https://` +
			m.IP + `:2380`,
		"ciphers":          `grep -q ^ETCD_CIPHER_SUITES=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, /etc/etcd/etcd.env`,
		"sourceable":       `. /etc/etcd/etcdctl.env; etcdctl endpoint health`,
		"with endpoints":   `. /etc/etcd/etcdctl.env; etcdctl --endpoints=` + url(m) + ` endpoint health`,
		"modes":            `test "$(stat -c %a /etc/etcd/etcd.env /etc/etcd/etcdctl.env /etc/systemd/system/etcd.service /etc/etcd/pki/server.key /etc/etcd/pki/server.crt | tr '\n' ' ')" = '600 600 644 600 644 '`,
		"unit":             `systemctl is-enabled etcd.service; systemctl is-active etcd.service`,
		"unit verified":    `test -z "$(systemd-analyze verify etcd.service 2>&1)"`,
		"data":             `test -d /var/lib/etcd/member; test $(stat -c %a /var/lib/etcd) = 700`,
		"health":           `curl -sS --cacert /etc/etcd/pki/ca.crt --cert /etc/etcd/pki/apiserver-etcd-client.crt --key /etc/etcd/pki/apiserver-etcd-client.key ` + url(m) + `/health | grep -F '"health":"true"'`,
		"loopback":         `curl -sS --cacert /etc/etcd/pki/ca.crt --cert /etc/etcd/pki/etcdctl-etcd-client.crt --key /etc/etcd/pki/etcdctl-etcd-client.key https://localhost:2379/health | grep -F '"health":"true"'`,
		"no certificate":   `! curl -sS --cacert /etc/etcd/pki/ca.crt ` + url(m) + `/health`,
		"info":             `etcdadm info | grep -F '"name"' | grep -F ` + m.Name,
		"status":           `etcdadm status | grep -E '^etcd +` + newer + `$'`,
		"version":          `test -z "$(etcdadm version --short 2>&1 >/dev/null)"; test $(etcdadm version --short | wc -l) = 1`,
		"tools":            `etcdutl version; etcdctl version`,
		"no expired pairs": `etcdadm certs check-expiration`,
	} {
		if r := m.Run(t.Context(), "set -e\n"+script); r.Code != 0 {
			t.Errorf("%s: %s: %s\n%s", m.Name, name, script, r)
		}
	}
}
