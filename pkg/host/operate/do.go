package operate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdrelease"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdutl"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/initsystem"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// do carries one step out. Each is either a single change that happened or did
// not, or one that is found half done by the next observation and done again.
func (m *Machine) do(ctx context.Context, goal machine.Goal, obs machine.Observation, step machine.Step) error {
	name := string(goal.Action) + "." + step.Phase
	crashpoint.Hit(name + ".before")
	err := m.effect(ctx, goal, obs, step.Do)
	crashpoint.Hit(name + ".after")
	return err
}

func (m *Machine) effect(ctx context.Context, goal machine.Goal, obs machine.Observation, op machine.Operation) error {
	switch op := op.(type) {
	case *machine.Remember:
		return writeRecord(m.cfg, op.Record)
	case *machine.InstallBinaries:
		return m.install(ctx)
	case *machine.CreateCA:
		return certs.CreateMachineCA(m.certSpec(), time.Now())
	case *machine.IssueCertificates:
		_, err := certs.IssueMachine(m.certSpec(), time.Now())
		return err
	case *machine.RestoreSnapshot:
		return m.restore(ctx, op)
	case *machine.MakeDataDir:
		return m.makeDataDir(op.Path)
	case *machine.SetDataAside:
		return setAside(m.cfg, time.Now())
	case *machine.DiscardData:
		return discard(m.cfg)
	case *machine.WriteFiles:
		for _, f := range op.Files {
			m.rewritten = m.rewritten || f.Path == m.cfg.Paths.EnvFile() || f.Path == m.cfg.Paths.Unit()
		}
		return m.writeFiles(ctx, op.Files)
	case *machine.RemoveFiles:
		return m.removeFiles(ctx, op.Paths)
	case *machine.Membership:
		if _, adds := op.Operation.(*plan.AddLearner); adds && !goal.AnyPeerPorts {
			m.meetPeers(ctx)
		}
		if err := m.mayVote(ctx, goal, obs, op); err != nil {
			return err
		}
		m.endVote()
		err := m.membership(ctx, obs, op)
		if err == nil && machine.Promotes(op) && !machine.Helps(m.cfg, op) && m.vote != nil {
			m.vote.reported = true // it is this step
		}
		if op, removes := op.Operation.(*plan.Remove); err == nil && removes && goal.Action == machine.Reset {
			m.left, m.votersLeft = true, votersWithout(obs, op.ID)
		}
		return err
	case *machine.ForceSnapshot:
		return m.forceSnapshot(ctx)
	case *machine.AwaitHealth:
		m.beginVote(ctx, goal, obs)
		return m.awaitHealth(ctx, goal, obs.Remote, op.Bootstrap)
	}
	if _, starts := op.(*machine.StartService); starts {
		var err error
		if obs.Record, err = m.metPeers(ctx, goal, obs); err != nil {
			return err
		}
		m.beginVote(ctx, goal, obs)
	}
	return m.keep(ctx, op)
}

// VotersLeft is how many voters the member has left behind that this run took out of its
// cluster; 0 for none.
func (m *Machine) VotersLeft() int { return m.votersLeft }

func votersWithout(obs machine.Observation, id cluster.MemberID) (n int) {
	for _, member := range obs.Remote.Members {
		if !member.Learner && member.ID != id {
			n++
		}
	}
	return n
}

// keep has the init system do something.
func (m *Machine) keep(ctx context.Context, op machine.Operation) error {
	if m.initSystem == nil {
		return m.initSystemErr
	}
	switch op := op.(type) {
	case *machine.StopService:
		return m.initSystem.Stop(ctx)
	case *machine.StartService:
		m.rewritten = false
		initSystem := m.initSystem
		if op.Manifest != "" {
			var err error
			if initSystem, err = initsystem.New(m.initSystemOptions(op.Manifest)); err != nil {
				return err
			}
		}
		if op.Restart {
			return initSystem.Restart(ctx)
		}
		return initSystem.Start(ctx)
	}
	return fmt.Errorf("%T cannot be carried out", op)
}

// release says what to install, and how to report on it.
func (m *Machine) release() etcdrelease.Options {
	o := etcdrelease.For(m.cfg)
	o.Progress, o.Fetching, o.Failed = m.o.Bytes, m.o.Fetching, m.waitsForRelease
	return o
}

// waitsForRelease reports why a try to fetch etcd failed.
func (m *Machine) waitsForRelease(text string) {
	if m.o.Waiting != nil && text != m.releaseFailed {
		m.o.Waiting(text)
	}
	m.releaseFailed = text
}

func (m *Machine) install(ctx context.Context) error {
	o := m.release()
	_, err := etcdrelease.Install(ctx, o, m.cfg.Paths.Install)
	return err
}

