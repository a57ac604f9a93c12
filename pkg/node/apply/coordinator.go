package apply

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// Records is the part of the control store that operations write.
type Records interface {
	// CreateIncarnation writes the record if there is none of its number. One
	// that is there with the same token is success.
	CreateIncarnation(ctx context.Context, i cluster.Incarnation) error
	// MarkCreated writes the marker that a cluster exists.
	MarkCreated(ctx context.Context, at time.Time) error
	// MarkAgain writes the marker of a cluster that has been taken over.
	MarkAgain(ctx context.Context, at time.Time) error
	// WriteSpec writes the spec where there is none, ReplaceSpec in any case.
	WriteSpec(ctx context.Context, s cluster.Spec) error
	ReplaceSpec(ctx context.Context, s cluster.Spec) error
	// CloseRequest takes a request out of the queue, and keeps how it ended.
	CloseRequest(ctx context.Context, r store.Closed) error
	// HasBackup reports whether a backup is there now.
	HasBackup(ctx context.Context, name string) (bool, error)
	// DeleteBackup deletes a backup; one that is not there is success.
	DeleteBackup(ctx context.Context, name string) error
}

// A Fence proves, right before an effect, that its holder may still act.
type Fence interface {
	// Confirm asks a majority of the lease voters now. It returns the term and a
	// context that ends when the proof does. Where a cluster has no lease voters
	// yet, the term is zero and the store decides.
	Confirm(ctx context.Context) (context.Context, context.CancelFunc, cluster.Term, error)
	// ChangeLeaseVoters has the new record of the incarnation on the disks of a
	// majority of the present lease voters and of the new ones when it returns. It
	// fails if the fence is of another incarnation.
	ChangeLeaseVoters(ctx context.Context, token cluster.Token, names []cluster.NodeName) error
}

// Coordinator carries out operations in the name of the coordinator, or of a
// person who holds the lease for one command.
type Coordinator struct {
	Self  cluster.NodeName
	Fence Fence
	// Execute sends an operation to the node that it is for, in the name of a
	// term. What is sent again has the id that it had.
	Execute func(ctx context.Context, op plan.Operation, term cluster.Term, id string) error
	Records Records
	// Etcd connects to the given client URLs.
	Etcd func(clientURLs []string) (Etcd, error)
	Now  func() time.Time
	// Undrained hears of a node whose member could not be drained, and why, right before the
	// member's removal is asked for; nil for nobody.
	Undrained func(node cluster.NodeName, why error)
}

// The deadlines of operations: what a healthy cluster needs, times a hundred.
const (
	quickDeadline  = 20 * time.Second
	backupDeadline = 30 * time.Minute
	// verifyDeadline is for reading whole databases, about 1.4 s a GB.
	verifyDeadline = 5 * time.Minute
)

// BootstrapDeadline is how long an operation may take that comes before there can be a
// lease: the node that carries it out reads the store itself, which may take two polls of a
// minute. Nothing else waits for it, as there is no cluster yet, or none with a quorum.
const BootstrapDeadline = 3 * time.Minute

// Timeout returns how long op may take in the world that was observed.
func Timeout(obs cluster.Observation, op plan.Operation) time.Duration {
	if unleased(obs, op) {
		return max(BootstrapDeadline, Deadline(op))
	}
	return Deadline(op)
}

// unleased reports whether op comes before there can be a lease. What is to be bootstrapped, or
// restored where nothing is left, has no lease voters; the lease may still remember those of
// what was lost, who grant nothing any more.
func unleased(obs cluster.Observation, op plan.Operation) bool {
	return plan.Unfenced(obs, op) || Bootstraps(op) && len(obs.LeaseVoters.Names) == 0 && len(obs.Members) == 0
}

// Deadline returns how long op may take, once it is known that it is to be done.
func Deadline(op plan.Operation) time.Duration {
	switch op := op.(type) {
	case *plan.MemberChangeVersion:
		return changeDeadline
	case *plan.MemberForceSnapshot:
		return snapshotDeadline
	case *plan.MemberDrain:
		return drainDeadline
	case *plan.BackupTake, *plan.BackupVerify, *plan.BackupDrill:
		return backupDeadline
	case *plan.QuarantineLift:
		if op.ExpectRevision > 0 {
			return verifyDeadline
		}
	}
	return quickDeadline
}

// planAgeLimit is how old an observation may be when what was planned on it begins:
// longer than an observation and a campaign take.
const planAgeLimit = 20 * time.Second

