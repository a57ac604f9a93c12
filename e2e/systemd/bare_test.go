//go:build e2e

package systemd

import (
	"fmt"
	"strings"
	"testing"
)

// packagedUnit runs etcd as a distribution's package does.
const packagedUnit = `[Unit]
Description=etcd
[Service]
ExecStart=/opt/bare/etcd --name=%[1]s --data-dir=/var/lib/etcd --initial-cluster=%[3]s --initial-cluster-token=bare \
  --listen-client-urls=https://%[2]s:2379 --advertise-client-urls=https://%[2]s:2379 \
  --listen-peer-urls=https://%[2]s:2380 --initial-advertise-peer-urls=https://%[2]s:2380 \
  --cert-file=/root/own.crt --key-file=/root/own.key --trusted-ca-file=/root/ca.crt --client-cert-auth \
  --peer-cert-file=/root/own.crt --peer-key-file=/root/own.key --peer-trusted-ca-file=/root/ca.crt --peer-client-cert-auth
Restart=always
[Install]
WantedBy=multi-user.target
`

// startBare makes a cluster of an etcd that is nobody's but its own unit's.
func startBare(t *testing.T, machines []*Machine) {
	t.Helper()
	a := machines[0]
	const key = "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
	a.Do(key + "-x509 -days 3650 -subj /CN=bare -keyout ca.key -out ca.crt")
	var initial []string
	for _, m := range machines {
		initial = append(initial, m.Name+"=https://"+m.IP+":2380")
	}
	for i, m := range machines {
		if i > 0 {
			a.Give(m, "/root/ca.crt", "/root/ca.key")
		}
		m.Do(key + "-subj /CN=" + m.Name + " -addext subjectAltName=IP:" + m.IP + ",IP:127.0.0.1 -keyout own.key -out own.csr; " +
			"openssl x509 -req -in own.csr -CA ca.crt -CAkey ca.key -CAcreateserial -copy_extensions copy -days 30 -out own.crt")
		m.Do("mkdir /opt/bare; tar xzf /var/cache/etcdadm/etcd/v" + newer + "/*.tar.gz -C /opt/bare --strip-components=1")
		unit := fmt.Sprintf(packagedUnit, m.Name, m.IP, strings.Join(initial, ","))
		m.Write("/usr/lib/systemd/system/etcd.service", unit, 0o644)
		m.Do("systemctl daemon-reload; systemctl enable --now etcd.service")
	}
}

// bareClient is etcdctl for the cluster before it is etcdadm's.
const bareClient = "/opt/bare/etcdctl --cacert=/root/ca.crt --cert=/root/own.crt --key=/root/own.key --endpoints="

// A bare etcd becomes one of etcdadm's while it serves, machine by machine, by the lines of the page.
func TestTutorialOfBareEtcd(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		return // "make e2e" has it
	}
	machines := Start(t, 3)
	startBare(t, machines)
	m1 := machines[0]
	m1.Await(soon, bareClient+url(m1)+" put k v")
	lines := block(t, "docs/taking-over.md", "### Machine by machine, while it serves", 0, 1)
	for i, m := range machines {
		// The page is about node1, whose others are node2 and node3.
		turned := []*Machine{m, machines[(i+1)%3], machines[(i+2)%3]}
		said := begin(t, turned).each(lines, m)
		contains(t, "the status", said, "leader", "voter")
		awaitHealthy(t, m)
	}
	checkMembers(t, m1, machines...)
	for _, m := range machines {
		if got := get(m, "k"); got != "v" {
			t.Errorf("%s has %q", m.Name, got)
		}
		m.Do("etcdadm status --check >/dev/null; ! pgrep -f '[/]opt/bare/etcd'")
	}
}
