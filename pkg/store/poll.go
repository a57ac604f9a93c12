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

	"golang.org/x/sync/errgroup"

	"github.com/etcdadm/etcdadm/pkg/cluster"
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
	// bootstrap a cluster, or take data for stale, by it.
	Incarnations    []cluster.Incarnation
	IncarnationsErr error
	// Requests and Commands are those that are queued, oldest first.
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
	// IncarnationsErr and RevisionErr included, and what was too much to be looked
	// at. There are maxProblems at most.
	Problems []string
}

// Seen is what polls remember of an object: what it says, and not its content.
type seen struct {
	object object
	value  any
	// err is that the object cannot be read or understood, and is ErrGarbage.
	err error
	// first is when a listing first showed this version. An object written twice
	// within one tick of the store's clock, with the same size, looks the same in both
	// listings. So until settleTime has passed by our own clock (whose difference
	// from the store's then does not matter) it is read again each time; after a
	// read later than that the object is settled.
	first   time.Time
	settled bool
}

// Poll checks the control objects. It makes one request, a list, and one more
// for each object that has changed since the last Poll or is so new that a
// change might not show (see settleTime). Any error is ErrUnreachable, ErrDenied
// or the context's, and says nothing about what the store holds. Polls of one
// Store take turns.
//
// Whatever the store holds, a poll takes a bounded number of requests and bytes:
// each kind of object has a largest size and number, see kinds. What is over them is
// named in Problems, and hides nothing else.
func (s *Store) Poll(ctx context.Context) (View, error) {
	select {
	case s.polling <- struct{}{}:
		defer func() { <-s.polling }()
	case <-ctx.Done():
		return View{}, classify("poll", controlPrefix, ctx.Err())
	}
	// Before the list: what it shows was written before it ended.
	began := time.Now()
	var v View
	listed, err := s.listControl(ctx, &v)
	if err != nil {
		return View{}, err
	}
	for _, o := range listed {
		if name, ok := child(o.key, closedPrefix); ok {
			v.ClosedNames = append(v.ClosedNames, name)
		}
	}
	listed = v.bound(listed)
	now, err := s.readChanged(ctx, listed, began)
	if err != nil {
		return View{}, err
	}
	for _, o := range listed {
		if e, ok := now[o.key]; ok {
			if e.err != nil {
				v.problem(e.err)
			}
			kindOf(o.key).add(&v, e)
		}
	}
	sortRequests(v.Requests)
	sortCommands(v.Commands)
	sortClosed(v.Closed)
	slices.SortFunc(v.Incarnations, func(a, b cluster.Incarnation) int { return a.Number - b.Number })
	return v, nil
}

// readChanged reads the objects that have changed, or that could have. What it has
// read before an error is remembered: the next poll goes on from there.
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
			switch err := e.read(reading, s, kindOf(o.key), began); {
			case errors.Is(err, ErrAbsent):
				return nil
			case err != nil:
				return err
			}
			entries[i] = &e
			return nil
		})
	}
	err := group.Wait()
	now := make(map[string]seen, len(listed))
	for i, e := range entries {
		if e != nil {
			now[listed[i].key] = *e
		} else if old, ok := s.seen[listed[i].key]; ok && err != nil {
			now[listed[i].key] = old
		}
	}
	s.seen = now
	return now, err
}

// read reads the object for a listing that began then. The error says nothing about the object,
// but ErrAbsent.
func (e *seen) read(ctx context.Context, s *Store, k *kind, began time.Time) error {
	late := began.Sub(e.first) > settleTime
	var body []byte
	var err error
	if e.object.size > k.size {
		err = garbage(e.object.key, "it has %d bytes, at most %d are read", e.object.size, k.size)
	} else {
		body, err = s.getAtMost(ctx, e.object.key, k.size)
	}
	switch {
	case err != nil && !errors.Is(err, ErrGarbage):
		return err
	case err == nil:
		e.value, e.err = k.parse(e.object.key, body)
	default:
		e.value, e.err = nil, err
	}
	sum := md5.Sum(body)
	e.settled = late || bytes.Equal(sum[:], e.object.md5)
	return nil
}

// unchanged reports whether two listings show the same version of an object,
// as far as they know.
func unchanged(a, b object) bool {
	return a.size == b.size && a.modTime.Equal(b.modTime) && bytes.Equal(a.md5, b.md5) &&
		(a.same == nil || a.same(b))
}

// maxProblems is how many problems a view has.
const maxProblems = 50

func (v *View) problem(err error) {
	switch n := len(v.Problems); {
	case n < maxProblems-1:
		v.Problems = append(v.Problems, err.Error())
	case n == maxProblems-1:
		v.Problems = append(v.Problems, "and more")
	}
}

func (v *View) addSpec(e seen) {
	if v.SpecErr = e.err; e.err == nil {
		spec := e.value.(SpecFile)
		v.Spec = &spec
	}
}

func (v *View) addCreated(e seen) {
	if v.Created = e.object.modTime.UTC(); e.err == nil {
		v.Created = e.value.(time.Time)
	}
}

func (v *View) addIncarnation(e seen) {
	switch inc, ok := e.value.(cluster.Incarnation); {
	case errors.Is(e.err, errNotANumber):
	case e.err != nil || !ok:
		v.IncarnationsErr = errors.Join(v.IncarnationsErr, e.err)
	default:
		v.Incarnations = append(v.Incarnations, inc)
	}
}

// errNotANumber is of an object among the incarnation records that is none.
var errNotANumber = errors.New("its name is not the number of an incarnation")

// parseIncarnationNamed is parseIncarnation for what only may be a record.
func parseIncarnationNamed(key string, b []byte) (cluster.Incarnation, error) {
	name, _ := child(key, incarnationPrefix)
	if n, err := strconv.Atoi(name); err != nil || n < 1 || strconv.Itoa(n) != name {
		return cluster.Incarnation{}, fmt.Errorf("%s: %w: %w", clip(key), ErrGarbage, errNotANumber)
	}
	return parseIncarnation(key, b)
}

func (v *View) addNode(e seen) {
	if e.err == nil {
		v.Nodes = append(v.Nodes, e.value.(NodeRecord))
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
	if e.err == nil {
		r := e.value.(cluster.Request)
		r.At = notAfter(r.At, e)
		v.Requests = append(v.Requests, r)
	}
}

func (v *View) addCommand(e seen) {
	if e.err == nil {
		c := e.value.(Command)
		c.At = notAfter(c.At, e)
		v.Commands = append(v.Commands, c)
	}
}

func (v *View) addClosed(e seen) {
	if e.err == nil {
		v.Closed = append(v.Closed, e.value.(Closed))
	}
}

func (v *View) addRevision(e seen) {
	if v.RevisionErr = e.err; e.err == nil {
		v.Revision = e.value.(cluster.Revision)
	}
}
