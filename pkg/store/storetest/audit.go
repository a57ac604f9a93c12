package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/store"
)

// lines are those of a history, each with who it is of.
func lines(t *testing.T, s *store.Store) string {
	t.Helper()
	list, err := s.History(t.Context())
	must(t, err)
	var all []string
	for _, e := range list {
		text := string(e.By) + ":" + e.Line
		if e.Requested {
			text += "?"
		}
		if e.Error != "" {
			text += "!" + e.Error
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// audit checks that the history has the requests of users, at its place among the operations.
func audit(t *testing.T, open func() *store.Store) {
	s, other, ctx := open(), open(), t.Context()
	ask := func(after time.Duration, line string) store.HistoryEntry {
		return store.HistoryEntry{At: at.Add(after), By: "ann@m1", Line: line}
	}
	is := func(want string) {
		t.Helper()
		if got := lines(t, other); got != want {
			t.Errorf("the history is %s, want %s", got, want)
		}
	}
	second := ask(2*time.Second, "resume")
	must(t, s.RecordAudit(ctx, second))
	must(t, s.RecordAudit(ctx, ask(time.Second, "pause")))
	is("ann@m1:pause? ann@m1:resume?")
	must(t, s.AppendHistory(ctx, store.HistoryEntry{At: at, By: "a", Line: "x"}))
	must(t, s.AppendHistory(ctx, store.HistoryEntry{At: at.Add(2 * time.Second), By: "a", Line: "y"}))
	want := "a:x ann@m1:pause? ann@m1:resume? a:y"
	is(want)
	// What is appended does not take the records into the history, and once more is once.
	must(t, s.RecordAudit(ctx, second))
	must(t, other.AppendHistory(ctx, store.HistoryEntry{At: at.Add(time.Second), By: "b", Line: "late"}))
	want += " b:late"
	is(want)
	second.Error = "denied"
	must(t, s.RecordAudit(ctx, second))
	is(strings.Replace(want, "resume?", "resume?!denied", 1))
	// What is none does not count, and what claims to be a coordinator's is not.
	put(t, s, "control/audit/x", "x")
	put(t, s, "control/audit/y", `{"at":"2026-01-01T00:00:00Z","line":1}`)
	put(t, s, "control/audit/z", `{}`)
	put(t, s, "control/audit/large", `{"at":"2026-01-01T00:00:00Z","line":"`+strings.Repeat("x", 1<<20)+`"}`)
	put(t, s, "control/audit/deep/pause", `{"at":"2026-01-01T00:00:00Z","line":"pause"}`)
	is(strings.Replace(want, "resume?", "resume?!denied", 1))
	put(t, s, "control/audit/v", `{"at":"3026-01-01T00:00:00Z","term":9,"by":"c","line":"z","later":{"field":1}}`)
	is(strings.Replace(want, "resume?", "resume?!denied", 1) + " c:z?")
	if v := poll(t, s); len(v.Problems) > 0 {
		t.Errorf("a poll finds %v", v.Problems)
	}
}

// auditBound checks that users at the same time lose nothing, and that old records are deleted.
func auditBound(t *testing.T, open func() *store.Store) {
	stores, ctx := []*store.Store{open(), open()}, t.Context()
	old := func(i int) string { return fmt.Sprintf("control/audit/0-%02d", i) }
	const more = 12
	for i := range more {
		put(t, stores[0], old(i), `{"at":"2026-01-01T00:00:00Z","line":"old"}`)
	}
	left := func(first int) {
		t.Helper()
		for i := range more {
			if there, err := stores[1].Exists(ctx, old(i)); there != (i >= first) || err != nil {
				t.Errorf("record %d of the old ones is there: %t, %v", i, there, err)
			}
		}
		all := strings.Fields(lines(t, stores[0]))
		if len(all) != store.MaxAudit || slices.Contains(all, ":old?") {
			t.Errorf("of %d records %d are there: %.300q", store.MaxAudit, len(all), all)
		}
	}
	var group sync.WaitGroup
	for i := range store.MaxAudit {
		group.Go(func() {
			if err := stores[i%2].RecordAudit(ctx, store.HistoryEntry{
				At: at.Add(time.Duration(i) * time.Second), By: "ann@m1", Line: fmt.Sprint(i), Why: strings.Repeat("é", 3<<10),
			}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	left(0)
	// So that nobody waits for long, it deletes ten at a time, the oldest first.
	for _, first := range []int{10, more, more} {
		must(t, stores[1].PruneAudit(ctx))
		left(first)
	}
	list, err := stores[1].History(ctx)
	must(t, err)
	if len(list[0].Why) > 1100 {
		t.Errorf("a reason has %d bytes", len(list[0].Why))
	}
	v := poll(t, stores[0])
	if len(v.Problems) > 0 {
		t.Errorf("a poll finds %v", v.Problems)
	}
}
