package operate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdrelease"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/initsystem"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/node/apply"
)

// Options say which machine, and how to report what is done.
type Options struct {
	// Config is the spec. What it leaves open is taken from the machine: name,
	// address and version of the member that is there; the rest from
	// [machine.Defaults].
	Config machine.Config
	// AsWritten takes the machine's init system and addresses from what was
	// written on it, where that is there: for goals that build nothing.
	AsWritten bool
	// Endpoints are client URLs of members of the cluster to join, or to leave.
	Endpoints []string
	// Program is the command line that supervises etcd where the init system is
	// machine.Process, without its flags; by default this program with the
	// argument "run".
	Program []string
	// OneTry asks the cluster once to answer and to take a new member.
	OneTry bool
	// Began is called before a step, nil for nobody; Bytes during a download.
	Began func(machine.Step)
	Bytes func(done, total int64)
	// Fetching is called with the URL of an archive before anybody is asked for it, nil for nobody.
	Fetching func(url string)
	// Waiting is called for each reason to wait, and once a minute while it lasts.
	Waiting func(text string)
	// Warned is called with what is odd and holds nothing back, and the check that it belongs to.
	Warned func(check, text string)
}

// A Machine is the machine that this process runs on.
type Machine struct {
	o          Options
	cfg        machine.Config
	owner      *certs.FileOwner
	initSystem initsystem.System
	// initSystemErr is why there is no init system: it matters when one is needed.
	initSystemErr error

	// versionOpen says that nobody has said which version is wanted: a machine that
	// joins takes that of the cluster, as soon as it is known.
	versionOpen bool

	versions versions
	checked  dataCheck
	equal    equality
	pending  pending
	mu       sync.Mutex
	fallback *tls.Config
	nonce    cluster.Token
	// known are the client URLs of the members that were seen last: when this
	// machine's own etcd is gone, the others still know the cluster.
	known []string
	// unanswered are the client URLs of members that did not answer the last observation.
	unanswered map[string]bool
	// unreachable are the endpoints that were waited for in vain.
	unreachable []string
	// ended counts how often the service had ended while it was waited for.
	ended int
	// inspecting says that checks report endpoints that do not answer.
	inspecting bool
	// clusters are those that the endpoints that a person has named were ever of,
	// with one endpoint of each.
	clusters map[cluster.ClusterID]string
	// learner is what was seen of the learner that another machine has in the cluster.
	learner learnerWatch
	// left says that this machine's member has been removed.
	left bool
	// votersLeft is how many voters were left then.
	votersLeft int
	// peers listens at the peer port as long as a member that joins has not started, nil while
	// nobody does; warnedReach says that was warned of members of which it is not known whether
	// they reach it.
	peers       *peerListener
	warnedReach bool
	// releaseFailed is why the last try to fetch etcd failed.
	releaseFailed string
	// vote is asked for beside the steps of a join, nil while it is not.
	vote *earlyVote
	// rewritten says that files were written since this command last had the init system
	// start etcd.
	rewritten bool
	// said is when the reasons to wait were reported last.
	said map[machine.Reason]time.Time
	// changeable is [changeable], but in tests.
	changeable func(path string, bits fs.FileMode) string
}

// New returns the machine. It changes nothing.
func New(ctx context.Context, o Options) (*Machine, error) {
	cfg, err := complete(ctx, o.Config, o.AsWritten)
	if err != nil {
		return nil, err
	}
	m := &Machine{o: o, cfg: cfg, nonce: observe.NewToken(), versionOpen: cfg.Version.IsZero(), changeable: changeable}
	if m.versionOpen {
		m.cfg.Version = machine.DefaultVersion
	}
	if m.owner, err = owner(cfg.Service); err != nil {
		return nil, err
	}
	m.initSystem, m.initSystemErr = initsystem.New(m.initSystemOptions(""))
	return m, nil
}

// Config is the whole spec, with what was taken from the machine.
func (m *Machine) Config() machine.Config { return m.cfg }

// initSystemOptions says how etcd is kept running; manifest is what the kubelet is
// to be given, if it is to be given anything.
func (m *Machine) initSystemOptions(manifest string) initsystem.Options {
	return initsystem.Options{
		Kind: m.cfg.Service.InitSystem, UnitPath: m.cfg.Paths.Unit(),
		Manifest: initfiles.File{Path: m.cfg.Paths.Manifest(), Mode: initfiles.ManifestMode, Content: manifest},
		Gone:     m.gone, Busy: m.busy,
		Dir: m.cfg.Paths.Process(), Require: m.cfg.Paths.Marker(),
		Etcd: m.cfg.Paths.Binary("etcd"), EnvFile: m.cfg.Paths.EnvFile(), Run: m.o.Program,
	}
}

