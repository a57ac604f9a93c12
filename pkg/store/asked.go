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

// asked returns the newest [MaxAsked] records, oldest first. Those that cannot be understood are
// left out.
func (s *Store) asked(ctx context.Context) ([]HistoryEntry, error) {
	listed, err := s.list(ctx, askedPrefix)
	if errors.Is(err, ErrGarbage) {
		return nil, nil // there are thousands, which are no persons'
	}
	if err != nil {
		return nil, err
	}
	old := beyond(listed, askedPrefix)
	listed = slices.DeleteFunc(listed, func(o object) bool {
		_, ok := child(o.key, askedPrefix)
		return !ok || containsKey(old, o.key)
	})
	all := make([]HistoryEntry, len(listed))
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(pollReads)
	for i, o := range listed {
		group.Go(func() error {
			b, err := s.getAtMost(reading, o.key, maxAskedSize)
			if err == nil && json.Unmarshal(b, &all[i]) != nil {
				all[i] = HistoryEntry{}
			}
			if errors.Is(err, ErrGarbage) || errors.Is(err, ErrAbsent) {
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(e HistoryEntry) bool { return e.At.IsZero() })
	for i := range all {
		// Nothing that lies here is a coordinator's.
		all[i].Asked, all[i].Term = true, 0
	}
	slices.SortStableFunc(all, func(a, b HistoryEntry) int { return a.At.Compare(b.At) })
	return all, nil
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
