package lease

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// The timing of the lease, all of it.
const (
	// DefaultTTL is how long a grant runs: nobody acts for that long when the
	// coordinator has died.
	DefaultTTL = 1800 * time.Millisecond
	// RestTTL is how long one runs that a coordinator asks for while there is nothing to do.
	// Daemons of other versions take it for long enough, too.
	RestTTL = MaxTTL
	// MaxTTL is the longest time that a grantor accepts: daemons of other versions
	// ask for it. A grantor that restarts keeps quiet for this long if it had granted
	// to somebody else.
	MaxTTL = 3 * time.Second
	// RenewInterval is the time between two renewals. Two of them can be lost, and the
	// third begins before the holder has to stop (see Margin).
	RenewInterval = 500 * time.Millisecond
	// RestRenewInterval is the time after a renewal with [RestTTL]. After one that failed it is
	// [RenewInterval], so that as many can be lost.
	RestRenewInterval = 1500 * time.Millisecond
	// CallTimeout is how long one lease voter may take to answer, less than the time
	// between two renewals. Three rounds that time out fit into a lease.
	CallTimeout = 400 * time.Millisecond
	// WriteTimeout is how long a lease voter may take to answer what it has to write
	// first: a term, a record. Disks of clouds that are throttled take half a second
	// for a synced write, and nobody acts meanwhile who would have to stop.
	WriteTimeout = 2 * time.Second
)

// Margin returns how much earlier than the grantors a holder considers its
// lease over. A tenth of the lease is right for clocks whose rates differ by up
// to 5 percent each way; quartz clocks differ by 0.02 percent, and NTP slews by
// 0.05 percent. What is more than that only makes the others wait.
func Margin(ttl time.Duration) time.Duration { return ttl / 10 }

// Durable is what a node must have on disk before it answers a request. The
// zero value is a fresh disk, which grants nothing.
type Durable struct {
	// Term is the highest term that the node has seen.
	Term cluster.Term `json:"term,omitempty"`
	// Grant is the last grant, over or not.
	Grant Grant `json:"grant,omitzero"`
	// LeaseVoters is the newest lease voter record that the node has adopted.
	LeaseVoters cluster.LeaseVoters `json:"leaseVoters,omitzero"`
}

// A Grant says to whom a node has given its vote in a term.
type Grant struct {
	Term   cluster.Term     `json:"term"`
	Holder cluster.NodeName `json:"holder"`
	// Boot distinguishes two daemons of one name, and two runs of one daemon.
	Boot cluster.Token `json:"boot,omitempty"`
	// Released says that the holder gave it back.
	Released bool `json:"released,omitempty"`
}

// A Request asks one lease voter for its grant, for a renewal of it, or gives it
// back.
type Request struct {
	// Cluster is the name of the cluster, Token its incarnation.
	Cluster string        `json:"cluster"`
	Token   cluster.Token `json:"token"`
	// Term is the term that the holder has or wants.
	Term   cluster.Term     `json:"term"`
	Holder cluster.NodeName `json:"holder"`
	// Boot is the random token of this run of the holder's daemon.
	Boot cluster.Token `json:"boot,omitempty"`
	// TTL is how long the grant shall run from the moment it is given.
	TTL time.Duration `json:"ttl"`
	// LeaseVoters is the record in which the holder believes. In a campaign it has
	// the stamp of an earlier term; afterwards it has the stamp of Term, and a
	// lease voter that grants adopts it.
	LeaseVoters cluster.LeaseVoters `json:"leaseVoters"`
	// Release gives the grant back.
	Release bool `json:"release,omitempty"`
	// Entitled says that the holder may have the lease without being a lease voter:
	// it is a person with an operator's certificate, or the node that is asked. It
	// is never read from a message; whoever knows the caller sets it.
	Entitled bool `json:"-"`
}

