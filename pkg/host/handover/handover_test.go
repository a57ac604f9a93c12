package handover

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/store"
)

func TestThereAndBack(t *testing.T) {
	hosts := newCluster(t, "a", "b", "c")
	for _, h := range hosts {
		r := h.ok(ToManager)
		if _, there := h.at(); !there || h.running() {
			t.Errorf("%s: data there %t, running %t", h.name, there, h.running())
		}
		s := h.state()
		if want := (cluster.Assigned{Token: "c1", Version: v36}); s.Assigned == nil || *s.Assigned != want {
			t.Errorf("%s: assigned %+v", h.name, s.Assigned)
		}
		if s.MemberID != idOf(h.name) || s.ClusterID != clusterID || s.MemberToken != "c1" || len(s.Peers) != 3 ||
			s.Bootstrap {
			t.Errorf("%s: the state is %+v", h.name, s)
		}
		if want := (cluster.LeaseVoters{
			Token: "c1", Names: []cluster.NodeName{"a", "b", "c"},
		}); s.LeaseVoters.Token != want.Token || s.LeaseVoters.Term != 0 || !slices.Equal(s.LeaseVoters.Names, want.Names) {
			t.Errorf("%s: the lease voters are %+v", h.name, s.LeaseVoters)
		}
		if d := nodestate.Disk(h.o.ManagerDir, s); d.State != cluster.DiskData || d.MemberID != idOf(h.name) {
			t.Errorf("%s: the daemon finds %+v", h.name, d)
		}
		for _, ca := range managerCAs {
			if _, err := certs.LoadCA(h.o.PKIDir, ca, time.Now()); err != nil {
				t.Error(err)
			}
		}
		if h.name != "a" {
			wantSteps(t, r, "certificates", "journal", "stop", "files", "move", "assign", "done")
		} else {
			wantSteps(t, r, "certificates", "record", "journal", "stop", "files", "move", "assign", "done")
		}
		wantSteps(t, h.ok(ToManager)) // again: nothing
	}
	if got := hosts[0].records(); len(got) != 1 || got[0].Token != "c1" ||
		!sameNames(got[0].Voters, hosts[0].state().Peers) || got[0].By != "a" {
		t.Errorf("the records are %+v", got)
	}
	for _, h := range hosts {
		h.must(os.RemoveAll(h.cfg.Paths.Certificates))
		r := h.ok(FromManager)
		wantSteps(t, r, "certificates", "ask", "journal", "unassign", "move", "start", "done")
		if here, _ := h.at(); !here || !h.running() {
			t.Errorf("%s: data here %t, running %t", h.name, here, h.running())
		}
		s := h.state()
		if s.Assigned != nil || s.Peers != nil || s.MemberID != 0 || s.LeaseVoters.Token != "c1" {
			t.Errorf("%s: afterwards the state is %+v", h.name, s)
		}
		wantSteps(t, h.ok(FromManager))
		if j, err := ReadJournal(h.cfg); j != nil || err != nil {
			t.Errorf("the journal is still there: %+v, %v", j, err)
		}
	}
	// And once more: what a node has promised is kept.
	r := hosts[1].ok(ToManager)
	if s := hosts[1].state(); s.Assigned == nil || s.LeaseVoters.Token != "c1" || r.Daemon.LeaseVotersWhy == "" {
		t.Errorf("the second time: %+v, %+v", s, r.Daemon)
	}
}

// tree returns every file below a directory with its content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			files[path] = "directory"
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestADryRunChangesNothing(t *testing.T) {
	h := newCluster(t, "a", "b", "c")[0]
	for _, d := range []Direction{ToManager, FromManager} {
		before := tree(t, filepath.Dir(h.root))
		plan, err := Plan(t.Context(), h.o, d)
		if err != nil {
			t.Fatal(err)
		}
		if after := tree(t, filepath.Dir(h.root)); !maps.Equal(before, after) {
			t.Errorf("%s: a dry run made %v of %v", d, after, before)
		}
		done := h.ok(d)
		wantSteps(t, done, stepNames(plan.Steps)...)
		for i, s := range done.Steps {
			if i < len(plan.Steps) && s.Text != plan.Steps[i].Text {
				t.Errorf("planned %q, done %q", plan.Steps[i].Text, s.Text)
			}
		}
	}
}

