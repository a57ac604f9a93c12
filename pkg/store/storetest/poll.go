package storetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/store"
)

func streams(t *testing.T, open func() *store.Store) {
	s, ctx := open(), t.Context()
	content := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	if made, err := s.Upload(ctx, "b/data", bytes.NewReader(content)); !made || err != nil {
		t.Fatalf("upload: %t, %v", made, err)
	}
	r, err := s.Open(ctx, "b/data")
	must(t, err)
	got, err := io.ReadAll(r)
	must(t, err)
	must(t, r.Close())
	if !bytes.Equal(got, content) {
		t.Errorf("read %d bytes, not the %d written", len(got), len(content))
	}
	if made, err := s.Upload(ctx, "b/data", strings.NewReader("other")); made || err != nil {
		t.Errorf("uploaded over a present object: %t, %v", made, err)
	}
	lost := errors.New("connection lost")
	_, err = s.Upload(ctx, "b/broken", io.MultiReader(bytes.NewReader(content), iotest.ErrReader(lost)))
	is(t, err, lost)
	if errors.Is(err, store.ErrUnreachable) {
		t.Errorf("the reader's failure is blamed on the store: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	_, err = s.Upload(ended, "b/cancelled", io.MultiReader(bytes.NewReader(content), readerFunc(func([]byte) (int, error) {
		cancel()
		return 0, nil
	}), bytes.NewReader(content)))
	is(t, err, context.Canceled)
	for _, key := range []string{"b/broken", "b/cancelled"} {
		_, err := s.Get(ctx, key)
		is(t, err, store.ErrAbsent)
	}
	// Readers that are given up, by closing and by their context, free their place.
	for range 10 {
		part, stop := context.WithCancel(ctx)
		r, err := s.Open(part, "b/data")
		must(t, err)
		_, err = io.ReadFull(r, make([]byte, 10))
		must(t, err)
		stop()
		_, err = io.Copy(io.Discard, r)
		is(t, err, context.Canceled)
		must(t, r.Close())
	}
	must(t, s.Close(ctx))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func pollSeesChanges(t *testing.T, open func() *store.Store) {
	s, other, ctx := open(), open(), t.Context()
	poll(t, s)
	// Changes of the same size, one after the other: many within one tick of the
	// clock that gives the objects their times.
	for i := range 300 {
		v := store.SpecFile{MemberCount: 1 + i%7, EtcdVersion: version}
		must(t, other.PutSpec(ctx, v))
		if got := poll(t, s); got.Spec == nil || *got.Spec != v {
			t.Fatalf("change %d: a poll shows %+v, want %+v", i, got.Spec, v)
		}
	}
	must(t, other.Delete(ctx, specKey))
	if got := poll(t, s); got.Spec != nil {
		t.Errorf("a deleted spec is shown: %+v", got.Spec)
	}
	put(t, other, "control/history", "not polled")
	put(t, other, "control/some/thing/else", "not polled")
	before := s.Requests()
	poll(t, s)
	if n := s.Requests() - before; n != 1 {
		t.Errorf("a poll of nothing made %d requests", n)
	}
}

func pollReportsDamage(t *testing.T, open func() *store.Store) {
	s, ctx := open(), t.Context()
	must(t, s.CreateIncarnation(ctx, incarnation(1, "one")))
	must(t, s.PutNode(ctx, store.NodeRecord{Name: "a", At: at}))
	_, err := s.PutRequest(ctx, cluster.Request{Name: "ok", Kind: cluster.RequestPause, At: at})
	must(t, err)
	damaged := map[string]string{
		"control/incarnations/2":    `{"number":1,"token":"copied","version":"3.6.16","voters":["a=https://a:2380"]}`,
		"control/incarnations/3":    "",
		"control/incarnations/4":    `{"number":4,"token":"","version":"3.6.16","voters":["a=https://a:2380"]}`,
		"control/incarnations/5":    `{"number":5,"token":"x","voters":["a=https://a:2380"]}`,
		"control/incarnations/6":    `{"number":6,"token":"x","version":"3.6.16","voters":"a"}`,
		"control/incarnations/01":   `{"number":1,"token":"x","version":"3.6.16","voters":["a=https://a:2380"]}`,
		"control/incarnations/1old": "{}",
		"control/nodes/b":           `{"name":"a"}`,
		"control/nodes/c":           "<html>",
		"control/nodes/large":       strings.Repeat("x", 5<<20),
		"control/requests/r1":       `{"name":"r1","kind":"dance","at":"2026-11-20T10:39:37Z"}`,
		"control/requests/r2":       `{"name":"other","kind":"pause","at":"2026-11-20T10:39:37Z"}`,
		"control/requests/r3":       `{"name":"r3","kind":"pause"}`,
		"control/requests/r4":       "[]",
	}
	for key, text := range damaged {
		put(t, s, key, text)
	}
	for range 2 {
		v := poll(t, s)
		if len(v.Incarnations) != 1 || len(v.Nodes) != 1 || len(v.Requests) != 1 {
			t.Errorf("damage hides what is whole: %+v", v)
		}
		for key := range damaged {
			if !slices.ContainsFunc(v.Problems, func(p string) bool { return strings.Contains(p, key+":") }) {
				t.Errorf("no problem names %s", key)
			}
		}
		if len(v.Problems) != len(damaged) {
			t.Errorf("%d problems for %d damaged objects: %q", len(v.Problems), len(damaged), v.Problems)
		}
		is(t, v.IncarnationsErr, store.ErrGarbage)
		for _, n := range []string{"/2:", "/3:", "/4:", "/5:", "/6:"} {
			if !strings.Contains(v.IncarnationsErr.Error(), "incarnations"+n) {
				t.Errorf("the error about incarnations does not name %s", n)
			}
		}
	}
	for key := range damaged {
		must(t, s.Delete(ctx, key))
	}
	if v := poll(t, s); len(v.Problems) > 0 || v.IncarnationsErr != nil {
		t.Errorf("after the repair there are problems: %+v", v)
	}
}
