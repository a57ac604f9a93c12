package nodestate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// theirs is a state file of the existing etcd-manager.
func theirs(token, version string, quarantined bool) string {
	node := func(name, ip string) etcdNode {
		return etcdNode{
			Name: name, PeerURLs: []string{"https://" + ip + ":2380"}, ClientURLs: []string{"https://" + ip + ":4001"},
			QuarantineURLs: []string{"https://" + ip + ":3994"}, TLS: true,
		}
	}
	return string(etcdState{
		cluster: &etcdCluster{token: token, nodes: []etcdNode{node("a", "10.0.0.1"), node("b", "10.0.0.2")}},
		version: version, quarantined: quarantined,
	}.encode())
}

func compatOf(t *testing.T, dir string) etcdState {
	t.Helper()
	s, err := decodeState([]byte(slurp(t, filepath.Join(dir, compatName))))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTakeOverFromExistingManager(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, compatName), theirs("tok-9", "3.5.35", true))
	f := open(t, dir)
	want := State{
		Assigned: &cluster.Assigned{Token: "tok-9", Version: etcdversion.Must("3.5.35"), Quarantined: true},
		Peers:    initialMembers(),
	}
	if got := f.State(); !reflect.DeepEqual(got, want) {
		t.Fatalf("took over %+v", got)
	}
	if got := slurp(t, filepath.Join(dir, compatName)); got != theirs("tok-9", "3.5.35", true) {
		t.Errorf("their file changed to %q", got)
	}
	// What they know of other nodes stays in their file through our changes.
	update(t, f, func(s *State) { s.Assigned.Quarantined = false })
	f = reopen(t, f)
	update(t, f, func(s *State) { s.Assigned.Version = etcdversion.Must("3.6.16") })
	if got := slurp(t, filepath.Join(dir, compatName)); got != theirs("tok-9", "3.6.16", false) {
		t.Errorf("their file is %q", got)
	}
}

func TestAssignmentGoesToTheirFile(t *testing.T) {
	f := open(t, t.TempDir())
	path := filepath.Join(f.dir, compatName)
	update(t, f, func(s *State) { s.Term = 3 })
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a node without an assignment has a state file, by which the existing etcd-manager knows that its disk is "+
			"used: %v", err)
	}
	update(t, f, func(s *State) {
		s.Assigned = &cluster.Assigned{Token: "tok-1", Version: etcdversion.Must("3.6.16")}
		s.Bootstrap = true
		s.Peers = initialMembers()[1:]
	})
	got := compatOf(t, f.dir)
	if !got.newCluster || got.version != "3.6.16" || got.cluster.token != "tok-1" {
		t.Errorf("their file says %+v", got)
	}
	want := []etcdNode{
		{Name: "b", PeerURLs: []string{"https://10.0.0.2:2380"}, TLS: true},
		{Name: "a", PeerURLs: self.URLs.Peer, ClientURLs: self.URLs.Client, QuarantineURLs: self.URLs.Quarantine, TLS: true},
	}
	if !reflect.DeepEqual(got.cluster.nodes, want) {
		t.Errorf("their file has nodes %+v", got.cluster.nodes)
	}
	// Whoever has no TLS yet gets it from the existing etcd-manager only if the file says so,
	// whatever the flags are.
	update(t, f, func(s *State) {
		s.Peers = []cluster.InitialMember{{Name: "a", PeerURLs: []string{"http://10.0.0.1:2380"}}}
	})
	if n := compatOf(t, f.dir).cluster.nodes; len(n) != 1 || n[0].TLS || n[0].PeerURLs[0] != "http://10.0.0.1:2380" {
		t.Errorf("without TLS their file has nodes %+v", n)
	}
	update(t, f, func(s *State) { s.Assigned, s.Bootstrap, s.Peers = nil, false, nil })
	if got := slurp(t, path); got != "" {
		t.Errorf("without an assignment their file holds %q", got)
	}
	if got := reopen(t, f).State(); !reflect.DeepEqual(got, State{Term: 3}) {
		t.Errorf("after a restart: %+v", got)
	}
}