func TestWhatHolds(t *testing.T) {
	for name, c := range map[string]struct {
		d     Direction
		rule  Reason
		says  string
		spoil func(t *testing.T, h *host)
	}{
		"etcd does not run": {ToManager, NotRunning, "service is stopped", func(t *testing.T, h *host) {
			h.must(os.Remove(h.runPath()))
		}},
		"no data": {ToManager, NotRunning, "no member in", func(t *testing.T, h *host) {
			h.must(os.RemoveAll(h.cfg.Paths.Data))
		}},
		"another's data": {ToManager, DataForeign, "does not hold the data of member 61", func(t *testing.T, h *host) {
			write(t, filepath.Join(h.cfg.Paths.Member(), "wal", "0.wal"), string(wal(99, clusterID)))
		}},
		"a daemon runs": {ToManager, ManagerRuns, "an etcd-manager", func(t *testing.T, h *host) {
			f, err := nodestate.Open(h.o.ManagerDir, nodestate.Self{Name: "a"})
			h.must(err)
			t.Cleanup(func() { _ = f.Close() })
		}},
		"the daemon has a member": {ToManager, ManagerState, "incarnation other", func(t *testing.T, h *host) {
			f, err := nodestate.Open(h.o.ManagerDir, nodestate.Self{Name: "a"})
			h.must(err)
			h.must(f.Update(func(s *nodestate.State) error {
				s.Assigned = &cluster.Assigned{Token: "other", Version: v36}
				return nil
			}))
			h.must(f.Close())
		}},
		"data on both sides": {ToManager, DataForeign, "there is data in", func(t *testing.T, h *host) {
			write(t, filepath.Join(h.o.ManagerDir, "data", "c1", "member", "snap", "db"), "old")
		}},
		"a process has the database": {ToManager, DataBusy, "open", func(t *testing.T, h *host) {
			f, err := os.Open(filepath.Join(h.cfg.Paths.Member(), "snap", "db"))
			h.must(err)
			t.Cleanup(func() { f.Close() })
			h.must(unix.Flock(int(f.Fd()), unix.LOCK_EX))
		}},
		"another CA in the daemon's directory": {
			ToManager, CADiffers, "peers-ca", func(t *testing.T, h *host) { newCA(t, h.o.PKIDir, certs.PeersCA) },
		},
		"the CA's key is elsewhere": {
			ToManager, CADiffers, "ca.key", func(t *testing.T, h *host) {
				h.must(os.Remove(h.cfg.Paths.Certificate("ca.key")))
			},
		},
		"a store of another cluster": {ToManager, StoreForeign, "store is that of incarnation c2",
			func(t *testing.T, h *host) {
				h.create(cluster.Incarnation{Number: 1, Token: "c2", Version: v36, Voters: initialMembers("a")})
			}},
		"a store of the existing tool's cluster": {ToManager, StoreForeign, "was created on", func(t *testing.T, h *host) {
			s, err := store.Open(t.Context(), h.o.BackupStore)
			h.must(err)
			h.must(s.MarkCreated(t.Context(), time.Now()))
			h.must(s.Close(t.Context()))
		}},
		"nothing to hand back": {
			FromManager, ManagerState, "has no member", func(t *testing.T, h *host) { h.must(os.RemoveAll(h.cfg.Paths.Data)) },
		},
		"two CAs": {FromManager, CADiffers, "different ones", func(t *testing.T, h *host) {
			h.ok(ToManager)
			newCA(t, h.o.PKIDir, certs.PeersCA)
		}},
		"another CA in etcdadm's directory": {FromManager, CADiffers, "another certificate authority",
			func(t *testing.T, h *host) {
				h.ok(ToManager)
				newCA(t, h.cfg.Paths.Certificates, "ca")
			}},
		"the daemon still runs": {FromManager, ManagerRuns, "an etcd-manager", func(t *testing.T, h *host) {
			h.ok(ToManager)
			f, err := nodestate.Open(h.o.ManagerDir, nodestate.Self{Name: "a"})
			h.must(err)
			t.Cleanup(func() { _ = f.Close() })
		}},
		"its data is gone": {FromManager, DataForeign, "there is no data", func(t *testing.T, h *host) {
			h.ok(ToManager)
			h.must(os.RemoveAll(filepath.Join(h.o.ManagerDir, "data")))
		}},
		"the member was removed meanwhile": {FromManager, DataForeign, "do not know member 61", func(t *testing.T, h *host) {
			h.ok(ToManager)
			h.setMembers("b", "c", "d")
		}},
		"another name": {FromManager, NameUnfit, "none is called z", func(t *testing.T, h *host) {
			h.ok(ToManager)
			h.o.Config.Name = "z"
		}},
		"another port": {FromManager, NameUnfit, "12380", func(t *testing.T, h *host) {
			h.ok(ToManager)
			h.o.Config.Listen.PeerPort = 12380
		}},
		"quarantined": {FromManager, ManagerState, "quarantined", func(t *testing.T, h *host) {
			h.ok(ToManager)
			f, err := nodestate.Open(h.o.ManagerDir, nodestate.Self{Name: "a"})
			h.must(err)
			h.must(f.Update(func(s *nodestate.State) error { s.Assigned.Quarantined = true; return nil }))
			h.must(f.Close())
		}},
		"handed over elsewhere": {FromManager, ManagerState, "was handed over to", func(t *testing.T, h *host) {
			h.ok(ToManager)
			h.o.ManagerDir += "-other"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newCluster(t, "a", "b", "c")[0]
			c.spoil(t, h)
			before := h.running()
			why := h.held(c.d, c.rule)
			if name != "a process has the database" && h.running() != before {
				t.Errorf("etcd was stopped, and then: %v", why)
			}
			if !strings.Contains(why.Text, c.says) || why.Kind() != "held" || !strings.HasPrefix(why.Error(), string(c.rule)) {
				t.Errorf("the hold is %+v", why)
			}
		})
	}
}

