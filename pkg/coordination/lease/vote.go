package lease

import (
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

const (
	// orphanGrace is how long after its last grant a lease voter takes the lowest live
	// node for unable to coordinate. It is longer than a lease and a campaign.
	orphanGrace = 8 * time.Second
	// returnGrace is for how long who gave the lease back may take it again before the
	// next in line does not wait for it any more. It is longer than a campaign.
	returnGrace = time.Second
	// rankInterval is the distance between two such nodes, so that they do not campaign
	// at once.
	rankInterval = 2 * time.Second
)

// A Vote is for whom a node has voted last, and when. For nobody, it says since when
// the lease is free, and who gave it back. A nil one is no vote.
type Vote struct {
	At       time.Time
	To, From cluster.NodeName
	// For is how long what was granted runs, where that is longer than [DefaultTTL].
	For time.Duration
	// Started says that it is the daemon's start, and no vote. Heard is that another has
	// asked for a vote since, and was refused: this grantor keeps quiet after its start.
	Started, Heard bool
	// Gone let its lease run out before the vote, which was first given at Next. It is
	// remembered when the lease is given back: who campaigns may not have got it.
	Gone cluster.NodeName
	Next time.Time
}

// StartVote returns the vote of a node whose daemon starts now, with that record of the
// lease voters on its disk. A lease voter knows of no vote since it started, and counts
// from now.
func StartVote(now time.Time, record cluster.LeaseVoters) *Vote {
	if len(record.Names) == 0 {
		return nil
	}
	return &Vote{At: now, Started: len(record.Names) > 1}
}

// Late returns v, or for a node that goes on at now and wanted to at due, a vote as at its start: where it
// stood still for longer than a lease, that its vote has run out says nothing of who had it. It listens for
// as long as one that has been heard, since others have to find it again. Record is that on its disk.
func (v *Vote) Late(due, now time.Time, record cluster.LeaseVoters) *Vote {
	if v == nil || now.Sub(due) <= DefaultTTL || now.Before(v.until()) {
		return v
	}
	next := StartVote(now, record)
	if next != nil {
		next.Heard = next.Started
	}
	return next
}

// Since returns v, or where there is none, and the node self is one of the lease voters, a
// vote for nobody: it was made a lease voter, and counts from now.
func (v *Vote) Since(now time.Time, self cluster.NodeName, leaseVoters []cluster.NodeName) *Vote {
	if v == nil && slices.Contains(leaseVoters, self) {
		return &Vote{At: now}
	}
	return v
}

// After returns the vote of the node self after it has answered a request, v itself
// where that changes nothing.
func (v *Vote) After(now time.Time, self cluster.NodeName, req Request, granted bool) *Vote {
	switch {
	case !granted:
		if v != nil && v.Started && !req.Release && req.Holder != self {
			return &Vote{At: v.At, Started: true, Heard: true}
		}
		return v
	}
	next := &Vote{At: now, To: req.Holder}
	if req.Release {
		// Nobody has to wait for the end of what was released.
		next.To, next.From = "", req.Holder
	}
	if !req.Release {
		next.For = v.runs(now, req.TTL)
	}
	if gone, since := v.gone(self, now); gone != req.Holder {
		next.Gone, next.Next = gone, since
	}
	return next
}

// runs returns the For of a vote that is given now with that time, by a node that voted v before: a
// shorter time takes nothing back of what was promised.
func (v *Vote) runs(now time.Time, ttl time.Duration) time.Duration {
	if v != nil {
		ttl = max(ttl, v.At.Add(v.For).Sub(now))
	}
	if ttl > DefaultTTL {
		return ttl
	}
	return 0
}

// until returns when what was granted with v is over, if it is not renewed.
func (v *Vote) until() time.Time { return v.At.Add(max(DefaultTTL, v.For)) }

// gone returns who let its lease run out lately, as the node self knows, and when
// another's vote followed.
func (v *Vote) gone(self cluster.NodeName, now time.Time) (name cluster.NodeName, since time.Time) {
	switch {
	case v == nil:
	case v.To != "" && v.To != self && !now.Before(v.until()):
		return v.To, now
	case v.Gone != "" && now.Sub(v.Next) < orphanGrace:
		return v.Gone, v.Next
	}
	return "", time.Time{}
}

// Quiet returns for how long the node self does not campaign, whatever else happens: as
// long as its vote for another runs.
func (v *Vote) Quiet(self cluster.NodeName, now time.Time) time.Duration {
	if v == nil || v.To == "" || v.To == self {
		return 0
	}
	return max(0, v.until().Sub(now))
}

// Lapsed returns who let its lease run out, empty for nobody: it may be gone, and
// gossip has only not noticed yet. Once another node has got the lease, it goes on to return that
// name for [DefaultTTL]: the new holder is about to observe for the first time.
func (v *Vote) Lapsed(now time.Time) cluster.NodeName {
	switch {
	case v == nil:
		return ""
	case !now.Before(v.until()):
		return v.To
	case v.Gone != "" && now.Sub(v.Next) < DefaultTTL:
		return v.Gone
	}
	return ""
}

// listen is for how long a daemon that has just started asks for no lease. Who has it
// renews it in this time, and would need another term if this node had seen a later one.
func (v *Vote) listen() time.Duration {
	switch {
	case !v.Started:
		return 0
	case v.Heard:
		return MaxTTL + 2*RenewInterval
	}
	return RestRenewInterval + RenewInterval
}

// ShouldCampaign says whether the node self should try for the lease, by its last vote,
// the nodes that it takes for alive, in order, and the lease voters of the record on its
// disk. It is a hint that keeps most nodes from asking at once; that two have the lease
// is for the grantors to prevent.
func ShouldCampaign(self cluster.NodeName, alive, leaseVoters []cluster.NodeName, v *Vote, now time.Time) bool {
	return v.campaigns(self, inLine(self, alive, leaseVoters), now)
}

// inLine returns who of the live nodes may get the lease as far as a lease voter
// knows: the lease voters of its record. A node that is none knows nothing better
// than all.
func inLine(self cluster.NodeName, alive, leaseVoters []cluster.NodeName) []cluster.NodeName {
	if !slices.Contains(leaseVoters, self) {
		return alive
	}
	return slices.DeleteFunc(slices.Clone(alive), func(n cluster.NodeName) bool {
		return !slices.Contains(leaseVoters, n)
	})
}

// campaigns says whether a node should try for the lease. One that votes for
// another does not. Otherwise the lowest live name does, not counting one that
// let its lease run out: it is gone, and gossip has only not noticed yet. Nor
// does one count for long that gave the lease back and lives: it has a reason,
// such as a disk that hangs. One that has just started listens first.
// Another lease voter does when nobody has had the lease for a while, because the
// lowest may be alive and cut off from the lease voters: also one that has voted for
// itself, and lost that campaign.
func (v *Vote) campaigns(self cluster.NodeName, alive []cluster.NodeName, now time.Time) bool {
	if v == nil {
		return slices.Index(alive, self) <= 0
	}
	if v.To == self {
		v = &Vote{At: v.At, Gone: v.Gone, Next: v.Next}
	}
	since := now.Sub(v.At)
	if v.To != "" && now.Before(v.until()) || since < v.listen() {
		return false
	}
	alive = slices.DeleteFunc(slices.Clone(alive), func(n cluster.NodeName) bool {
		return n == v.To || n == v.Gone && n != self && now.Sub(v.Next) < orphanGrace
	})
	rank := slices.Index(alive, self)
	if v.From != self && since > returnGrace {
		rest := slices.DeleteFunc(slices.Clone(alive), func(n cluster.NodeName) bool { return n == v.From })
		rank = min(rank, slices.Index(rest, self))
	}
	return rank <= 0 || since > orphanGrace+time.Duration(rank)*rankInterval
}
