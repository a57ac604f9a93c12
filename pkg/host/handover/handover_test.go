package handover

import (
	"context"
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
		r := h.ok(machine.ToManager)
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
		wantSteps(t, h.ok(machine.ToManager)) // again: nothing
	}
	names := cluster.InitialMemberNames
	if got := hosts[0].records(); len(got) != 1 || got[0].Token != "c1" ||
		!slices.Equal(names(got[0].Voters), names(hosts[0].state().Peers)) || got[0].By != "a" {
		t.Errorf("the records are %+v", got)
	}
	for _, h := range hosts {
		h.must(os.RemoveAll(h.cfg.Paths.Certificates))
		r := h.ok(machine.FromManager)
		wantSteps(t, r, "certificates", "journal", "unassign", "move", "start", "done")
		if here, _ := h.at(); !here || !h.running() {
			t.Errorf("%s: data here %t, running %t", h.name, here, h.running())
		}
		s := h.state()
		if s.Assigned != nil || s.Peers != nil || s.MemberID != 0 || s.LeaseVoters.Token != "c1" {
			t.Errorf("%s: afterwards the state is %+v", h.name, s)
		}
		wantSteps(t, h.ok(machine.FromManager))
		if j, err := ReadJournal(h.cfg); j != nil || err != nil {
			t.Errorf("the journal is still there: %+v, %v", j, err)
		}
	}
	// And once more: what a node has promised is kept.
	r := hosts[1].ok(machine.ToManager)
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
	for _, d := range []machine.Action{machine.ToManager, machine.FromManager} {
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
			if i < len(plan.Steps) && s.Text() != plan.Steps[i].Text() {
				t.Errorf("planned %q, done %q", plan.Steps[i].Text(), s.Text())
			}
		}
	}
}

