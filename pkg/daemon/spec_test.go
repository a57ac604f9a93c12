package daemon

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/coordination/discovery"
	"github.com/etcdadm/etcdadm/pkg/daemon/fleet"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// withSpec is a daemon as far as its spec is concerned.
func withSpec(t *testing.T, change func(c *Config)) (*Daemon, *store.Store, *syncBuffer) {
	t.Helper()
	out := &syncBuffer{}
	d := &Daemon{log: slog.New(slog.NewTextHandler(out, nil)), now: time.Now, c: Config{
		DataDir: t.TempDir(), Policy: cluster.Policy{Grace: 5 * time.Minute},
	}}
	change(&d.c)
	state, err := nodestate.Open(d.c.DataDir, nodestate.Self{Name: "a"})
	must(t, err)
	t.Cleanup(func() { _ = state.Close() })
	s, err := store.Open(t.Context(), t.TempDir())
	must(t, err)
	d.state, d.store, d.view = state, s, fleet.NewStoreView(s, 0, time.Now)
	return d, s, out
}

func wantSpec(t *testing.T, got cluster.Spec, members int, version string) {
	t.Helper()
	if got.MemberCount != members || got.EtcdVersion.String() != version {
		t.Errorf("the spec is %d of etcd %s, want %d of %s", got.MemberCount, got.EtcdVersion, members, version)
	}
}

func TestTheSpecOfTheStoreIsRememberedOnTheDisk(t *testing.T) {
	d, s, _ := withSpec(t, func(*Config) {})
	if got := d.spec(); got.MemberCount != 0 || !got.EtcdVersion.IsZero() {
		t.Errorf("without any, the spec is %+v", got)
	}
	must(t, s.PutSpec(t.Context(), store.SpecFile{MemberCount: 3, EtcdVersion: version}))
	d.view.Answer(t.Context())
	got := d.spec()
	wantSpec(t, got, 3, "3.6.16")
	if got.Policy.Grace != 5*time.Minute || got.Policy.LearnerTimeout == 0 {
		t.Errorf("its policy is %+v, want the flags' and the defaults", got.Policy)
	}

	// The next daemon knows it from the disk, while the store does not answer.
	must(t, d.state.Close())
	next, err := nodestate.Open(d.c.DataDir, nodestate.Self{Name: "a"})
	must(t, err)
	defer next.Close()
	d.state, d.view = next, fleet.NewStoreView(nil, time.Second, time.Now)
	got = d.spec()
	wantSpec(t, got, 3, "3.6.16")
	if got.Policy.Grace != 5*time.Minute {
		t.Errorf("its policy is %+v, want that of the flags now", got.Policy)
	}
}

func TestANewerSpecReplacesTheRememberedOne(t *testing.T) {
	d, s, _ := withSpec(t, func(*Config) {})
	tried := cluster.VersionRisk{Version: version, Reason: "tried"}
	for _, f := range []store.SpecFile{
		{MemberCount: 3, EtcdVersion: version}, {MemberCount: 5, EtcdVersion: version},
		{MemberCount: 5, EtcdVersion: version, Risk: tried}, {MemberCount: 5, EtcdVersion: version},
	} {
		must(t, s.PutSpec(t.Context(), f))
		d.view.Stale()
		d.view.Answer(t.Context())
		wantSpec(t, d.spec(), f.MemberCount, "3.6.16")
		kept, err := nodestate.Read(d.c.DataDir)
		must(t, err)
		wantSpec(t, *kept.Spec, f.MemberCount, "3.6.16")
		if kept.Spec.Risk != f.Risk {
			t.Errorf("what is accepted is kept as %+v, want %+v", kept.Spec.Risk, f.Risk)
		}
	}
}

// An even number of members is warned of once for each spec that has one.
func TestAnEvenNumberOfMembersIsWarnedOf(t *testing.T) {
	d, s, out := withSpec(t, func(*Config) {})
	warned := 0
	for _, c := range []struct {
		members int
		warns   bool
	}{{3, false}, {4, true}, {4, false}, {5, false}, {2, true}} {
		must(t, s.PutSpec(t.Context(), store.SpecFile{MemberCount: c.members, EtcdVersion: version}))
		d.view.Stale()
		d.view.Answer(t.Context())
		d.spec()
		if c.warns {
			warned++
		}
		if got := strings.Count(out.String(), "level=WARN"); got != warned {
			t.Errorf("after %d members %d warnings, want %d: %s", c.members, got, warned, out.String())
		}
	}
	const want = "the spec: 4 members tolerate no more failures than 3, and need more votes for each write"
	if !strings.Contains(out.String(), want) {
		t.Errorf("it says %s", out.String())
	}
}