// A Reply is a lease voter's answer. Apart from Granted it reports what the lease voter
// knows, whether it granted or not.
type Reply struct {
	Granted bool `json:"granted"`
	// Term is the highest term that the lease voter has seen.
	Term cluster.Term `json:"term"`
	// Holder is who has the lease voter's running grant, empty for nobody, and
	// Remaining is how long it will still run if it is not renewed.
	Holder    cluster.NodeName `json:"holder,omitempty"`
	Remaining time.Duration    `json:"remaining,omitempty"`
	// LeaseVoters is the lease voter's own record.
	LeaseVoters cluster.LeaseVoters `json:"leaseVoters"`
	// Reason says why it did not grant.
	Reason string `json:"reason,omitempty"`
}

// A StaleError is returned for a term lower than one already seen.
type StaleError struct{ Want, Seen cluster.Term }

func (e *StaleError) Error() string {
	return fmt.Sprintf("term %d is over: term %d has been seen", e.Want, e.Seen)
}

// A HeldError says that somebody else holds the lease.
type HeldError struct {
	Holder cluster.NodeName
	// Remaining is how long it still runs if it is not renewed.
	Remaining time.Duration
	// Err is what the lease voters said.
	Err error
}

func (e *HeldError) Error() string { return fmt.Sprintf("%s coordinates: %v", e.Holder, e.Err) }

// Unwrap returns what the lease voters said.
func (e *HeldError) Unwrap() error { return e.Err }

// Witness returns d after it has seen an order of the holder of a term. It is
// a [*StaleError] if a higher term has been seen, and another error if the
// node knows another holder of the same term. An executor writes the result to
// disk before it acts, if it differs from d.
func (d Durable) Witness(term cluster.Term, holder cluster.NodeName) (Durable, error) {
	if term < d.Term {
		return d, &StaleError{Want: term, Seen: d.Term}
	}
	if why := beyond(d.Term, term); why != "" {
		return d, errors.New(why)
	}
	if term == d.Grant.Term && holder != d.Grant.Holder {
		return d, fmt.Errorf("term %d belongs to %s, not to %s", term, d.Grant.Holder, holder)
	}
	d.Term = term
	return d, nil
}

// Prepare returns d as a lease voter of a new incarnation. All bootstrap voters,
// and all nodes of a cluster that is taken over, are prepared with the names of
// all of them.
//
// A record of the same token is never replaced: Prepare then changes nothing,
// and is an error if d was prepared with other names. Terms survive, so that
// they grow across incarnations.
func (d Durable) Prepare(token cluster.Token, names []cluster.NodeName) (Durable, error) {
	record := cluster.LeaseVoters{Token: token, Names: sorted(names)}
	if err := validRecord(record); err != nil {
		return d, err
	}
	own := d.LeaseVoters
	if own.Token != token {
		d.LeaseVoters = record
		return d, nil
	}
	if own.Term == 0 && !slices.Equal(own.Names, record.Names) {
		return d, fmt.Errorf("incarnation %s is already prepared with the lease voters %v, not %v", token, own.Names,
			record.Names)
	}
	return d, nil
}

// Join returns d, of the node self, as a node that may become a lease voter of a
// running incarnation. record is the finished record of the coordinator that
// sends the node to join, who holds the lease at that time.
//
// A node that has no record of the incarnation but is named in this one has
// lost its disk, and with it the promises that it made; Join is an error until
// the lease voters have agreed on a record without it. After that, its old
// promises count for nothing, provided that it starts from this record:
// starting from none, it would vote for records that ended long ago, in which
// it may be a majority by itself.
func (d Durable) Join(self cluster.NodeName, record cluster.LeaseVoters) (Durable, error) {
	if err := validRecord(record); err != nil {
		return d, err
	}
	if why := beyond(d.Term, record.Term); why != "" {
		return d, errors.New(why)
	}
	if d.LeaseVoters.Token == record.Token {
		if Newer(record, d.LeaseVoters) {
			d.LeaseVoters = cloneRecord(record)
		}
	} else {
		if slices.Contains(record.Names, self) {
			return d, fmt.Errorf("%s is a lease voter in record %s, but that record is not on its disk; it must be removed "+
				"from the lease voters first", self, stamp(record))
		}
		d.LeaseVoters = cloneRecord(record)
	}
	d.Term = max(d.Term, record.Term)
	return d, nil
}
