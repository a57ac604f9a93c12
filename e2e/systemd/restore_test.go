//go:build e2e

package systemd

import (
	"strings"
	"testing"
)

// All is lost but a snapshot and the CA: reset every machine, bootstrap the cluster
// again from the snapshot, join the others.
func TestRestoreACluster(t *testing.T) {
	t.Parallel()
	machines := Start(t, 3)
	m1 := machines[0]
	form(t, machines, newer)
	put(m1, "k", "saved")
	u := begin(t, machines)
	const of = 4
	page, heading := "docs/etcdadm.md", "## Snapshots and disasters"
	m1.Do("mkdir -p /var/backups")
	said := u.each(block(t, page, heading, 0, of), m1)
	contains(t, "the status of the snapshot", said, "INTEGRITY", "REVISION")
	put(m1, "k", "too late")
	old := m1.Do(client + "endpoint status -w fields | grep ClusterID")

	again := func(i int) {
		t.Helper()
		for line := range strings.Lines(block(t, page, heading, i, of)) {
			on := machines[:1]
			switch {
			case strings.HasPrefix(line, "etcdadm reset "):
				on = machines
			case strings.HasPrefix(line, "etcdadm join "):
				on = machines[1:]
			}
			u.each(line, on...)
			if len(on) == len(machines) {
				for _, m := range machines {
					m.Do(gone)
				}
			}
		}
	}
	say(t, "reset all, init from the snapshot, join the others")
	again(1)
	checkMembers(t, m1, machines...)
	awaitHealthy(t, machines...)
	checkMembers(t, m1, machines...)
	for _, m := range machines {
		if got := get(m, "k"); got != "saved" {
			t.Errorf("%s has %q", m.Name, got)
		}
	}
	if m1.Do(client+"endpoint status -w fields | grep ClusterID") == old {
		t.Error("the restored cluster has the identity of the old one")
	}
	say(t, "init again does not restore again")
	put(m1, "k", "new")
	m1.Run(t.Context(), "etcdadm init --snapshot /var/backups/etcd.db --version "+newer)
	if got := get(m1, "k"); got != "new" {
		t.Errorf("a second init from the snapshot made it %q", got)
	}

	say(t, "and once more, with a revision that nobody has seen")
	for _, m := range machines {
		m.Do("etcdadm reset --skip-remove-member")
	}
	again(2)
	if got := get(m1, "k"); got != "saved" {
		t.Errorf("after the restore m1 has %q", got)
	}
	m1.Do("test $(" + client + "get k -w fields | sed -n 's/^\"Revision\" : //p') -gt 1000000000")
}
