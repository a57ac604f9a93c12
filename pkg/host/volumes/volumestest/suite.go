package volumestest

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
)

// A Place says which disk a disk is.
type Place struct{ Cluster, Etcd, Member, Zone string }

// A Cloud is a provider and a fake of its cloud.
type Cloud struct {
	// Zone is that of Self, Other another one of the same region. Far says that
	// disks of another zone cannot be attached, so that they are not found.
	Zone, Other string
	Far         bool
	// Disk makes a disk as kops does; n is another number for each.
	Disk func(n int, p Place) *Disk
	// Machine makes a machine.
	Machine func(n int, zone string) *Machine
	// Open serves a world, and makes a provider for the disks of the etcd cluster
	// main of prod.example.com.
	Open func(t *testing.T, w *World) volumes.Provider
	// Want is what the provider is to say of a disk that is attached to Self, but
	// for its id and the machine's.
	Want func(d Disk) volumes.Volume
}

// A stage is one test's world, the provider, and what was reported.
type stage struct {
	t        *testing.T
	c        Cloud
	w        *World
	p        volumes.Provider
	reported []string
	number   int
}

const cluster = "prod.example.com"

func (c Cloud) stage(t *testing.T) *stage {
	t.Helper()
	w := &World{Self: c.Machine(1, c.Zone)}
	w.Machines = []*Machine{w.Self, c.Machine(2, c.Other), c.Machine(3, c.Zone)}
	s := &stage{t: t, c: c, w: w}
	s.p = c.Open(t, w)
	return s
}

func (s *stage) disk(p Place, machine string) *Disk {
	if p.Zone == "" {
		p.Zone = s.c.Zone
	}
	if p.Cluster == "" {
		p.Cluster = cluster
	}
	if p.Etcd == "" {
		p.Etcd = "main"
	}
	s.number++
	d := s.c.Disk(s.number, p)
	d.Machine = machine
	s.w.lock.Lock()
	defer s.w.lock.Unlock()
	s.w.Disks = append(s.w.Disks, d)
	return d
}

// strangers are disks that are not this machine's.
func (s *stage) strangers() {
	s.disk(Place{Member: "a", Etcd: "events"}, "")
	s.disk(Place{Member: "a", Cluster: "other.example.com"}, "")
	s.disk(Place{Member: "a", Cluster: "test.prod.example.com"}, "")
	if s.c.Far {
		s.disk(Place{Member: "b", Zone: s.c.Other}, "")
	}
}

// acquire acquires a volume, which is to be d, with so many attachments.
func (s *stage) acquire(d *Disk, attachments int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer cancel()
	log := slog.New(slog.NewTextHandler(s.t.Output(), nil))
	v, err := volumes.Acquire(ctx, s.p, log, func(why string) { s.reported = append(s.reported, why) })
	if err != nil {
		s.t.Fatal(err)
	}
	now, _ := s.w.Disk(d.ID)
	want := s.c.Want(now)
	want.ID, want.Machine, want.Here = v.ID, v.Machine, true
	if !reflect.DeepEqual(v, want) {
		s.t.Errorf("acquired\n%+v, want\n%+v", v, want)
	}
	if now.Machine != s.w.Self.ID {
		s.t.Errorf("disk %s is attached to %q", d.ID, now.Machine)
	}
	if s.w.attached != attachments {
		s.t.Errorf("%d disks were attached, want %d", s.w.attached, attachments)
	}
}

// Run runs the tests of a provider.
func Run(t *testing.T, c Cloud) {
	for name, test := range map[string]func(*stage){
		"a free disk is attached, no stranger's": func(s *stage) {
			s.strangers()
			s.acquire(s.disk(Place{Member: "a"}, ""), 1)
		},
		"the attached disk is used": func(s *stage) {
			s.disk(Place{Member: "a"}, "")
			s.acquire(s.disk(Place{Member: "a"}, s.w.Self.ID), 0)
		},
		"a lost race leads to the next disk": func(s *stage) {
			lost := false
			s.w.BeforeAttach = func(d *Disk) {
				if !lost {
					d.Machine, lost = s.w.Machines[2].ID, true
				}
			}
			s.acquireOneOf(s.disk(Place{Member: "a"}, ""), s.disk(Place{Member: "a"}, ""))
		},
		"a disk of a dying machine is taken when it is free": (*stage).dying,
		"too many calls are made more rarely": func(s *stage) {
			d := s.disk(Place{Member: "a"}, "")
			s.w.Throttled = 4
			s.acquire(d, 1)
		},
		"all pages are read": func(s *stage) {
			s.w.Page = 2
			for range 3 {
				s.strangers()
			}
			for range 3 {
				s.disk(Place{Member: "a"}, s.w.Machines[2].ID)
			}
			s.acquire(s.disk(Place{Member: "a"}, ""), 1)
		},
		"metadata comes late": func(s *stage) {
			d := s.disk(Place{Member: "a"}, "")
			s.w.Unanswered = 4
			s.address()
			s.acquire(d, 1)
		},
		"metadata is slow": (*stage).slow,
		"an attachment without an answer is no reason for another": func(s *stage) {
			d := s.disk(Place{Member: "a"}, "")
			s.w.Lost = 1
			s.acquire(d, 1)
		},
		"nodes are the machines that have disks": (*stage).nodes,
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			test(c.stage(t))
		})
	}
}

