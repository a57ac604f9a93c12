package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A kind is a kind of control object that polls check.
type kind struct {
	// key is the one key of the kind, or what the keys begin with.
	key string
	// has reports whether a key is of the kind.
	has func(key string) bool
	// size is how large one may be, most how many of them are read: of more, those
	// that were written last.
	size int64
	most int
	// parse reads one, and add takes what was read of it into a view.
	parse func(key string, b []byte) (any, error)
	add   func(*View, seen)
	// over, if not nil, takes into a view that there are more, or of the one key that
	// it could not be looked for.
	over func(*View, error)
}

const kib = 1 << 10

// kinds is the one table of what a poll checks. The bounds are far above what
// anybody needs: a cluster has seven voters, and one restore at a time. Together they
// bound what a poll holds in memory, a few MiB, whatever the store holds.
var kinds = []kind{
	{key: specKey, has: is(specKey), size: 64 * kib, most: 1, parse: boxed(parseSpec), add: (*View).addSpec,
		over: func(v *View, err error) { v.SpecErr = err }},
	{key: createdKey, has: is(createdKey), size: 64 * kib, most: 1, parse: boxed(parseCreated), add: (*View).addCreated,
		over: (*View).mayBeCreated},
	{key: revisionKey, has: is(revisionKey), size: 4 * kib, most: 1, parse: boxed(parseRevision), add: (*View).addRevision,
		over: func(v *View, err error) { v.RevisionErr = err }},
	{
		key: incarnationPrefix, has: below(incarnationPrefix), size: 16 * kib, most: 256,
		parse: boxed(parseIncarnationNamed), add: (*View).addIncarnation,
		over: func(v *View, err error) { v.IncarnationsErr = errors.Join(v.IncarnationsErr, err) },
	},
	{key: nodePrefix, has: below(nodePrefix), size: 16 * kib, most: 128, parse: boxed(parseNode), add: (*View).addNode},
	{key: requestPrefix, has: below(requestPrefix), size: 64 * kib, most: 64, parse: boxed(parseRequest),
		add: (*View).addRequest},
	{key: closedPrefix, has: below(closedPrefix), size: 64 * kib, most: MaxClosed, parse: boxed(parseClosed),
		add: (*View).addClosed, over: func(*View, error) {}},
	{
		key: controlPrefix, has: func(key string) bool { _, ok := commandName(key); return ok }, size: 64 * kib, most: 64,
		parse: boxed(parseCommand), add: (*View).addCommand,
	},
}

func is(key string) func(string) bool { return func(k string) bool { return k == key } }

func below(prefix string) func(string) bool {
	return func(key string) bool { _, ok := child(key, prefix); return ok }
}

func boxed[T any](parse func(string, []byte) (T, error)) func(string, []byte) (any, error) {
	return func(key string, b []byte) (any, error) { return parse(key, b) }
}

// kindOf returns the kind of an object, nil for what a poll does not check.
func kindOf(key string) *kind {
	for i := range kinds {
		if kinds[i].has(key) {
			return &kinds[i]
		}
	}
	return nil
}

const (
	// maxPages is how many pages a poll lists of control/, or of each kind apart. A
	// page has a thousand objects, and a cluster some dozens.
	maxPages = 3
	// apartPolls is how many polls list each kind apart before one tries control/
	// as a whole again.
	apartPolls = 100
)

// listControl lists the objects that a poll checks. If control/ holds so much
// else that they are not all on its first pages, it lists each kind apart.
func (s *Store) listControl(ctx context.Context, v *View) ([]object, error) {
	if s.apart == 0 {
		listed, all, err := s.somePages(ctx, controlPrefix)
		if err != nil || all {
			return listed, err
		}
		s.apart = apartPolls
	}
	s.apart--
	v.problem(fmt.Errorf("%s: %w: it holds too many objects, and commands that were queued by the existing "+
		"etcd-manager-ctl are not searched", controlPrefix, ErrGarbage))
	var listed []object
	for _, k := range kinds {
		if k.key == controlPrefix {
			continue
		}
		some, all, err := s.somePages(ctx, k.key)
		if err != nil {
			return nil, err
		}
		listed = append(listed, some...)
		found := slices.ContainsFunc(some, func(o object) bool { return o.key == k.key })
		if !all && !found {
			k.exceeded(v, fmt.Errorf("%s: %w: it holds too many objects, and not all are checked", k.key, ErrGarbage))
		}
	}
	return listed, nil
}

// somePages lists what a poll checks on the first pages of a prefix, and
// reports whether that is all of it.
func (s *Store) somePages(ctx context.Context, prefix string) (listed []object, all bool, err error) {
	var from []byte
	for range maxPages {
		found, next, err := s.page(ctx, prefix, from)
		if errors.Is(err, ErrGarbage) {
			return listed, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		for _, o := range found {
			if kindOf(o.key) != nil {
				listed = append(listed, o)
			}
		}
		if next == nil {
			return listed, true, nil
		}
		from = next
	}
	return listed, false, nil
}

// mayBeCreated notes in a view that it is unknown whether the marker is there.
func (v *View) mayBeCreated(error) { v.Created = cluster.MarkerUnknown }

// exceeded takes into a view that there are more objects of a kind than are
// checked.
func (k kind) exceeded(v *View, err error) {
	if k.over == nil || k.key != closedPrefix {
		v.problem(err)
	}
	if k.over != nil {
		k.over(v, err)
	}
}

// bound leaves out what there is too much of.
func (v *View) bound(listed []object) []object {
	var kept []object
	for _, k := range kinds {
		var mine []object
		for _, o := range listed {
			if own := kindOf(o.key); own != nil && own.key == k.key {
				mine = append(mine, o)
			}
		}
		if len(mine) > k.most {
			k.exceeded(v, fmt.Errorf("%s: %w: of %d objects the %d newest are checked", k.key, ErrGarbage, len(mine), k.most))
			slices.SortFunc(mine, func(a, b object) int {
				return cmp.Or(b.modTime.Compare(a.modTime), cmp.Compare(b.key, a.key))
			})
			mine = mine[:k.most]
		}
		kept = append(kept, mine...)
	}
	slices.SortFunc(kept, func(a, b object) int { return cmp.Compare(a.key, b.key) })
	return kept
}