// Lock makes sure that no other command works on this machine's member at the
// same time. The error of a second one names the process.
func (m *Machine) Lock(goal machine.Goal) (unlock func(), err error) {
	path := m.cfg.Paths.Lock()
	if goal.Phase == "certificates" {
		// It needs no more than the directory of the certificates.
		path = m.cfg.Paths.Certificate(".lock")
	}
	if err := hostfs.MakeDir(filepath.Dir(path), 0o755); err != nil {
		return nil, &PlaceError{fmt.Errorf("lock the machine: %w", err)}
	}
	l, err := hostfs.Lock(path)
	var locked *hostfs.LockedError
	if errors.As(err, &locked) {
		return nil, &BusyError{locked}
	}
	if err != nil {
		return nil, &PlaceError{fmt.Errorf("lock the machine: %w", err)}
	}
	return func() { _ = l.Unlock() }, nil
}

// A PlaceError says that etcdadm cannot keep what it has to beside the data.
type PlaceError struct{ error }

// Unwrap returns the reason.
func (e *PlaceError) Unwrap() error { return e.error }

// Hint says what to do about it.
func (e *PlaceError) Hint() string {
	return "the parent of the data directory must exist and be writable; or give another --data-dir"
}

// A BusyError says that another command is at work on the machine.
type BusyError struct{ locked *hostfs.LockedError }

func (e *BusyError) Error() string {
	return fmt.Sprintf("another etcdadm runs on this machine: %v", e.locked)
}

// Hint says what to do about it.
func (e *BusyError) Hint() string {
	if e.locked.Holder == 0 {
		return "wait until it is done, then run the command again"
	}
	return fmt.Sprintf("wait until process %d is done, then run the command again", e.locked.Holder)
}

// A Result is what a run did.
type Result struct {
	Steps []machine.Step
	// Last is the last observation.
	Last machine.Observation
	// Undone says that a join that could not finish was undone.
	Undone bool
}

// maxSteps bounds a run: the longest plan has some twenty steps.
const maxSteps = 60

// pause is the time between two observations while waiting for others.
const pause = 250 * time.Millisecond

// Run works towards the goal until it is reached. An error is a *machine.Hold
// where the next step is not safe.
func (m *Machine) Run(ctx context.Context, goal machine.Goal) (Result, error) {
	unlock, err := m.Lock(goal)
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	if goal.Phase != "certificates" {
		m.removeLeftovers()
	}
	defer m.leavePeers()
	r, err := m.run(ctx, goal)
	if err == nil && goal.Phase == "start" && m.awaitVote(ctx, &r) {
		// A voter has data: an empty disk has lost it from now on.
		var after Result
		after, err = m.run(ctx, goal)
		r.Steps, r.Last = append(r.Steps, after.Steps...), after.Last
	}
	m.endVote()
	if err == nil || ctx.Err() != nil || goal.Action != machine.Join || goal.Phase != "" || !m.mustUndo(ctx, goal, err) {
		return r, err
	}
	u, undoErr := m.run(ctx, machine.Undo)
	r.Steps, r.Undone = append(r.Steps, u.Steps...), undoErr == nil
	if undoErr != nil {
		return r, errors.Join(err, fmt.Errorf("undo the join: %w", undoErr))
	}
	return r, &UndoneError{err}
}

// mustUndo says whether a failed join left a learner behind: it has no vote,
// but while it is there no other machine can join. So it is with one that had its vote
// early, and never served. It observes once more, because the cluster may have done what
// it did not answer.
func (m *Machine) mustUndo(ctx context.Context, goal machine.Goal, err error) bool {
	var why *machine.Hold
	if errors.As(err, &why) && why.Reason != machine.VersionHazard && why.Reason != machine.PeerPortClosed &&
		(!why.Wait || why.Reason == machine.ClusterUnreachable) {
		return false // a person decides, or there is nobody to undo it
	}
	obs, observeErr := m.Observe(ctx, goal)
	if observeErr != nil {
		return false
	}
	unserved := m.vote != nil && machine.IsVoter(m.cfg, obs) && (obs.Local == nil || obs.Local.Leader == 0)
	return unserved || machine.IsLearner(m.cfg, obs)
}

// An UndoneError is a join's error after the join was undone.
type UndoneError struct{ error }

func (e *UndoneError) Error() string {
	return e.error.Error() + "; the join was undone: the learner and its copy of the data are removed"
}

