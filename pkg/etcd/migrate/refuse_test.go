package migrate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

func TestARunningMember(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2.3.8", "3.3.27"} {
		m := old(t, version)
		putV2(t, m, "/k", "v", 0)
		_, _, err := Make(t.Context(), options(t, m), filepath.Join(t.TempDir(), "s"), fresh)
		if err == nil || !strings.Contains(err.Error(), "an etcd uses this directory: it holds") {
			t.Errorf("etcd %s: error is %v", version, err)
		}
		putV2(t, m, "/k", "it still takes writes", 0)
		m.Stop(t)
	}
}

func TestBinariesThatAreWrongOrMissing(t *testing.T) {
	t.Parallel()
	m := old(t, "2.3.8")
	putV2(t, m, "/k", "v", 0)
	m.Kill()
	only := func(dir string) etcdbin.Finder { return etcdbin.Finder{Dirs: []string{dir}, Opt: "/nonexistent"} }
	for _, c := range []struct {
		change func(o *Options)
		want   string
	}{
		{func(o *Options) { o.Finder = only(t.TempDir()) }, "no binary of it"},
		{func(o *Options) {
			dir := t.TempDir()
			if err := os.Symlink(etcdtest.Binaries(t, "3.3.27").Dir, filepath.Join(dir, "etcd-v2.3.8")); err != nil {
				t.Fatal(err)
			}
			o.Finder = only(dir)
		}, "is etcd 3.3.27, and not 2.3.8"},
		{func(o *Options) { o.Dir.Data = t.TempDir() }, "is not a data directory of etcd"},
		{func(o *Options) { o.Work = t.TempDir() }, "was not made by this command"},
		{func(o *Options) { o.Work = "/nonexistent/a/b" }, "free space of /nonexistent/a"},
	} {
		o := options(t, m)
		c.change(&o)
		if _, _, err := Make(t.Context(), o, filepath.Join(t.TempDir(), "s"), fresh); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v, want %s", err, c.want)
		}
	}
}

// One that was killed leaves its copy, which the next one removes; two at a time are one
// too many.
func TestInterruptedAndRunAgain(t *testing.T) {
	t.Parallel()
	m := old(t, "2.3.8")
	putV2(t, m, "/k", "v", 0)
	m.Stop(t)
	o := options(t, m)
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err := Make(ctx, o, filepath.Join(t.TempDir(), "s"), func(string) (bool, error) {
		cancel()
		return false, nil
	})
	if !errors.Is(err, context.Canceled) || exists(o.Work) {
		t.Errorf("error is %v", err)
	}
	w, err := claimWork(o.Work)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.Work, "data"), []byte("of the one that was killed"), 0o600); err != nil {
		t.Fatal(err)
	}
	var locked *RefusedError
	if _, _, err := Make(t.Context(), o, filepath.Join(t.TempDir(), "s"), fresh); !errors.As(err, &locked) ||
		!strings.Contains(err.Error(), "another migration is using") {
		t.Errorf("beside another: %v", err)
	}
	if err := w.lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	r, out := run(t, o)
	if r.V2Keys != 1 {
		t.Errorf("result is %+v", r)
	}
	same(t, restored(t, out), map[string]string{"/k": "v"}, nil)
	_, there, err := Make(t.Context(), o, filepath.Join(t.TempDir(), "s"), func(source string) (bool, error) {
		return source == r.Source, nil
	})
	if err != nil || !there {
		t.Errorf("the same data is not known again: %v", err)
	}
}

func TestNoRoom(t *testing.T) {
	free, err := hostfs.FreeBytes(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	for _, dir := range []string{"wal", "snap"} {
		if err := os.MkdirAll(filepath.Join(data, "member", dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// It takes no space.
	db := datadir.At(data).Database()
	if err := errors.Join(os.WriteFile(db, nil, 0o600), os.Truncate(db, free)); err != nil {
		t.Fatal(err)
	}
	o := Options{Work: filepath.Join(t.TempDir(), "work")}
	o.Dir.Data = data
	if _, err := o.room(); err == nil || !strings.Contains(err.Error(), "free, but the copy and the result need") {
		t.Errorf("error is %v", err)
	}
}
