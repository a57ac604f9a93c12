package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// there is the way to the daemon.
type there struct {
	side
	// fresh says that the journal was decided on now, by q.
	fresh bool
	q     question
	store *store.Store
	// seeded says that the store has a spec.
	seeded bool
	ca     pair
	noCA   []string
	// serving says that etcdadm has etcd running, or about to be.
	serving bool
}

// prepare finds out where the handover is, and decides what is not decided
// yet. An etcd that runs under etcdadm is checked afresh: nothing has happened
// to it, whatever an old journal says.
func (t *there) prepare(ctx context.Context) error {
	if err := t.open(t.o.Config, t.o.Endpoints); err != nil {
		return err
	}
	if t.j != nil && t.j.Direction == FromManager {
		return hold(Unfinished, "etcdadm handover from-manager",
			"a handover from etcd-manager was begun, and is not finished")
	}
	here, err := hasMember(t.cfg.Paths.Data)
	if err != nil {
		return err
	}
	if !here && t.j == nil {
		return hold(NotRunning, "etcdadm status", "there is no member in %s to be handed over", t.cfg.Paths.Data)
	}
	var obs machine.Observation
	if here {
		if obs, err = t.observe(ctx); err != nil {
			return err
		}
		t.serving = obs.Service.Active() || obs.Service.Enabled
	}
	began := t.j != nil
	switch {
	case !here && began && t.j.Done:
		return t.finished(ctx)
	case here && obs.Service.Active():
		err = t.decide(ctx, obs)
	case began:
		err = t.resume(ctx)
	default:
		return hold(NotRunning, "start it where it was (etcdadm join ENDPOINT), so that its cluster can be asked",
			"the member in %s does not run: its service is %s", t.cfg.Paths.Data, obs.Service.State)
	}
	if err != nil {
		return err
	}
	if t.noCA, t.ca, err = missingCAs(t.cfg.Paths.Certificates, t.o.PKIDir, t.now); err != nil {
		return err
	}
	if t.dry || !here {
		return nil
	}
	return mayMove(t.cfg.Paths.Data, t.dataOf(t.j.Token))
}

// finished makes sure that what was handed over still is where it belongs.
func (t *there) finished(ctx context.Context) error {
	_ = t.control(ctx) // it is only about what to print
	s, err := nodestate.Read(t.o.ManagerDir)
	if err != nil {
		return err
	}
	if s.Assigned == nil {
		return hold(ManagerState, "etcd-manager-ctl status",
			"the member was handed over to %s, which does not tell of it any more", t.o.ManagerDir)
	}
	return nil
}

// decide makes the journal.
func (t *there) decide(ctx context.Context, obs machine.Observation) error {
	j, why := described(t.cfg, obs)
	if why != nil {
		return why
	}
	j.ManagerDir = t.o.ManagerDir
	s, err := t.lockManager(t.self(j.Node, j.URLs))
	if err != nil {
		return err
	}
	if old := t.j; old != nil && old.MemberID == j.MemberID && len(obs.Written) == 0 {
		// The file that had them is deleted already.
		j.Environment, j.MetricsURLs = old.Environment, old.MetricsURLs
	}
	t.j, t.fresh = j, true
	t.q = question{
		now: t.now, self: j.Node, id: j.ClusterID, version: j.Version, voters: j.Peers,
		kept: s.Durable(), renew: t.o.NewIncarnation,
	}
	if err := t.control(ctx); err != nil {
		return err
	}
	if t.o.NewIncarnation {
		if err := t.nobodyCoordinates(ctx); err != nil {
			return err
		}
	}
	if j.Agreement, why = agree(t.q); why != nil {
		return why
	}
	j.Token = j.Agreement.Record.Token
	if s.Assigned != nil {
		return hold(ManagerState, "etcdadm handover from-manager, or another "+flag,
			"the etcd-manager of %s has a member of incarnation %s already", t.o.ManagerDir, s.Assigned.Token)
	}
	if _, err := t.q.kept.Prepare(j.Token, t.leaseVoters()); len(t.leaseVoters()) > 0 && err != nil {
		return hold(LeaseVotersLost, "", "%v", err)
	}
	twice, err := hasMember(t.dataOf(j.Token))
	if err == nil && twice {
		return hold(DataForeign, "check which one is the member's, and move the other one away",
			"there is data in %s and in %s", t.cfg.Paths.Data, t.dataOf(j.Token))
	}
	return err
}