func (h *host) create(i cluster.Incarnation) {
	h.t.Helper()
	s, err := store.Open(h.t.Context(), h.o.BackupStore)
	h.must(err)
	h.must(s.CreateIncarnation(h.t.Context(), i))
	h.must(s.Close(h.t.Context()))
}

func TestAStoreThatIsNotThere(t *testing.T) {
	h := newCluster(t, "a", "b", "c")[0]
	link := filepath.Join(h.root, "not-mounted")
	h.must(os.Symlink(link+"-target", link))
	h.o.BackupStore = "file://" + link
	if _, err := h.over(ToManager); !errors.Is(err, store.ErrUnreachable) || !h.running() {
		t.Errorf("%v, running %t", err, h.running())
	}
}

// Members change by hand between two handovers: the lease voters do not.
func TestLateMachinesGoByTheRecord(t *testing.T) {
	hosts := newCluster(t, "a", "b", "c")
	a, b, shared := hosts[0], hosts[1], filepath.Dir(hosts[0].root)
	a.ok(ToManager)
	d := newHost(t, shared, "d", "a", "b", "d") // in the place of c
	b.ok(ToManager)
	if got := b.state().LeaseVoters.Names; !slices.Equal(got, []cluster.NodeName{"a", "b", "c"}) {
		t.Errorf("b's lease voters are %v", got)
	}
	r := d.ok(ToManager)
	if s := d.state(); s.Assigned == nil || len(s.LeaseVoters.Names) > 0 ||
		!strings.Contains(r.Daemon.LeaseVotersWhy, "takes this one in") {
		t.Errorf("d begins with %+v: %s", s.LeaseVoters, r.Daemon.LeaseVotersWhy)
	}
	e := newHost(t, shared, "e", "d", "e")
	e.held(ToManager, LeaseVotersLost)
	e.o.NewIncarnation = true
	r = e.ok(ToManager)
	if s := e.state(); s.Assigned.Token != "c1-2" || s.LeaseVoters.Token != "c1-2" ||
		!slices.Equal(s.LeaseVoters.Names, []cluster.NodeName{"d", "e"}) {
		t.Errorf("e begins with %+v", s)
	}
	if got := e.records(); len(got) != 2 || got[1].Number != 2 || r.Daemon.Incarnation != "c1-2" {
		t.Errorf("the records are %+v", got)
	}
	// d goes back and comes again, in the incarnation of e, with the flag or
	// without.
	d.held(FromManager, ClusterUnreachable)
	d.o.Alone = true
	d.ok(FromManager)
	d.o.NewIncarnation = true
	d.ok(ToManager)
	if s := d.state(); s.LeaseVoters.Token != "c1-2" || len(d.records()) != 2 {
		t.Errorf("d begins with %+v", s.LeaseVoters)
	}
}

func TestNoNewIncarnationUnderACoordinator(t *testing.T) {
	hosts := newCluster(t, "a", "b", "c")
	s, err := store.Open(t.Context(), hosts[0].o.BackupStore)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	for age, want := range map[time.Duration]bool{time.Minute: true, time.Hour: false} {
		at, _ := time.Now().Add(-age).MarshalText()
		if err := s.PutStatus(t.Context(), []byte(`{"at":"`+string(at)+`","coordinator":"b"}`)); err != nil {
			t.Fatal(err)
		}
		h := hosts[0]
		h.o.NewIncarnation = true
		_, err := Plan(t.Context(), h.o, ToManager)
		var why *Hold
		if errors.As(err, &why) != want {
			t.Errorf("a status of %s ago: %v", age, err)
		}
	}
}

