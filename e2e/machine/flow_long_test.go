//go:build e2e

package machine

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// What make test does with one version, with the others.
func TestLifeOfOtherVersions(t *testing.T) { life(t, v35, v37) }

func TestSnapshotBeginsAClusterOfOtherVersions(t *testing.T) {
	snapshotBegins(t, [2]string{v36, v36}, [2]string{v37, v37}, [2]string{v36, v37}, [2]string{v35, "3.4.25"})
}

func TestIPv6OfOtherVersions(t *testing.T) { onIPv6(t, v35, v36) }

// Rolling upgrades by join --version, as people did it with the retired etcdadm:
// one machine after the other, while a client writes.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v35) }, 3)
	for _, h := range hosts {
		// As much as a busy cluster writes in an hour: etcd 3.7 cannot start from a
		// log that has entries of 3.5, see TestUpgradeOfAYoungCluster.
		h.vars["ETCDADM_ETCD_FLAG"] = "snapshot-count=20"
	}
	found(hosts...)
	w := startWriter(hosts...)
	w.more(30)
	// Too far at once is refused, and nothing is stopped for it.
	a := hosts[0]
	a.fails(3, []string{"cannot follow the cluster's " + v35}, "join", "--version", v37, "--binaries-dir", etcdDir(t, v37),
		hosts[1].clientURL())
	if got := a.serves(); got != v35 {
		t.Fatalf("a runs %s", got)
	}
	for _, version := range []string{v36, v37} {
		for i, h := range hosts {
			other := hosts[(i+1)%len(hosts)]
			h.version, h.binaries = version, etcdDir(t, version)
			id := h.id()
			r := h.report("join", "--version", version, other.clientURL())
			if r.position("add-learner") >= 0 || r.position("restart etcd") < 0 {
				t.Errorf("%s is not upgraded in place: %+v", h.name, r.Steps)
			}
			if got := h.serves(); got != version || h.id() != id {
				t.Errorf("%s runs etcd %s as member %d, before it was %d", h.name, got, h.id(), id)
			}
			w.more(30)
		}
		a.wantVoters("a", "b", "c")
	}
	a.fails(3, []string{"is older than the cluster's", "etcdctl.sh downgrade enable 3.6"}, "join", "--version", v36,
		"--binaries-dir", etcdDir(t, v36), hosts[1].clientURL())
	downgrade(t, "3.6.0", w, hosts)
	for i, h := range hosts {
		h.version, h.binaries = v36, etcdDir(t, v36)
		id := h.id()
		h.report("join", "--version", v36, hosts[(i+1)%len(hosts)].clientURL())
		if got := h.serves(); got != v36 || h.id() != id {
			t.Errorf("%s runs etcd %s as member %d, before it was %d", h.name, got, h.id(), id)
		}
		w.more(30)
	}
	a.wantVoters("a", "b", "c")
	w.finish(hosts...)
}

// downgrade has etcd prepare the data of all members for a minor version, as etcdctl does,
// and waits until it has. Right after an upgrade the cluster version is still too low.
func downgrade(t *testing.T, to string, w *writer, hosts []*host) {
	t.Helper()
	c := hosts[0].client(hosts...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		_, err := c.Downgrade(ctx, clientv3.DowngradeEnable, to)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		w.more(1)
	}
	for _, h := range hosts {
		for {
			s, err := c.Status(ctx, h.clientURL())
			if err == nil && s.StorageVersion == to {
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("%s does not prepare its data: %v, %v", h.name, s, err)
			}
			w.more(1)
		}
	}
}
