package store

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"golang.org/x/sync/errgroup"
)

const (
	// settleTime is longer than the coarsest clock by which a store says when an
	// object was written: one second for S3, two for FAT.
	settleTime = 2*time.Second + 100*time.Millisecond
	// pollReads is how many objects a poll reads at a time.
	pollReads = 8
)

// A View is what the control objects say. What could not be understood is left
// out and named in Problems.
type View struct {
	// Spec is nil when there is none, or when SpecErr says that it is garbage.
	Spec    *SpecFile
	SpecErr error
	// Created is the time in the marker, zero when there is no marker. For a
	// marker that is garbage it is when that was written: its presence is what
	// counts.
	Created time.Time
	// Incarnations are the records, by number. IncarnationsErr says that there is
	// one that cannot be understood: then the list is not all, and nobody may
	// found a cluster, or take data for stale, by it.
	Incarnations    []cluster.Incarnation
	IncarnationsErr error
	// Requests and Commands are queued wishes, oldest first.
	Requests []cluster.Request
	Commands []Command
	// Closed are the newest MaxClosed records of requests and commands that ended,
	// newest first.
	Closed []Closed
	// ClosedNames are the names of all requests that have ended, of whatever age.
	// One that could not be deleted is still queued.
	ClosedNames []string
	// Revision is the highest revision that the cluster is known to have reached,
	// zero when none was stored, or when RevisionErr says that the record is garbage:
	// then nobody may restore by it.
	Revision    cluster.Revision
	RevisionErr error
	// Nodes are the nodes' records, by name.
	Nodes []NodeRecord
	// Problems name the objects that could not be understood, by key, SpecErr,
	// IncarnationsErr and RevisionErr included.
	Problems []string
}

// Seen is what polls remember of an object.
type seen struct {
	object object
	body   []byte
	// err is that the object cannot be read, and is ErrGarbage.
	err error
	// first is when a listing first showed this version. An object written twice
	// within one tick of the store's clock, with the same size, looks the same in both
	// listings. So until settleTime has passed by our own clock (whose difference
	// from the store's then does not matter) it is read again each time; after a
	// read later than that the object is settled.
	first   time.Time
	settled bool
}

// Poll looks at the control objects. It makes one request, a list, and one more
// for each object that has changed since the last Poll or is so new that a
// change might not show (see settleTime). Any error is ErrUnreachable, ErrDenied
// or the context's, and says nothing about what the store holds. Polls of one
// Store take turns.
func (s *Store) Poll(ctx context.Context) (View, error) {
	select {
	case s.polling <- struct{}{}:
		defer func() { <-s.polling }()
	case <-ctx.Done():
		return View{}, classify("poll", controlPrefix, ctx.Err())
	}
	// Before the list: what it shows was written before it ended.
	began := time.Now()
	listed, err := s.list(ctx, controlPrefix)
	if err != nil {
		return View{}, err
	}
	var ended []string
	for _, o := range listed {
		if name, ok := child(o.key, closedPrefix); ok {
			ended = append(ended, name)
		}
	}
	old := oldClosed(listed)
	listed = slices.DeleteFunc(listed, func(o object) bool { return parserOf(o.key) == nil || containsKey(old, o.key) })
	now, err := s.readChanged(ctx, listed, began)
	if err != nil {
		return View{}, err
	}
	s.seen = now
	var v View
	for _, o := range listed {
		if e, ok := now[o.key]; ok {
			parserOf(o.key)(&v, e)
		}
	}
	sortRequests(v.Requests)
	sortCommands(v.Commands)
	sortClosed(v.Closed)
	v.ClosedNames = ended
	slices.SortFunc(v.Incarnations, func(a, b cluster.Incarnation) int { return a.Number - b.Number })
	return v, nil
}