// A cluster of one or two cannot be asked while a member is away.
func TestSmallClusters(t *testing.T) {
	for _, names := range [][]string{{"a"}, {"a", "b"}} {
		h := newCluster(t, names...)[0]
		h.ok(ToManager)
		h.ok(FromManager)
		if here, _ := h.at(); !here || !h.running() {
			t.Errorf("a cluster of %d: here %t, running %t", len(names), here, h.running())
		}
	}
}

// A handover to the daemon that was cut short can be taken back.
func TestTakingBackWhatWasNotFinished(t *testing.T) {
	for _, after := range []string{"journal", "stop", "files", "move", "assign"} {
		h := newCluster(t, "a", "b", "c")[0]
		h.runUntil(ToManager, after)
		h.ok(FromManager)
		if here, _ := h.at(); !here || !h.running() {
			t.Errorf("after %s: here %t, running %t", after, here, h.running())
		}
	}
}

// runUntil does the steps up to one of them.
func (h *host) runUntil(d Direction, last string) {
	h.t.Helper()
	w, err := open(h.t.Context(), h.o, d, false)
	h.must(err)
	defer w.close(h.t.Context())
	for _, s := range w.steps() {
		needed, err := s.needed()
		h.must(err)
		if needed {
			h.must(s.do(h.t.Context()))
		}
		if s.Name == last {
			return
		}
	}
}

func TestNoWayThereWhileTheWayBackIsUnfinished(t *testing.T) {
	h := newCluster(t, "a", "b", "c")[0]
	h.ok(ToManager)
	h.runUntil(FromManager, "move")
	h.held(ToManager, Unfinished)
	h.ok(FromManager)
	h.at()
}

func TestAnIncarnationThatEndedMeanwhile(t *testing.T) {
	h := newCluster(t, "a", "b", "c")[0]
	h.runUntil(ToManager, "stop")
	h.create(cluster.Incarnation{Number: 2, Token: "c1-2", Version: v36, Voters: initialMembers("b", "c")})
	if why := h.held(ToManager, StoreForeign); !strings.Contains(why.Text,
		"c1, in which the handover was begun, is not the newest") {
		t.Error(why)
	}
	h.ok(FromManager)
}

// Somebody starts etcd again between the stop and the move.
func TestStartedAgainMeanwhile(t *testing.T) {
	h := newCluster(t, "a", "b", "c")[0]
	h.o.Began = func(s Step) {
		if s.Name == "move" {
			h.run()
		}
	}
	h.held(ToManager, DataBusy)
	if here, _ := h.at(); !here {
		t.Error("the data was moved from under a running etcd")
	}
	h.o.Began = nil
	h.ok(ToManager)
	h.at()
}

// etcd runs as a user of its own; the daemon runs it as root.
func TestDataOfAUserIsGivenBack(t *testing.T) {
	h := newCluster(t, "a", "b", "c")[0]
	h.o.Config.Service.User = "etcd"
	h.ok(ToManager)
	h.must(os.Chmod(h.cfg.Paths.Data, 0o700))
	h.ok(FromManager)
	// By this mode etcdadm sees that the owner is to be set.
	if st, err := os.Stat(h.cfg.Paths.Data); err != nil || st.Mode().Perm() == 0o700 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

func TestTheVersionThatRunsStays(t *testing.T) {
	h := newCluster(t, "a", "b", "c")[0]
	h.o.Config.Version.Minor, h.o.Config.Version.Patch = 7, 3
	h.ok(ToManager)
	var opened machine.Config
	open := h.o.Open
	h.o.Open = func(cfg machine.Config, endpoints []string) (Machine, error) {
		opened = cfg
		if want := []string{"https://10.0.0.98:2379", "https://10.0.0.99:2379"}; !slices.Equal(endpoints, want) {
			t.Errorf("the endpoints are %q", endpoints)
		}
		return open(cfg, endpoints)
	}
	h.ok(FromManager)
	if opened.Version != v36 || opened.Binaries.Dir != filepath.Join(h.o.EtcdDir, "etcd-v3.6.16") {
		t.Errorf("etcdadm is to run %s of %q", opened.Version, opened.Binaries.Dir)
	}
}
