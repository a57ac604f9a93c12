//go:build e2e

package systemd

import "testing"

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
}
