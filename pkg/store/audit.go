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

// MaxAudit is how many records of the audit log are kept and shown: as many as of ends.
const MaxAudit = MaxClosed

const (
	// maxAuditSize is the size of the largest record that is read, maxAuditText how much of each of
	// its texts is written.
	maxAuditSize = 16 * kib
	maxAuditText = kib
	// maxPruned is how many old records are deleted at a time.
	maxPruned = 10
)

// RecordAudit records what a user asks of the cluster, for [Store.History]. Each record is an
// object of its own: who writes one at the same time, as a coordinator does the history, takes
// nothing away. The same entry again, with how it failed, replaces the first. It is one write:
// [Store.PruneAudit] deletes what is too old.
func (s *Store) RecordAudit(ctx context.Context, e HistoryEntry) error {
	e.At, e.Requested = e.At.UTC(), true
	for _, text := range []*string{&e.Line, &e.Why, &e.Error} {
		if len(*text) > maxAuditText {
			*text = strings.ToValidUTF8((*text)[:maxAuditText], "") + "…"
		}
	}
	sum := sha256.Sum256([]byte(string(e.By) + "\n" + e.Line))
	key := auditPrefix + e.At.Format(requestTime) + "-" + hex.EncodeToString(sum[:4])
	b, err := json.MarshalIndent(e, "", "  ")
	if err == nil {
		err = s.Put(ctx, key, b)
	}
	if err != nil {
		return fmt.Errorf("record who asks: %w", err)
	}
	return nil
}

// PruneAudit deletes the oldest records beyond [MaxAudit], ten of them at most: the next call goes on.
func (s *Store) PruneAudit(ctx context.Context) error {
	listed, err := s.list(ctx, auditPrefix)
	if err != nil {
		return err
	}
	old := beyond(listed, auditPrefix)
	for _, o := range slices.Backward(old[max(0, len(old)-maxPruned):]) {
		if err := s.Delete(ctx, o.key); err != nil {
			return err
		}
	}
	return nil
}

// auditKind are the records, which polls do not check.
var auditKind = kind{key: auditPrefix, size: maxAuditSize, most: MaxAudit, parse: boxed(parseAudit)}

func parseAudit(key string, b []byte) (HistoryEntry, error) {
	var e HistoryEntry
	if err := json.Unmarshal(b, &e); err != nil {
		return e, garbage(key, "%v", err)
	}
	if e.At.IsZero() {
		return e, garbage(key, "it has no time")
	}
	// Nothing that lies here is a coordinator's.
	e.Requested, e.Term = true, 0
	return e, nil
}

// audit returns the newest [MaxAudit] records, oldest first, and why those that could not be read
// are missing. Those that cannot be understood are left out.
func (s *Store) audit(ctx context.Context) (all []HistoryEntry, note string) {
	began := time.Now()
	listed, err := s.list(ctx, auditPrefix)
	if err != nil {
		return nil, fmt.Sprintf("the audit log cannot be read: %v", err)
	}
	old := beyond(listed, auditPrefix)
	listed = slices.DeleteFunc(listed, func(o object) bool {
		_, ok := child(o.key, auditPrefix)
		return !ok || containsKey(old, o.key)
	})
	now, failed := s.readAudit(ctx, listed, began)
	for _, o := range listed {
		if e, ok := now[o.key]; ok && e.err == nil {
			all = append(all, e.value.(HistoryEntry))
		}
	}
	slices.SortStableFunc(all, func(a, b HistoryEntry) int { return a.At.Compare(b.At) })
	if len(failed) > 0 {
		note = fmt.Sprintf("of the audit log, %d of %d records cannot be read: %v", len(failed), len(listed),
			failed[0])
	}
	return all, note
}

// readAudit reads the records that have changed, or that could have, and remembers them. One that
// cannot be read hides no other; failed are the errors.
func (s *Store) readAudit(ctx context.Context, listed []object, began time.Time) (now map[string]seen, failed []error) {
	s.auditMu.Lock()
	known := s.auditSeen // it is never changed
	s.auditMu.Unlock()
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
			err := e.read(ctx, s, &auditKind, began)
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
	s.auditMu.Lock()
	defer s.auditMu.Unlock()
	s.auditSeen = now
	return now, failed
}

// merged returns both lists as one: each record stands before the first operation that began after
// it. The operations stay in the order in which coordinators have written them.
func merged(operations, audit []HistoryEntry) []HistoryEntry {
	var all []HistoryEntry
	for _, e := range operations {
		for len(audit) > 0 && !audit[0].At.After(e.At) {
			all, audit = append(all, audit[0]), audit[1:]
		}
		all = append(all, e)
	}
	return append(all, audit...)
}