func TestTheirFileIsWrittenAgain(t *testing.T) {
	f := open(t, t.TempDir())
	path := filepath.Join(f.dir, compatName)
	if err := f.Update(set(full())); err != nil {
		t.Fatal(err)
	}
	before := slurp(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f = reopen(t, f)
	if got := slurp(t, path); got != before {
		t.Errorf("after it was removed, their file is %q", got)
	}
	if got := f.State(); !reflect.DeepEqual(got, full()) {
		t.Errorf("state is %+v", got)
	}
	// New URLs on the command line reach it too, and are no foreign write.
	f.Close()
	moved := self
	moved.URLs.Client = []string{"https://10.0.0.99:4001"}
	g, err := Open(f.dir, moved)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if got := compatOf(t, f.dir).cluster.nodes[0].ClientURLs; !reflect.DeepEqual(got, moved.URLs.Client) {
		t.Errorf("their file has client URLs %q", got)
	}
	if got := g.State(); !reflect.DeepEqual(got, full()) {
		t.Errorf("state is %+v", got)
	}
}

func TestTheirFileWinsIfTheyWereInCharge(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    *cluster.Assigned
		peers   []cluster.InitialMember
	}{
		"another incarnation": {
			theirs("tok-9", "3.5.35", false), &cluster.Assigned{Token: "tok-9", Version: etcdversion.Must("3.5.35")},
			initialMembers(),
		},
		"stopped": {"", nil, nil},
		"upgraded": {theirs("tok-1", "3.7.3", false), &cluster.Assigned{Token: "tok-1", Version: etcdversion.Must("3.7.3")},
			initialMembers()},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, t.TempDir())
			if err := f.Update(set(full())); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(f.dir, compatName), c.content)
			seen, err := Read(f.dir)
			if err != nil {
				t.Fatal(err)
			}
			got := reopen(t, f).State()
			want := full()
			want.Assigned, want.Peers, want.Bootstrap, want.Prepared = c.want, c.peers, false, nil
			if len(c.peers) > 0 {
				want.Voters[0].PeerURLs = c.peers[0].PeerURLs // it says where they are now
			}
			if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(seen, want) {
				t.Errorf("got %+v\nRead %+v\nwant %+v", got, seen, want)
			}
		})
	}
}

// crash writes back an older copy of a file, as if the write had not happened.
func TestCrashBetweenTheTwoWrites(t *testing.T) {
	f := open(t, t.TempDir())
	path := filepath.Join(f.dir, compatName)
	update(t, f, func(s *State) {
		s.Assigned = &cluster.Assigned{Token: "tok-1", Version: etcdversion.Must("3.5.35")}
		s.Peers = initialMembers()
	})
	older := slurp(t, path)
	update(t, f, func(s *State) { s.Assigned.Version = etcdversion.Must("3.6.16") })
	newer := slurp(t, path)
	put(t, path, older)
	f = reopen(t, f)
	if got := f.State().Assigned.Version; got != etcdversion.Must("3.6.16") {
		t.Fatalf("version is %s: our own older write was taken for theirs", got)
	}
	if got := slurp(t, path); got != newer {
		t.Fatalf("their file is %q", got)
	}
	// Once another of our writes is through, the older content can only be theirs.
	update(t, f, func(s *State) { s.Term++ })
	put(t, path, older)
	if got := reopen(t, f).State().Assigned.Version; got != etcdversion.Must("3.5.35") {
		t.Fatalf("version is %s, want theirs", got)
	}
}

