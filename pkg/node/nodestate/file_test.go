package nodestate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

var self = Self{
	Name: "a",
	URLs: cluster.URLs{
		Peer:       []string{"https://10.0.0.1:2380"},
		Client:     []string{"https://10.0.0.1:4001"},
		Quarantine: []string{"https://10.0.0.1:3994"},
	},
}

func initialMembers() []cluster.InitialMember {
	return []cluster.InitialMember{
		{Name: "a", PeerURLs: []string{"https://10.0.0.1:2380"}},
		{Name: "b", PeerURLs: []string{"https://10.0.0.2:2380"}},
	}
}

// full is a state with every field set.
func full() State {
	v := etcdversion.Must("3.6.16")
	return State{
		Assigned:  &cluster.Assigned{Token: "tok-1", Version: v, Quarantined: true, Stopped: true},
		Bootstrap: true,
		Peers:     initialMembers(),
		MemberID:  0xdeadbeefdeadbeef, ClusterID: 0xfeedfeedfeedfeed, MemberToken: "tok-1",
		Voters: []cluster.InitialMember{{Name: "a", PeerURLs: []string{"https://a:2380"}}},
		Change: &cluster.VersionChange{
			Token: "tok-1", From: etcdversion.Must("3.5.35"), To: etcdversion.Must("3.6.16"), Failed: "it died", Back: true,
		},
		Seen:     &SeenVersion{Token: "tok-1", Version: etcdversion.Must("3.5.0")},
		Differs:  &Differs{Token: "tok-1", MemberID: 0xdeadbeefdeadbeef, Text: "its data is not that of b and c"},
		Prepared: &cluster.Prepared{Token: "tok-2", Version: v, Voters: initialMembers()},
		Staged: &cluster.Staged{
			Request: "r", Backup: "b", Token: "tok-3", Version: v, Voters: initialMembers(), Revision: 9, Ready: true,
		},
		Revision: 1_000_000, NewestBackup: "2026-11-20T11:00:00Z-000001",
		LeaseVoters: cluster.LeaseVoters{Token: "tok-1", Term: 3, Seq: 2, Names: []cluster.NodeName{"a", "b"}},
		Term:        7,
		Grant:       lease.Grant{Term: 6, Holder: "b"},
		Spec: &cluster.Spec{
			MemberCount: 3, EtcdVersion: v, Policy: cluster.Policy{StaticNodes: []cluster.NodeName{"a"}},
		},
		Hosts: []cluster.HostEntry{{Address: "10.0.0.1", Name: "a.internal"}},
		Pause: &cluster.Request{Name: "p", Kind: cluster.RequestPause, By: "ann", Reason: "repair"},
	}
}

func set(s State) func(*State) error {
	return func(p *State) error { *p = s; return nil }
}

func open(t *testing.T, dir string) *File {
	t.Helper()
	f, err := Open(dir, self)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// reopen is what a restart of the daemon does.
func reopen(t *testing.T, f *File) *File {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, f.dir)
}

func update(t *testing.T, f *File, change func(*State)) {
	t.Helper()
	if err := f.Update(func(s *State) error { change(s); return nil }); err != nil {
		t.Fatal(err)
	}
}

func slurp(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEveryFieldOfFullIsSet(t *testing.T) {
	v := reflect.ValueOf(full())
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("field %s is not tested", v.Type().Field(i).Name)
		}
	}
}

func TestStateSurvivesRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vol", "etcd")
	f := open(t, dir)
	if got := f.State(); !reflect.DeepEqual(got, State{}) {
		t.Fatalf("a new node remembers %+v", got)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Fatalf("data directory: %v, %v", st, err)
	}
	if err := f.Update(set(full())); err != nil {
		t.Fatal(err)
	}
	if got := f.State(); !reflect.DeepEqual(got, full()) {
		t.Fatalf("got %+v", got)
	}
	f = reopen(t, f)
	if got := f.State(); !reflect.DeepEqual(got, full()) {
		t.Fatalf("after a restart: %+v", got)
	}
	if got, err := Read(dir); err != nil || !reflect.DeepEqual(got, full()) {
		t.Fatalf("Read: %+v, %v", got, err)
	}
	for _, name := range []string{ownName, compatName} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
}

