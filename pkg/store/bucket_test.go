package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gocloud.dev/blob/memblob"

	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
)

// A bucket that fails is not an empty one, and a condition that fails for
// another reason than a taken key is not a lost race.
func TestBucketThatFails(t *testing.T) {
	b := memblob.OpenBucket(nil)
	s, ctx := New(b), t.Context()
	if err := s.Put(ctx, "a/b", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, pollErr := s.Poll(ctx)
	_, backupsErr := s.Backups(ctx)
	_, getErr := s.Get(ctx, "a/b")
	_, existsErr := s.Exists(ctx, "a/b")
	made, createErr := s.Create(ctx, "a/c", nil)
	_, openErr := s.Open(ctx, "a/b")
	for call, err := range map[string]error{
		"poll": pollErr, "backups": backupsErr, "get": getErr, "exists": existsErr, "create": createErr, "open": openErr,
		"put": s.Put(ctx, "a/b", nil), "delete": s.Delete(ctx, "a/b"), "delete backup": s.DeleteBackup(ctx, "a"),
		"spec": s.PutSpec(ctx, SpecFile{}), "history": s.AppendHistory(ctx, HistoryEntry{}),
		"node":    s.PutNode(ctx, NodeRecord{Name: "a"}),
		"created": s.MarkCreated(ctx, time.Now()), "status": s.PutStatus(ctx, []byte("{}")),
	} {
		if !errors.Is(err, ErrUnreachable) || errors.Is(err, ErrAbsent) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if made {
		t.Error("an object was created in a closed bucket")
	}
}

func TestBucketOfManyPages(t *testing.T) {
	b := memblob.OpenBucket(nil)
	s, ctx := New(b), t.Context()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const count = 1200
	for i := range count {
		name := retention.Name(at.Add(time.Duration(i)*time.Second), 1)
		for _, file := range []string{retention.DataFile, retention.MarkerFile} {
			if err := s.Put(ctx, name+"/"+file, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	// What a console leaves when somebody makes a "directory".
	if err := b.WriteAll(ctx, "control/", nil, nil); err != nil {
		t.Fatal(err)
	}
	before := s.Requests()
	all, err := s.Backups(ctx)
	if err != nil || len(all) != count {
		t.Errorf("%d backups, %v", len(all), err)
	}
	if n := s.Requests() - before; n != 3 {
		t.Errorf("a list of %d objects counts as %d requests", 2*count+1, n)
	}
	if v, err := s.Poll(ctx); err != nil || len(v.Problems) > 0 {
		t.Errorf("a poll shows %+v, %v", v, err)
	}
}

// deletions records the order in which objects are deleted.
type deletions struct {
	objects
	keys *[]string
	// broken is a key that cannot be deleted.
	broken string
}

func (d deletions) remove(ctx context.Context, key string) error {
	if key == d.broken {
		return fmt.Errorf("read-only")
	}
	*d.keys = append(*d.keys, key)
	return d.objects.remove(ctx, key)
}

// A deletion that stops anywhere never leaves a marker without data.
func TestTheMarkerIsDeletedFirst(t *testing.T) {
	const name = "2026-11-20T10:39:37Z-000001"
	files := []string{"A-first-in-order", retention.DataFile, retention.MarkerFile, "zzz"}
	for _, broken := range append(files, "none") {
		s, ctx := New(memblob.OpenBucket(nil)), t.Context()
		var keys []string
		s.objects = deletions{s.objects, &keys, name + "/" + broken}
		for _, file := range files {
			if err := s.Put(ctx, name+"/"+file, nil); err != nil {
				t.Fatal(err)
			}
		}
		err := s.DeleteBackup(ctx, name)
		if (err == nil) != (broken == "none") {
			t.Errorf("%s cannot be deleted: %v", broken, err)
		}
		if broken != retention.MarkerFile && keys[0] != name+"/"+retention.MarkerFile {
			t.Errorf("%s cannot be deleted: deleted in the order %v", broken, keys)
		}
		all, err := s.Backups(ctx)
		if err != nil {
			t.Fatal(err)
		}
		data, err := s.Exists(ctx, name+"/"+retention.DataFile)
		if err != nil || len(all) > 0 && !data {
			t.Errorf("%s cannot be deleted: left is a backup without data (%v)", broken, err)
		}
	}
}

func TestFields(t *testing.T) {
	f, err := parseFields("k",
		[]byte(`{"a":"1","b":2,"snake_case":"x","null":null,"object":{"c":1},"big":9223372036854775807,"bigger":9223372036854775808}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int64{"a": 1, "b": 2, "null": 0, "missing": 0, "big": 1<<63 - 1} {
		if n, err := f.integer(name); n != want || err != nil {
			t.Errorf("%s is %d, %v", name, n, err)
		}
	}
	if s, err := f.text("snakeCase"); s != "x" || err != nil {
		t.Errorf("a snake_case field is %q, %v", s, err)
	}
	_, _, object := f.object("a")
	_, tooBig := f.integer("bigger")
	_, notText := f.text("b")
	_, notNumber := f.count("object")
	_, tooBigForCount := f.count("big")
	for i, err := range []error{object, tooBig, notText, notNumber, tooBigForCount} {
		if !errors.Is(err, ErrGarbage) {
			t.Errorf("case %d: %v", i, err)
		}
	}
	for name, want := range map[string]bool{"object": true, "null": false, "missing": false} {
		if _, ok, err := f.object(name); ok != want || err != nil {
			t.Errorf("%s is an object: %t, %v", name, ok, err)
		}
	}
}

// Whatever is in the control objects, a poll answers, and never with a panic.
func FuzzPoll(f *testing.F) {
	f.Add([]byte(`{"timestamp":"1","restoreBackup":{"clusterSpec":{"memberCount":3},"backup":"b"}}`))
	f.Add([]byte(`{"number":1,"token":"x","version":"3.6.16","voters":["a=https://a:2380"]}`))
	f.Add([]byte(`{"name":"1","reason":"x","revision":12,"at":"2026-11-20T10:39:37Z"}`))
	f.Add([]byte(`{"name":"1","kind":"pause","at":"2026-11-20T10:39:37Z"}`))
	keys := []string{specKey, createdKey, "control/x/_command.json", "control/incarnations/1", "control/nodes/1",
		"control/requests/1", revisionKey, "control/closed/1"}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, ctx := New(memblob.OpenBucket(nil)), t.Context()
		for _, key := range keys {
			if err := s.Put(ctx, key, b); err != nil {
				t.Fatal(err)
			}
		}
		v, err := s.Poll(ctx)
		if err != nil {
			t.Fatal(err)
		}
		whole := len(v.Incarnations) + len(v.Nodes) + len(v.Requests) + len(v.Commands) + len(v.Closed)
		if v.Revision > 0 {
			whole++
		}
		if v.Spec != nil {
			whole++
		}
		// The marker counts as present when it is garbage too.
		if !slices.ContainsFunc(v.Problems, func(p string) bool { return strings.HasPrefix(p, createdKey) }) {
			whole++
		}
		if v.Created.IsZero() || whole+len(v.Problems) != len(keys) {
			t.Errorf("of %d objects %d are whole and the problems are %q", len(keys), whole, v.Problems)
		}
	})
}

func BenchmarkBackupsOfADirectory(b *testing.B) {
	s, err := Open(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 1000 {
		if err := s.Put(b.Context(), retention.Name(at.Add(time.Duration(i)*time.Second), 1)+"/"+retention.MarkerFile,
			nil); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := s.Backups(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
