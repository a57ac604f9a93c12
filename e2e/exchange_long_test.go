//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/e2e/standin"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/store"
)

var kopsVoters = []string{"etcd-a", "etcd-b", "etcd-c"}

// An exchange is three machines in networks of their own, with the lines of kops, on which
// the stand-in for the existing etcd-manager has made a cluster.
type exchange struct {
	t     *testing.T
	c     *harness.Cluster
	nodes []*harness.Node
	// ping is the time between two pings of the stand-in.
	ping time.Duration
	// ids are those of the members, records how many there are once ours have taken over;
	// started is when one of ours was started last.
	ids     map[string]uint64
	records int
	started time.Time
}

func newExchange(t *testing.T, ping time.Duration, flags ...string) *exchange {
	t.Helper()
	x := machines(t, ping, flags...)
	x.c.SetSpec(3, v36)
	for _, n := range x.nodes {
		x.startExisting(n)
	}
	x.serve("etcd-a", "etcd-b", "etcd-c")
	return x
}

// machines returns the three, none of which runs.
func machines(t *testing.T, ping time.Duration, flags ...string) *exchange {
	t.Helper()
	x := &exchange{t: t, ping: ping, records: 1}
	x.c, x.nodes = kopsCluster(t)
	var seeds []string
	for _, n := range x.nodes {
		seeds = append(seeds, n.Name+"="+n.Address+":3996")
	}
	for _, n := range x.nodes {
		n.Flags = append([]string{"--seeds=" + strings.Join(seeds, ","), "--discovery-poll-interval=2s"}, flags...)
	}
	return x
}

// serve waits until these members serve, who are those from then on.
func (x *exchange) serve(names ...string) {
	x.t.Helper()
	x.c.WaitNames(harness.Soon, names...)
	x.ids = x.members()
}

// startExisting starts the stand-in in a new container.
func (x *exchange) startExisting(n *harness.Node) {
	x.t.Helper()
	program, err := os.Executable()
	if err != nil {
		x.t.Fatal(err)
	}
	n.NewHosts()
	n.RunOther(standin.Variable+"="+x.ping.String(), append([]string{program}, kopsArgs(n)...)...)
}

// startOurs starts the daemon in a new container.
func (x *exchange) startOurs(n *harness.Node) {
	x.started = time.Now()
	kopsStart(n)
}

// members returns the ids of the members, by name.
func (x *exchange) members() map[string]uint64 {
	x.t.Helper()
	ids := map[string]uint64{}
	for _, m := range members(x.t, x.c) {
		ids[m.Name] = m.ID
	}
	return ids
}

// exchange ends the container of a machine and starts another one, and waits until all
// members serve. They are those that they were.
func (x *exchange) exchange(n *harness.Node, start func(*harness.Node)) {
	x.t.Helper()
	n.Stop()
	start(n)
	x.c.WaitNames(harness.Soon, "etcd-a", "etcd-b", "etcd-c")
	x.unchanged()
}

func (x *exchange) unchanged() {
	x.t.Helper()
	if now := x.members(); !maps.Equal(now, x.ids) {
		x.t.Fatalf("the members are %x, they were %x", now, x.ids)
	}
}

// role says what the member of a machine is in raft.
func (x *exchange) role(n *harness.Node) string {
	x.t.Helper()
	role := "follower"
	eventually(x.t, x.c, "the raft leader", func() error {
		s, err := n.EtcdStatus(x.t.Context())
		if err == nil && s.Leader == s.Header.MemberId {
			role = "leader"
		}
		return err
	})
	return role
}

// undecided fails if there is a record, or a node has lease voters.
func (x *exchange) undecided() {
	x.t.Helper()
	x.unchanged()
	s, err := store.Open(x.t.Context(), x.c.StoreURL())
	if err != nil {
		x.t.Fatal(err)
	}
	defer s.Close(x.t.Context())
	if view, err := s.Poll(x.t.Context()); err != nil || len(view.Incarnations) > 0 {
		x.t.Errorf("there are the records %v, %v", view.Incarnations, err)
	}
	for _, n := range x.nodes {
		if state, err := nodestate.Read(n.DataDir()); err != nil || len(state.LeaseVoters.Names) > 0 {
			x.t.Errorf("%s has the lease voters %v, %v", n.Name, state.LeaseVoters, err)
		}
	}
}

