package handover

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdrelease"
	"github.com/etcdadm/etcdadm/pkg/host/initsystem"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/crashpoint"
)

// steps are those on the way to the daemon. Up to stop nothing has happened to
// the member; from there on only the journal is needed to go on.
func (t *there) steps() []Step {
	cfg, j := t.cfg, t.j
	begun := func() (bool, error) { return t.fresh, nil }
	return []Step{
		t.step("certificates", fmt.Sprintf("make %s in %s, each of the one in %s", strings.Join(t.noCA, ", "), t.o.PKIDir,
			cfg.Paths.Certificates),
			func() (bool, error) { return len(t.noCA) > 0, nil }, t.makeCAs),
		t.step("binaries", fmt.Sprintf("install etcd %s into %s", j.Version, t.binDir()), t.noBinaries, t.installBinaries),
		t.step("record", fmt.Sprintf("record in the store: incarnation %d, %s, of %s", j.Agreement.Record.Number, j.Token,
			text(cluster.InitialMemberNames(j.Agreement.Record.Voters))),
			func() (bool, error) { return t.fresh && j.Agreement.Create, nil }, t.record),
		t.step("journal", "write down what was decided, in "+cfg.Paths.Journal(), begun, func(context.Context) error {
			return j.write(cfg)
		}),
		t.step("stop", "stop etcd, and have the init system leave it alone", func() (bool, error) { return t.serving, nil },
			t.stop),
		t.step("files", "delete what starts etcd: "+strings.Join(t.starters(), ", "), t.anyStarter, t.removeStarters),
		t.step("move", fmt.Sprintf("move the data of member %s from %s to %s", j.MemberID, cfg.Paths.Data, t.dataOf(j.Token)),
			func() (bool, error) { return hasMember(cfg.Paths.Data) }, t.move),
		t.step("assign", fmt.Sprintf("tell etcd-manager in %s to run it", t.o.ManagerDir), func() (bool, error) {
			return !t.over(), nil
		},
			func(context.Context) error { return t.state.Update(t.assign) }),
		t.step("done", "write down that it is done", func() (bool, error) { return !t.over(), nil },
			func(context.Context) error {
				j.Done = true
				return j.write(cfg)
			}),
	}
}

// over says that an earlier run came to the end.
func (t *there) over() bool { return !t.fresh && t.j.Done }

func (t *there) makeCAs(context.Context) error {
	for _, name := range t.noCA {
		if err := t.ca.write(t.o.PKIDir, name, 0o700); err != nil {
			return err
		}
		crashpoint.Hit("handover.certificates.between")
	}
	return nil
}

func (t *there) binDir() string {
	return filepath.Join(t.o.EtcdDir, "etcd-v"+t.j.Version.String())
}

// noBinaries says that the daemon would not find etcd.
func (t *there) noBinaries() (bool, error) {
	_, err := etcdbin.Finder{Dirs: []string{t.o.EtcdDir}}.Find(t.j.Version)
	return err != nil && !t.over(), nil // the one error there is says so
}

// installBinaries takes the binaries that run now, or else those of the
// sources that are configured.
func (t *there) installBinaries(ctx context.Context) error {
	o := etcdrelease.For(t.cfg)
	o.Version = t.j.Version
	if etcdrelease.Present(ctx, t.cfg.Paths.Install).Is(t.j.Version) {
		o.Sources = machine.Binaries{Dir: t.cfg.Paths.Install}
	}
	_, err := etcdrelease.Install(ctx, o, t.binDir())
	return err
}

// record writes the incarnation, and takes what is there then: another machine
// may have been faster, and by another list.
func (t *there) record(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	r := t.j.Agreement.Record
	if err := t.store.CreateIncarnation(ctx, r); err != nil {
		return err
	}
	crashpoint.Hit("handover.record.between")
	won, err := t.store.Incarnation(ctx, r.Number)
	if err != nil {
		return err
	}
	a, why := t.q.follow(won)
	if why != nil {
		return why
	}
	t.j.Agreement = a
	return nil
}

// stop ends etcd under etcdadm. The phase by itself ends any etcd of the
// machine.
func (t *there) stop(ctx context.Context) error {
	if _, err := t.m.Run(ctx, machine.Goal{Action: machine.Join, Phase: "stop"}); err != nil {
		return err
	}
	return t.stopped(ctx)
}

// stopped makes sure that no etcd of etcdadm's runs, or is about to.
func (t *there) stopped(ctx context.Context) error {
	obs, err := t.observe(ctx)
	if err == nil && obs.Service.Active() {
		err = hold(DataBusy, "etcdadm status", "etcd was stopped, and its service is %s", obs.Service.State)
	}
	if err != nil {
		return err
	}
	return idle(t.cfg.Paths.Data)
}

// move observes once more, while no other etcdadm can be at work: one that came
// since the stop may have started etcd again.
func (t *there) move(ctx context.Context) error {
	return t.locking(func() error {
		if err := t.stopped(ctx); err != nil {
			return err
		}
		return moveMember(t.cfg.Paths.Data, t.dataOf(t.j.Token))
	})
}

// starters are the files from which etcd would be started, and etcdadm's record
// of the member: by that, an init in the empty directory would bootstrap its
// cluster anew.
func (t *there) starters() []string {
	cfg := t.cfg
	paths := []string{cfg.Paths.Record()}
	switch cfg.Service.InitSystem {
	case machine.Systemd:
		paths = append(paths, cfg.Paths.EnvFile(), cfg.Paths.Unit())
	case machine.Kubelet:
		paths = append(paths, cfg.Paths.Manifest())
	default:
		paths = append(paths, cfg.Paths.EnvFile())
	}
	return slices.DeleteFunc(paths, func(p string) bool {
		_, err := os.Lstat(p)
		return os.IsNotExist(err)
	})
}

func (t *there) anyStarter() (bool, error) { return !t.over() && len(t.starters()) > 0, nil }

func (t *there) removeStarters(ctx context.Context) error {
	return t.locking(func() error {
		for _, path := range t.starters() {
			if err := removeFile(path); err != nil {
				return err
			}
			crashpoint.Hit("handover.files.between")
		}
		if t.cfg.Service.InitSystem != machine.Systemd {
			return nil
		}
		s, err := initsystem.New(initsystem.Options{Kind: machine.Systemd, UnitPath: t.cfg.Paths.Unit()})
		if err != nil {
			return err
		}
		return s.Reload(ctx)
	})
}

// assign is the daemon's order to run the member, and its lease voters: see the
// package comment.
func (t *there) assign(s *nodestate.State) error {
	j := t.j
	if names := t.leaseVoters(); len(names) > 0 {
		d, err := s.Durable().Prepare(j.Token, names)
		if err != nil {
			return err
		}
		s.LeaseVoters = d.LeaseVoters
	}
	s.Assigned = &cluster.Assigned{Token: j.Token, Version: j.Version}
	s.Bootstrap, s.Prepared, s.Peers = false, nil, j.Peers
	s.MemberID, s.ClusterID, s.MemberToken = j.MemberID, j.ClusterID, j.Token
	return nil
}
