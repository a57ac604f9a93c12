package store

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// partly is a place of which some keys cannot be read, and that counts what is read.
type partly struct {
	objects
	// denied is what the keys contain that are denied, hung of those that do not answer.
	denied, hung string
	opened       *atomic.Int64
}

func (p *partly) fails(ctx context.Context, key string) error {
	switch {
	case p.denied != "" && strings.Contains(key, p.denied):
		return ErrDenied
	case p.hung != "" && strings.Contains(key, p.hung):
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (p *partly) open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	p.opened.Add(1)
	if err := p.fails(ctx, key); err != nil {
		return nil, 0, err
	}
	return p.objects.open(ctx, key)
}

func (p *partly) page(ctx context.Context, prefix string, from []byte) ([]object, []byte, error) {
	if err := p.fails(ctx, prefix); err != nil {
		return nil, nil, err
	}
	return p.objects.page(ctx, prefix, from)
}

// pastOf returns a store with one operation and three records, by ann, bob and eve.
func pastOf(t *testing.T) (*Store, *partly) {
	t.Helper()
	requests := new(atomic.Int64)
	p := &partly{objects: &files{root: t.TempDir(), requests: requests}, opened: new(atomic.Int64)}
	s := newStore(p, requests)
	operation := HistoryEntry{At: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC), By: "a", Line: "x"}
	if err := s.AppendHistory(t.Context(), operation); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"ann", "bob", "eve"} {
		if err := s.Put(t.Context(), auditPrefix+name, fmt.Appendf(nil,
			`{"at":"2026-01-01T00:00:0%dZ","by":%q,"line":"pause"}`, i, name)); err != nil {
			t.Fatal(err)
		}
	}
	return s, p
}

// past is the names of the entries, and the note.
func past(t *testing.T, s *Store) (string, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	p, err := s.Past(ctx)
	if err != nil || ctx.Err() != nil {
		t.Errorf("the history is %+v, %v, %v", p, err, ctx.Err())
	}
	names := ""
	for _, e := range p.Entries {
		names += " " + string(e.By)
	}
	return strings.TrimSpace(names), p.Note
}

// Whatever becomes of the records, the operations are shown, and what could be read.
func TestRecordsThatCannotBeReadHideNothingElse(t *testing.T) {
	for _, tc := range []struct{ denied, hung, names, note string }{
		{"", "", "ann bob eve a", ""},
		{"audit/bob", "", "ann eve a", "of the audit log, 1 of 3 records cannot be read: read control/audit/bob: "},
		{"", "audit/bob", "ann eve a", "of the audit log, 1 of 3 records cannot be read: read control/audit/bob: "},
		{"audit/", "", "a", "the audit log cannot be read: list control/audit/: "},
		{"", "audit/", "a", "the audit log cannot be read: list control/audit/: "},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, p := pastOf(t)
			p.denied, p.hung = tc.denied, tc.hung
			names, note := past(t, s)
			if names != tc.names || !strings.HasPrefix(note, tc.note) || (note == "") != (tc.note == "") {
				t.Errorf("%+v: %q, %q", tc, names, note)
			}
		})
	}
}

// Who looks again and again reads what has not changed once.
func TestRecordsAreReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := pastOf(t)
		reads := func(want int64, names string) {
			t.Helper()
			before := p.opened.Load()
			got, note := past(t, s)
			// One is of the operations.
			if n := p.opened.Load() - before - 1; n != want || got != names || note != "" {
				t.Errorf("%d records are read, want %d; it has %q, %q", n, want, got, note)
			}
		}
		reads(3, "ann bob eve a")
		time.Sleep(2 * settleTime)
		reads(3, "ann bob eve a") // a change may not have shown
		reads(0, "ann bob eve a")
		reads(0, "ann bob eve a")
		if err := s.Put(t.Context(), auditPrefix+"bob", []byte(`{"at":"2026-01-01T00:00:09Z","by":"dan"}`)); err != nil {
			t.Fatal(err)
		}
		reads(1, "ann eve dan a")
		if err := s.Delete(t.Context(), auditPrefix+"ann"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * settleTime)
		reads(1, "eve dan a")
		p.denied = "audit/e" // it is known already
		reads(0, "eve dan a")
	})
}