func TestStateIsADeepCopy(t *testing.T) {
	f := open(t, t.TempDir())
	if err := f.Update(set(full())); err != nil {
		t.Fatal(err)
	}
	s := f.State()
	s.Assigned.Stopped = false
	s.Peers[0].PeerURLs[0] = "changed"
	s.Prepared.Voters[1].Name = "changed"
	s.LeaseVoters.Names[0] = "changed"
	s.Spec.Policy.StaticNodes[0] = "changed"
	if got := f.State(); !reflect.DeepEqual(got, full()) {
		t.Fatalf("changed through a copy: %+v", got)
	}
	var leaked *State
	update(t, f, func(s *State) { leaked = s })
	leaked.Assigned.Version = etcdversion.Must("3.5.0")
	if got := f.State(); !reflect.DeepEqual(got, full()) {
		t.Fatalf("changed through a kept argument: %+v", got)
	}
}

func TestUpdateThatFailsChangesNothing(t *testing.T) {
	f := open(t, t.TempDir())
	if err := f.Update(set(full())); err != nil {
		t.Fatal(err)
	}
	before := slurp(t, filepath.Join(f.dir, ownName))
	mine := errors.New("mine")
	if err := f.Update(func(s *State) error { s.Term = 100; return mine }); !errors.Is(err, mine) {
		t.Fatalf("got %v", err)
	}
	for name, change := range map[string]func(*State){
		"the high-water mark would go back":  func(s *State) { s.Revision = 999_999 },
		"mark would go back from 1000000 to": func(s *State) { s.Revision = 0 },
		"the term would go back from":        func(s *State) { s.Term = 6 },
		"the grant would go back from term":  func(s *State) { s.Grant = lease.Grant{Term: 5, Holder: "b"} },
		`already granted to b, not to "c"`:   func(s *State) { s.Grant.Holder = "c" },
		`already granted to b, not to ""`:    func(s *State) { s.Grant.Holder = "" },
		`already granted to b, not to "b"`:   func(s *State) { s.Grant.Boot = "another" },
		"highest term seen is 7":             func(s *State) { s.Grant = lease.Grant{Term: 8, Holder: "b"} },
		"cluster token is empty":             func(s *State) { s.Assigned.Token = "" },
		"token \"../x\" has":                 func(s *State) { s.Assigned.Token = "../x" },
		"etcd version is missing":            func(s *State) { s.Assigned.Version = etcdversion.Version{} },
		"bootstrap without an assignment":    func(s *State) { s.Assigned = nil },
		"is not of the form NAME=URL":        func(s *State) { s.Peers[1].PeerURLs = nil },
		"peers: node name":                   func(s *State) { s.Peers[1].Name = "b c" },
		"promise: cluster token":             func(s *State) { s.Prepared.Token = "" },
		"member: cluster token":              func(s *State) { s.MemberToken = "a/b" },
	} {
		err := f.Update(func(s *State) error { change(s); return nil })
		if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("want %q, got %v", name, err)
		}
	}
	if got := f.State(); !reflect.DeepEqual(got, full()) {
		t.Errorf("state is %+v", got)
	}
	if slurp(t, filepath.Join(f.dir, ownName)) != before {
		t.Error("the file changed")
	}
}

