package initsystem

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

const (
	// callTimeout bounds a call of systemctl that only notifies systemd.
	callTimeout = 30 * time.Second
	// stopTimeout bounds stopping: systemd gives etcd 90 s before it kills it
	// (DefaultTimeoutStopSec).
	stopTimeout = 2 * time.Minute
	// pollInterval is how often something is checked for which there is no notification.
	pollInterval = 100 * time.Millisecond
	// kept are the last lines of a log.
	kept = 20
)

// booted exists where systemd is the init system (sd_booted(3)).
const booted = "/run/systemd/system"

// A systemd is etcd as a unit of systemd, by way of systemctl.
type systemd struct {
	systemctl string
	path      string
	unit      string
	// uptime is the clock of systemd's monotonic timestamps.
	uptime func() time.Duration
}

func newSystemd(o Options) (*systemd, error) {
	if !filepath.IsAbs(o.UnitPath) {
		return nil, fmt.Errorf("path of the unit %q is not absolute", o.UnitPath)
	}
	systemctl, err := exec.LookPath("systemctl")
	if err != nil {
		return nil, &MissingError{Why: "systemctl is not in the PATH"}
	}
	return &systemd{systemctl: systemctl, path: o.UnitPath, unit: filepath.Base(o.UnitPath), uptime: monotonic}, nil
}

// monotonic is CLOCK_MONOTONIC, which is not the machine's uptime where that
// has been asleep.
func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// Status maps systemd's states, see [systemd.state].
func (s *systemd) Status(ctx context.Context) (Status, error) {
	u, err := s.show(ctx)
	if err != nil {
		return Status{}, err
	}
	st := s.state(u)
	st.Enabled = u.enabled()
	st.PID, _ = strconv.Atoi(u["MainPID"]) // empty where there is none
	st.Uptime = uptime(st.PID)
	if why := s.foreign(u); why != "" && st.State != Absent {
		st.Detail += "; the unit " + why
		st.Foreign = cmp.Or(u["FragmentPath"], u["Id"])
	}
	if u["NeedDaemonReload"] == "yes" {
		st.Detail += "; its file has changed since systemd read it"
	}
	if st.State == Crashing {
		st.LastLines = s.journal(ctx)
	}
	return st, nil
}

// stableTime is how long a process must be up for the deaths before it to be
// forgotten.
const stableTime = 10 * time.Second

func (s *systemd) state(u unit) Status {
	active, sub := u["ActiveState"], u["SubState"]
	detail := fmt.Sprintf("%s (%s)", active, sub)
	if result := u["Result"]; result != "" && result != "success" {
		detail += ", last result " + result
		if result == "exit-code" {
			detail += " " + u["ExecMainStatus"]
		}
	}
	if u.restarted() {
		detail += ", restarted " + u["NRestarts"] + " times"
	}
	st := Status{State: Running, Detail: detail}
	switch {
	case active == "inactive" && u["LoadState"] == "not-found":
		return Status{State: Absent, Detail: "there is no unit " + s.unit}
	case active == "inactive" && u["Job"] != "" && u["Job"] != "0":
		st.State, st.Detail = Starting, detail+", waits for its dependencies"
	case active == "inactive":
		st.State = Stopped
	case active == "failed", sub == "auto-restart", sub == "auto-restart-queued":
		st.State = Crashing
	case active == "activating" && u.restarted() && s.uptime()-u.started() < stableTime:
		st.State = Crashing // it has been back for a moment only
	case active == "activating":
		st.State = Starting
	}
	return st
}

// foreign says what is the matter if the unit is not the one in our file: a
// distribution's package may have one of the same name, or have the name as an
// alias of its own.
func (s *systemd) foreign(u unit) string {
	if id := u["Id"]; id != "" && id != s.unit {
		return "is an alias of " + id
	}
	path := u["FragmentPath"]
	if path == "" || path == s.path {
		return ""
	}
	ours, err1 := os.Stat(s.path)
	theirs, err2 := os.Stat(path)
	if err1 == nil && err2 == nil && os.SameFile(ours, theirs) {
		return ""
	}
	return fmt.Sprintf("is %s instead of %s", path, s.path)
}