func TestAStaticSpecNeedsNoStore(t *testing.T) {
	d, s, _ := withSpec(t, func(c *Config) {
		c.Static = &cluster.Spec{MemberCount: 1, EtcdVersion: etcdversion.Must("3.5.21")}
	})
	must(t, s.PutSpec(t.Context(), store.SpecFile{MemberCount: 3, EtcdVersion: version}))
	d.view.Answer(t.Context())
	got := d.spec()
	wantSpec(t, got, 1, "3.5.21")
	if got.Policy.Grace != 5*time.Minute {
		t.Errorf("its policy is %+v", got.Policy)
	}
}

func TestASpecThatCannotBeRememberedCounts(t *testing.T) {
	d, s, out := withSpec(t, func(*Config) {})
	must(t, s.PutSpec(t.Context(), store.SpecFile{MemberCount: 3, EtcdVersion: version}))
	d.view.Answer(t.Context())
	must(t, d.state.Close()) // as good as a disk that fails
	wantSpec(t, d.spec(), 3, "3.6.16")
	if !strings.Contains(out.String(), "the spec cannot be kept on disk") {
		t.Errorf("it says %q", out.String())
	}
}

func TestNodesAreFoundInTheStoreWithTheSpec(t *testing.T) {
	d, s, _ := withSpec(t, func(*Config) {})
	dir := directory{d, s}
	own := discovery.Record{Name: "a", Address: "10.0.0.1:8000", Boot: "boot", At: time.Unix(1e9, 0).UTC()}
	must(t, s.PutSpec(t.Context(), store.SpecFile{MemberCount: 3, EtcdVersion: version}))
	must(t, dir.Publish(t.Context(), own))
	list, err := dir.Nodes(t.Context())
	must(t, err)
	if len(list) != 1 || list[0] != own {
		t.Errorf("the records are %+v", list)
	}
	wantSpec(t, *d.state.State().Spec, 3, "3.6.16")
}

func TestAPauseIsRememberedOnTheDisk(t *testing.T) {
	d, _, _ := withSpec(t, func(*Config) {})
	pause := cluster.Request{Name: "p1", Kind: cluster.RequestPause, By: "ann"}
	onDisk := func() *cluster.Request {
		t.Helper()
		kept, err := nodestate.Read(d.c.DataDir)
		must(t, err)
		return kept.Pause
	}
	d.rememberPause(cluster.Store{Requests: []cluster.Request{{Name: "r", Kind: cluster.RequestRestore}, pause}})
	if got := onDisk(); got == nil || got.Name != "p1" || got.By != "ann" {
		t.Errorf("on the disk is %+v", got)
	}
	d.rememberPause(cluster.Store{})
	if got := onDisk(); got != nil {
		t.Errorf("after its end, on the disk is %+v", got)
	}
}

// The store cannot show a backup that it held and holds no more; the node's
// disk does, also after a restart.
func TestTheNewestBackupIsRememberedOnTheDisk(t *testing.T) {
	d, _, _ := withSpec(t, func(*Config) {})
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	named := func(ages ...time.Duration) cluster.Observation {
		obs := cluster.Observation{At: at, Store: cluster.Store{Reachable: true}}
		for _, age := range ages {
			obs.Store.Backups = append(obs.Store.Backups, cluster.Backup{Name: retention.Name(at.Add(-age), 1)})
		}
		return obs
	}
	if got := d.rememberNewest(named()); got != "" {
		t.Errorf("of an empty store it remembers %q", got)
	}
	newest := retention.Name(at.Add(-time.Hour), 1)
	if got := d.rememberNewest(named(-48*time.Hour, time.Hour, 2*time.Hour)); got != newest {
		t.Errorf("it remembers %q, want %q", got, newest)
	}
	must(t, d.state.Close())
	next, err := nodestate.Open(d.c.DataDir, nodestate.Self{Name: "a"})
	must(t, err)
	defer next.Close()
	d.state = next
	if got := d.rememberNewest(named(5 * time.Hour)); got != newest {
		t.Errorf("of a store that was rolled back it remembers %q, want %q", got, newest)
	}
}
