package etcdutl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func find(t *testing.T, bin etcdbin.Binaries) Tool {
	t.Helper()
	tool, err := Find(t.Context(), bin.Dir, bin.Version)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

// save returns a file with a snapshot of a cluster in which "k" is "v", and
// its status.
func save(t *testing.T, bin etcdbin.Binaries) (string, snapshot.Status) {
	t.Helper()
	c := etcdtest.Serve(t, bin)
	for i := range 10 {
		if _, err := c.Put(t.Context(), fmt.Sprint("key-", i), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Delete(t.Context(), "key-3"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s.db")
	source, err := etcdclient.Open(etcdclient.Options{Endpoints: c.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	if _, err := snapshot.Save(t.Context(), snapshot.SaveOptions{Source: source, Path: path}); err != nil {
		t.Fatal(err)
	}
	s, err := snapshot.Read(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return path, s
}

// What this project reads out of a file is what etcd's own tool does.
func TestBothReadTheSame(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		file, ours := save(t, bin)
		theirs, err := find(t, bin).Status(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		if ours.Revision != 13 || ours.Keys != 10 || !ours.Digest || ours.Size != theirs.TotalSize+32 ||
			ours.Revision != theirs.Revision {
			t.Errorf("we read %+v, the tool %+v", ours, theirs)
		}
		if bin.Version.AtLeast(3, 6) && (ours.Keys != theirs.TotalKey || ours.StorageVersion.String() != theirs.Version) {
			t.Errorf("we read %+v, the tool %+v", ours, theirs)
		}
		if v := bin.Version; ours.ClusterVersion.Major != v.Major || ours.ClusterVersion.Minor != v.Minor {
			t.Errorf("the cluster's version is %s", ours.ClusterVersion)
		}
	})
}

// A restored member has the data and a later revision, and runs.
func TestRestore(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		file, s := save(t, bin)
		for _, tc := range []struct {
			name string
			bump uint64
			// before makes the data directory.
			before func(dir string) error
		}{
			{"plain", 0, func(string) error { return nil }},
			{"bumped", 1000, func(string) error { return nil }},
			{"into an empty directory", 0, func(dir string) error { return os.Mkdir(dir, 0o750) }},
			{"onto a new disk", 0, func(dir string) error { return os.MkdirAll(filepath.Join(dir, "lost+found"), 0o750) }},
			{"after a crash", 0, func(dir string) error { return os.MkdirAll(dir+".restore/data/member", 0o700) }},
			{"after a crash in the directory", 0, func(dir string) error {
				return os.MkdirAll(dir+"/.restore/data/member", 0o700)
			}},
		} {
			t.Run(tc.name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "data")
				if err := tc.before(dir); err != nil {
					t.Fatal(err)
				}
				m := etcdtest.New(t, "a")
				m.DataDir = dir
				o := RestoreOptions{Snapshot: file, DataDir: dir + "/", Name: "a", PeerURLs: []string{m.PeerURL}, Token: "tok",
					BumpRevision: tc.bump}
				if err := find(t, bin).Restore(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				for _, left := range []string{dir + ".restore", dir + "/.restore"} {
					if _, err := os.Stat(left); err == nil {
						t.Errorf("%s is left", left)
					}
				}
				m.Start(t, bin)
				c := etcdtest.Dial(t, m)
				etcdtest.AwaitRead(t, c)
				r, err := c.Get(t.Context(), "k")
				if err != nil || len(r.Kvs) != 1 || string(r.Kvs[0].Value) != "v" {
					t.Fatalf("the key is %v, %v", r, err)
				}
				if want := int64(s.Revision) + int64(tc.bump); r.Header.Revision != want {
					t.Errorf("the revision is %d, want %d", r.Header.Revision, want)
				}
			})
		}
	})
}

// A directory of another user is that user's with all that is put into it.
func TestTheOwnerOfTheDirectoryOwnsTheData(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(data, 12345, 54321); err != nil {
		t.Skipf("cannot give a directory away: %v", err)
	}
	script(t, dir, "etcdutl", `mkdir -p "${4#--data-dir=}/member/snap"; echo > "${4#--data-dir=}/member/snap/db"`)
	if err := (Tool{Path: filepath.Join(dir, "etcdutl")}).Restore(t.Context(), RestoreOptions{DataDir: data}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "member", "member/snap", "member/snap/db"} {
		st, err := os.Stat(filepath.Join(data, name))
		if err != nil {
			t.Fatal(err)
		}
		if owner := st.Sys().(*syscall.Stat_t); owner.Uid != 12345 || owner.Gid != 54321 {
			t.Errorf("%s belongs to %d:%d", name, owner.Uid, owner.Gid)
		}
	}
}

// A mount point cannot be renamed over.
func TestRestoreOntoAMountPoint(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		file, _ := save(t, bin)
		dir := t.TempDir()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256m"); err != nil {
			t.Skipf("cannot mount: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
		if err := find(t, bin).Restore(t.Context(), RestoreOptions{
			Snapshot: file, DataDir: dir, Name: "a", PeerURLs: []string{"http://127.0.0.1:1"},
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "member", "snap", "db")); err != nil {
			t.Error(err)
		}
	})
}

func TestRestoresThatFailLeaveNothing(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		tool := find(t, bin)
		file, _ := save(t, bin)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		raw := filepath.Join(t.TempDir(), "db")
		if err := os.WriteFile(raw, b[:len(b)-32], 0o600); err != nil {
			t.Fatal(err)
		}
		for name, tc := range map[string]struct {
			o    RestoreOptions
			want string
		}{
			"no file": {
				RestoreOptions{Snapshot: raw + "x", Name: "a", PeerURLs: []string{"http://127.0.0.1:1"}}, "no such file",
			},
			"no digest": {
				RestoreOptions{Snapshot: raw, Name: "a", PeerURLs: []string{"http://127.0.0.1:1"}}, "--skip-hash-check",
			},
			"not in the cluster": {
				RestoreOptions{Snapshot: file, Name: "a", PeerURLs: []string{"http://127.0.0.1:1"},
					InitialCluster: "b=http://127.0.0.1:1"}, "",
			},
			"another peer address": {
				RestoreOptions{Snapshot: file, Name: "a", PeerURLs: []string{"http://127.0.0.1:1"},
					InitialCluster: "a=http://127.0.0.1:2"}, "",
			},
		} {
			parent := t.TempDir()
			tc.o.DataDir = filepath.Join(parent, "data")
			err := tool.Restore(t.Context(), tc.o)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), tc.o.DataDir) {
				t.Errorf("%s: %v", name, err)
			}
			if left, _ := os.ReadDir(parent); len(left) > 0 {
				t.Errorf("%s: %v is left", name, left)
			}
		}
		parent := t.TempDir()
		o := RestoreOptions{Snapshot: raw, SkipHashCheck: true, DataDir: filepath.Join(parent, "deep", "data"), Name: "a",
			PeerURLs: []string{"http://127.0.0.1:1"}}
		if err := tool.Restore(t.Context(), o); err != nil {
			t.Errorf("a copied database: %v", err)
		}
	})
}