// restore makes the data directory with the tool of the version that will run
// it: other versions keep the members elsewhere.
func (m *Machine) restore(ctx context.Context, op *machine.RestoreSnapshot) error {
	tool, err := m.restorer(ctx)
	if err != nil {
		return err
	}
	if err := tool.Restore(ctx, etcdutl.RestoreOptions{
		Snapshot: op.File, DataDir: op.DataDir, Name: op.InitialMember.Name, PeerURLs: op.InitialMember.PeerURLs,
		Token: string(op.Token), SkipHashCheck: op.SkipHashCheck, BumpRevision: uint64(op.BumpRevision),
	}); err != nil {
		return err
	}
	return m.own(op.DataDir)
}

// restorer returns the tool. A set of binaries without etcdutl is complete, so that
// the source is asked for it only now.
func (m *Machine) restorer(ctx context.Context) (etcdutl.Tool, error) {
	find := func() (etcdutl.Tool, error) { return etcdutl.Find(ctx, m.cfg.Paths.Install, m.cfg.Version.Release()) }
	tool, err := find()
	var missing *etcdutl.MissingError
	if !errors.As(err, &missing) {
		return tool, err
	}
	o := m.release()
	o.Etcdutl = true
	if _, sourceErr := etcdrelease.Install(ctx, o, m.cfg.Paths.Install); sourceErr != nil {
		return etcdutl.Tool{}, fmt.Errorf("%w; %w", err, sourceErr)
	}
	return find()
}

func (m *Machine) makeDataDir(path string) error {
	if err := hostfs.MakeDir(path, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(path, 0o700); err != nil {
		return err
	}
	if err := hostfs.WriteFile(m.cfg.Paths.Marker(), []byte(markerText), 0o600); err != nil {
		return err
	}
	return m.own(path)
}

const markerText = "etcd is not started if this file is missing: its disk is not mounted then.\n"

// own gives a tree to the one who runs etcd.
func (m *Machine) own(path string) error {
	owner := certs.FileOwner{UID: os.Geteuid(), GID: os.Getegid()}
	if m.owner != nil {
		owner = *m.owner
	}
	return filepath.WalkDir(path, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, owner.UID, owner.GID)
	})
}

func (m *Machine) writeFiles(ctx context.Context, files []initfiles.File) error {
	reload := false
	for _, f := range files {
		if err := hostfs.MakeDir(filepath.Dir(f.Path), 0o755); err != nil {
			return err
		}
		if err := hostfs.WriteFile(f.Path, []byte(f.Content), os.FileMode(f.Mode)); err != nil {
			return err
		}
		reload = reload || strings.HasSuffix(f.Path, ".service")
		crashpoint.Hit("write-files.between")
	}
	if err := m.reload(ctx, reload); err != nil {
		return err
	}
	return m.startTimer(ctx, files)
}

func (m *Machine) removeFiles(ctx context.Context, paths []string) error {
	if err := StopTimer(ctx, m.cfg, paths); err != nil {
		return err
	}
	reload := false
	for _, path := range paths {
		if err := ignoreMissing(os.Remove(path)); err != nil {
			return err
		}
		reload = reload || strings.HasSuffix(path, ".service")
		crashpoint.Hit("remove-files.between")
	}
	return m.reload(ctx, reload)
}

// reload has the init system read its files again. Where there is none, as in a
// container or a chroot that only makes files, nobody has read them before.
func (m *Machine) reload(ctx context.Context, needed bool) error {
	if !needed || m.initSystem == nil {
		return nil
	}
	err := m.initSystem.Reload(ctx)
	var missing *initsystem.MissingError
	if errors.As(err, &missing) {
		return nil
	}
	return err
}

// patient says whether a step is tried again that has been refused for so long, where the last
// try took so long. The tries of a download are several already.
func (m *Machine) patient(op machine.Operation, err error, lasted, took time.Duration) bool {
	limit := m.limit(op, err)
	if _, installs := op.(*machine.InstallBinaries); installs {
		return lasted+took < limit
	}
	return lasted == 0 || lasted < limit
}

// limit is how long a change of the member list may be refused for reasons
// that clear by themselves.
func (m *Machine) limit(op machine.Operation, err error) time.Duration {
	change, ok := op.(*machine.Membership)
	if ok && machine.Promotes(change) && !machine.Helps(m.cfg, change) {
		return time.Duration(m.cfg.Timeouts.Promotion)
	}
	if tooFewServe(err) {
		return min(momentaryGrace, time.Duration(m.cfg.Timeouts.Membership))
	}
	_, installs := op.(*machine.InstallBinaries)
	if installs && !etcdrelease.Overloaded(err) {
		return min(unansweredGrace, time.Duration(m.cfg.Timeouts.Membership))
	}
	if installs || ok && machine.MovesLeader(change) {
		return min(clearingGrace, time.Duration(m.cfg.Timeouts.Membership))
	}
	return time.Duration(m.cfg.Timeouts.Membership)
}
