package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// MaxHistory is how many entries the history keeps.
const MaxHistory = 500

// maxStatus is the size of the largest status that is stored.
const maxStatus = 1 << 20

// maxFields is how many fields a status that is read may have. Five bytes can stand
// for a value of a kilobyte in the memory of who reads it.
const maxFields = 20_000

// A HistoryEntry is one operation that a coordinator carried out, or what a user asked for.
type HistoryEntry struct {
	// At is when it began, Took how long it lasted.
	At   time.Time    `json:"at"`
	Term cluster.Term `json:"term,omitempty"`
	// By is the coordinator. With Requested it is the user, as user@host, and Line what that has run.
	By        cluster.NodeName `json:"by,omitempty"`
	Requested bool             `json:"requested,omitempty"`
	// Line is the operation's command line, Why the reason for it.
	Line string        `json:"line"`
	Why  string        `json:"why,omitempty"`
	Took time.Duration `json:"took,omitempty"`
	// Error is how it failed, empty if it did not.
	Error string `json:"error,omitempty"`
}

// A Past is what the coordinators did and what users asked for, newest last.
type Past struct {
	Entries []HistoryEntry
	// Note says why what users asked for is not all there, empty if it is.
	Note string
}

// History returns the entries of [Store.Past].
func (s *Store) History(ctx context.Context) ([]HistoryEntry, error) {
	p, err := s.Past(ctx)
	return p.Entries, err
}

// Past returns the history, empty when there is none. The error is ErrGarbage for one that cannot
// be read. What users asked for lies apart, and keeps nobody from seeing the operations: it has
// half of the time that is left, and where it cannot be read that is a note.
func (s *Store) Past(ctx context.Context) (Past, error) {
	operations, _, err := s.history(ctx)
	if err != nil {
		return Past{}, err
	}
	apart, cancel := context.WithCancel(ctx)
	if end, ok := ctx.Deadline(); ok {
		apart, cancel = context.WithTimeout(ctx, time.Until(end)/2)
	}
	defer cancel()
	audit, note := s.audit(apart)
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return Past{}, classify("read", auditPrefix, err) // nobody waits for it any more
	}
	return Past{Entries: merged(operations, audit), Note: note}, nil
}

func (s *Store) history(ctx context.Context) ([]HistoryEntry, []byte, error) {
	b, err := s.Get(ctx, historyKey)
	if errors.Is(err, ErrAbsent) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	all, err := parseHistory(b)
	if err != nil {
		return nil, b, garbage(historyKey, "%v", err)
	}
	return all, b, nil
}

// parseHistory returns the last entries of a history, whatever it holds: a few
// bytes may stand for each of a million.
func parseHistory(b []byte) ([]HistoryEntry, error) {
	if !json.Valid(b) {
		return nil, errors.New("it is not JSON")
	}
	in := json.NewDecoder(bytes.NewReader(b))
	if t, err := in.Token(); err != nil || t != json.Delim('[') {
		if t == nil && err == nil {
			return nil, nil // null
		}
		return nil, errors.New("it is not a JSON array")
	}
	var all []HistoryEntry
	for in.More() {
		var e HistoryEntry
		if err := in.Decode(&e); err != nil {
			return nil, err
		}
		if all = append(all, e); len(all) >= 2*MaxHistory {
			all = slices.Clone(all[len(all)-MaxHistory:])
		}
	}
	return all[max(0, len(all)-MaxHistory):], nil
}

// AppendHistory adds entries to the history, of which the newest [MaxHistory]
// stay, and no more than fit into 1 MiB. A history that cannot be read is moved to control/history.damaged,
// over an earlier one there, and a new one is begun. Two callers at the same time may
// lose an entry: there is one coordinator, and the history is for people.
func (s *Store) AppendHistory(ctx context.Context, entries ...HistoryEntry) error {
	if len(entries) == 0 {
		return nil
	}
	all, present, err := s.history(ctx)
	if errors.Is(err, ErrGarbage) {
		// What is too large to read cannot be kept.
		err = nil
		if present != nil {
			err = s.Put(ctx, damagedHistoryKey, present)
		}
	}
	if err != nil {
		return fmt.Errorf("append to history: %w", err)
	}
	b, err := newest(append(all, entries...), MaxHistory)
	if err == nil {
		err = s.Put(ctx, historyKey, b)
	}
	if err != nil {
		return fmt.Errorf("append to history: %w", err)
	}
	return nil
}

// Status returns what PutStatus last stored; the error is ErrAbsent when there
// is nothing.
func (s *Store) Status(ctx context.Context) (json.RawMessage, error) {
	b, err := s.getAtMost(ctx, statusKey, maxStatus)
	if err != nil {
		return nil, err
	}
	if !json.Valid(b) {
		return nil, garbage(statusKey, "it is not JSON")
	}
	if n := bytes.Count(b, []byte{','}); n > maxFields {
		return nil, garbage(statusKey, "it has %d fields, at most %d are read", n, maxFields)
	}
	return b, nil
}

// PutStatus stores what the coordinator wants people to see: a JSON value of at
// most 1 MiB, which this package does not look into.
func (s *Store) PutStatus(ctx context.Context, status json.RawMessage) error {
	switch {
	case len(status) > maxStatus:
		return fmt.Errorf("publish status: it has %d bytes, at most %d are allowed", len(status), maxStatus)
	case !json.Valid(status):
		return errors.New("publish status: it is not JSON")
	}
	if err := s.Put(ctx, statusKey, status); err != nil {
		return fmt.Errorf("publish status: %w", err)
	}
	return nil
}