// takenOver waits until ours have agreed. Their record and what they have adopted may be those
// of an earlier time; one of them has coordinated since all of them run.
func (x *exchange) takenOver() {
	x.t.Helper()
	x.c.Eventually(harness.Soon, "the takeover", func(ctx context.Context) error {
		return takenOver(ctx, x.c, x.records, kopsVoters...)
	})
	convergedSince(x.t, x.c, x.started)
	x.unchanged()
}

// ignoresSpec writes a spec of one member, which ours see and do not follow while a daemon of
// the existing kind is there.
func (x *exchange) ignoresSpec() {
	x.t.Helper()
	x.c.SetSpec(1, v36)
	x.waitForSpec(1)
	x.undecided()
	x.c.SetSpec(3, v36)
	x.waitForSpec(3)
}

// waitForSpec waits until ours hold for the other kind, knowing a spec of that many members.
func (x *exchange) waitForSpec(count int) {
	x.t.Helper()
	x.c.Eventually(harness.Soon, fmt.Sprintf("the hold with a spec of %d", count), func(context.Context) error {
		r, err := x.c.Status()
		if err != nil {
			return err
		}
		for _, h := range r.Holds {
			if h.Reason == "existing-daemon" && r.Spec.MemberCount == count {
				return nil
			}
		}
		return fmt.Errorf("the spec is %+v, the holds are %v", r.Spec, r.Holds)
	})
}

// backups returns the names of the backups.
func (x *exchange) backups() []string {
	x.t.Helper()
	metas, err := filepath.Glob(filepath.Join(x.c.Store, "*", "_etcd_backup.meta"))
	if err != nil {
		x.t.Fatal(err)
	}
	for i := range metas {
		metas[i] = filepath.Base(filepath.Dir(metas[i]))
	}
	return metas
}

// nextBackup waits until one more is there.
func (x *exchange) nextBackup(before []string) {
	x.t.Helper()
	eventually(x.t, x.c, "a backup", func() error {
		if !slices.ContainsFunc(x.backups(), func(name string) bool { return !slices.Contains(before, name) }) {
			return errors.New("there is none")
		}
		return nil
	})
}

// Three machines go from the existing etcd-manager to this one, one by one, and back, and
// here again, under 500 writes a second. What was acknowledged is there, and the members
// stay those that they were. How long nobody could write is printed.
func TestRollingExchange(t *testing.T) {
	t.Parallel()
	x := newExchange(t, 250*time.Millisecond)
	load := x.c.Load(2 * time.Millisecond)
	load.WaitMore(harness.Soon, 500)
	roll := func(what string, start func(*harness.Node), between func(i int)) {
		for i, n := range x.nodes {
			measured := load.Measure()
			role := x.role(n)
			x.exchange(n, start)
			load.WaitMore(harness.Soon, 500)
			measured(fmt.Sprintf("%s, %s (%s)", what, n.Name, role))
			between(i)
		}
	}
	roll("the existing one, restarted", x.startExisting, func(int) {})
	roll("from the existing one to this one", x.startOurs, func(i int) {
		if i < 2 {
			x.c.WaitHold(harness.Soon, "existing-daemon")
			x.undecided()
		}
		if i == 1 {
			x.ignoresSpec()
		}
	})
	x.takenOver()
	roll("this one, restarted", x.startOurs, func(int) {})
	x.takenOver()
	before := x.backups()
	roll("back to the existing one", x.startExisting, func(int) {})
	x.nextBackup(before)
	roll("here again", x.startOurs, func(int) {})
	x.takenOver()
	load.WaitMore(harness.Soon, 500)
}
