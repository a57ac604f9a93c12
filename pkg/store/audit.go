package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// MaxAsked is how many records of what persons asked for are kept and shown: as many as of ends.
const MaxAsked = MaxClosed

const (
	// maxAskedSize is the size of the largest record that is read, maxAskedText how much of each of
	// its texts is written.
	maxAskedSize = 16 * kib
	maxAskedText = kib
	// maxPruned is how many old records are deleted at a time.
	maxPruned = 10
)

// RecordAsked records what a person asks of the cluster, for [Store.History]. Each record is an
// object of its own: who writes one at the same time, as a coordinator does the history, takes
// nothing away. The same entry again, with how it failed, replaces the first. It is one write:
// [Store.PruneAsked] deletes what is too old.
func (s *Store) RecordAsked(ctx context.Context, e HistoryEntry) error {
	e.At, e.Asked = e.At.UTC(), true
	for _, text := range []*string{&e.Line, &e.Why, &e.Error} {
		if len(*text) > maxAskedText {
			*text = strings.ToValidUTF8((*text)[:maxAskedText], "") + "…"
		}
	}
	sum := sha256.Sum256([]byte(string(e.By) + "\n" + e.Line))
	key := askedPrefix + e.At.Format(requestTime) + "-" + hex.EncodeToString(sum[:4])
	b, err := json.MarshalIndent(e, "", "  ")
	if err == nil {
		err = s.Put(ctx, key, b)
	}
	if err != nil {
		return fmt.Errorf("record who asks: %w", err)
	}
	return nil
}

// PruneAsked deletes the oldest records beyond [MaxAsked], ten of them at most: the next call goes on.
func (s *Store) PruneAsked(ctx context.Context) error {
	listed, err := s.list(ctx, askedPrefix)
	if err != nil {
		return err
	}
	old := beyond(listed, askedPrefix)
	for _, o := range slices.Backward(old[max(0, len(old)-maxPruned):]) {
		if err := s.Delete(ctx, o.key); err != nil {
			return err
		}
	}
	return nil
}

// askedKind are the records, which polls do not check.
var askedKind = kind{key: askedPrefix, size: maxAskedSize, most: MaxAsked, parse: boxed(parseAsked)}

func parseAsked(key string, b []byte) (HistoryEntry, error) {
	var e HistoryEntry
	if err := json.Unmarshal(b, &e); err != nil {
		return e, garbage(key, "%v", err)
	}
	if e.At.IsZero() {
		return e, garbage(key, "it has no time")
	}
	// Nothing that lies here is a coordinator's.
	e.Asked, e.Term = true, 0
	return e, nil
}

// asked returns the newest [MaxAsked] records, oldest first, and why those that could not be read
// are missing. Those that cannot be understood are left out.
func (s *Store) asked(ctx context.Context) (all []HistoryEntry, note string) {
	began := time.Now()
	listed, err := s.list(ctx, askedPrefix)
	if err != nil {
		return nil, fmt.Sprintf("what persons asked for cannot be read: %v", err)
	}
	old := beyond(listed, askedPrefix)
	listed = slices.DeleteFunc(listed, func(o object) bool {
		_, ok := child(o.key, askedPrefix)
		return !ok || containsKey(old, o.key)
	})
	now, failed := s.readAsked(ctx, listed, began)
	for _, o := range listed {
		if e, ok := now[o.key]; ok && e.err == nil {
			all = append(all, e.value.(HistoryEntry))
		}
	}
	slices.SortStableFunc(all, func(a, b HistoryEntry) int { return a.At.Compare(b.At) })
	if len(failed) > 0 {
		note = fmt.Sprintf("of what persons asked for, %d of %d records cannot be read: %v", len(failed), len(listed),
			failed[0])
	}
	return all, note
}

// readAsked reads the records that have changed, or that could have, and remembers them. One that
// cannot be read hides no other; failed are the errors.
func (s *Store) readAsked(ctx context.Context, listed []object, began time.Time) (now map[string]seen, failed []error) {
	s.askedMu.Lock()
	known := s.askedSeen // it is never changed
	s.askedMu.Unlock()
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(pollReads)
	now = make(map[string]seen, len(listed))
	keep := func(e seen) {
		mu.Lock()
		defer mu.Unlock()
		now[e.object.key] = e
	}
	for _, o := range listed {
		e, ok := known[o.key]
		if !ok || !unchanged(e.object, o) {
			e, ok = seen{object: o, first: time.Now()}, false
		} else if e.settled {
			keep(e)
			continue
		}
		group.Go(func() error {
			err := e.read(ctx, s, &askedKind, began)
			switch {
			case err == nil || ok && !errors.Is(err, ErrAbsent):
				keep(e) // the same as before, as far as is known
			case !errors.Is(err, ErrAbsent):
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, err)
			}
			return nil
		})
	}
	_ = group.Wait() // none returns an error
	s.askedMu.Lock()
	defer s.askedMu.Unlock()
	s.askedSeen = now
	return now, failed
}

// merged returns both lists as one: each record stands before the first operation that began after
// it. The operations stay in the order in which coordinators have written them.
func merged(operations, asked []HistoryEntry) []HistoryEntry {
	var all []HistoryEntry
	for _, e := range operations {
		for len(asked) > 0 && !asked[0].At.After(e.At) {
			all, asked = append(all, asked[0]), asked[1:]
		}
		all = append(all, e)
	}
	return append(all, asked...)
}
