// Package storetest holds what every kind of store must do, as tests.
package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A Fresh makes an empty place for a test, and returns what opens stores on it:
// each call another Store on the same content.
type Fresh func(t *testing.T) (open func() *store.Store)

// Run tests a kind of store.
func Run(t *testing.T, fresh Fresh) {
	for name, test := range map[string]func(*testing.T, func() *store.Store){
		"EmptyStore":         emptyStore,
		"Begins":             begins,
		"Objects":            objects,
		"Streams":            streams,
		"KeysStayInside":     keysStayInside,
		"Spec":               spec,
		"SpecGarbage":        specGarbage,
		"Created":            created,
		"Incarnations":       incarnations,
		"IncarnationRace":    incarnationRace,
		"Nodes":              nodes,
		"Requests":           requests,
		"Commands":           commands,
		"PutCommands":        putCommands,
		"PutCommandRace":     putCommandRace,
		"Revision":           revision,
		"Closed":             closed,
		"ClosedBound":        closedBound,
		"History":            history,
		"HistoryGarbage":     historyGarbage,
		"Audit":              audit,
		"AuditBound":         auditBound,
		"Orders":             orders,
		"Status":             status,
		"PollSeesChanges":    pollSeesChanges,
		"WatcherSeesChanges": watcher,
		"PollReportsDamage":  pollReportsDamage,
		"Backups":            backups,
		"DeleteBackup":       deleteBackup,
		"BackupStates":       backupStates,
		"NotBackups":         notBackups,
		"Leftovers":          leftovers,
		"CreateRace":         createRace,
		"LargeUpload":        largeUpload,
		"BrokenUpload":       brokenUpload,
		"ManyObjects":        manyObjects,
		"EndedContext":       endedContext,
	} {
		t.Run(name, func(t *testing.T) { test(t, fresh(t)) })
	}
}

var (
	at      = time.Date(2026, 11, 20, 10, 39, 37, 0, time.UTC)
	version = etcdversion.Must("3.6.16")
)

// incarnation returns a valid record.
func incarnation(n int, token string) cluster.Incarnation {
	return cluster.Incarnation{
		Number: n, Token: cluster.Token(token), Version: version, At: at, By: "a",
		Voters: []cluster.InitialMember{{Name: "a", PeerURLs: []string{"https://a:2380"}}},
	}
}

func put(t *testing.T, s *store.Store, key, text string) {
	t.Helper()
	must(t, s.Put(t.Context(), key, []byte(text)))
}

func get(t *testing.T, s *store.Store, key string) string {
	t.Helper()
	b, err := s.Get(t.Context(), key)
	must(t, err)
	return string(b)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// is fails the test unless err is of a kind.
func is(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error is %v, want one that is %q", err, kind)
	}
}

func poll(t *testing.T, s *store.Store) store.View {
	t.Helper()
	v, err := s.Poll(t.Context())
	must(t, err)
	return v
}

func emptyStore(t *testing.T, open func() *store.Store) {
	s, ctx := open(), t.Context()
	v := poll(t, s)
	if v.Spec != nil || v.SpecErr != nil || !v.Created.IsZero() || v.IncarnationsErr != nil ||
		len(v.Incarnations)+len(v.Nodes)+len(v.Requests)+len(v.Commands)+len(v.Problems) > 0 {
		t.Errorf("an empty store shows %+v", v)
	}
	_, err := s.Spec(ctx)
	is(t, err, store.ErrAbsent)
	_, err = s.Created(ctx)
	is(t, err, store.ErrAbsent)
	_, err = s.Status(ctx)
	is(t, err, store.ErrAbsent)
	_, err = s.Incarnation(ctx, 1)
	is(t, err, store.ErrAbsent)
	_, err = s.Open(ctx, "a/b")
	is(t, err, store.ErrAbsent)
	if h, err := s.History(ctx); err != nil || len(h) > 0 {
		t.Errorf("history is %v, %v", h, err)
	}
	if b, err := s.Backups(ctx); err != nil || len(b) > 0 {
		t.Errorf("backups are %v, %v", b, err)
	}
	begun(t, s, false)
	must(t, s.Delete(ctx, "a/b"))
	must(t, s.DeleteBackup(ctx, "2026-11-20T10:39:37Z-000001"))
	must(t, s.DeleteCommand(ctx, "nothing"))
	must(t, s.DeleteRequest(ctx, "nothing"))
}