// readChanged returns what is to be remembered of the listed objects, having
// read those that may have changed. Objects that have gone since are left out.
func (s *Store) readChanged(ctx context.Context, listed []object, began time.Time) (map[string]seen, error) {
	entries := make([]*seen, len(listed))
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(pollReads)
	for i, o := range listed {
		e, known := s.seen[o.key]
		if !known || !unchanged(e.object, o) {
			e = seen{object: o, first: time.Now()}
		} else if e.settled {
			entries[i] = &e
			continue
		}
		group.Go(func() error {
			late := began.Sub(e.first) > settleTime
			e.body, e.err = s.Get(reading, o.key)
			switch {
			case errors.Is(e.err, ErrAbsent):
				return nil
			case e.err != nil && !errors.Is(e.err, ErrGarbage):
				return e.err
			}
			sum := md5.Sum(e.body)
			e.settled = late || bytes.Equal(sum[:], o.md5)
			entries[i] = &e
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	now := make(map[string]seen, len(listed))
	for i, e := range entries {
		if e != nil {
			now[listed[i].key] = *e
		}
	}
	return now, nil
}

// unchanged reports whether two listings show the same version of an object,
// as far as they can tell.
func unchanged(a, b object) bool {
	return a.size == b.size && a.modTime.Equal(b.modTime) && bytes.Equal(a.md5, b.md5) &&
		(a.same == nil || a.same(b))
}

// parserOf returns what takes an object with a key into a view, nil for keys
// that a view does not show.
func parserOf(key string) func(*View, seen) {
	switch {
	case key == specKey:
		return (*View).addSpec
	case key == createdKey:
		return (*View).addCreated
	case key == revisionKey:
		return (*View).addRevision
	}
	if _, ok := child(key, incarnationPrefix); ok {
		return (*View).addIncarnation
	}
	if _, ok := child(key, nodePrefix); ok {
		return (*View).addNode
	}
	if _, ok := child(key, requestPrefix); ok {
		return (*View).addRequest
	}
	if _, ok := child(key, closedPrefix); ok {
		return (*View).addClosed
	}
	if _, ok := commandName(key); ok {
		return (*View).addCommand
	}
	return nil
}

func (v *View) problem(err error) { v.Problems = append(v.Problems, err.Error()) }

// take parses an object, and reports a problem if it is garbage.
func take[T any](v *View, e seen, parse func(string, []byte) (T, error)) (T, error) {
	var value T
	err := e.err
	if err == nil {
		value, err = parse(e.object.key, e.body)
	}
	if err != nil {
		v.problem(err)
	}
	return value, err
}

func (v *View) addSpec(e seen) {
	spec, err := take(v, e, parseSpec)
	if err != nil {
		v.SpecErr = err
		return
	}
	v.Spec = &spec
}

func (v *View) addCreated(e seen) {
	at, err := take(v, e, parseCreated)
	if err != nil {
		at = e.object.modTime.UTC()
	}
	v.Created = at
}

func (v *View) addIncarnation(e seen) {
	name, _ := child(e.object.key, incarnationPrefix)
	if n, err := strconv.Atoi(name); err != nil || n < 1 || strconv.Itoa(n) != name {
		v.problem(fmt.Errorf("%s: %w: its name is not the number of an incarnation", e.object.key, ErrGarbage))
		return
	}
	inc, err := take(v, e, parseIncarnation)
	if err != nil {
		v.IncarnationsErr = errors.Join(v.IncarnationsErr, err)
		return
	}
	v.Incarnations = append(v.Incarnations, inc)
}

func (v *View) addNode(e seen) {
	if n, err := take(v, e, parseNode); err == nil {
		v.Nodes = append(v.Nodes, n)
	}
}

// notAfter returns the time at which somebody said that something was queued,
// but never one after the store took it in: who queues it may have a clock that
// is ahead, and what is to happen after it would then not happen for long.
func notAfter(at time.Time, e seen) time.Time {
	if m := e.object.modTime.UTC(); !m.IsZero() && m.Before(at) {
		return m
	}
	return at
}

func (v *View) addRequest(e seen) {
	if r, err := take(v, e, parseRequest); err == nil {
		r.At = notAfter(r.At, e)
		v.Requests = append(v.Requests, r)
	}
}

func (v *View) addCommand(e seen) {
	if c, err := take(v, e, parseCommand); err == nil {
		c.At = notAfter(c.At, e)
		v.Commands = append(v.Commands, c)
	}
}

func (v *View) addClosed(e seen) {
	if r, err := take(v, e, parseClosed); err == nil {
		v.Closed = append(v.Closed, r)
	}
}

func (v *View) addRevision(e seen) {
	v.Revision, v.RevisionErr = take(v, e, parseRevision)
}
