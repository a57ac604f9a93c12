//go:build e2e

package systemd

import (
	"strings"
	"testing"
)

// serials prints the serial numbers of the certificates that etcd serves to
// clients and to peers, which are not those on the disk if it did not read them
// again.
const serials = `
for port in 2379 2380; do
  curl -sS --output /dev/null --write-out '%{certs}' --cacert /etc/etcd/pki/ca.crt --cert /etc/etcd/pki/peer.crt --key /etc/etcd/pki/peer.key \
    https://@IP@:$port/ | grep -m1 -i '^Serial Number'
done`

// The renewal of EKS Anywhere: delete the leaves, and run the certificates
// phase with an endpoint that does not exist. The running etcd serves the new
// certificates, and so it does after "certs renew".
func TestRenewalWithoutRestart(t *testing.T) {
	t.Parallel()
	machines := Start(t, 3)
	m1 := machines[0]
	form(t, machines, newer)
	put(m1, "k", "v")
	script := "sed 's/@IP@/" + m1.IP + "/' <<'EOF' | sh\n" + serials + "\nEOF\n"
	process, served, leader := pid(m1), m1.Do(script), members(t, m1)
	for _, way := range []struct{ name, script string }{
		{"the certificates phase",
			"cp -r /etc/etcd/pki /root/backup; cd /etc/etcd/pki; find . -type f ! -name 'ca.*' -delete\n" +
				"etcdadm join phase certificates http://eks-a-etcd-dumb-url"},
		{"certs renew all", "etcdadm certs renew all"},
	} {
		say(t, "%s", way.name)
		ca := m1.Do("cat /etc/etcd/pki/ca.crt /etc/etcd/pki/ca.key | sha256sum")
		m1.Do(way.script)
		now := m1.Do(script)
		if now == served {
			t.Errorf("%s: etcd still serves\n%s", way.name, served)
		}
		served = now
		if m1.Do("cat /etc/etcd/pki/ca.crt /etc/etcd/pki/ca.key | sha256sum") != ca {
			t.Errorf("%s: the CA is another", way.name)
		}
		if got := pid(m1); got != process {
			t.Errorf("%s: etcd was restarted: %s, %s", way.name, process, got)
		}
		awaitHealthy(t, machines...)
		m1.Do("ls -l /etc/etcd/pki; test $(stat -c %a /etc/etcd/pki/peer.key) = 600; etcdadm certs check-expiration")
	}
	// The other direction too: m1 shows its new client certificate to its peers.
	m1.Do("systemctl restart etcd.service")
	awaitHealthy(t, machines...)
	if len(members(t, m1)) != len(leader) {
		t.Errorf("the members changed")
	}
	externalAuthority(t, machines[2], m1)
	awaitHealthy(t, machines...)
}

// Whoever makes a cluster by hand has to schedule nothing: a timer runs from init and join on,
// after a reboot too, what it starts renews a certificate that ends soon, and a reset takes it away.
// Root runs nothing by it that others can replace, and a timer that is masked is left alone.
func TestATimerRenewsByDefault(t *testing.T) {
	t.Parallel()
	machines := Start(t, 2)
	m1, m2 := machines[0], machines[1]
	say(t, "init and join")
	r := m1.Do("etcdadm init --cert-lifetime=2400h --version " + newer)
	if strings.Contains(r, "no timer") {
		t.Errorf("init says\n%s", r)
	}
	m1.Give(m2, "/etc/etcd/pki/ca.crt", "/etc/etcd/pki/ca.key")
	m2.Do("etcdadm join " + url(m1) + " --version " + newer)
	const on = "systemctl is-enabled -q etcdadm-certs-renew.timer; systemctl is-active -q etcdadm-certs-renew.timer"
	for _, m := range machines {
		m.Do("systemd-analyze verify etcdadm-certs-renew.timer; " + on)
	}
	contains(t, "init again", m1.Do("etcdadm init --cert-lifetime=2400h --version "+newer), "Nothing to do")

	say(t, "the certificates of m1 end in 20 days, those of m2 do not")
	m1.Do("etcdadm certs renew all --cert-lifetime=480h; ! etcdadm certs check-expiration --within=21d")
	was := m2.Do("sha256sum /etc/etcd/pki/*.crt")
	for _, m := range machines {
		m.Do("systemctl start etcdadm-certs-renew.service")
	}
	m1.Do("etcdadm certs check-expiration --within=30d")
	if now := m2.Do("sha256sum /etc/etcd/pki/*.crt"); now != was {
		t.Errorf("m2 has other certificates\n%s\nthan before\n%s", now, was)
	}

	say(t, "a program that anybody can replace, and certificates of three days")
	m1.Do("cp /usr/local/bin/etcdadm /var/tmp/etcdadm; systemctl disable -q --now etcdadm-certs-renew.timer; " +
		"rm /etc/systemd/system/etcdadm-certs-renew.*; systemctl daemon-reload")
	contains(t, "the phase", m1.Do("/var/tmp/etcdadm init phase renewal --version "+newer),
		"others than root can change /var/tmp", "Run each day")
	m1.Do("test ! -e /etc/systemd/system/etcdadm-certs-renew.timer")
	m1.Do("etcdadm init phase renewal --cert-lifetime=72h --version " + newer + "; " +
		"systemd-analyze verify etcdadm-certs-renew.timer; grep OnCalendar=hourly /etc/systemd/system/etcdadm-certs-renew.timer; " + on)

	say(t, "reboot, reset")
	m1.Reboot()
	m1.Await(soon, on)
	m2.Do("etcdadm reset")
	m2.Do(gone)

	say(t, "a timer that is masked stays so")
	const masked = "test $(readlink /etc/systemd/system/etcdadm-certs-renew.timer) = /dev/null"
	m2.Do("systemctl mask etcdadm-certs-renew.timer")
	if r := m2.Do("etcdadm join " + url(m1) + " --version " + newer); strings.Contains(r, "no timer") {
		t.Errorf("join says\n%s", r)
	}
	m2.Do(masked + "; test ! -e /etc/systemd/system/etcdadm-certs-renew.service")
	m2.Do("etcdadm reset; " + masked)
}