// fresh makes sure that op was planned a moment ago. A machine may have stood still
// since, and the lease proves only that nobody else has acted: where all machines
// stood still, or the other lease voters were away, it is granted again. While a
// machine is suspended its monotonic clock may stand still as well, so the other
// one is asked too.
func (c *Coordinator) fresh(obs cluster.Observation, op plan.Operation) error {
	if obs.At.IsZero() {
		return nil // what a person types was not planned on anything
	}
	now := c.Now()
	age := max(now.Sub(obs.At), now.Round(0).Sub(obs.At.Round(0)))
	if age <= planAgeLimit+Deadline(op) {
		return nil
	}
	return &plan.StaleError{Want: "an observation of now", Got: fmt.Sprintf("one of %s ago", age.Round(time.Second))}
}

// NotYet reports whether err says that etcd refuses a membership change for a
// reason that clears by itself within seconds.
func NotYet(err error) bool {
	return errors.Is(err, etcdclient.ErrUnhealthy) || errors.Is(err, etcdclient.ErrNotReady)
}

// Do carries out op in the world that was just observed. It checks the
// invariants, confirms the lease with a majority, and only then acts; the
// effect's context ends with the lease. A daemon that was paused between the
// proof and the effect finds its context over when it goes on.
func (c *Coordinator) Do(ctx context.Context, spec cluster.Spec, obs cluster.Observation, op plan.Operation) error {
	if err := plan.Check(spec, obs, op); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout(obs, op))
	defer cancel()
	if _, ok := plan.Target(op); ok {
		if err := c.stillEvicted(ctx, obs, op); err != nil {
			return err
		}
		if err := c.agree(ctx, obs, op); err != nil {
			return err
		}
		return c.send(ctx, obs, op)
	}
	node, undrained := c.drainFor(ctx, spec, obs, op)
	proven, done, _, err := c.confirm(ctx, obs, op)
	if err != nil {
		return err
	}
	defer done()
	if err := c.fresh(obs, op); err != nil {
		return err
	}
	if undrained != nil && c.Undrained != nil && proven.Err() == nil {
		c.Undrained(node, undrained)
	}
	name := pointOf(op)
	crashpoint.Hit(name + ".before")
	err = c.effect(proven, obs, op)
	crashpoint.Hit(name + ".after")
	return err
}

// pointOf begins the names of an operation's crash points.
func pointOf(op plan.Operation) string { return strings.ReplaceAll(plan.KindOf(op).Path, " ", "-") }

// stillEvicted reads the member list through the quorum once more before a
// node's process is stopped or its data moved in the present incarnation: what
// nodes reported in the last observation need not be what the quorum says.
func (c *Coordinator) stillEvicted(ctx context.Context, obs cluster.Observation, op plan.Operation) error {
	var token cluster.Token
	var id cluster.MemberID
	switch op := op.(type) {
	case *plan.MemberStop:
		token, id = op.ExpectToken, op.ExpectMemberID
	case *plan.DataSetAside:
		token, id = op.Token, op.ExpectMemberID
	}
	current := slices.ContainsFunc(obs.Members, func(m cluster.Member) bool { return m.ID == id })
	if token == "" || token != obs.Token || obs.Leader == 0 || current {
		return nil
	}
	etcd, err := c.Etcd(clientURLs(obs))
	if err != nil {
		return err
	}
	defer func() { _ = etcd.Close() }()
	list, err := etcd.Members(ctx)
	if err != nil {
		return err
	}
	return sameList(list, obs.Members)
}

// send has a node carry op out. The node goes on with what it has begun when
// the proof ends, so sending again, with a new proof, waits for that and then
// finds nothing to do. Only what is done with backups is sent once: it changes
// nothing, may outlive a lease, and would be done twice.
func (c *Coordinator) send(ctx context.Context, obs cluster.Observation, op plan.Operation) error {
	once, id := plan.InBackground(op), rand.Text()
	for {
		// Before the proof, which is shorter than these answers may take.
		if err := c.mayChangeVersion(ctx, obs, op); err != nil {
			return err
		}
		proven, done, term, err := c.confirm(ctx, obs, op)
		if err != nil {
			return err
		}
		if err := c.fresh(obs, op); err != nil {
			done()
			return err
		}
		if once {
			proven = ctx
		}
		crashpoint.Hit(pointOf(op) + ".before-order")
		err = c.Execute(proven, op, term, id)
		over := !once && ended(proven) && ctx.Err() == nil
		done()
		if err == nil {
			crashpoint.Hit(pointOf(op) + ".after-order")
		}
		if err == nil || !over {
			return err
		}
	}
}