// Their file cannot be written (a directory is in its place), ours can.
func TestFailedWriteOfTheirFileIsUndone(t *testing.T) {
	f := open(t, t.TempDir())
	path := filepath.Join(f.dir, compatName)
	update(t, f, func(s *State) {
		s.Assigned = &cluster.Assigned{Token: "tok-1", Version: etcdversion.Must("3.5.35")}
		s.Peers = initialMembers()
	})
	before, older := f.State(), slurp(t, path)
	block := func() {
		t.Helper()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(path, "x"), "")
	}
	unblock := func(content string) {
		t.Helper()
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		put(t, path, content)
	}
	block()
	for _, v := range []string{"3.6.0", "3.6.16"} {
		err := f.Update(func(s *State) error { s.Assigned.Version = etcdversion.Must(v); return nil })
		if err == nil {
			t.Fatal("no error")
		}
		if got := f.State(); !reflect.DeepEqual(got, before) {
			t.Fatalf("memory changed: %+v", got)
		}
	}
	// A failed write may still have reached the disk. None of the contents that
	// it may have left is taken for theirs.
	lost := before
	for _, v := range []string{"3.5.35", "3.6.0", "3.6.16"} {
		lost.Assigned = &cluster.Assigned{Token: "tok-1", Version: etcdversion.Must(v)}
		unblock(string(toCompat(lost, self, nil)))
		if got, err := Read(f.dir); err != nil || !reflect.DeepEqual(got, before) {
			t.Fatalf("with %s left behind: %+v, %v", v, got, err)
		}
	}
	unblock(older)
	update(t, f, func(s *State) { s.Assigned.Version = etcdversion.Must("3.7.3") })
	f = reopen(t, f)
	if got := f.State().Assigned.Version; got != etcdversion.Must("3.7.3") || compatOf(t, f.dir).version != "3.7.3" {
		t.Fatalf("after all is well: %s", got)
	}
}

func TestGarbageStopsAndStays(t *testing.T) {
	own := `{"format":1,"state":{},"written":[]}`
	for name, c := range map[string]struct{ file, content, want string }{
		"ours is empty":             {ownName, "", "unexpected end"},
		"ours is cut off":           {ownName, own[:20], "unexpected end"},
		"ours is of a later format": {ownName, `{"format": 3}`, "format 3"},
		"ours is something else":    {ownName, `{}`, "format 0"},
		"ours makes no sense":       {ownName, `{"format":1,"state":{"bootstrap":true}}`, "bootstrap"},
		"theirs is text":            {compatName, "hello, world", ""},
		"theirs is cut off":         {compatName, theirs("tok", "3.6.16", false)[:50], "unexpected EOF"},
		"theirs has a bad token":    {compatName, theirs("../tok", "3.6.16", false), "token"},
		"theirs has no token":       {compatName, theirs("", "3.6.16", false), "token is empty"},
		"theirs has no version":     {compatName, theirs("tok", "", false), "version"},
		"theirs has a bad version":  {compatName, theirs("tok", "new", false), `"new"`},
		"theirs has no nodes": {
			compatName, string(etcdState{cluster: &etcdCluster{token: "tok"}, version: "3.6.16"}.encode()), "no nodes",
		},
		"theirs has no peer URL": {
			compatName, string(etcdState{
				cluster: &etcdCluster{token: "tok", nodes: []etcdNode{{Name: "a"}}}, version: "3.6.16",
			}.encode()), "no peer URL",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, filepath.Join(dir, ownName), own)
			put(t, filepath.Join(dir, compatName), theirs("tok", "3.6.16", false))
			path := filepath.Join(dir, c.file)
			put(t, path, c.content)
			before := fmt.Sprint(slurp(t, filepath.Join(dir, ownName)), slurp(t, filepath.Join(dir, compatName)))
			_, err := Open(dir, self)
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) || corrupt.Path != path || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), path) {
				t.Fatalf("got %v, want a CorruptError of %s that says %q", err, path, c.want)
			}
			if _, err := Read(dir); !errors.As(err, &corrupt) {
				t.Errorf("Read: %v", err)
			}
			if after := fmt.Sprint(slurp(t, filepath.Join(dir, ownName)),
				slurp(t, filepath.Join(dir, compatName))); after != before {
				t.Error("a file was changed")
			}
		})
	}
}

func TestLeftTemporaryFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{".etcdadm.json.tmp-1", ".state.tmp-2"} {
		put(t, filepath.Join(dir, n), "x")
	}
	open(t, dir)
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Fatalf("left %q, %v", left, err)
	}
}