// Start enables and starts the unit. The error is a [*UnitError] where systemd
// would run something else, or knows no such unit.
func (s *systemd) Start(ctx context.Context) error {
	if err := s.Reload(ctx); err != nil {
		return err
	}
	u, err := s.show(ctx)
	if err != nil {
		return err
	}
	if err := s.check(u); err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	if u["ActiveState"] == "failed" {
		if err := s.call(ctx, "reset-failed", s.unit); err != nil {
			return err
		}
	}
	if err := s.call(ctx, "enable", s.unit); err != nil {
		return err
	}
	return s.call(ctx, "start", "--no-block", s.unit)
}

// check says why a unit is not to be started.
func (s *systemd) check(u unit) error {
	e := &UnitError{Unit: s.unit, Next: "see systemctl cat " + s.unit}
	switch load := u["LoadState"]; {
	case load == "masked":
		e.Text, e.Next = "is masked, so that it cannot be started", "systemctl unmask "+s.unit
	case load == "not-found":
		e.Text = "does not exist, or systemd does not look for units in " + filepath.Dir(s.path)
		e.Next = "see where it looks: systemctl show -p UnitPath"
	case load != "loaded":
		e.Text, e.Next = "cannot be read by systemd ("+load+")", "systemd-analyze verify "+s.path
	case s.foreign(u) != "":
		e.Text = s.foreign(u)
		e.Next = "remove where it comes from (a package of the distribution?), or mask that one"
	default:
		return nil
	}
	return e
}

// Stop disables and stops the unit, from whatever state it is in: one that
// waits to be started again after a crash is not active, and must be stopped
// all the same.
func (s *systemd) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	u, err := s.show(ctx)
	if err != nil {
		return err
	}
	if u["LoadState"] == "not-found" && u.gone() {
		return nil
	}
	var errs []error
	if u.enabled() {
		// First, so that a machine that loses its power now does not start it again.
		errs = append(errs, s.call(ctx, "disable", s.unit))
	}
	return errors.Join(append(errs, s.halt(ctx))...)
}

// halt stops the unit and waits until it is gone.
func (s *systemd) halt(ctx context.Context) error {
	if err := s.exec(ctx, "stop", s.unit); err != nil {
		return err
	}
	var u unit
	for range wait.Every(ctx, pollInterval) {
		var err error
		if u, err = s.show(ctx); err != nil {
			return err
		}
		if u.gone() {
			if u["ActiveState"] == "failed" {
				return s.call(ctx, "reset-failed", s.unit)
			}
			return nil
		}
	}
	return fmt.Errorf("stop etcd: %s is %s (%s): %w", s.unit, u["ActiveState"], u["SubState"], ctx.Err())
}

// TimerOn implements [Timers].
func (s *systemd) TimerOn(ctx context.Context, timer string) (bool, error) {
	u, err := s.showOf(ctx, timer)
	return err == nil && u.enabled() && u["ActiveState"] == "active", err
}

// StartTimer implements [Timers].
func (s *systemd) StartTimer(ctx context.Context, timer string) error {
	if err := s.Reload(ctx); err != nil {
		return err
	}
	return s.call(ctx, "enable", "--now", timer)
}

// StopTimer implements [Timers].
func (s *systemd) StopTimer(ctx context.Context, timer string) error {
	u, err := s.showOf(ctx, timer)
	if err != nil || u["LoadState"] == "not-found" {
		return err
	}
	return s.call(ctx, "disable", "--now", timer)
}

// Restart does not use systemd's own, which would have to wait either for etcd
// to be ready or not even for the old process to be gone.
func (s *systemd) Restart(ctx context.Context) error {
	stop, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := s.halt(stop); err != nil {
		return err
	}
	return s.Start(ctx)
}

