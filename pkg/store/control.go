package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A revisionFile is what control/revision says.
type revisionFile struct {
	Revision cluster.Revision `json:"revision"`
	At       time.Time        `json:"at,omitzero"`
}

func parseRevision(key string, b []byte) (cluster.Revision, error) {
	var f revisionFile
	if err := json.Unmarshal(b, &f); err != nil {
		return 0, garbage(key, "%v", err)
	}
	if f.Revision < 1 || f.Revision > cluster.MaxMark {
		return 0, garbage(key, "the revision is %d, it must be 1 to %d", f.Revision, cluster.MaxMark)
	}
	return f.Revision, nil
}

// Revision returns the highest revision that the cluster is known to have
// reached, in all its incarnations; the error is ErrAbsent when none was stored.
func (s *Store) Revision(ctx context.Context) (cluster.Revision, error) {
	b, err := s.Get(ctx, revisionKey)
	if err != nil {
		return 0, err
	}
	return parseRevision(revisionKey, b)
}

// PutRevision stores a revision that the cluster has reached, and when that was
// seen, unless the store already knows of that one or a higher one. A record
// that is garbage is not replaced, as it may have held more: the error is
// ErrGarbage, and somebody has to look, and delete it.
//
// One above [cluster.MaxMark] is an error: nobody would believe it.
//
// Two callers at the same time may leave the lower of their revisions: there is
// one coordinator.
func (s *Store) PutRevision(ctx context.Context, revision cluster.Revision, at time.Time) error {
	if revision < 1 {
		return fmt.Errorf("store revision: it is %d, the first is 1", revision)
	}
	if revision > cluster.MaxMark {
		return fmt.Errorf("store revision %d: the highest that is believed is %d", revision, cluster.MaxMark)
	}
	b, err := json.Marshal(revisionFile{Revision: revision, At: at.UTC()})
	if err != nil {
		return fmt.Errorf("store revision %d: %w", revision, err)
	}
	present, err := s.Revision(ctx)
	switch {
	case err == nil && present >= revision:
		return nil
	case err == nil:
		err = s.Put(ctx, revisionKey, b)
	case errors.Is(err, ErrAbsent):
		var made bool
		if made, err = s.Create(ctx, revisionKey, b); err == nil && !made {
			// Somebody was quicker. What is there now is compared once more.
			if present, err = s.Revision(ctx); err == nil && present < revision {
				err = s.Put(ctx, revisionKey, b)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("store revision %d: %w", revision, err)
	}
	return nil
}

// MaxClosed is how many records of requests that have ended are kept and shown.
const MaxClosed = 50

// A Closed records how a request, or a queued command, ended. The request itself
// is deleted, if the store lets it be.
type Closed struct {
	// Name is the name of the request or command.
	Name string `json:"name"`
	// Kind is what it asked for, Backup of which backup.
	Kind   string `json:"kind,omitempty"`
	Backup string `json:"backup,omitempty"`
	// Outcome is "done" or "refused", Reason what came of it or why, for people.
	Outcome string           `json:"outcome,omitempty"`
	Reason  string           `json:"reason"`
	At      time.Time        `json:"at"`
	By      cluster.NodeName `json:"by,omitempty"`
}

func parseClosed(key string, b []byte) (Closed, error) {
	var r Closed
	if err := json.Unmarshal(b, &r); err != nil {
		return Closed{}, garbage(key, "%v", err)
	}
	if key != closedPrefix+r.Name {
		return Closed{}, garbage(key, "it is the record of the request %q", r.Name)
	}
	return r, nil
}

// PutClosed records the end of a request, over an earlier one of the same name. It tries
// to delete the oldest records beyond [MaxClosed]; that this fails, as in a store
// that denies deletion, is no error.
func (s *Store) PutClosed(ctx context.Context, r Closed) error {
	if err := checkName(r.Name); err != nil {
		return fmt.Errorf("record the end of a request: %w", err)
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = s.Put(ctx, closedPrefix+r.Name, b)
	}
	if err != nil {
		return fmt.Errorf("record the end of a request of %s: %w", r.Name, err)
	}
	listed, err := s.list(ctx, closedPrefix)
	if err != nil {
		// The next one lists them again.
		return nil
	}
	for _, o := range beyond(listed, closedPrefix) {
		if o.key == closedPrefix+r.Name || s.Delete(ctx, o.key) != nil {
			break
		}
	}
	return nil
}

// beyond returns the objects below a prefix without the newest [MaxClosed].
func beyond(listed []object, prefix string) []object {
	own := slices.Clone(listed)
	own = slices.DeleteFunc(own, func(o object) bool { _, ok := child(o.key, prefix); return !ok })
	slices.SortFunc(own, func(a, b object) int {
		return cmp.Or(b.modTime.Compare(a.modTime), cmp.Compare(b.key, a.key))
	})
	return own[min(len(own), MaxClosed):]
}

// Closed returns the newest [MaxClosed] ends of requests, newest first. Records that
// cannot be understood are left out.
func (s *Store) Closed(ctx context.Context) ([]Closed, error) {
	listed, err := s.list(ctx, closedPrefix)
	if err != nil {
		return nil, err
	}
	old := beyond(listed, closedPrefix)
	var all []Closed
	for _, o := range listed {
		if _, ok := child(o.key, closedPrefix); !ok || containsKey(old, o.key) {
			continue
		}
		b, err := s.Get(ctx, o.key)
		var r Closed
		if err == nil {
			r, err = parseClosed(o.key, b)
		}
		switch {
		case err == nil:
			all = append(all, r)
		case !errors.Is(err, ErrGarbage) && !errors.Is(err, ErrAbsent):
			return nil, err
		}
	}
	sortClosed(all)
	return all, nil
}

func containsKey(all []object, key string) bool {
	return slices.ContainsFunc(all, func(o object) bool { return o.key == key })
}

func sortClosed(all []Closed) {
	slices.SortFunc(all, func(a, b Closed) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.Name, a.Name))
	})
}
