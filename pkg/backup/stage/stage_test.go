package stage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/isolate"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/snapshottest"
	"github.com/etcdadm/etcdadm/pkg/node/apply"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

// TestMain lets the tests read snapshots in processes of their own.
func TestMain(m *testing.M) {
	if code, ok := isolate.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

type stream []byte

func (s stream) Snapshot(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(s)), nil
}

// A world is a backup in a store, and what a node is to make of it.
type world struct {
	t        *testing.T
	store    *store.Store
	name     string
	o        apply.RestoreOptions
	reported int64
}

// newWorld has a backup of an etcd of a minor version, for a node of version.
func newWorld(t *testing.T, minor, version string, take func(*backup.TakeOptions)) *world {
	t.Helper()
	v := etcdversion.Must(version)
	bin := etcdtest.Binaries(t, version)
	w := &world{t: t}
	var err error
	if w.store, err = store.Open(t.Context(), "mem://"); err != nil {
		t.Fatal(err)
	}
	db := snapshottest.New(minor)
	for range 20 {
		db.Put("k", strings.Repeat("v", 1000), 0)
	}
	o := backup.TakeOptions{
		Source: stream(db.Snapshot(t)), Store: w.store, Info: backup.Info{EtcdVersion: etcdversion.Must(minor + ".0")},
	}
	if take != nil {
		take(&o)
	}
	b, err := backup.Take(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	w.name = b.Name
	dir := filepath.Join(t.TempDir(), "restore", "t2")
	w.o = apply.RestoreOptions{
		Name: "a", PeerURLs: []string{"http://127.0.0.1:2380"}, Bin: bin, Dir: dir, DataDir: filepath.Join(dir, "data"),
		Staged: cluster.Staged{
			Request: "r1", Backup: b.Name, Token: "t2", Version: v, Revision: 1_000_000_000,
			Voters: []cluster.InitialMember{
				{Name: "a", PeerURLs: []string{"http://127.0.0.1:2380"}}, {Name: "b", PeerURLs: []string{"http://127.0.0.1:2381"}},
			},
		},
		Progress: func(done, _ int64) { w.reported = done },
	}
	return w
}

// revision returns the revision of what was restored.
func (w *world) revision() cluster.Revision {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.o.DataDir, "member", "snap", "db"))
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := snapshot.Read(w.t.Context(), snapshottest.Write(w.t, b))
	if err != nil {
		w.t.Fatal(err)
	}
	if s.Digest {
		w.t.Error("the digest of the snapshot is still behind the database")
	}
	return s.Revision
}

func (w *world) refused(s Stager, want string) {
	w.t.Helper()
	err := s.Restore(w.t.Context(), w.o)
	if !errors.As(err, new(*apply.RefusedError)) || !strings.Contains(err.Error(), want) {
		w.t.Errorf("error %v, want a refusal with %q", err, want)
	}
}