// Unwrap returns why the join failed.
func (e *UndoneError) Unwrap() error { return e.error }

func (m *Machine) run(ctx context.Context, goal machine.Goal) (Result, error) {
	var r Result
	var held holding
	var refused refusals
	var again repetition
	for {
		obs, err := m.Observe(ctx, goal)
		if err != nil {
			return r, err
		}
		r.Last = obs
		m.noteVote(&r)
		settled, why := machine.Settle(goal, obs)
		var step *machine.Step
		if goal = settled; why == nil {
			step, why = machine.Next(goal, m.cfg, obs)
		}
		switch {
		case why != nil && !m.once(why) && held.clears(why, time.Duration(m.cfg.Timeouts.Membership), time.Now()):
			// What clears at once is not worth a word.
			if time.Since(held.since) > 4*pause {
				m.say(why.Reason, machine.Waits(goal, m.cfg, why), time.Now())
			}
			if err := wait.For(ctx, held.pause(time.Now())); err != nil {
				return r, errors.Join(why, err)
			}
			continue
		case why != nil:
			return r, held.heard.of(why)
		case step == nil:
			return r, nil
		}
		held = holding{}
		if err := again.note(ctx, r.Steps, *step); err != nil {
			if goal, err = m.unrenewed(ctx, goal, *step, err); err != nil {
				return r, err
			}
			continue
		}
		if m.o.Began != nil && again.begins(*step) {
			m.o.Began(*step)
		}
		began := time.Now()
		err = m.do(ctx, goal, obs, *step)
		if m.later(err, *step) {
			// The world has changed since the observation, or etcd does not take the change yet.
			if lasted := refused.note(err, began, time.Now()); m.patient(step.Do, err, lasted, time.Since(began)) {
				if err := m.waitRefused(ctx, err, lasted); err != nil {
					return r, err
				}
				continue
			}
		}
		refused = refusals{}
		r.Steps = append(r.Steps, *step)
		if goal, err = m.unrenewed(ctx, goal, *step, err); err != nil {
			return r, &StepError{Phase: step.Phase, Err: err}
		}
	}
}

// waitRefused waits before a step that was refused is tried again, and says why if that has
// lasted.
func (m *Machine) waitRefused(ctx context.Context, refusal error, lasted time.Duration) error {
	if lasted > 4*pause {
		text := refusal.Error()
		var advised interface{ Hint() string }
		if etcdrelease.Passing(refusal) && errors.As(refusal, &advised) {
			text += "; " + advised.Hint() // a machine without a network waits for nothing
		}
		m.say("", text, time.Now())
	}
	return wait.For(ctx, backoff(lasted))
}

// A StepError says which phase failed, and why.
type StepError struct {
	Phase string
	Err   error
}

func (e *StepError) Error() string { return e.Phase + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *StepError) Unwrap() error { return e.Err }

// Hint is that of the reason, if it has one.
func (e *StepError) Hint() string {
	var inner interface{ Hint() string }
	if errors.As(e.Err, &inner) && inner.Hint() != "" {
		return inner.Hint()
	}
	return "fix that, and run the same command again: it continues where it stopped"
}

// later reports whether err says that a step may succeed after another observation.
func (m *Machine) later(err error, step machine.Step) bool {
	if _, installs := step.Do.(*machine.InstallBinaries); installs {
		return !m.o.OneTry && etcdrelease.Passing(err)
	}
	op, ok := step.Do.(*machine.Membership)
	var stale *plan.StaleError
	switch {
	case err == nil || !ok:
		return false
	case errors.As(err, &stale):
		return true
	}
	// etcd makes ids of the peer URL and the second: for a moment that of a member
	// which was just removed is taken.
	_, adds := op.Operation.(*plan.AddLearner)
	if adds && errors.Is(err, rpctypes.ErrMemberNotFound) || machine.Helps(m.cfg, op) {
		return true
	}
	if errors.Is(err, rpctypes.ErrNotLeader) {
		return true // another one leads since the observation
	}
	if machine.MovesLeader(op) && !etcdclient.Denied(err) {
		return true // the one that is to lead may be leaving, too
	}
	again := apply.NotYet(err) || tooFewServe(err) || errors.Is(err, etcdclient.ErrLearnerPending) ||
		etcdclient.Unanswered(err)
	return again && (!m.o.OneTry || machine.Promotes(op))
}

// once says whether a hold that may clear is not waited for.
func (m *Machine) once(why *machine.Hold) bool {
	return m.o.OneTry && (why.Reason == machine.ClusterUnreachable || why.Reason == machine.LearnerPending ||
		why.Momentary)
}
