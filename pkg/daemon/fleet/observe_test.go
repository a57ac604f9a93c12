package fleet

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// reports has a daemon report on the others, and on the store.
func (w *testCluster) reports(name cluster.NodeName, f func(k *cluster.Known)) {
	k := &cluster.Known{
		Spec:  cluster.Spec{MemberCount: 3, EtcdVersion: etcdversion.Must("3.6.16")},
		Store: cluster.Store{Reachable: true, BackupsKnown: true, Backups: []cluster.Backup{{Name: "one"}}},
	}
	for _, n := range abc {
		p := cluster.KnownPeer{Name: n, Address: w.nodes[n].address, Boot: cluster.Token("boot-" + n)}
		k.Records = append(k.Records, p)
		if n != name {
			k.Peers = append(k.Peers, p)
		}
	}
	f(k)
	w.change(name, func(d *daemon) { d.known = k })
}

func conditions(obs cluster.Observation) string {
	var list []string
	for _, m := range obs.Members {
		list = append(list, fmt.Sprintf("%s %s", m.Name, m.Condition))
	}
	return strings.Join(list, ", ")
}

// Who names one daemon, and has no store, is shown what that daemon knows: the others, the
// spec, and what it has from the store.
func TestOneDaemonReportsOfTheOthers(t *testing.T) {
	w := newTestCluster(t, nil)
	w.reports("b", func(*cluster.Known) {})
	c := w.connect(func(o *ConnectOptions) { o.Nodes = []string{w.nodes["b"].address} })
	spec, obs, err := c.Observe(t.Context())
	must(t, err)
	if !slices.Equal(nodeNames(obs), abc) || !isReachable(obs, "a") || !isReachable(obs, "c") || gaps(obs) != "" {
		t.Errorf("nodes %v, gaps %s", nodeNames(obs), gaps(obs))
	}
	if got := conditions(obs); got != "a serving, b serving, c serving" {
		t.Error(got)
	}
	if spec.MemberCount != 3 || spec.Policy.Grace == 0 || !obs.Store.Reachable || len(obs.Store.Backups) != 1 ||
		!obs.Nodes[0].Published {
		t.Errorf("spec %+v, store %+v, a published: %t", spec, obs.Store, obs.Nodes[0].Published)
	}
	// Orders are not given on the word of another.
	if _, obs, err = c.observe(t.Context(), false); err != nil || obs.Store.Reachable || gaps(obs) != "store" {
		t.Errorf("to act on it sees the store %+v, gaps %s, %v", obs.Store, gaps(obs), err)
	}
}

func TestOfTheDaemonsOneThatReadsTheStoreReportsOfIt(t *testing.T) {
	w := newTestCluster(t, nil)
	w.reports("a", func(k *cluster.Known) { k.Store.Reachable, k.StoreProblem = false, "it hangs" })
	w.reports("b", func(*cluster.Known) {})
	_, obs, err := w.connect().Observe(t.Context())
	must(t, err)
	if !obs.Store.Reachable || gaps(obs) != "" {
		t.Errorf("gaps %+v", obs.Gaps)
	}
	// And of those the one that has read it last.
	w.reports("c", func(k *cluster.Known) { k.StoreAge, k.Store.Backups = time.Minute, nil })
	w.reports("b", func(k *cluster.Known) { k.StoreAge = time.Second })
	c := w.connect(func(o *ConnectOptions) { o.Nodes = []string{w.nodes["c"].address} })
	if _, obs, err = c.Observe(t.Context()); err != nil || len(obs.Store.Backups) != 1 {
		t.Errorf("backups %v, %v", obs.Store.Backups, err)
	}
	// But the coordinator knows of the backups that it has taken since others listed them.
	coordinates := func(running bool) {
		w.change("c", func(d *daemon) { d.node.Lease = cluster.Lease{Term: 4, Holder: "c", Running: running} })
	}
	w.reports("c", func(k *cluster.Known) {
		k.StoreAge, k.Store.Backups = time.Minute, []cluster.Backup{{Name: "one"}, {Name: "two"}}
	})
	for running, want := range map[bool]int{true: 2, false: 1} {
		coordinates(running)
		if _, obs, err = w.connect().Observe(t.Context()); err != nil || len(obs.Store.Backups) != want {
			t.Errorf("c coordinates: %t, backups %v, %v", running, obs.Store.Backups, err)
		}
	}
	coordinates(false)
	w.change("c", func(d *daemon) { d.known = nil })
	w.reports("b", func(k *cluster.Known) { k.StoreProblem = "it hangs there too" })
	_, obs, err = w.connect().Observe(t.Context())
	must(t, err)
	if len(obs.Gaps) != 1 || obs.Gaps[0].Text != "as node a sees it: it hangs" || obs.Store.Reachable {
		t.Errorf("gaps %+v", obs.Gaps)
	}
}

// A member that nobody has asked is not down: an older daemon does not report on the others.
func TestAMemberThatNobodyAskedIsUnknown(t *testing.T) {
	w := newTestCluster(t, nil)
	c := w.connect(func(o *ConnectOptions) { o.Nodes = []string{w.nodes["b"].address} })
	_, obs, err := c.Observe(t.Context())
	must(t, err)
	if got := conditions(obs); got != "a unknown, b serving, c unknown" || obs.Members[0].Why == "" {
		t.Error(got)
	}
	// Who was asked and did not answer is.
	c = w.connect(func(o *ConnectOptions) { o.Nodes = []string{w.nodes["b"].address, "c=127.0.0.1:1"} })
	_, obs, err = c.Observe(t.Context())
	must(t, err)
	if got := conditions(obs); got != "a unknown, b serving, c down" {
		t.Error(got)
	}
}

// A store that hangs keeps nobody from seeing what the daemons know, and is named, with how
// long it was tried.
func TestAStoreThatHangsIsNamedAndNotWaitedFor(t *testing.T) {
	store.Register("hangs", func(*url.URL) (store.Dial, error) {
		return func(ctx context.Context) (*store.Bucket, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, nil
	})
	w := newTestCluster(t, nil)
	hanging := func(o *ConnectOptions) { o.BackupStore = "hangs://user:secret@there/x" }
	text := func(obs cluster.Observation) string { return obs.Gaps[len(obs.Gaps)-1].Text }
	_, obs, err := w.connect(hanging).Observe(within(t, time.Minute))
	must(t, err)
	if got := text(obs); gaps(obs) != "store" || !isReachable(obs, "a") || obs.Store.Reachable ||
		!strings.HasPrefix(got, "hangs://REDACTED@there/x was tried for 4") {
		t.Errorf("gaps %+v", obs.Gaps)
	}
	w.reports("b", func(*cluster.Known) {})
	spec, obs, err := w.connect(hanging).Observe(within(t, time.Minute))
	must(t, err)
	if gaps(obs) != "store from here" || !strings.Contains(text(obs), "was tried for 4") || !obs.Store.Reachable ||
		spec.MemberCount != 3 {
		t.Errorf("spec %+v, gaps %+v", spec, obs.Gaps)
	}
}