// begun looks whether the store is taken for that of a cluster.
func begun(t *testing.T, s *store.Store, want bool) {
	t.Helper()
	if is, err := s.Begun(t.Context()); err != nil || is != want {
		t.Errorf("a cluster is said to have begun: %v, %v; want %v", is, err, want)
	}
}

// begins checks what makes a store one of a cluster.
func begins(t *testing.T, open func() *store.Store) {
	s, ctx := open(), t.Context()
	// What trying the store and announcing a change leave is nothing of a cluster, and
	// neither is the store of another one below it.
	for _, key := range []string{
		"README", "control/conditional-write", "control/changed", "control/audit/x", "main/control/etcd-cluster-spec",
		"main/2026-11-20T10:39:37Z-000001/etcd.backup.gz", "main/2026-11-20T10:39:37Z-000001/_etcd_backup.meta",
		"2026-11-20T10:39:37Z-000001/etcd.backup.gz",
	} {
		put(t, s, key, "x")
	}
	begun(t, s, false)
	put(t, s, "2026-11-20T10:39:37Z-000001/_etcd_backup.meta", "{}")
	begun(t, s, true)
	must(t, s.DeleteBackup(ctx, "2026-11-20T10:39:37Z-000001"))
	begun(t, s, false)
	for _, key := range []string{
		"control/etcd-cluster-spec", "control/etcd-cluster-created", "control/nodes/a", "control/status", "control/history",
	} {
		put(t, s, key, "x")
		begun(t, s, true)
		must(t, s.Delete(ctx, key))
	}
	begun(t, s, false)
}

func objects(t *testing.T, open func() *store.Store) {
	s, other, ctx := open(), open(), t.Context()
	put(t, s, "a/b", "one")
	put(t, s, "a/b", "two")
	if got := get(t, other, "a/b"); got != "two" {
		t.Errorf("another store reads %q", got)
	}
	if made, err := other.Create(ctx, "a/b", []byte("three")); made || err != nil {
		t.Errorf("created over a present object: %t, %v", made, err)
	}
	if made, err := other.Create(ctx, "a/c", nil); !made || err != nil {
		t.Errorf("did not create an empty object: %t, %v", made, err)
	}
	if got := get(t, s, "a/b") + get(t, s, "a/c"); got != "two" {
		t.Errorf("the objects hold %q", got)
	}
	for key, want := range map[string]bool{"a/b": true, "a/d": false, "a": false} {
		// A directory may be taken for an object that is garbage, not for one.
		if got, err := s.Exists(ctx, key); got != want || err != nil && !errors.Is(err, store.ErrGarbage) {
			t.Errorf("%s exists: %t, %v", key, got, err)
		}
	}
	must(t, s.Delete(ctx, "a/b"))
	_, err := other.Get(ctx, "a/b")
	is(t, err, store.ErrAbsent)
	must(t, s.Put(ctx, "large", make([]byte, 5<<20)))
	_, err = s.Get(ctx, "large")
	is(t, err, store.ErrGarbage)
	before := s.Requests()
	get(t, s, "a/c")
	if n := s.Requests() - before; n != 1 {
		t.Errorf("a read counts as %d requests", n)
	}
}

func keysStayInside(t *testing.T, open func() *store.Store) {
	s, ctx := open(), t.Context()
	for _, key := range []string{
		"", "/", "/etc/passwd", "a//b", "a/", "../a", "a/../b", ".", ".tmp-1", "a/.hidden", "a\\b", "a\x00b", "a\nb", "\xff",
		strings.Repeat("x", 256),
	} {
		_, getErr := s.Get(ctx, key)
		_, openErr := s.Open(ctx, key)
		_, existsErr := s.Exists(ctx, key)
		_, createErr := s.Create(ctx, key, nil)
		for _, err := range []error{getErr, openErr, existsErr, createErr, s.Put(ctx, key, nil), s.Delete(ctx, key)} {
			if err == nil || errors.Is(err, store.ErrAbsent) {
				t.Errorf("key %q is accepted: %v", key, err)
			}
		}
	}
	for _, name := range []string{"", ".", "..", "control", "a/b", "../x"} {
		if s.DeleteBackup(ctx, name) == nil {
			t.Errorf("a backup with the name %q is deleted", name)
		}
		if name != "control" && (s.DeleteCommand(ctx, name) == nil || s.DeleteRequest(ctx, name) == nil) {
			t.Errorf("a command or request with the name %q is deleted", name)
		}
	}
	if s.Requests() != 0 {
		t.Errorf("bad keys made %d requests", s.Requests())
	}
}