func TestWhatHolds(t *testing.T) {
	const to, from = machine.ToManager, machine.FromManager
	for name, c := range map[string]struct {
		d      machine.Action
		reason machine.Reason
		says   string
		spoil  func(t *testing.T, h *host)
	}{
		"etcd does not run": {to, machine.NotRunning, "service is stopped", func(t *testing.T, h *host) {
			h.must(os.Remove(h.runPath()))
		}},
		"no data": {to, machine.NotRunning, "no member in", func(t *testing.T, h *host) {
			h.must(os.RemoveAll(h.cfg.Paths.Data))
		}},
		"another's data": {to, machine.DataForeign, "does not hold the data of member 61", func(t *testing.T, h *host) {
			write(t, filepath.Join(h.cfg.Paths.Member(), "wal", "0.wal"), string(wal(99, clusterID)))
		}},
		"a daemon runs": {to, machine.ManagerRuns, "an etcd-manager", func(t *testing.T, h *host) {
			f, err := nodestate.Open(h.o.ManagerDir, nodestate.Self{Name: "a"})
			h.must(err)
			t.Cleanup(func() { _ = f.Close() })
		}},
		"the daemon has a member": {to, machine.ManagerState, "incarnation other", func(t *testing.T, h *host) {
			f, err := nodestate.Open(h.o.ManagerDir, nodestate.Self{Name: "a"})
			h.must(err)
			h.must(f.Update(func(s *nodestate.State) error {
				s.Assigned = &cluster.Assigned{Token: "other", Version: v36}
				return nil
			}))
			h.must(f.Close())
		}},
		"data on both sides": {to, machine.DataForeign, "there is data both in", func(t *testing.T, h *host) {
			write(t, filepath.Join(h.o.ManagerDir, "data", "c1", "member", "snap", "db"), "old")
		}},
		"a process has the database": {to, machine.DataBusy, "open", func(t *testing.T, h *host) {
			f, err := os.Open(filepath.Join(h.cfg.Paths.Member(), "snap", "db"))
			h.must(err)
			t.Cleanup(func() { f.Close() })
			h.must(unix.Flock(int(f.Fd()), unix.LOCK_EX))
		}},
		"another CA in the daemon's directory": {
			to, machine.CADiffers, "peers-ca", func(t *testing.T, h *host) { newCA(t, h.o.PKIDir, certs.PeersCA) },
		},
		"the CA's key is elsewhere": {
			to, machine.CADiffers, "ca.key", func(t *testing.T, h *host) {
				h.must(os.Remove(h.cfg.Paths.Certificate("ca.key")))
			},
		},
		"a store of another cluster": {to, machine.StoreForeign, "store belongs to incarnation c2",
			func(t *testing.T, h *host) {
				h.create(cluster.Incarnation{Number: 1, Token: "c2", Version: v36, Voters: initialMembers("a")})
			}},
		"a store of the existing tool's cluster": {to, machine.StoreForeign, "was created on", func(t *testing.T, h *host) {
			s, err := store.Open(t.Context(), h.o.BackupStore)
			h.must(err)
			h.must(s.MarkCreated(t.Context(), time.Now()))
			h.must(s.Close(t.Context()))
		}},
		"nothing to hand back": {
			from, machine.ManagerState, "has no member",
			func(t *testing.T, h *host) { h.must(os.RemoveAll(h.cfg.Paths.Data)) },
		},
		"two CAs": {from, machine.CADiffers, "for peers and for clients differ", func(t *testing.T, h *host) {
			h.ok(to)
			newCA(t, h.o.PKIDir, certs.PeersCA)
		}},
		"another CA in etcdadm's directory": {from, machine.CADiffers, "is not the certificate authority",
			func(t *testing.T, h *host) {
				h.ok(to)
				newCA(t, h.cfg.Paths.Certificates, "ca")
			}},
		"the daemon still runs": {from, machine.ManagerRuns, "an etcd-manager", func(t *testing.T, h *host) {
			h.ok(to)
			f, err := nodestate.Open(h.o.ManagerDir, nodestate.Self{Name: "a"})
			h.must(err)
			t.Cleanup(func() { _ = f.Close() })
		}},
		"its data is gone": {from, machine.DataForeign, "there is no data", func(t *testing.T, h *host) {
			h.ok(to)
			h.must(os.RemoveAll(filepath.Join(h.o.ManagerDir, "data")))
		}},
		"the member was removed meanwhile": {from, machine.DataForeign, "do not know member 61", func(t *testing.T, h *host) {
			h.ok(to)
			h.setMembers("b", "c", "d")
		}},
		"another name": {from, machine.NameUnfit, "none has the name z", func(t *testing.T, h *host) {
			h.ok(to)
			h.o.Config.Name = "z"
		}},
		"another port": {from, machine.NameUnfit, "12380", func(t *testing.T, h *host) {
			h.ok(to)
			h.o.Config.Listen.PeerPort = 12380
		}},
		"quarantined": {from, machine.ManagerState, "quarantined", func(t *testing.T, h *host) {
			h.ok(to)
			f, err := nodestate.Open(h.o.ManagerDir, nodestate.Self{Name: "a"})
			h.must(err)
			h.must(f.Update(func(s *nodestate.State) error { s.Assigned.Quarantined = true; return nil }))
			h.must(f.Close())
		}},
		"handed over elsewhere": {from, machine.ManagerState, "was handed over to", func(t *testing.T, h *host) {
			h.ok(to)
			h.o.ManagerDir += "-other"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newCluster(t, "a", "b", "c")[0]
			c.spoil(t, h)
			before := h.running()
			why := h.held(c.d, c.reason)
			if name != "a process has the database" && h.running() != before {
				t.Errorf("etcd was stopped, and then: %v", why)
			}
			if !strings.Contains(why.Text, c.says) || why.Kind() != "held" || !strings.HasPrefix(why.Error(), string(c.reason)) {
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
	if _, err := h.over(machine.ToManager); !errors.Is(err, store.ErrUnreachable) || !h.running() {
		t.Errorf("%v, running %t", err, h.running())
	}
}

// Members change by hand between two handovers: the lease voters do not.
func TestLateMachinesGoByTheRecord(t *testing.T) {
	hosts := newCluster(t, "a", "b", "c")
	a, b, shared := hosts[0], hosts[1], filepath.Dir(hosts[0].root)
	a.ok(machine.ToManager)
	d := newHost(t, shared, "d", "a", "b", "d") // in the place of c
	b.ok(machine.ToManager)
	if got := b.state().LeaseVoters.Names; !slices.Equal(got, []cluster.NodeName{"a", "b", "c"}) {
		t.Errorf("b's lease voters are %v", got)
	}
	r := d.ok(machine.ToManager)
	if s := d.state(); s.Assigned == nil || len(s.LeaseVoters.Names) > 0 ||
		!strings.Contains(r.Daemon.LeaseVotersWhy, "the first machine that was handed over has recorded") {
		t.Errorf("d begins with %+v: %s", s.LeaseVoters, r.Daemon.LeaseVotersWhy)
	}
	e := newHost(t, shared, "e", "d", "e")
	e.held(machine.ToManager, machine.LeaseVotersLost)
	e.o.NewIncarnation = true
	r = e.ok(machine.ToManager)
	if s := e.state(); s.Assigned.Token != "c1-2" || s.LeaseVoters.Token != "c1-2" ||
		!slices.Equal(s.LeaseVoters.Names, []cluster.NodeName{"d", "e"}) {
		t.Errorf("e begins with %+v", s)
	}
	if got := e.records(); len(got) != 2 || got[1].Number != 2 || r.Daemon.Incarnation != "c1-2" {
		t.Errorf("the records are %+v", got)
	}
	// d goes back and comes again, in the incarnation of e, with the flag or
	// without.
	d.held(machine.FromManager, machine.ClusterUnreachable)
	d.o.Alone = true
	d.ok(machine.FromManager)
	d.o.NewIncarnation = true
	d.ok(machine.ToManager)
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
		_, err := Plan(t.Context(), h.o, machine.ToManager)
		var why *machine.Hold
		if errors.As(err, &why) != want {
			t.Errorf("a status of %s ago: %v", age, err)
		}
	}
}

// A cluster of one or two cannot be asked while a member is away.
func TestSmallClusters(t *testing.T) {
	for _, names := range [][]string{{"a"}, {"a", "b"}} {
		h := newCluster(t, names...)[0]
		h.ok(machine.ToManager)
		h.ok(machine.FromManager)
		if here, _ := h.at(); !here || !h.running() {
			t.Errorf("a cluster of %d: here %t, running %t", len(names), here, h.running())
		}
	}
}

// A handover to the daemon that was cut short can be handed back.
func TestTakingBackWhatWasNotFinished(t *testing.T) {
	for _, after := range []string{"journal", "stop", "files", "move", "assign"} {
		h := newCluster(t, "a", "b", "c")[0]
		h.runUntil(machine.ToManager, after)
		h.ok(machine.FromManager)
		if here, _ := h.at(); !here || !h.running() {
			t.Errorf("after %s: here %t, running %t", after, here, h.running())
		}
	}
}

// runUntil does the steps up to one of them.
func (h *host) runUntil(d machine.Action, last string) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	defer cancel()
	o := h.o
	o.Began = func(s machine.Step) {
		if s.Phase == last {
			cancel() // after a step the run ends
		}
	}
	if _, err := Run(ctx, o, d); !errors.Is(err, context.Canceled) {
		h.t.Fatalf("up to %s: %v", last, err)
	}
}

func TestNoWayThereWhileTheWayBackIsUnfinished(t *testing.T) {
	h := newCluster(t, "a", "b", "c")[0]
	h.ok(machine.ToManager)
	h.runUntil(machine.FromManager, "move")
	h.held(machine.ToManager, machine.Unfinished)
	h.ok(machine.FromManager)
	h.at()
}

func TestAnIncarnationThatEndedMeanwhile(t *testing.T) {
	h := newCluster(t, "a", "b", "c")[0]
	h.runUntil(machine.ToManager, "stop")
	h.create(cluster.Incarnation{Number: 2, Token: "c1-2", Version: v36, Voters: initialMembers("b", "c")})
	if why := h.held(machine.ToManager, machine.StoreForeign); !strings.Contains(why.Text,
		"the handover was begun in incarnation c1, which is not the newest") {
		t.Error(why)
	}
	h.ok(machine.FromManager)
}

// Somebody starts etcd again between the stop and the move.
func TestStartedAgainMeanwhile(t *testing.T) {
	h := newCluster(t, "a", "b", "c")[0]
	h.o.Began = func(s machine.Step) {
		if s.Phase == "move" {
			h.run()
		}
	}
	h.held(machine.ToManager, machine.DataBusy)
	if here, _ := h.at(); !here {
		t.Error("the data was moved from under a running etcd")
	}
	h.o.Began = nil
	h.ok(machine.ToManager)
	h.at()
}

// etcd runs as a user of its own; the daemon runs it as root.
func TestDataOfAUserIsGivenBack(t *testing.T) {
	h := newCluster(t, "a", "b", "c")[0]
	h.o.Config.Service.User = "etcd"
	h.ok(machine.ToManager)
	h.must(os.Chmod(h.cfg.Paths.Data, 0o700))
	h.ok(machine.FromManager)
	// By this mode etcdadm sees that the owner is to be set.
	if st, err := os.Stat(h.cfg.Paths.Data); err != nil || st.Mode().Perm() == 0o700 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

func TestTheVersionThatRunsStays(t *testing.T) {
	h := newCluster(t, "a", "b", "c")[0]
	h.o.Config.Version.Minor, h.o.Config.Version.Patch = 7, 3
	h.ok(machine.ToManager)
	var opened machine.Config
	open := h.o.Open
	h.o.Open = func(cfg machine.Config, endpoints []string) (Machine, error) {
		opened = cfg
		if want := []string{"https://10.0.0.98:2379", "https://10.0.0.99:2379"}; !slices.Equal(endpoints, want) {
			t.Errorf("the endpoints are %q", endpoints)
		}
		return open(cfg, endpoints)
	}
	h.ok(machine.FromManager)
	if opened.Version != v36 || opened.Binaries.Dir != filepath.Join(h.o.EtcdDir, "etcd-v3.6.16") {
		t.Errorf("etcdadm is to run %s of %q", opened.Version, opened.Binaries.Dir)
	}
}
