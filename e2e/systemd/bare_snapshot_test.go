//go:build e2e

package systemd

import (
	"fmt"
	"strings"
	"testing"
)

// plainUnit runs etcd without TLS.
const plainUnit = `[Unit]
Description=etcd
[Service]
ExecStart=/opt/bare/etcd --name=%[1]s --data-dir=/var/lib/etcd --initial-cluster=%[3]s \
  --listen-client-urls=http://%[2]s:2379 --advertise-client-urls=http://%[2]s:2379 \
  --listen-peer-urls=http://%[2]s:2380 --initial-advertise-peer-urls=http://%[2]s:2380
[Install]
WantedBy=multi-user.target
`

// startPlain makes a cluster without TLS of an etcd that is nobody's but its own unit's, with a key.
func startPlain(t *testing.T, machines []*Machine) {
	t.Helper()
	var initial []string
	for _, m := range machines {
		initial = append(initial, m.Name+"=http://"+m.IP+":2380")
	}
	for _, m := range machines {
		m.Do("mkdir /opt/bare; tar xzf /var/cache/etcdadm/etcd/v" + older + "/*.tar.gz -C /opt/bare --strip-components=1")
		unit := fmt.Sprintf(plainUnit, m.Name, m.IP, strings.Join(initial, ","))
		m.Write("/usr/lib/systemd/system/etcd.service", unit, 0o644)
		m.Do("systemctl daemon-reload; systemctl enable --now etcd.service")
	}
	machines[0].Await(soon, "/opt/bare/etcdctl --endpoints=http://"+machines[0].IP+":2379 put k v")
}

// A bare etcd without TLS becomes one of etcdadm's, or one of the daemons', out of a snapshot, by the lines of
// the page.
func TestTutorialOfASnapshot(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		return // "make e2e" has it
	}
	const page, heading, of = "docs/taking-over.md", "### From a snapshot, with an interruption", 3
	t.Run("by hand", func(t *testing.T) {
		t.Parallel()
		machines := Start(t, 3)
		startPlain(t, machines)
		u := begin(t, machines)
		a := machines[0]
		save, stop, _ := strings.Cut(block(t, page, heading, 0, of), "\n")
		u.each(save, a)
		u.each(stop, machines...)
		lines := strings.TrimSpace(block(t, page, heading, 1, of))
		last := strings.LastIndex(lines, "\n")
		u.one(a, lines[:last]) // in one shell, for its variable
		for _, m := range machines[1:] {
			a.Give(m, "/etc/etcd/pki/ca.crt", "/etc/etcd/pki/ca.key")
			u.one(m, lines[last+1:])
		}
		checkMembers(t, a, machines...)
		for _, m := range machines {
			if got := get(m, "k"); got != "v" || runs(m) != older {
				t.Errorf("%s has %q in etcd %s", m.Name, got, runs(m))
			}
		}
		a.Do("test $(" + client + "get k -w fields | sed -n 's/^\"Revision\" : //p') -gt 1000000000")
	})
	t.Run("with daemons", func(t *testing.T) {
		t.Parallel()
		const store = "file:///mnt/etcd-store"
		machines := Start(t, 3, "--mount=type=bind,dst=/mnt/etcd-store,src="+t.TempDir())
		startPlain(t, machines)
		u := begin(t, machines, "STORE", store)
		a := machines[0]
		a.Do("etcdadm auto pki --pki-dir=/etc/kubernetes/pki/etcd-manager")
		for _, m := range machines {
			equipDaemon(u, m)
			installEtcd(t, m, older)
			m.Do("etcdadm render etcd-manager --as=systemd-unit -- --cluster-name=etcd --backup-store=" + store +
				" --data-dir=/var/lib/etcd-manager --node-name=" + m.Name + " --address=" + m.IP +
				" > /etc/systemd/system/etcd-manager.service; systemctl daemon-reload")
		}
		for i, line := range strings.Split(strings.TrimSpace(block(t, page, heading, 2, of)), "\n") {
			on := machines[:1]
			if strings.HasSuffix(line, "# on each machine") {
				on = machines
			}
			said := u.each(line, on...)
			if i == 0 {
				contains(t, "the backup", said, "BACKUP")
				u.texts = append(u.texts, "NAME", a.Do("etcd-manager-ctl --backup-store="+store+
					" list-backups -o json | grep -o '20[0-9T:-]*Z-[0-9]*' | tail -1"))
			}
		}
		restored(a, 3, "v")
	})
}
