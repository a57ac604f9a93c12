package handover

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// etcd is down when the timer is taken away: where systemd does not stop that, the handover goes on
// and says so.
func TestATimerDoesNotBlockAHandover(t *testing.T) {
	h := newCluster(t, "a")[0]
	bin := t.TempDir()
	// As in a chroot: nothing is said of the timer.
	if err := os.WriteFile(filepath.Join(bin, "systemctl"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	service, timer := h.cfg.Paths.RenewPaths()
	write(t, service, "")
	write(t, timer, "")
	var warned []string
	h.o.Warned = func(_, text string) { warned = append(warned, text) }
	r := newRunner(h.o, machine.ToManager)
	r.m = h
	if err := r.removeStarters(t.Context(), []string{service, timer}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(timer); err == nil {
		t.Error("the timer is there")
	}
	if len(warned) != 1 || !strings.Contains(warned[0], "systemctl stop etcdadm-certs-renew.timer") {
		t.Errorf("it warns %q", warned)
	}
}

// A handover deletes the units that etcdadm wrote, and no other.
func TestAHandoverLeavesAPersonsTimer(t *testing.T) {
	h := newCluster(t, "a")[0]
	h.cfg.Service.InitSystem = machine.Systemd
	h.o.Config = h.cfg
	service, timer := h.cfg.Paths.RenewPaths()
	write(t, service, initfiles.Marked("[Service]\n"))
	write(t, h.cfg.Paths.Unit(), "[Unit]\n")
	if err := os.Symlink(os.DevNull, timer); err != nil {
		t.Fatal(err)
	}
	r := newRunner(h.o, machine.ToManager)
	defer r.close(t.Context())
	obs, err := r.observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	starters := obs.Handover.Starters
	if !slices.Contains(starters, service) || !slices.Contains(starters, h.cfg.Paths.Unit()) ||
		slices.Contains(starters, timer) {
		t.Errorf("it deletes %q", starters)
	}
}