// Reload has systemd read its unit files again.
func (s *systemd) Reload(ctx context.Context) error { return s.call(ctx, "daemon-reload") }

// A unit is what systemd says about a unit, by property.
type unit map[string]string

func (u unit) enabled() bool {
	return slices.Contains([]string{"enabled", "enabled-runtime", "linked", "linked-runtime"}, u["UnitFileState"])
}

// gone reports that no process is left. systemd may have lost the main process
// and still wait for others of the unit, but then it is not inactive.
func (u unit) gone() bool {
	return u["ActiveState"] == "inactive" || u["ActiveState"] == "failed"
}

// restarted reports whether systemd has started it again by itself. The count
// begins again when somebody else starts it.
func (u unit) restarted() bool { return u["NRestarts"] != "" && u["NRestarts"] != "0" }

// started is when the main process was started, on systemd's monotonic clock.
func (u unit) started() time.Duration {
	d, err := time.ParseDuration(u["ExecMainStartTimestampMonotonic"] + "us")
	if err != nil {
		return 0 // forever
	}
	return d
}

const properties = "Id,LoadState,ActiveState,SubState,UnitFileState,FragmentPath,NeedDaemonReload," +
	"Job,MainPID,NRestarts,Result,ExecMainStatus,ExecMainStartTimestampMonotonic"

func (s *systemd) show(ctx context.Context) (unit, error) { return s.showOf(ctx, s.unit) }

func (s *systemd) showOf(ctx context.Context, name string) (unit, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := s.output(ctx, s.systemctl, "show", "--property="+properties, name)
	if err != nil {
		return nil, err
	}
	u := unit{}
	for line := range strings.Lines(out) {
		if k, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			u[k] = v
		}
	}
	if u["ActiveState"] == "" {
		return nil, fmt.Errorf("systemctl show %s: no state in %q", name, out)
	}
	return u, nil
}

// journal returns the unit's last lines, where there is a journal.
func (s *systemd) journal(ctx context.Context) []string {
	path, err := exec.LookPath("journalctl")
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := s.output(ctx, path, "--quiet", "--no-pager", "--output=cat", fmt.Sprintf("--lines=%d", kept),
		"--unit="+s.unit)
	if err != nil {
		return nil
	}
	return lastLines(out)
}

// call runs a systemctl that does not wait for etcd.
func (s *systemd) call(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return s.exec(ctx, args...)
}

func (s *systemd) exec(ctx context.Context, args ...string) error {
	_, err := s.output(ctx, s.systemctl, append([]string{"--no-ask-password"}, args...)...)
	return err
}

// output runs a program, and returns what it prints; what it complains about
// is part of the error.
func (s *systemd) output(ctx context.Context, program string, args ...string) (string, error) {
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "SYSTEMD_COLORS=0", "SYSTEMD_PAGER=")
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.WaitDelay = time.Second // for what has inherited the output
	err := cmd.Run()
	if err == nil {
		return out.String(), nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	} else if text := strings.Join(strings.Fields(complaint.String()), " "); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	err = fmt.Errorf("%s: %w", called(program, args), err)
	if _, missing := os.Stat(booted); missing != nil && program == s.systemctl {
		return "", &MissingError{Why: "it is installed, but has not started this machine", Err: err}
	}
	return "", err
}

// called is a command line for people: without the names of all that it asks for.
func called(program string, args []string) string {
	words := []string{filepath.Base(program)}
	for _, a := range args {
		if !strings.HasPrefix(a, "--property=") {
			words = append(words, a)
		}
	}
	return strings.Join(words, " ")
}

// lastLines returns the last lines of a text, each of a bounded length.
func lastLines(text string) []string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	lines = lines[max(0, len(lines)-kept):]
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	for i, l := range lines {
		lines[i] = l[:min(len(l), 1<<10)]
	}
	return lines
}
