//go:build e2e

package systemd

import "testing"

// All is lost but a snapshot and the CA: reset every machine, bootstrap the cluster
// again from the snapshot, join the others.
func TestRestoreACluster(t *testing.T) {
	t.Parallel()
	machines := Start(t, 3)
	m1 := machines[0]
	form(t, machines, newer)
	put(m1, "k", "saved")
	m1.Do("etcdadm snapshot save /root/snapshot.db; etcdadm snapshot status /root/snapshot.db")
	put(m1, "k", "too late")
	old := m1.Do(client + "endpoint status -w fields | grep ClusterID")

	say(t, "reset all")
	for _, m := range machines {
		m.Do("cp /etc/etcd/pki/ca.* /root; etcdadm reset --skip-remove-member")
		m.Do(gone)
		m.Do("mkdir -p /etc/etcd/pki; cp /root/ca.* /etc/etcd/pki")
	}
	say(t, "init from the snapshot, join the others")
	m1.Do("etcdadm init --snapshot /root/snapshot.db --version " + newer)
	if got := get(m1, "k"); got != "saved" {
		t.Errorf("after init m1 has %q", got)
	}
	checkMembers(t, m1, m1)
	for _, m := range machines[1:] {
		m.Do("etcdadm join " + url(m1) + " --version " + newer)
	}
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
	m1.Run(t.Context(), "etcdadm init --snapshot /root/snapshot.db --version "+newer)
	if got := get(m1, "k"); got != "new" {
		t.Errorf("a second init from the snapshot made it %q", got)
	}
}