func TestRestore(t *testing.T) {
	for _, v := range []struct{ of, on string }{
		{"3.5", "3.5.35"}, {"3.6", "3.6.16"}, {"3.7", "3.7.3"}, {"3.5", "3.6.16"}, {"3.6", "3.7.3"},
		{"3.5", "3.4.25"}, {"3.4", "3.4.25"}, {"3.5", "3.5.0"}, // by the tool of 3.5.35 first
	} {
		t.Run(v.of+" on "+v.on, func(t *testing.T) {
			w := newWorld(t, v.of, v.on, nil)
			w.o.Raiser = etcdtest.Binaries(t, "3.5.35")
			// What a killed restore left is not trusted.
			for _, junk := range []string{snapshotName, "data/member/wal/0.wal"} {
				path := filepath.Join(w.o.Dir, junk)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte("junk"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := (Stager{Store: w.store}).Restore(t.Context(), w.o); err != nil {
				t.Fatal(err)
			}
			if got := w.revision(); got != 1_000_000_000 {
				t.Errorf("it begins with revision %d", got)
			}
			if w.reported == 0 {
				t.Error("no progress was reported")
			}
			left, err := os.ReadDir(w.o.Dir)
			if err != nil || len(left) != 1 || left[0].Name() != "data" {
				t.Errorf("there is %v, %v", left, err)
			}
		})
	}
}

func TestWhatCannotBeRestoredIsRefused(t *testing.T) {
	t.Run("damaged", func(t *testing.T) {
		w := newWorld(t, "3.6", "3.6.16", nil)
		key := w.name + "/etcd.backup.gz"
		b, err := w.store.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := w.store.Put(t.Context(), key, b); err != nil {
			t.Fatal(err)
		}
		on := func(machine string) Stager { return Stager{Store: w.store, Machine: func() string { return machine }} }
		w.refused(on("m1"), "damaged")
		// One node may have bad memory: that another finds it too makes it count.
		damaged := func(want bool) {
			t.Helper()
			if list, err := w.store.Backups(t.Context()); err != nil || len(list) != 1 || list[0].Damaged != want {
				t.Errorf("the store has %+v, %v", list, err)
			}
		}
		damaged(false)
		w.refused(on("m1"), "damaged")
		damaged(false)
		// A witness is a machine, not a name.
		w.o.Name = "b"
		w.refused(on("m1"), "damaged")
		damaged(false)
		w.refused(on("m2"), "damaged")
		damaged(true)
	})
	t.Run("gone", func(t *testing.T) {
		w := newWorld(t, "3.6", "3.6.16", nil)
		if err := w.store.DeleteBackup(t.Context(), w.name); err != nil {
			t.Fatal(err)
		}
		w.refused(Stager{Store: w.store}, "absent")
	})
	t.Run("no signature", func(t *testing.T) {
		w := newWorld(t, "3.6", "3.6.16", nil)
		w.refused(Stager{Store: w.store, Fetch: backup.FetchOptions{RequireSignature: true}}, "signed")
	})
	t.Run("no key", func(t *testing.T) {
		to, err := backup.ParseRecipient("age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p")
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, "3.6", "3.6.16", func(o *backup.TakeOptions) { o.Recipients = []backup.Recipient{to} })
		w.refused(Stager{Store: w.store}, "encrypted")
	})
	t.Run("of a later etcd", func(t *testing.T) {
		w := newWorld(t, "3.7", "3.6.16", nil)
		w.refused(Stager{Store: w.store}, "cannot read")
	})
	t.Run("of a later etcd, by a tool that cannot raise", func(t *testing.T) {
		w := newWorld(t, "3.6", "3.4.25", nil)
		w.o.Raiser = etcdtest.Binaries(t, "3.5.35")
		w.refused(Stager{Store: w.store}, "cannot read")
	})
	t.Run("with a revision that was seen", func(t *testing.T) {
		w := newWorld(t, "3.6", "3.6.16", nil)
		w.o.Staged.Revision = 5
		w.refused(Stager{Store: w.store}, "the backup has revision")
	})
}

// What may go away is no refusal: it is tried again.
func TestATriedRestoreLeavesNoData(t *testing.T) {
	w := newWorld(t, "3.6", "3.6.16", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := (Stager{Store: w.store}).Restore(ctx, w.o)
	if err == nil || errors.As(err, new(*apply.RefusedError)) {
		t.Errorf("cancelled, it says %v", err)
	}
	none := newWorld(t, "3.5", "3.4.25", nil)
	if err := (Stager{Store: none.store}).Restore(t.Context(), none.o); err == nil ||
		errors.As(err, new(*apply.RefusedError)) || !strings.Contains(err.Error(), "cannot raise the revision") {
		t.Errorf("without a tool that raises the revision, it says %v", err)
	}
	w.o.Bin.Dir = t.TempDir()
	if err := (Stager{Store: w.store}).Restore(t.Context(), w.o); err == nil || errors.As(err, new(*apply.RefusedError)) {
		t.Errorf("without etcdutl it says %v", err)
	}
	if _, err := os.Stat(w.o.DataDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is data: %v", err)
	}
}
