package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdrelease"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/initsystem"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// do carries one step out. What the observation said and has to be true still is
// checked again.
func (r *runner) do(ctx context.Context, op machine.Operation) error {
	switch op := op.(type) {
	case *machine.CopyCA:
		return r.copyCA(op)
	case *machine.InstallBinaries:
		return r.install(ctx, op)
	case *machine.RecordIncarnation:
		return r.record(ctx, op)
	case *machine.WriteJournal:
		if op.Move != (machine.MoveData{}) {
			if err := mayMove(op.Move.From, op.Move.To); err != nil {
				return err
			}
		}
		return writeJournal(op.Path, op.Journal)
	case *machine.StopService:
		return r.stop(ctx)
	case *machine.RemoveFiles:
		return r.locking(func() error { return r.removeStarters(ctx, op.Paths) })
	case *machine.MoveData:
		return r.locking(func() error { return r.move(ctx, op) })
	case *machine.AssignMember:
		// With its lease voters: see the package comment.
		j := op.Journal
		return r.state.Update(nodestate.TakeOver(nodestate.Assignment{
			Token: j.Token, Version: j.Version, Peers: j.Peers,
		}, j.MemberID, j.ClusterID, j.Agreement.LeaseVoters))
	case *machine.UnassignMember:
		// What the node has promised as a lease voter stays: it may be one until the
		// coordinator has replaced it.
		return r.state.Update(nodestate.Evict)
	case *machine.RunMember:
		return r.run(ctx, op)
	case *machine.EndHandover:
		_ = os.Remove(op.DataDir) // empty, or of no use
		return removeFile(op.Journal)
	}
	return fmt.Errorf("%T cannot be carried out", op)
}

func (r *runner) copyCA(op *machine.CopyCA) error {
	source, err := readPair(op.From.Dir, op.From.Name)
	if err != nil {
		return err
	}
	mode := os.FileMode(0o700)
	if r.goal.Action == machine.FromManager {
		mode = 0o755
	}
	for _, name := range op.Names {
		if err := source.write(op.Dir, name, mode); err != nil {
			return err
		}
		crashpoint.Hit("handover.certificates.between")
	}
	return nil
}

// install takes the binaries that run now, or else those of the sources that are
// configured.
func (r *runner) install(ctx context.Context, op *machine.InstallBinaries) error {
	cfg := r.m.Config()
	o := etcdrelease.For(cfg)
	o.Version, o.Fetching, o.Failed = op.Version, r.o.Fetching, r.o.Waiting
	if etcdrelease.Present(ctx, cfg.Paths.Install).Is(op.Version) {
		o.Sources = machine.Binaries{Dir: cfg.Paths.Install}
	}
	_, err := etcdrelease.Install(ctx, o, op.Dir)
	return err
}

// record writes the incarnation. Another machine may be faster, and by another list:
// the next observation follows what is there then.
func (r *runner) record(ctx context.Context, op *machine.RecordIncarnation) error {
	if err := mayMove(op.Move.From, op.Move.To); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return r.store.CreateIncarnation(ctx, op.Record)
}

// stop ends etcd under etcdadm. The phase by itself ends any etcd of the
// machine.
func (r *runner) stop(ctx context.Context) error {
	if _, err := r.m.Run(ctx, machine.Goal{Action: machine.Join, Phase: "stop"}); err != nil {
		return err
	}
	return r.stopped(ctx)
}

// stopped makes sure that no etcd of etcdadm's runs, or is about to.
func (r *runner) stopped(ctx context.Context) error {
	obs, err := r.m.Observe(ctx, machine.Goal{Action: machine.Reset})
	if err != nil {
		return err
	}
	if obs.Service.Active() {
		return &machine.Hold{
			Reason: machine.DataBusy, Next: "etcdadm status",
			Text: fmt.Sprintf("etcd was stopped, and its service is %s", obs.Service.State),
		}
	}
	return idle(r.m.Config().Paths.Data)
}

func (r *runner) removeStarters(ctx context.Context, paths []string) error {
	// etcd is down by now: a timer is no reason to leave it so.
	if err := operate.StopTimer(ctx, r.m.Config(), paths); err != nil && r.o.Warned != nil {
		r.o.Warned("Renewal", fmt.Sprintf("systemd did not stop %s, which does no harm here: %v; fix that, then run: "+
			"systemctl stop %[1]s", initfiles.RenewTimerName, err))
	}
	for _, path := range paths {
		if err := removeFile(path); err != nil {
			return err
		}
		crashpoint.Hit("handover.files.between")
	}
	cfg := r.m.Config()
	if cfg.Service.InitSystem != machine.Systemd || !slices.Contains(paths, cfg.Paths.Unit()) {
		return nil
	}
	s, err := initsystem.New(initsystem.Options{Kind: machine.Systemd, UnitPath: cfg.Paths.Unit()})
	if err != nil {
		return err
	}
	return s.Reload(ctx)
}

// move observes once more, while no other etcdadm can be at work: one that came
// since the stop may have started etcd again.
func (r *runner) move(ctx context.Context, op *machine.MoveData) error {
	if r.goal.Action == machine.ToManager {
		if err := r.stopped(ctx); err != nil {
			return err
		}
	}
	if op.ChangeOwner {
		// The daemon ran etcd as root. By this, etcdadm sees that the directory is
		// not as it must be, and gives it, with all in it, to the one who runs etcd.
		if err := hostfs.MakeDir(op.To, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(op.To, 0o755); err != nil {
			return err
		}
	}
	return moveMember(op.From, op.To)
}

// run has etcdadm do the rest: certificates, binaries, files, service, health. The
// journal says afterwards that it is done.
func (r *runner) run(ctx context.Context, op *machine.RunMember) error {
	cfg := r.m.Config()
	if op.Action == machine.Init {
		// Nobody is to be asked, as after an init. That there was one is on record.
		b, err := json.Marshal(machine.Record{Token: op.Token, Action: machine.Init})
		if err == nil {
			err = hostfs.WriteFile(cfg.Paths.Record(), append(b, '\n'), 0o600)
		}
		if err != nil {
			return err
		}
	}
	if _, err := r.m.Run(ctx, machine.Goal{Action: op.Action}); err != nil {
		return err
	}
	j, err := ReadJournal(r.o.Config)
	if err != nil {
		return err
	}
	if j == nil {
		return errors.New("the journal is gone: another handover is at work")
	}
	j.Done = true
	return writeJournal(cfg.Paths.Journal(), *j)
}
