package cluster

import (
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// Staged is a restore on one node: the backup is fetched and made into a data
// directory beside the one in use, so that everything that can fail has been
// tried before anything stops.
type Staged struct {
	// Request is the request that asked for it.
	Request string              `json:"request"`
	Backup  string              `json:"backup"`
	Token   Token               `json:"token"`
	Version etcdversion.Version `json:"version"`
	Voters  []InitialMember     `json:"voters"`
	// Revision is what the restored cluster begins with: above all that was ever
	// seen.
	Revision Revision `json:"revision"`
	// Ready says that the data directory is complete and on the disk.
	Ready bool `json:"ready,omitempty"`
	// Problem is how the last try failed; Refused says that trying again is of no
	// use.
	Problem string `json:"problem,omitempty"`
	Refused bool   `json:"refused,omitempty"`
	// Done and Total are bytes of the snapshot, Total zero where it is not known.
	Done  int64 `json:"done,omitempty"`
	Total int64 `json:"total,omitempty"`
}

// Restored says what an incarnation's data is from.
type Restored struct {
	Request string `json:"request"`
	Backup  string `json:"backup"`
	// Revision is what the incarnation began with.
	Revision Revision `json:"revision"`
	// Before are the lease voters of what ran before, without those that the operator
	// declared to be gone for good.
	Before []NodeName `json:"before,omitempty"`
}

// A Source is what the store says of a backup that is to be restored.
type Source struct {
	Request string `json:"request"`
	Backup  string `json:"backup"`
	// Newest is, for a sealed restore, the newest backup when its own one was looked for.
	// Backup is empty where there was none.
	Newest string `json:"newest,omitempty"`
	// Version is that of the etcd that it was taken from, Storage the version of
	// the storage format, zero where nothing says.
	Version etcdversion.Version `json:"version"`
	Storage etcdversion.Version `json:"storage,omitzero"`
	// Revision and Size (of the snapshot, in bytes) are zero where nothing says.
	// Seen is the higher one of Revision and that of the newest backup.
	Revision Revision `json:"revision,omitempty"`
	Seen     Revision `json:"seen,omitempty"`
	Size     int64    `json:"size,omitempty"`
	// Problem says why it cannot be restored, whatever one waits for.
	Problem string `json:"problem,omitempty"`
}

// FirstRaise is the first release whose tool can raise the revision of what it restores
// (etcd issue 16028).
var FirstRaise = etcdversion.Must("3.5.10")

// Raiser returns the version whose tool raises the revision of a snapshot for an etcd whose
// own tool cannot: the newest of some versions that is of 3.5 and can. It is zero for
// none. What it writes is read by 3.4 too.
func Raiser(has []etcdversion.Version) (best etcdversion.Version) {
	for _, v := range has {
		if v.Major == 3 && v.Minor == FirstRaise.Minor && v.Compare(FirstRaise) >= 0 && v.Compare(best) > 0 {
			best = v
		}
	}
	return best
}

// Reads reports whether a snapshot of one version can be restored as another: of the same
// or an earlier minor version; and 3.4 reads those of 3.5, which has the same form.
func Reads(v, of etcdversion.Version) bool {
	return v.Major == of.Major && (of.Minor <= v.Minor || v.Minor == 4 && of.Minor == 5)
}

// BackupReason is why the backup is taken that a sealed restore begins with. It is
// written down with the backup, so no other one is taken for it.
func (r Request) BackupReason() string { return "sealed-" + r.Name }

// SealedRequest returns the oldest restore in the queue for which clients are to be kept
// away from the members that run: one that no incarnation was restored for yet; nil for
// none.
func (o Observation) SealedRequest() *Request {
	for i := range o.Store.Requests {
		r := &o.Store.Requests[i]
		decided := slices.ContainsFunc(o.Store.Incarnations, func(i Incarnation) bool {
			return i.Restored != nil && i.Restored.Request == r.Name
		})
		if r.Kind == RequestRestore && !decided {
			if r.Sealed {
				return r
			}
			return nil // others are before it
		}
	}
	return nil
}

// HighWater returns the highest revision that anything in the observation
// reports. Clients may have seen it, so a restored cluster must begin above it
// (kubernetes/kubernetes#118501, etcd-io/etcd#16028).
func (o Observation) HighWater() Revision {
	high := max(o.Revision, o.Store.Revision)
	for _, n := range o.Nodes {
		high = max(high, n.Revision)
	}
	for _, i := range o.Store.Incarnations {
		if i.Restored != nil {
			high = max(high, i.Restored.Revision)
		}
	}
	if s := o.Store.Source; s != nil {
		high = max(high, s.Revision, s.Seen)
	}
	return high
}

// Own returns the backups of this cluster: those that do not say that they are of another.
func (s Store) Own() []Backup {
	foreign := func(b Backup) bool { return b.Foreign != "" }
	if !slices.ContainsFunc(s.Backups, foreign) {
		return s.Backups
	}
	return slices.DeleteFunc(slices.Clone(s.Backups), foreign)
}

// Inspected returns when a backup was last verified, and last restored for a
// trial, with success. A trial verifies too.
func (s Store) Inspected() (verified, drilled time.Time) {
	for _, b := range s.Own() {
		if b.Verified.After(verified) {
			verified = b.Verified
		}
		if b.Drilled.After(drilled) {
			drilled = b.Drilled
		}
	}
	if drilled.After(verified) {
		verified = drilled
	}
	return verified, drilled
}

// Ended reports whether the records show that the incarnation token came to its
// end by the restore of a later one. A record that is missing or cannot be
// understood ends nothing: what runs may be newer than all that can be read. Nor
// does the record of a restore that never began.
func (o Observation) Ended(token Token) bool {
	list := o.Store.Incarnations
	newest := o.Store.RecordsProblem == "" && len(list) > 0
	for i := len(list) - 1; i >= 0 && newest; i-- {
		if o.Uncommitted(list[i]) {
			continue
		}
		return list[i].Restored != nil && slices.ContainsFunc(list[:i], func(e Incarnation) bool { return e.Token == token })
	}
	return false
}

// Present returns the newest record of an incarnation, without those of restores
// that never began; nil for none.
func (o Observation) Present() *Incarnation {
	for i := len(o.Store.Incarnations) - 1; i >= 0; i-- {
		if !o.Uncommitted(o.Store.Incarnations[i]) {
			return &o.Store.Incarnations[i]
		}
	}
	return nil
}

// Uncommitted reports whether an incarnation that was to begin with restored data
// never did, and never can. Its voters stage that data before the record is
// written, and only the data lets them start. So if so many of them answer and have
// nothing of it that the rest is no majority, there will never be a quorum; if nobody
// has run it, there never was one: what was staged and never started took no part
// in any. Where fewer than a majority of them answer, nothing is known. A node that
// does not answer may be a member that was added later, unless it is one of those
// voters, or so many of them have never started that nobody could add one.
//
// One that served and lost all its disks looks the same but for what it left
// behind: marks as high as the revision that it began with, which is far above all
// that was seen before, and data that was set aside.
func (o Observation) Uncommitted(i Incarnation) bool {
	if i.Restored == nil || !o.Store.Reachable || o.Store.Revision >= i.Restored.Revision {
		return false
	}
	without, waiting, unheard := 0, 0, false
	for _, n := range o.Nodes {
		voter := slices.ContainsFunc(i.Voters, func(s InitialMember) bool { return s.Name == n.Name })
		switch waits := n.Reachable && n.Awaits(i.Token); {
		case n.ran(i.Token), n.Revision > i.Restored.Revision, n.Revision == i.Restored.Revision && !waits:
			return false
		case !n.Reachable && n.Awaits(i.Token):
			return false // it may have begun since
		case !n.Reachable && !voter:
			unheard = true
		case waits && voter:
			waiting++
		case n.Reachable && voter:
			without++
		}
	}
	majority := Quorum(len(i.Voters))
	if unheard && len(i.Voters)-waiting >= majority {
		return false
	}
	return len(i.Voters)-without < majority && without+waiting >= majority
}

// Awaits reports whether the node has what an incarnation is to begin with, and has
// not begun.
func (n Node) Awaits(token Token) bool {
	return n.Staged != nil && n.Staged.Token == token || n.Prepared != nil && n.Prepared.Token == token
}

// ran reports whether the node may have run an incarnation: its data is there, was to
// be, or was set aside, or it is a lease voter of it without a promise. A promise on an
// empty disk shows that it has not, also where a start was cut short. What cannot be
// read may be of any.
func (n Node) ran(token Token) bool {
	aside := slices.ContainsFunc(n.SetAside, func(s SetAside) bool { return s.Of(token) })
	promised := n.Prepared != nil && n.Prepared.Token == token && n.Disk.State == DiskEmpty
	of := n.LeaseVoters.Token == token || n.Assigned != nil && n.Assigned.Token == token
	return aside || of && !promised || n.Disk.Token == token || n.Disk.State == DiskUnreadable
}

// Lost reports whether no majority of the lease voters is left without those that
// are gone for good.
func Lost(leaseVoters, gone []NodeName) bool {
	left := 0
	for _, e := range leaseVoters {
		if !slices.Contains(gone, e) {
			left++
		}
	}
	return len(leaseVoters) > 0 && left < Quorum(len(leaseVoters))
}
