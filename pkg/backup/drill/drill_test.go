package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/snapshottest"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

func finder(t *testing.T) etcdbin.Finder {
	t.Helper()
	return etcdtest.Finder(t)
}

// scenario is a history with a bit of everything; leases in it end at once.
func scenario(minor string) *snapshottest.DB {
	d := snapshottest.New(minor)
	d.Lease(77, 600)
	d.Lease(78, 1)
	for i := range 300 {
		d.Put(fmt.Sprintf("/registry/pods/default/%d", i%70), fmt.Sprintf("value %d", i), int64(77*(i%2)))
	}
	d.Delete("/registry/pods/default/3", "/registry/pods/default/4")
	d.Put("/registry/masterleases/10.0.0.1", "x", 78)
	return d
}

// empty fails the test if anything is in a directory.
func empty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestTrials(t *testing.T) {
	t.Parallel()
	f := finder(t)
	histories := map[string]func(d *snapshottest.DB){
		"never compacted":                       func(*snapshottest.DB) {},
		"compacted":                             func(d *snapshottest.DB) { d.Compacted(100); d.Drop(2, 3, 4, 5) },
		"compacted to a deletion that is there": func(d *snapshottest.DB) { d.Compacted(302); d.Drop(2, 3, 4, 5) },
		"compaction not done": func(d *snapshottest.DB) {
			d.Compacted(50)
			d.Values["meta"]["finishedCompactRev"] = "\x00\x00\x00\x00\x00\x00\x00\x02_\x00\x00\x00\x00\x00\x00\x00\x00"
		},
		"raised": func(d *snapshottest.DB) { d.Bump(1000) },
		"raised twice, then changed": func(d *snapshottest.DB) {
			d.Bump(1000)
			d.Put("/x", "y", 0)
			d.Bump(10)
			d.Put("/x", "z", 0)
		},
		"with users":              func(d *snapshottest.DB) { d.Values["auth"]["authEnabled"] = "\x01" },
		"several in one revision": func(d *snapshottest.DB) { d.PutAt(1, "/y", "z", 0); d.PutAt(2, "/z", "z", 0) },
	}
	for version, minor := range map[string]string{"3.5.35": "3.5", "3.6.16": "3.6", "3.7.3": "3.7"} {
		for name, change := range histories {
			t.Run(version+" "+name, func(t *testing.T) {
				t.Parallel()
				d := scenario(minor)
				change(d)
				dir := t.TempDir()
				r, err := Trial{File: d.File(t), Version: etcdversion.Must(version), Finder: f, TempDir: dir}.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if r.Etcd.String() != version || int64(r.Revision) != d.Revision || r.Keys != int64(d.Keys()) || r.Restore <= 0 ||
					r.Start <= 0 || r.Disk == 0 || r.Memory < 1<<20 {
					t.Errorf("%+v", r)
				}
				// After a raise etcd compacts when it starts, and answers the hash of that.
				if !r.HashCompared && !strings.HasPrefix(name, "raised") {
					t.Error("the hash was not compared")
				}
				empty(t, dir)
			})
		}
	}
}

// A raw database, whose version is not said, is restored by what it says of
// itself.
func TestATrialOfARawDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := scenario("3.6")
	r, err := Trial{File: snapshottest.Write(t, d.Database(t)), Finder: finder(t), TempDir: dir}.Run(t.Context())
	if err != nil || r.Etcd.Minor != 6 || r.Keys != int64(d.Keys()) {
		t.Errorf("%+v, %v", r, err)
	}
	empty(t, dir)
}