func TestPromisesGoForward(t *testing.T) {
	f := open(t, t.TempDir())
	update(t, f, func(s *State) { s.Term, s.Grant = 1, lease.Grant{Term: 1, Holder: "a"} })
	update(t, f, func(s *State) { s.Grant = lease.Grant{Term: 1, Holder: "a"} }) // renewed
	update(t, f, func(s *State) { s.Term, s.Revision = 5, 9 })
	update(t, f, func(s *State) { s.Grant = lease.Grant{Term: 5, Holder: "b"} })
	update(t, f, func(s *State) { s.Grant.Released = true })
	f = reopen(t, f)
	err := f.Update(func(s *State) error { s.Grant.Released = false; return nil })
	if err == nil || !strings.Contains(err.Error(), "was given back by b") {
		t.Fatalf("a lease that was given back is in force again: %v", err)
	}
	for name, change := range map[string]func(*State){
		"the high-water mark would": func(s *State) { s.Revision-- },
		"the term would go back":    func(s *State) { s.Term, s.Grant.Term = 4, 4 },
		"the grant would go back":   func(s *State) { s.Grant = lease.Grant{Term: 4, Holder: "c"} },
		"is above the maximum":      func(s *State) { s.Term = lease.MaxTerm + 1 },
		"is already granted to b":   func(s *State) { s.Grant = lease.Grant{Term: 5, Holder: "c", Released: true} },
		"the highest term seen is":  func(s *State) { s.Grant.Term = 6 },
	} {
		err := f.Update(func(s *State) error { change(s); return nil })
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := f.State(); got.Term != 5 || got.Grant != (lease.Grant{Term: 5, Holder: "b", Released: true}) {
		t.Fatalf("got %+v", got)
	}
}

func TestOneOpenAtATime(t *testing.T) {
	f := open(t, t.TempDir())
	_, err := Open(f.dir, self)
	var locked *hostfs.LockedError
	if !errors.As(err, &locked) || locked.Holder != os.Getpid() {
		t.Fatalf("got %v, want a LockedError", err)
	}
	reopen(t, f)
	if err := f.Update(set(State{Term: 9})); !errors.Is(err, os.ErrClosed) {
		t.Fatalf("update after close: %v", err)
	}
}

func TestOpenFailures(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "file"), "x")
	if _, err := Open(filepath.Join(dir, "file"), self); err == nil {
		t.Error("a file was opened as data directory")
	}
	if _, err := Open(dir, Self{}); err == nil || !strings.Contains(err.Error(), "node name is empty") {
		t.Errorf("no name: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "d", compatName), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the lock is free again after the failure
		if _, err := Open(filepath.Join(dir, "d"), self); !errors.Is(err, syscall.EISDIR) {
			t.Errorf("a directory in the place of a file: %v", err)
		}
	}
}

func TestUpdatesAtTheSameTimeAllCount(t *testing.T) {
	f := open(t, t.TempDir())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				if err := f.Update(func(s *State) error { s.Term++; return nil }); err != nil {
					t.Error(err)
				}
				f.State()
			}
		})
	}
	wg.Wait()
	if got := reopen(t, f).State().Term; got != 40 {
		t.Fatalf("term is %d, want 40", got)
	}
}

func TestUnchangedStateIsNotWritten(t *testing.T) {
	f := open(t, t.TempDir())
	if err := f.Update(set(full())); err != nil {
		t.Fatal(err)
	}
	before := stat(t, f.dir)
	update(t, f, func(*State) {})
	if after := stat(t, f.dir); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Fatalf("before %v, after %v", before, after)
	}
	// A term is none of the existing etcd-manager's business.
	update(t, f, func(s *State) { s.Term++ })
	after := stat(t, f.dir)
	if after[0] == before[0] || after[1] != before[1] {
		t.Fatalf("before %v, after %v: only %s should change", before, after, ownName)
	}
}

// stat returns the inodes of the two files: each write makes a new one.
func stat(t *testing.T, dir string) [2]uint64 {
	t.Helper()
	var inodes [2]uint64
	for i, name := range []string{ownName, compatName} {
		// Held open, so that the number is not used again.
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		st, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		inodes[i] = st.Sys().(*syscall.Stat_t).Ino
	}
	return inodes
}

func TestFullDiskKeepsMemoryAndPromises(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mounting a small file system is not permitted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	f := open(t, dir)
	if err := f.Update(set(full())); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	_ = os.WriteFile(ballast, make([]byte, 128<<10), 0o600) // fills the disk
	err := f.Update(func(s *State) error { s.Term++; s.Assigned.Stopped = false; return nil })
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v, want ENOSPC", err)
	}
	if got := f.State(); !reflect.DeepEqual(got, full()) {
		t.Fatalf("memory changed: %+v", got)
	}
	if got, err := Read(dir); err != nil || !reflect.DeepEqual(got, full()) {
		t.Fatalf("disk changed: %+v, %v", got, err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	update(t, f, func(s *State) { s.Term++ })
	if got := reopen(t, f).State().Term; got != full().Term+1 {
		t.Fatalf("term is %d", got)
	}
}
