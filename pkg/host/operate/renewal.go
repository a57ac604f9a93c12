package operate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/initsystem"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// renewal observes what renews the certificates.
func (m *Machine) renewal(ctx context.Context) (r machine.Renewal) {
	if m.cfg.Service.InitSystem != machine.Systemd {
		return r
	}
	if path, err := os.Executable(); err == nil && strings.HasPrefix(filepath.Base(path), "etcdadm") {
		r.Program = strings.TrimSuffix(path, " (deleted)") // it was replaced while it runs
	}
	if timers, ok := m.initSystem.(initsystem.Timers); ok {
		// Where systemd does not say, it is asked to enable the timer.
		r.Enabled, _ = timers.TimerOn(ctx, initfiles.RenewTimerName)
	}
	return r
}

// startTimer has systemd start what renews the certificates, if that is among the files.
func (m *Machine) startTimer(ctx context.Context, files []initfiles.File) error {
	_, path := m.cfg.Paths.RenewPaths()
	timers, ok := m.initSystem.(initsystem.Timers)
	if !ok || !slices.ContainsFunc(files, func(f initfiles.File) bool { return f.Path == path }) {
		return nil
	}
	if err := timers.StartTimer(ctx, initfiles.RenewTimerName); err != nil {
		return fmt.Errorf("have systemd renew the certificates (--skip-phases=renewal does without it): %w", err)
	}
	return nil
}

// StopTimer has systemd forget what renews the certificates, if that is among the files that
// are about to be removed.
func StopTimer(ctx context.Context, cfg machine.Config, paths []string) error {
	_, path := cfg.Paths.RenewPaths()
	if !slices.Contains(paths, path) {
		return nil
	}
	s, err := initsystem.New(initsystem.Options{Kind: machine.Systemd, UnitPath: cfg.Paths.Unit()})
	var missing *initsystem.MissingError
	if errors.As(err, &missing) {
		return nil // nothing that could run it
	}
	if err != nil {
		return err
	}
	timers, ok := s.(initsystem.Timers)
	if !ok {
		return nil
	}
	return timers.StopTimer(ctx, initfiles.RenewTimerName)
}
