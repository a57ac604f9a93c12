package apply

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc/election"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdproc"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// The versions that the fake etcds of a host have, by what they do.
var (
	writes   = etcdversion.Must("3.6.16") // writes data and stays
	newer    = etcdversion.Must("3.6.17") // the same
	cutOff   = etcdversion.Must("3.6.4")  // the first time, begins a log and ends; then as writes
	dataless = etcdversion.Must("3.6.1")  // stays, and writes nothing
	dies     = etcdversion.Must("3.6.2")  // ends at once
	refuses  = etcdversion.Must("3.6.5")  // as writes, where it is not to compare itself with its peers
	absent   = etcdversion.Must("3.6.3")  // there are no binaries of it
)

// bootstraps writes a log with one record of eight bytes: type 3, checksum 0, and as
// data that the first index is committed. It runs mkdir once only: that outlives the
// script when it is stopped at once, and would write while the test's directory is removed.
const bootstraps = `{ [ -d "$ETCD_DATA_DIR/member/wal" ] || mkdir -p "$ETCD_DATA_DIR/member/wal"; } && printf '\010\000\000\000\000\000\000\000\010\003\020\000\032\002\030\001' >"$ETCD_DATA_DIR/member/wal/0.wal" && exec sleep 600`

var scripts = map[etcdversion.Version]string{
	writes: bootstraps,
	newer:  bootstraps,
	cutOff: `if [ -e again ]; then [ -e "$ETCD_DATA_DIR/member" ] || ` + bootstraps +
		`; exec sleep 600; fi; : >again; mkdir -p "$ETCD_DATA_DIR/member/wal" && : >"$ETCD_DATA_DIR/member/wal/0.wal"; exit 3`,
	dataless: `exec sleep 600`,
	refuses: `if env | grep -q InitialCorruptCheck=true; then echo found data inconsistency with peers; exit 1; fi; ` +
		bootstraps,
	dies: `echo no luck; exit 3`,
}