func TestTrialsThatFail(t *testing.T) {
	t.Parallel()
	f := finder(t)
	good := scenario("3.6").File(t)
	// etcd's tool restores it, and etcd does not start on it.
	odd := scenario("3.6")
	odd.Values["meta"]["storageVersion"] = "3.9.0"
	for name, tc := range map[string]struct {
		trial   Trial
		damaged bool
		want    string
	}{
		"damaged": {Trial{File: snapshottest.Write(t, []byte("nonsense")), Finder: f}, true, "8 bytes"},
		"no such etcd": {Trial{File: good, Finder: f, Version: etcdversion.Must("3.9.1")}, false,
			"of etcd 3.9.1, but neither"},
		"no etcd":         {Trial{File: good, Finder: etcdbin.Finder{Opt: t.TempDir()}}, false, "neither that minor version"},
		"no version":      {Trial{File: versionless(t), Finder: f}, false, "its etcd version is unknown; name it"},
		"no room":         {Trial{File: huge(t), Finder: f}, true, ""},
		"no directory":    {Trial{File: good, Finder: f, TempDir: "/nonexistent"}, false, "/nonexistent"},
		"etcd dies of it": {Trial{File: odd.File(t), Finder: f, Version: etcdversion.Must("3.6.16")}, false, "etcd ended"},
		"no time":         {Trial{File: good, Finder: f, StartTimeout: time.Millisecond}, false, "did not serve in time"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tc.trial.TempDir == "" {
				tc.trial.TempDir = dir
			}
			_, err := tc.trial.Run(t.Context())
			if err == nil || errors.Is(err, snapshot.ErrDamaged) != tc.damaged || !strings.Contains(err.Error(), tc.want) {
				t.Error(err)
			}
			empty(t, dir)
		})
	}
}

func versionless(t *testing.T) string {
	d := scenario("3.5")
	d.Values["cluster"] = nil
	return d.File(t)
}

// huge returns a file that claims to be large, and is not.
func huge(t *testing.T) string {
	path := snapshottest.Write(t, nil)
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Skip(err)
	}
	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	return path
}

// A trial that is broken off ends its etcd and removes everything.
func TestATrialEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := finder(t)
	for _, stage := range []string{"restore it", "start etcd on it", "compare its content"} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Trial{File: scenario("3.6").File(t), Finder: f, TempDir: dir, Progress: func(s string) {
			if s == stage {
				cancel()
			}
		}}.Run(ctx)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", stage, err)
		}
		empty(t, dir)
	}
}

// storeWith makes a store with one backup, named when.
const when = "2026-11-20T10:39:37Z-000001"

func storeWith(t *testing.T, version string, content []byte) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	put(t, s, retention.DataFile, zipped(t, content))
	put(t, s, retention.MarkerFile, []byte(`{"etcdVersion":"`+version+`"}`))
	return s
}

func put(t *testing.T, s *store.Store, file string, b []byte) {
	t.Helper()
	if err := s.Put(t.Context(), when+"/"+file, b); err != nil {
		t.Fatal(err)
	}
}

func record[T any](t *testing.T, s *store.Store, file string) (v T, there bool) {
	t.Helper()
	b, err := s.Get(t.Context(), when+"/"+file)
	if errors.Is(err, store.ErrAbsent) {
		return v, false
	}
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v, true
}

func TestVerify(t *testing.T) {
	d := scenario("3.6")
	s := storeWith(t, "3.6.16", d.Snapshot(t))
	dir, stages := t.TempDir(), map[string]bool{}
	v, err := Verify(t.Context(), s, when, Options{
		TempDir: dir, By: "ann@host", Tool: "test 1", Progress: func(stage string, _, _ int64) { stages[stage] = true },
	})
	if err != nil || v.Keys != int64(d.Keys()) || int64(v.Revision) != d.Revision || v.Name != when || v.Size == 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if got, ok := record[Verified](t, s, retention.VerifiedFile); !ok || got.By != "ann@host" || got.Tool != "test 1" ||
		got.Revision != v.Revision || got.At.IsZero() {
		t.Errorf("the record is %+v, %t", got, ok)
	}
	if !stages["fetch"] || !stages["read the whole database"] {
		t.Errorf("the stages were %v", stages)
	}
	all, err := s.Backups(t.Context())
	if err != nil || all[0].Verified.IsZero() || all[0].Damaged {
		t.Errorf("%+v, %v", all, err)
	}
	empty(t, dir)
}

