// Package volumestest is what the tests of all clouds share: a small world of
// machines and disks, which each cloud's fake server shows in the cloud's own
// protocol, and the tests that each provider has to pass in it.
package volumestest

import (
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A T is where a fake server reports what is wrong.
type T interface {
	Errorf(format string, args ...any)
}

// A Disk is a volume of the world.
type Disk struct {
	ID, Name, Zone string
	Tags           map[string]string
	// Machine is the id of the machine that it is attached to.
	Machine string
	// Device is how it was asked to be attached.
	Device string
}

// A Machine is one of the world.
type Machine struct {
	ID, Name, Zone string
	// Addresses are IP addresses in its private network, the first one its own.
	Addresses []string
	// Tags are those of the machine, where the cloud has some.
	Tags map[string]string
}

// A World is what a fake server shows.
type World struct {
	lock sync.Mutex
	// Self is the machine that asks.
	Self *Machine
	// Disks and Machines are all there are, Self among them.
	Disks    []*Disk
	Machines []*Machine
	// Page is how many items are in one page, 0 for all.
	Page int
	// Throttled is how many of the next calls are refused as too many, Unanswered how
	// many of the next questions for metadata have no answer.
	Throttled, Unanswered int
	// Slow is how long each answer of metadata takes.
	Slow time.Duration
	// BeforeAttach is called before a disk is attached to Self.
	BeforeAttach func(d *Disk)
	// AfterAttach is called when a disk has been attached.
	AfterAttach func(d Disk)
	// Lost is how many of the next attachments are made without an answer.
	Lost int

	// failing is which of the calls from now on is refused, 0 for none.
	failing         int
	lists, attached int
	afterList       func(n int)
}

// Errors of [World.Attach]: the disk is attached elsewhere, there is none, or it
// is attached and nothing shows it.
var (
	ErrInUse = errors.New("the disk is in use")
	ErrNone  = errors.New("there is no such disk")
	ErrLost  = errors.New("the answer is lost")
)

// Call says whether a call is answered, or refused as one too many.
func (w *World) Call() bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.Throttled > 0 {
		w.Throttled--
		return false
	}
	if w.failing > 0 {
		w.failing--
		return w.failing > 0
	}
	return true
}

// Metadata says whether a question for metadata is answered, when it is.
func (w *World) Metadata() bool {
	<-time.After(w.Slow)
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.Unanswered > 0 {
		w.Unanswered--
		return false
	}
	return true
}

// List returns the disks that keep accepts, as they are now.
func (w *World) List(keep func(Disk) bool) []Disk {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.lists++
	if w.afterList != nil {
		w.afterList(w.lists)
	}
	var list []Disk
	for _, d := range w.Disks {
		if keep == nil || keep(*d) {
			list = append(list, *d)
		}
	}
	return list
}

// DisksOf returns the ids of the disks that are attached to a machine.
func (w *World) DisksOf(machine string) []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	var ids []string
	for _, d := range w.Disks {
		if d.Machine == machine {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// Disk returns one disk.
func (w *World) Disk(id string) (Disk, bool) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if d := w.disk(id); d != nil {
		return *d, true
	}
	return Disk{}, false
}

func (w *World) disk(id string) *Disk {
	for _, d := range w.Disks {
		if d.ID == id || d.Name == id {
			return d
		}
	}
	return nil
}

// Machine returns one machine by its id or name, nil where there is none.
func (w *World) Machine(id string) *Machine {
	for _, m := range w.Machines {
		if m.ID == id || m.Name == id {
			return m
		}
	}
	return nil
}

// Attach attaches a disk to a machine.
func (w *World) Attach(id, machine, device string) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	d := w.disk(id)
	if d == nil {
		return ErrNone
	}
	if w.BeforeAttach != nil {
		w.BeforeAttach(d)
	}
	if d.Machine != "" {
		return ErrInUse
	}
	d.Machine, d.Device = machine, device
	w.attached++
	if w.AfterAttach != nil {
		w.AfterAttach(*d)
	}
	if w.Lost > 0 {
		w.Lost--
		return ErrLost
	}
	return nil
}

// DeviceUsed says whether a machine has a disk at a device.
func (w *World) DeviceUsed(machine, device string) bool {
	return slices.ContainsFunc(w.List(nil), func(d Disk) bool { return d.Machine == machine && d.Device == device })
}

// Cut returns one page of a list that begins at an item, and where the next one
// begins, 0 for nowhere.
func Cut[T any](w *World, list []T, at int) ([]T, int) {
	if w.Page == 0 || len(list) <= at+w.Page {
		return list[min(at, len(list)):], 0
	}
	return list[at : at+w.Page], at + w.Page
}

// Base is where a server was asked, with its scheme.
func Base(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// Break ends a connection without an answer.
func Break() { panic(http.ErrAbortHandler) }