// fakes installs the scripts as binaries below dir.
func fakes(t *testing.T, dir string) etcdbin.Finder {
	t.Helper()
	// A child that another test forks now would have the files open for writing
	// until it is a program of its own, and nobody could run them.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for v, body := range scripts {
		place := filepath.Join(dir, "etcd-v"+v.String())
		if err := os.MkdirAll(place, 0o755); err != nil {
			t.Fatal(err)
		}
		// Each run leaves its environment behind, for the test to check.
		script := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo etcd Version: " + v.String() + "; exit; fi\nenv >" +
			filepath.Join(dir, "env") + "\n" + body + "\n"
		if err := os.WriteFile(filepath.Join(place, "etcd"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return etcdbin.Finder{Dirs: []string{dir}, Opt: dir}
}

// A host is node a as its daemon has it: everything but the daemon is real.
type host struct {
	*Local
	t     *testing.T
	o     LocalOptions
	bins  string
	state *nodestate.File
	proc  *etcdproc.Supervisor
	voter *election.Voter
	open  bool
}

// freeURLs returns addresses on 127.0.0.1 that nobody listens on.
func freeURLs(t *testing.T, n int) (host string, urls []string) {
	t.Helper()
	for range n {
		urls = append(urls, "http://"+testport.Address(t))
	}
	return testport.Local, urls
}

// newHost opens a host on an empty disk, with fake etcds.
func newHost(t *testing.T, change ...func(*LocalOptions)) *host {
	t.Helper()
	h := &host{t: t, bins: t.TempDir()}
	h.o = LocalOptions{
		Name: "a", DataDir: filepath.Join(t.TempDir(), "data dir"), Bin: fakes(t, h.bins), Now: time.Now,
		diskTimeout: testwait.Limit,
		URLs: cluster.URLs{
			Peer: []string{"http://127.0.0.1:1"}, Client: []string{"http://127.0.0.1:2"}, Quarantine: []string{
				"http://127.0.0.1:3",
			},
		},
	}
	for _, c := range change {
		c(&h.o)
	}
	h.start()
	t.Cleanup(h.close)
	return h
}

// start is the start of a daemon, up to its own etcd.
func (h *host) start() {
	h.t.Helper()
	var err error
	// A process that was killed while it started another one has left it the lock, until
	// that has become etcd.
	testwait.Until(h.t, "the lock of who was killed", func() bool {
		err = h.tryStart(h.t.Context())
		return !errors.As(err, new(*hostfs.LockedError))
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) tryStart(ctx context.Context) (err error) {
	if h.state, err = nodestate.Open(h.o.DataDir, nodestate.Self{Name: h.o.Name, URLs: h.o.URLs}); err != nil {
		return err
	}
	h.proc, err = etcdproc.New(ctx, etcdproc.Options{Dir: h.o.DataDir, StopTimeout: 5 * time.Second})
	if err != nil {
		return errors.Join(err, h.state.Close())
	}
	s := h.state.State()
	h.voter = election.NewVoter(election.VoterOptions{
		Cluster: "main", Self: h.o.Name, Durable: lease.Durable{Term: s.Term, Grant: s.Grant, LeaseVoters: s.LeaseVoters},
		Persist: func(d lease.Durable) error {
			return h.state.Update(func(s *nodestate.State) error {
				s.Term, s.Grant, s.LeaseVoters = d.Term, d.Grant, d.LeaseVoters
				return nil
			})
		},
	})
	h.o.State, h.o.LeaseVoter, h.o.Proc = h.state, h.voter, h.proc
	h.Local = NewLocal(h.o)
	h.open = true
	return nil
}

func (h *host) close() {
	if !h.open {
		return
	}
	h.open = false
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	if err := h.Local.Close(ctx); err != nil {
		h.t.Errorf("close: %v", err)
	}
	if err := h.state.Close(); err != nil {
		h.t.Errorf("close the state: %v", err)
	}
}

// restart is a daemon that ends, and starts again on the same disk.
func (h *host) restart() {
	h.t.Helper()
	h.close()
	h.start()
	if err := h.Boot(h.t.Context()); err != nil {
		h.t.Fatalf("boot: %v", err)
	}
}

func (h *host) do(op plan.Operation) error {
	ctx, cancel := context.WithTimeout(h.t.Context(), 2*time.Minute)
	defer cancel()
	o := plan.Order{Operation: op}
	if _, ok := op.(*plan.MemberChangeVersion); !ok { // it may be the only voter
		o.LeaseVoters = cluster.LeaseVoters{Token: "t1", Term: 4, Names: []cluster.NodeName{"b", "c"}}
	}
	return h.Do(ctx, o, nil)
}

// must does ops, which must succeed.
func (h *host) must(ops ...plan.Operation) {
	h.t.Helper()
	for _, op := range ops {
		if err := h.do(op); err != nil {
			h.t.Fatalf("%s: %v", plan.Line(op), err)
		}
	}
}

// refused does op, which must fail with ErrPrecondition and a text, and leave
// the state file as it was.
func (h *host) refused(op plan.Operation, text string) {
	h.t.Helper()
	before := h.disk()
	err := h.do(op)
	if !errors.Is(err, ErrPrecondition) || !strings.Contains(err.Error(), text) {
		h.t.Errorf("%s: error %v, want a refusal with %q", plan.Line(op), err, text)
	}
	if after := h.disk(); !reflect.DeepEqual(after, before) {
		h.t.Errorf("%s was refused, and changed the state from %+v to %+v", plan.Line(op), before, after)
	}
}

// disk is the state as it is on the disk.
func (h *host) disk() nodestate.State {
	h.t.Helper()
	s, err := nodestate.Read(h.o.DataDir)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// observe is one observation of the host.
func (h *host) observe() cluster.Node {
	h.t.Helper()
	n, _ := h.Observe(h.t.Context())
	return n
}

// hasData waits for etcd's first data, and observes: that ends the promise.
func (h *host) hasData() {
	h.t.Helper()
	testwait.Until(h.t, "data on the disk", func() bool {
		n := h.observe()
		return n.Disk.State == cluster.DiskData && n.Prepared == nil
	})
}

// env waits for the environment of a process and returns its variable.
func (h *host) env(key string) string {
	h.t.Helper()
	value := ""
	testwait.Until(h.t, key+" in the environment of the process", func() bool {
		b, _ := os.ReadFile(filepath.Join(h.bins, "env"))
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(line, key+"="); ok && strings.HasSuffix(v, "\n") {
				value = strings.TrimSpace(v)
				return true
			}
		}
		return false
	})
	return value
}

// forget removes the environment that the last process left behind.
func (h *host) forget() {
	h.t.Helper()
	h.env("ETCD_NAME")
	if err := os.Remove(filepath.Join(h.bins, "env")); err != nil {
		h.t.Fatal(err)
	}
}

// put writes a file below the data directory.
func (h *host) put(path string) {
	h.t.Helper()
	path = filepath.Join(h.o.DataDir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// loseData is what a new disk under a running name does.
func (h *host) loseData() {
	h.t.Helper()
	if err := os.RemoveAll(filepath.Join(h.o.DataDir, "data")); err != nil {
		h.t.Fatal(err)
	}
}

// initialMembers are bootstrap voters with peer URLs of theirs.
func initialMembers(names ...cluster.NodeName) []cluster.InitialMember {
	var list []cluster.InitialMember
	for _, n := range names {
		url := "http://127.0.0.1:1"
		if n != "a" {
			url = "http://" + string(n) + ":1"
		}
		list = append(list, cluster.InitialMember{Name: n, PeerURLs: []string{url}})
	}
	return list
}

// The operations of most scenarios, for node a and incarnation t1.
func prepare() *plan.MemberPrepare {
	return &plan.MemberPrepare{Node: "a", Token: "t1", Version: writes, Voters: initialMembers("a")}
}

func start(mode plan.StartMode) *plan.MemberStart {
	op := &plan.MemberStart{Node: "a", Token: "t1", Mode: mode, Version: writes, Peers: initialMembers("a")}
	if mode == plan.StartRestart {
		op.Peers = nil
	}
	return op
}

func stop() *plan.MemberStop { return &plan.MemberStop{Node: "a", ExpectToken: "t1"} }

func setAside() *plan.DataSetAside { return &plan.DataSetAside{Node: "a", Token: "t1"} }

// bootstrapped is a host whose member runs and has data.
func bootstrapped(t *testing.T, change ...func(*LocalOptions)) *host {
	t.Helper()
	h := newHost(t, change...)
	h.must(prepare(), start(plan.StartNew))
	h.hasData()
	return h
}

func (h *host) pid() int { return h.proc.Status().PID }

// isStale checks that err is a StaleError.
func isStale(t *testing.T, err error, want string) {
	t.Helper()
	var stale *plan.StaleError
	if !errors.As(err, &stale) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want a StaleError with %q", err, want)
	}
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}