func TestDamageIsRecorded(t *testing.T) {
	good := scenario("3.6").Snapshot(t)
	broken := append([]byte(nil), good...)
	broken[5000] ^= 1
	// A right digest over what is no database of etcd.
	odd := scenario("3.6")
	odd.Raw(9999, []byte("\x0a\x7f"))
	for name, content := range map[string][]byte{
		"one bit": broken, "cut off": good[:len(good)-4096], "no entry": odd.Snapshot(t),
	} {
		t.Run(name, func(t *testing.T) {
			s := storeWith(t, "3.6.16", content)
			dir := t.TempDir()
			find := func(machine string, declareDamaged bool) error {
				_, err := Verify(t.Context(), s, when, Options{
					TempDir: dir, By: "ann@host", Machine: machine, MarkDamaged: declareDamaged,
				})
				if !errors.Is(err, backup.ErrDamaged) {
					t.Fatal(err)
				}
				return err
			}
			// One machine, as often as it likes, makes it suspect for all.
			err := find("m1", false)
			_ = find("m1", false)
			got, ok := record[backup.Finding](t, s, retention.SuspectFile)
			if !ok || got.Error != err.Error() || got.By != "ann@host" || got.Machine != "m1" || got.Name != when {
				t.Errorf("the record is %+v, %t", got, ok)
			}
			state := func(suspect, damaged bool) {
				t.Helper()
				if all, err := s.Backups(t.Context()); err != nil || len(all) != 1 || all[0].Suspect != suspect ||
					all[0].Damaged != damaged {
					t.Errorf("the store has %+v, %v", all, err)
				}
			}
			state(true, false)
			_ = find("m2", false)
			state(false, true)
			must(t, s.Delete(t.Context(), when+"/"+retention.DamagedFile))
			must(t, s.Delete(t.Context(), when+"/"+retention.SuspectFile))
			// The operator's word needs no second one.
			_ = find("m1", true)
			state(false, true)
			if _, ok := record[Verified](t, s, retention.VerifiedFile); ok {
				t.Error("it is recorded as verified")
			}
			empty(t, dir)
		})
	}
}

// What is not the backup's fault does not make it damaged.
func TestFailuresAreNotRecorded(t *testing.T) {
	s := storeWith(t, "3.6.16", scenario("3.6").Snapshot(t))
	if _, err := Verify(t.Context(), s, when, Options{TempDir: "/nonexistent"}); err == nil ||
		errors.Is(err, backup.ErrDamaged) {
		t.Error(err)
	}
	if _, err := Verify(t.Context(), s, "2026-11-20T10:39:37Z-000009", Options{}); !errors.Is(err, store.ErrAbsent) {
		t.Error(err)
	}
	if _, err := Verify(t.Context(), s, when, Options{Fetch: backup.FetchOptions{RequireSignature: true}}); !errors.Is(err,
		backup.ErrSigner) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Verify(ctx, s, when, Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := Drill(t.Context(), s, when, Options{Finder: etcdbin.Finder{Opt: t.TempDir()}}); !errors.As(err,
		new(*VersionError)) {
		t.Error(err)
	}
	if got, ok := record[backup.Finding](t, s, retention.SuspectFile); ok {
		t.Errorf("there is the record %+v", got)
	}
}

// denying refuses to take a record.
type denying struct{ *store.Store }

func (denying) Put(context.Context, string, []byte) error { return store.ErrDenied }

func TestAStoreThatDeniesRecords(t *testing.T) {
	s := storeWith(t, "3.6.16", scenario("3.6").Snapshot(t))
	var reported error
	v, err := Verify(t.Context(), denying{s}, when, Options{
		TempDir: t.TempDir(), Unrecorded: func(err error) { reported = err },
	})
	if err != nil || v.Keys == 0 || !errors.Is(reported, store.ErrDenied) {
		t.Errorf("%+v, %v, reported %v", v, err, reported)
	}
}

func TestDrill(t *testing.T) {
	t.Parallel()
	f := finder(t)
	d := scenario("3.6")
	// A patch that is not here.
	s := storeWith(t, "3.6.3", d.Snapshot(t))
	dir := t.TempDir()
	r, err := Drill(t.Context(), s, when, Options{TempDir: dir, Finder: f, By: "ann@host"})
	if err != nil || r.Version != etcdversion.Must("3.6.16") || !r.HashCompared || r.Keys != int64(d.Keys()) ||
		r.Took != r.Fetch+r.Restore+r.Start || r.Fetch <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
	got, ok := record[Drilled](t, s, retention.DrilledFile)
	if !ok || got.Version != r.Version || got.By != "ann@host" || got.Took == 0 {
		t.Errorf("the record is %+v, %t", got, ok)
	}
	all, err := s.Backups(t.Context())
	if err != nil || all[0].Drilled.IsZero() {
		t.Errorf("%+v, %v", all, err)
	}
	empty(t, dir)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