// acquireOneOf acquires a volume after a lost race.
func (s *stage) acquireOneOf(all ...*Disk) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer cancel()
	v, err := volumes.Acquire(ctx, s.p, slog.New(slog.DiscardHandler), func(string) {})
	if err != nil || !v.Here {
		s.t.Fatalf("%+v, %v", v, err)
	}
	var machines []string
	for _, d := range all {
		now, _ := s.w.Disk(d.ID)
		machines = append(machines, now.Machine)
	}
	slices.Sort(machines)
	want := []string{s.w.Self.ID, s.w.Machines[2].ID}
	slices.Sort(want)
	if !slices.Equal(machines, want) || s.w.attached != 1 {
		s.t.Errorf("attached to %q, %d attachments; want %q", machines, s.w.attached, want)
	}
}

func (s *stage) slow() {
	d := s.disk(Place{Member: "a"}, "")
	s.w.Slow = 2 * time.Second
	s.address()
	s.acquire(d, 1)
	if slices.ContainsFunc(s.reported, func(why string) bool { return why != "" }) {
		s.t.Errorf("reported %q", s.reported)
	}
}

func (s *stage) dying() {
	d := s.disk(Place{Member: "a"}, s.w.Machines[2].ID)
	s.w.afterList = func(n int) {
		if n == 3 {
			d.Machine = ""
		}
	}
	s.acquire(d, 1)
	if len(s.reported) != 2 || !strings.Contains(s.reported[0], "is attached to ") || s.reported[1] != "" {
		s.t.Errorf("reported %q", s.reported)
	}
}

func (s *stage) address() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	a, err := volumes.Retry(ctx, slog.New(slog.DiscardHandler), func(string) {}, s.p.Address)
	if err != nil || a != s.w.Self.Addresses[0] {
		s.t.Errorf("the address is %q, %v", a, err)
	}
}

// nodes has a disk of a machine that is gone, and a free one.
func (s *stage) nodes() {
	s.strangers()
	s.disk(Place{Member: "d"}, "")
	gone := s.c.Machine(9, s.c.Zone)
	s.disk(Place{Member: "c"}, gone.ID)
	want := map[string][]string{}
	for i, member := range []string{"a", "b"} {
		m := s.w.Machines[i]
		d := s.disk(Place{Member: member, Zone: m.Zone}, m.ID)
		want[s.c.Want(*d).Node] = m.Addresses
	}
	got, err := s.p.Nodes(s.t.Context())
	have := map[string][]string{}
	for _, n := range got {
		have[n.Name] = n.Addresses
	}
	if err != nil || fmt.Sprint(have) != fmt.Sprint(want) {
		s.t.Errorf("nodes are %v, %v; want %v", have, err, want)
	}
	s.address()
	s.someNodes(len(got))
}

// someNodes has each of the calls refused in turn: some of the nodes are not to
// be taken for all of them.
func (s *stage) someNodes(all int) {
	s.t.Helper()
	for n := 1; ; n++ {
		s.w.lock.Lock()
		s.w.failing = n
		s.w.lock.Unlock()
		got, err := s.p.Nodes(s.t.Context())
		s.w.lock.Lock()
		left := s.w.failing
		s.w.failing = 0
		s.w.lock.Unlock()
		if left > 0 { // there are less calls than that
			return
		}
		if err == nil && len(got) != all {
			s.t.Errorf("when call %d is refused, nodes are %v, and there is no error", n, got)
		}
	}
}