func backups(t *testing.T, open func() *store.Store) {
	s, ctx := open(), t.Context()
	for _, name := range []string{
		"2026-11-20T10:39:37Z-000001", "2026-11-20T10:39:37Z-000002",
		"2025-01-01T00:00:00Z-000009", "2026-11-20T12:00:00+02:00", "by-hand",
	} {
		put(t, s, name+"/"+retention.DataFile, "data")
		put(t, s, name+"/"+retention.MarkerFile, "{}")
	}
	put(t, s, "2026-11-19T00:00:00Z-000001/"+retention.DataFile, "no marker")
	put(t, s, "half/"+retention.DataFile, "no marker and no time")
	put(t, s, "control/etcd-cluster-spec", "{}")
	put(t, s, "deep/inside/"+retention.MarkerFile, "{}")
	put(t, s, retention.MarkerFile, "at the top")
	got, err := s.Backups(ctx)
	must(t, err)
	var names []string
	for _, b := range got {
		names = append(names, b.Name)
		want, err := retention.ParseName(b.Name)
		if err == nil && !b.At.Equal(want) || b.At.IsZero() {
			t.Errorf("backup %s is of %s", b.Name, b.At)
		}
	}
	// The one without a time in its name has been written just now.
	want := []string{"2026-11-20T10:39:37Z-000002", "2026-11-20T10:39:37Z-000001", "2026-11-20T12:00:00+02:00",
		"2025-01-01T00:00:00Z-000009"}
	if i := slices.Index(names, "by-hand"); i < 0 {
		t.Error("the backup without a time is missing")
	} else if names = slices.Delete(names, i, i+1); !slices.Equal(names, want) {
		t.Errorf("backups are %v, want %v", names, want)
	}
	later := time.Now().Add(time.Hour)
	if later.Before(at) {
		later = at.Add(time.Hour)
	}
	left, err := s.Leftovers(ctx, later)
	must(t, err)
	if !slices.Equal(left, []string{"2026-11-19T00:00:00Z-000001"}) {
		t.Errorf("leftovers are %v", left)
	}
	if left, err := s.Leftovers(ctx, time.Now().Add(-time.Hour)); err != nil || len(left) > 0 {
		t.Errorf("what was just written is left over: %v, %v", left, err)
	}
}

func deleteBackup(t *testing.T, open func() *store.Store) {
	s, ctx := open(), t.Context()
	const name, broken, other = "2026-11-20T10:39:37Z-000001", "2026-11-19T00:00:00Z-000001", "photos"
	for _, key := range []string{
		name + "/" + retention.DataFile, name + "/" + retention.MarkerFile, name + "/extra",
		broken + "/" + retention.DataFile, other + "/cat.jpg",
	} {
		put(t, s, key, "x")
	}
	has := func(name string, want bool) {
		t.Helper()
		if there, err := s.HasBackup(ctx, name); err != nil || there != want {
			t.Errorf("backup %s is there: %t, %v", name, there, err)
		}
	}
	has(name, true)
	has(broken, false)
	has("2026-11-18T00:00:00Z-000001", false)
	for _, n := range []string{name, broken} {
		must(t, s.DeleteBackup(ctx, n))
		must(t, s.DeleteBackup(ctx, n))
		for _, file := range []string{retention.DataFile, retention.MarkerFile, "extra"} {
			_, err := s.Get(ctx, n+"/"+file)
			is(t, err, store.ErrAbsent)
		}
	}
	has(name, false)
	if s.DeleteBackup(ctx, other) == nil || get(t, s, other+"/cat.jpg") != "x" {
		t.Error("something that is not a backup was deleted")
	}
}

func endedContext(t *testing.T, open func() *store.Store) {
	s := open()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, pollErr := s.Poll(ctx)
	_, getErr := s.Get(ctx, "a")
	_, openErr := s.Open(ctx, "a")
	_, backupsErr := s.Backups(ctx)
	_, createErr := s.Create(ctx, "a", nil)
	for i, err := range []error{
		pollErr, getErr, openErr, backupsErr, createErr, s.Put(ctx, "a", nil), s.Delete(ctx, "a"),
	} {
		// A call that is quicker than its check the context may succeed.
		if err != nil && !errors.Is(err, store.ErrAbsent) &&
			(!errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnreachable)) {
			t.Errorf("call %d with a cancelled context: %v", i, err)
		}
	}
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err := s.Poll(late)
	is(t, err, store.ErrUnreachable)
	is(t, err, context.DeadlineExceeded)
	must(t, s.Close(t.Context()))
}