// ended reports whether a context has ended, or should have: its timer may be late, and
// the other side of a connection has broken off at its deadline already.
func ended(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(end)
}

// ErrNoTerm is returned for an operation on a cluster whose lease voters are not
// known: without them it is unknown whether another acts.
var ErrNoTerm = errors.New(
	"the lease voters are unknown, so nobody can hold the lease: the daemons of the voters' nodes do not answer")

// confirm proves the lease, unless the operation needs none. Without a term only
// a bootstrap goes on, up to its record: there the create-only-if-absent of the
// store decides.
func (c *Coordinator) confirm(ctx context.Context, obs cluster.Observation, op plan.Operation) (
	context.Context, context.CancelFunc, cluster.Term, error) {
	if unleased(obs, op) {
		proven, done := context.WithCancel(ctx)
		return proven, done, 0, nil
	}
	proven, done, term, err := c.Fence.Confirm(ctx)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("confirm the coordinator's lease: %w", err)
	}
	if term == 0 && !(Bootstraps(op) && len(obs.Members) == 0) {
		done()
		return nil, nil, 0, ErrNoTerm
	}
	return proven, done, term, nil
}

// Bootstraps reports whether op is one of those that bootstrap a cluster, before
// anyone can hold a lease of it, or make such a lease possible again.
func Bootstraps(op plan.Operation) bool {
	switch op.(type) {
	case *plan.MemberPrepare, *plan.IncarnationCreate,
		*plan.RestoreStage, *plan.RestoreSwitch, *plan.RestoreDiscard, *plan.RequestClose, *plan.LeaseVotersRecover,
		*plan.LeaseVotersAdopt:
		return true
	}
	return false
}

// effect does what needs no particular node. Each case is one request that
// either happened or did not; doing it again is harmless.
func (c *Coordinator) effect(ctx context.Context, obs cluster.Observation, op plan.Operation) error {
	switch op := op.(type) {
	case *plan.IncarnationCreate:
		return c.Records.CreateIncarnation(ctx, c.incarnation(obs, op))
	case *plan.IncarnationMark:
		return c.mark(ctx, obs)
	case *plan.SpecWrite:
		spec := cluster.Spec{MemberCount: op.MemberCount, EtcdVersion: op.EtcdVersion}
		if op.Request != "" {
			return c.Records.ReplaceSpec(ctx, spec)
		}
		return c.Records.WriteSpec(ctx, spec)
	case *plan.RequestClose:
		return c.Records.CloseRequest(ctx, c.closed(obs, op))
	case *plan.LeaseVotersWrite:
		return c.Fence.ChangeLeaseVoters(ctx, op.Token, op.Names)
	case *plan.BackupPrune:
		return c.prune(ctx, obs, op)
	}
	return c.membership(ctx, obs, op)
}

func (c *Coordinator) incarnation(obs cluster.Observation, op *plan.IncarnationCreate) cluster.Incarnation {
	i := cluster.Incarnation{
		Number: op.Number, Token: op.Token, Version: op.Version, Voters: op.Voters, At: c.Now(), By: c.Self,
	}
	// The record of a cluster that is taken over is newer than the marker, whatever the
	// clocks say.
	if marked := obs.Store.Created; op.Backup == "" && !i.At.After(marked) {
		i.At = marked.Add(time.Nanosecond)
	}
	if op.Backup != "" {
		i.Restored = &cluster.Restored{Request: op.Request, Backup: op.Backup, Revision: op.Revision, Before: op.Before}
	}
	return i
}

// closed is what the store keeps of a request that has ended.
func (c *Coordinator) closed(obs cluster.Observation, op *plan.RequestClose) store.Closed {
	r := store.Closed{Name: op.Name, Outcome: string(op.Outcome), Reason: op.Reason, At: c.Now(), By: c.Self}
	for _, q := range obs.Store.Requests {
		if q.Name == op.Name {
			r.Kind, r.Backup = string(q.Kind), q.Backup
		}
	}
	return r
}

// membership carries out a change of the member list.
func (c *Coordinator) membership(ctx context.Context, obs cluster.Observation, op plan.Operation) error {
	return Membership(ctx, c.Etcd, obs, op)
}
