// Package initsystem starts and stops etcd through whatever keeps it running on
// a machine: systemd, the kubelet, or a supervisor of our own where there is
// neither.
//
// The files that these read are written by others, from package initfiles,
// with one exception: the static pod's manifest is what starts and stops a pod,
// so that Start writes it and Stop removes it.
//
// Nothing here waits for etcd to be ready, which may take as long as it takes
// the cluster to have a quorum. Stop and Restart do wait until the old process
// is gone, since what comes next may be moving its data away.
package initsystem

import (
	"context"
	"fmt"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// A State is how etcd does, as far as its init system knows.
type State string

// The states. An etcd that is being stopped is still running.
const (
	// Absent: the init system knows of no etcd, and none runs under it.
	Absent State = "absent"
	// Stopped: no process, and none is about to be started.
	Stopped State = "stopped"
	// Starting: there is a process, or is about to be one, that is not ready yet.
	// Waiting for a quorum is part of it.
	Starting State = "starting"
	// Running: etcd has said that it is ready. For the kubelet: something answers.
	Running State = "running"
	// Crashing: etcd ends by itself, and is started again and again, or was given
	// up on. There may be a process at any moment.
	Crashing State = "crashing"
)

// A Status is one observation.
type Status struct {
	State State
	// Foreign is the file of the unit where it is another one than ours.
	Foreign string
	// PID is etcd's process as far as the init system knows it, 0 otherwise.
	PID int
	// Uptime is how long that process has run, 0 where that is not known.
	Uptime time.Duration
	// Enabled says that everything is in place for etcd to be kept running: the
	// unit is enabled, the manifest is there, the supervisor lives. Only the
	// first two survive a reboot.
	Enabled bool
	// Detail is one line about why, for people.
	Detail string
	// LastLines are etcd's last lines of output when it is crashing, as far as
	// they can be had, at most 20.
	LastLines []string
}

// A System keeps the etcd of one machine running, or lets it rest. Each
// method has deadlines of its own besides that of its context, and does
// nothing where nothing is to be done, so that it can be repeated. They are not
// for several goroutines at once.
type System interface {
	// Status observes.
	Status(ctx context.Context) (Status, error)
	// Start makes the init system keep etcd running, now and after a reboot. It
	// does not wait for etcd to be ready. A running etcd is left alone, even
	// where its files have changed since it started.
	Start(ctx context.Context) error
	// Stop is the opposite, and returns when no process is left.
	Stop(ctx context.Context) error
	// Restart is Stop and Start.
	Restart(ctx context.Context) error
	// Reload notifies the init system that its files were changed or removed.
	Reload(ctx context.Context) error
}

// Timers are the timers of an init system that has some: systemd.
type Timers interface {
	// TimerOn reports whether a timer is enabled and waits.
	TimerOn(ctx context.Context, timer string) (bool, error)
	// StartTimer enables and starts a timer, and StopTimer is the opposite, also of one
	// that the init system does not know.
	StartTimer(ctx context.Context, timer string) error
	StopTimer(ctx context.Context, timer string) error
}

// Options say which init system there is, and where its things are.
type Options struct {
	Kind machine.InitSystem

	// UnitPath is systemd's unit file; its base name is the unit.
	UnitPath string

	// Manifest is the kubelet's static pod. Its path may be relative.
	Manifest initfiles.File
	// Gone reports that no etcd of this machine answers or listens any more. It
	// is needed for the kubelet, which does not say when a pod has ended.
	Gone func(ctx context.Context) bool
	// Busy reports that a process has etcd's database open, as an etcd has that is
	// asked to end: it answers nobody, and waits for its clients. Nil for never.
	Busy func() bool
	// PodLogs is where the kubelet keeps the logs of pods, /var/log/pods by
	// default.
	PodLogs string

	// Dir is the supervisor's own directory, for its state and etcd's log. It is
	// made where it is missing.
	Dir string
	// Etcd is the program and EnvFile its environment file, for the supervisor.
	Etcd, EnvFile string
	// Require is a file without which the supervisor does not start etcd, empty for
	// none.
	Require string
	// Run is the command line of the supervisor without its flags, by default
	// this program with the argument "run".
	Run []string
}

// New returns the init system of o.Kind. The error is a [*MissingError] when
// systemd is asked for where there is no systemctl.
func New(o Options) (System, error) {
	var s System
	var err error
	switch o.Kind {
	case machine.Systemd:
		s, err = newSystemd(o)
	case machine.Kubelet:
		s, err = newKubelet(o)
	case machine.Process:
		s, err = newProcess(o)
	default:
		err = fmt.Errorf("there is no init system %q: it is %s, %s or %s", o.Kind, machine.Systemd, machine.Kubelet,
			machine.Process)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}