func (t *there) leaseVoters() []cluster.NodeName { return t.j.Agreement.LeaseVoters }

// control reads the control store.
func (t *there) control(ctx context.Context) error {
	if t.store == nil {
		s, err := store.Open(ctx, t.o.BackupStore)
		if err != nil {
			return err
		}
		t.store = s
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	view, err := t.store.Poll(ctx)
	if err != nil {
		return fmt.Errorf("read the control store: %w", err)
	}
	if err := view.IncarnationsErr; err != nil {
		return hold(StoreForeign, "check control/incarnations in the store",
			"the store has an incarnation record that cannot be understood: %v", err)
	}
	t.q.control, t.seeded = view, view.Spec != nil
	return nil
}

const (
	// storeTimeout bounds an observation into the store.
	storeTimeout = 30 * time.Second
	// coordinated is for how long after its last status a coordinator may be at
	// work: it writes one every two minutes.
	coordinated = 5 * time.Minute
)

// nobodyCoordinates refuses a new incarnation while a coordinator of the old
// one publishes its status.
func (t *there) nobodyCoordinates(ctx context.Context) error {
	raw, err := t.store.Status(ctx)
	if errors.Is(err, store.ErrAbsent) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the coordinator's status: %w", err)
	}
	var s struct {
		At          time.Time        `json:"at"`
		Coordinator cluster.NodeName `json:"coordinator"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("read the coordinator's status: %w", err)
	}
	if age := t.now.Sub(s.At); s.Coordinator != "" && age < coordinated {
		return hold(ManagerState,
			"etcdadm handover from-manager on the machines that a daemon runs, and wait until the status is old",
			"%s coordinates the cluster, or did %s ago; a new incarnation would begin while it is at work", s.Coordinator,
			age.Round(time.Second))
	}
	return nil
}

// resume goes on where an earlier run was cut off, after etcd was stopped. It
// needs no answer of the cluster.
func (t *there) resume(ctx context.Context) error {
	s, err := t.lockManager(t.self(t.j.Node, t.j.URLs))
	if err != nil {
		return err
	}
	if s.Assigned != nil && s.Assigned.Token != t.j.Token {
		return hold(ManagerState, "another "+flag, "the etcd-manager of %s has a member of incarnation %s", t.o.ManagerDir,
			s.Assigned.Token)
	}
	for _, dir := range []string{t.cfg.Paths.Data, t.dataOf(t.j.Token)} {
		there, err := hasMember(dir)
		if err != nil {
			return err
		}
		if id, c, err := nodestate.DiskMember(dir); there && (err != nil || id != t.j.MemberID || c != t.j.ClusterID) {
			return hold(DataForeign, "", "%s does not hold the data of member %s any more", dir, t.j.MemberID)
		}
	}
	if err := t.control(ctx); err != nil {
		return err
	}
	records := t.q.control.Incarnations
	if len(records) == 0 || records[len(records)-1].Token != t.j.Token {
		return hold(StoreForeign, "etcdadm handover from-manager",
			"incarnation %s, in which the handover was begun, is not the newest in the store", t.j.Token)
	}
	return nil
}

func (t *there) result() Result { return Result{Journal: *t.j, Daemon: t.daemon()} }

func (t *there) close(ctx context.Context) {
	t.side.close(ctx)
	if t.store != nil {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = t.store.Close(ctx) // what hangs there has no say any more
	}
}