func TestDataDirectoriesInUse(t *testing.T) {
	dir := t.TempDir()
	if err := Free(dir); err != nil {
		t.Error(err)
	}
	if err := Free(filepath.Join(dir, "none")); err != nil {
		t.Error(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	var used *NotEmptyError
	err := Tool{Path: "/bin/false"}.Restore(t.Context(), RestoreOptions{DataDir: dir})
	if !errors.As(err, &used) || used.Entry != "member" || used.Dir != dir ||
		!strings.Contains(err.Error(), "not empty: it has member") {
		t.Error(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Free(file); !errors.Is(err, syscall.ENOTDIR) {
		t.Error(err)
	}
}

// script is a tool that is a shell script.
func script(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestTheRightTool(t *testing.T) {
	v34, v35, v36 := etcdversion.Must("3.4.39"), etcdversion.Must("3.5.21"), etcdversion.Must("3.6.16")
	const utl, ctl = `[ "$1" = version ] && echo "etcdutl version: 3.6.16"; exit 0`,
		`[ "$1" = version ] && echo "etcdctl version: 3.5.21"; exit 0`
	old := strings.ReplaceAll(ctl, "3.5.21", "3.4.39") + "\n"
	for name, tc := range map[string]struct {
		scripts map[string]string
		version etcdversion.Version
		want    string // a part of the path, or of the error
		err     any
	}{
		"etcdutl": {map[string]string{"etcdutl": utl, "etcdctl": ctl}, v36, "/etcdutl", nil},
		"none":    {nil, v36, "no executable file etcdutl in", new(*MissingError)},
		"etcdctl cannot from 3.6": {
			map[string]string{"etcdctl": ctl}, v36, "no executable file etcdutl in", new(*MissingError),
		},
		"etcdctl of 3.5":  {map[string]string{"etcdctl": ctl}, v35, "/etcdctl", nil},
		"etcdctl of 3.4":  {map[string]string{"etcdctl": old, "etcdutl": utl}, v34, "/etcdctl", nil},
		"nothing for 3.5": {nil, v35, "no executable file etcdutl or etcdctl in", new(*MissingError)},
		"another minor": {
			map[string]string{"etcdutl": utl}, v35,
			"has version 3.6.16; a snapshot for etcd 3.5.21 is restored by the tool of 3.5", new(*VersionError),
		},
		"something else": {map[string]string{"etcdutl": "echo hello"}, v36, `it printed "hello"`, nil},
		"a version that is none": {
			map[string]string{"etcdutl": "echo 'etcdutl version: new'"}, v36, "not of the form", nil,
		},
		"one that fails": {
			map[string]string{"etcdutl": "echo 'Error: out of luck' >&2; exit 1"}, v36, "out of luck (exit status 1)", nil,
		},
		"one that fails without word": {map[string]string{"etcdutl": "exit 3"}, v36, "exit status 3", nil},
		"one that fails in many words": {map[string]string{
			"etcdutl": "for i in 1 2 3 4 5; do echo line $i; done >&2; exit 1",
		}, v36,
			"exit status 1: line 3; line 4; line 5", nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for n, text := range tc.scripts {
				script(t, dir, n, text)
			}
			tool, err := Find(t.Context(), dir, tc.version)
			if got := fmt.Sprint(tool.Path, " ", err); !strings.Contains(got, tc.want) {
				t.Errorf("it is %s, want %q in it", got, tc.want)
			}
			if tc.err == nil {
				return
			}
			var hinted interface{ Hint() string }
			if !errors.As(err, tc.err) || !errors.As(err, &hinted) ||
				!strings.Contains(hinted.Hint(), "etcdadm download --version="+tc.version.String()) {
				t.Errorf("the error is a %T", err)
			}
		})
	}
}

func TestATooOldToolDoesNotBump(t *testing.T) {
	dir := t.TempDir()
	script(t, dir, "etcdctl", `
if [ "$1" = version ]; then echo "etcdctl version: 3.4.20"; exit; fi
case "$*" in *--help*) echo --data-dir; exit;; esac
echo "API=$ETCDCTL_API $*" > `+dir+`/called
mkdir -p "${4#--data-dir=}/member"`)
	tool, err := Find(t.Context(), dir, etcdversion.Must("3.4.20"))
	if err != nil || tool.Bumps {
		t.Fatalf("%+v, %v", tool, err)
	}
	o := RestoreOptions{Snapshot: "/s", DataDir: filepath.Join(dir, "data"), Name: "a", PeerURLs: []string{
		"http://h:1", "http://i:2",
	}, BumpRevision: 1}
	if err := tool.Restore(t.Context(), o); err == nil || !strings.Contains(err.Error(), "3.5.10") {
		t.Error(err)
	}
	o.BumpRevision = 0
	if err := tool.Restore(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	called, err := os.ReadFile(filepath.Join(dir, "called"))
	want := "API=3 snapshot restore /s --data-dir=" + o.DataDir + ".restore/data --name=a" +
		" --initial-advertise-peer-urls=http://h:1,http://i:2 --initial-cluster=a=http://h:1,a=http://i:2\n"
	if string(called) != want || err != nil {
		t.Errorf("it was called with\n%swant\n%s", called, want)
	}
}

func TestAllOptionsReachTheTool(t *testing.T) {
	got := RestoreOptions{
		Snapshot: "/s", SkipHashCheck: true, DataDir: "/d", Name: "a", PeerURLs: []string{"http://h:1"},
		InitialCluster: "a=http://h:1,b=http://i:1", Token: "tok", BumpRevision: 7,
	}.args("/d.restore/data")
	want := []string{
		"snapshot", "restore", "/s", "--data-dir=/d.restore/data", "--name=a", "--initial-advertise-peer-urls=http://h:1",
		"--initial-cluster=a=http://h:1,b=http://i:1", "--initial-cluster-token=tok", "--skip-hash-check",
		"--bump-revision=7", "--mark-compacted",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the arguments are\n%q, want\n%q", got, want)
	}
}

func TestAToolThatHangsEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	script(t, dir, "etcdutl", "exec sleep 60")
	tool := Tool{Path: filepath.Join(dir, "etcdutl")}
	testwait.InTime(t, "a tool that hangs", 5*time.Second, func() {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := tool.Restore(ctx, RestoreOptions{
			DataDir: filepath.Join(dir, "data"), Name: cluster.NodeName("a"),
		}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, err := tool.Status(ctx, "/s"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	if _, err := os.Stat(filepath.Join(dir, "data.restore")); err == nil {
		t.Error("the temporary directory is left")
	}
}

// A tool that says that it succeeded and made nothing is not believed.
func TestAToolThatMakesNothing(t *testing.T) {
	dir := t.TempDir()
	script(t, dir, "etcdutl", "exit 0")
	if err := (Tool{Path: filepath.Join(dir, "etcdutl")}).Restore(t.Context(), RestoreOptions{
		DataDir: filepath.Join(dir, "data"),
	}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := (Tool{Path: filepath.Join(dir, "etcdutl")}).Status(t.Context(), "/s"); err == nil {
		t.Error("nothing is a status")
	}
}

func TestThePlaceIsTakenMeanwhile(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	script(t, dir, "etcdutl", `mkdir -p "${4#--data-dir=}/member" `+data+`/member`)
	err := Tool{Path: filepath.Join(dir, "etcdutl")}.Restore(t.Context(), RestoreOptions{Snapshot: "/s", DataDir: data})
	if !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EEXIST) {
		t.Error(err)
	}
}

// The tool ends with this process, and not with one of its threads, which end
// wherever a goroutine is locked to one, as in a drill beside a restore.
func TestTheToolOutlivesThreads(t *testing.T) {
	dir := t.TempDir()
	over := filepath.Join(dir, "over")
	script(t, dir, "etcdutl", `while ! [ -e `+over+` ]; do sleep 0.01; done`)
	var runs, threads sync.WaitGroup
	for range 4 {
		runs.Go(func() {
			if _, err := (Tool{Path: filepath.Join(dir, "etcdutl")}).run(t.Context()); err != nil {
				t.Error(err)
			}
		})
		for range 64 {
			threads.Go(func() { runtime.LockOSThread() }) // and never unlock it
		}
		threads.Wait()
	}
	if err := os.WriteFile(over, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	runs.Wait()
}
