package initsystem_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/host/initsystem"
)

const fakeDir = "ETCDADM_TEST_SYSTEMD"

// A fake is the state of a systemd with one unit, in a file, for which the test
// binary plays systemctl.
type fake struct {
	// Unit is what systemd has read of the unit file, "" for none; File is where
	// that is.
	Unit, File string
	// Properties of the running system.
	Active, Sub, FileState, Load, ID, Fragment, Restarts, Result, Exit, PID string
	// Job is the number of a queued job.
	Job string
	// Age is how long ago the main process was started.
	Age time.Duration
	// Stuck makes stopping last for so many observations.
	Stuck int
	// Fail are commands that fail, with what they complain about.
	Fail map[string]string
	// Hang is a command that never ends.
	Hang string
	// Calls are the commands that were given, without show.
	Calls []string
}

func loadFake() fake {
	var f fake
	b, err := os.ReadFile(filepath.Join(os.Getenv(fakeDir), "state.json"))
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil {
		panic(err)
	}
	return f
}

// save replaces the state as a whole: who does it may be killed.
func (f fake) save(dir string) {
	b, err := json.Marshal(f)
	next := filepath.Join(dir, fmt.Sprintf("state.%d", os.Getpid()))
	if err == nil {
		err = os.WriteFile(next, b, 0o600)
	}
	if err == nil {
		err = os.Rename(next, filepath.Join(dir, "state.json"))
	}
	if err != nil {
		panic(err)
	}
}

// systemctl plays what systemctl does to the fake's unit.
func systemctl(args []string) int {
	f := loadFake()
	defer func() { f.save(os.Getenv(fakeDir)) }()
	args = slices.DeleteFunc(args, func(a string) bool { return a == "--no-ask-password" })
	if args[0] != "show" {
		f.Calls = append(f.Calls, strings.Join(args, " "))
	}
	if args[0] == f.Hang {
		f.save(os.Getenv(fakeDir))
		select {}
	}
	if complaint, ok := f.Fail[args[0]]; ok {
		fmt.Fprintln(os.Stderr, complaint)
		return 1
	}
	switch args[0] {
	case "daemon-reload":
		b, _ := os.ReadFile(f.File)
		f.Unit = string(b)
	case "enable":
		fmt.Fprintln(os.Stderr, "Created symlink /etc/systemd/system/multi-user.target.wants/etcd.service.")
		f.FileState = "enabled"
	case "disable":
		f.FileState = "disabled"
	case "reset-failed":
		f.Active, f.Sub = "inactive", "dead"
	case "start":
		if f.Active != "active" {
			f.Active, f.Sub, f.Restarts, f.Result, f.Age = "activating", "start", "0", "success", 0
		}
	case "stop":
		if f.Active == "activating" || f.Active == "active" {
			f.Active, f.Sub = "deactivating", "stop-sigterm"
		}
	case "show":
		f.show(args)
	default:
		panic(args)
	}
	return 0
}

func (f *fake) show(args []string) {
	if f.Active == "deactivating" {
		if f.Stuck--; f.Stuck < 0 {
			f.Active, f.Sub = "inactive", "dead"
			if f.Result == "timeout" {
				f.Active, f.Sub = "failed", "failed"
			}
		}
	}
	load, fragment, fileState := "loaded", f.File, f.FileState
	if f.Unit == "" {
		load, fragment, fileState = "not-found", "", ""
	}
	if f.Load != "" {
		load = f.Load
	}
	if f.Fragment != "" {
		fragment = f.Fragment
	}
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	id := "etcd.service"
	if f.ID != "" {
		id = f.ID
	}
	values := map[string]string{
		"Id": id, "LoadState": load, "ActiveState": f.Active, "SubState": f.Sub, "UnitFileState": fileState,
		"FragmentPath": fragment, "NeedDaemonReload": "no", "NRestarts": f.Restarts, "Job": f.Job, "MainPID": f.PID,
		"Result": f.Result, "ExecMainStatus": f.Exit,
		"ExecMainStartTimestampMonotonic": fmt.Sprint((time.Duration(ts.Nano()) - f.Age).Microseconds()),
	}
	if b, _ := os.ReadFile(f.File); string(b) != f.Unit && f.Unit != "" {
		values["NeedDaemonReload"] = "yes"
	}
	for _, p := range strings.Split(strings.TrimPrefix(args[1], "--property="), ",") {
		v, ok := values[p]
		if !ok {
			panic("no property " + p)
		}
		fmt.Printf("%s=%s\n", p, v)
	}
}

func journalctl(args []string) int {
	fmt.Println(strings.Join(args, " "))
	for i := range 30 {
		fmt.Println("line", i)
	}
	return 0
}

// machineWith returns a machine whose systemd is in a state, and a way to see
// at and change that.
func machineWith(t *testing.T, f fake) (initsystem.System, func(change func(f *fake)) fake) {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"systemctl", "journalctl"} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	t.Setenv(fakeDir, dir)
	f.File = filepath.Join(dir, "etcd.service")
	if f.Active == "" {
		f.Active, f.Sub = "inactive", "dead"
	}
	if f.PID == "" {
		f.PID = "0"
	}
	f.save(dir)
	if f.Unit != "" {
		write(t, f.File, f.Unit, 0o644)
	}
	s := newSystem(t, initsystem.Options{Kind: "systemd", UnitPath: f.File})
	return s, func(change func(f *fake)) fake {
		f := loadFake()
		if change != nil {
			change(&f)
			f.save(dir)
		}
		return f
	}
}

func TestMachineWithoutSystemd(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := initsystem.New(initsystem.Options{Kind: "systemd", UnitPath: "/etc/systemd/system/etcd.service"})
	var missing *initsystem.MissingError
	if !errors.As(err, &missing) || !strings.Contains(missing.Hint(), "--init-system=kubelet") {
		t.Errorf("%v", err)
	}
}

func TestSystemdThatHasNotStartedTheMachine(t *testing.T) {
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		t.Skip("systemd has started this machine")
	}
	s, _ := machineWith(t, fake{Fail: map[string]string{"show": "System has not been booted\nwith systemd"}})
	_, err := s.Status(t.Context())
	var missing *initsystem.MissingError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "System has not been booted with systemd") ||
		strings.Contains(err.Error(), "--property") {
		t.Errorf("%v", err)
	}
}

func TestSystemdStates(t *testing.T) {
	tests := []struct {
		name string
		fake fake
		want initsystem.State
		text string
	}{
		{"no unit", fake{}, initsystem.Absent, "there is no unit etcd.service"},
		{"not started", fake{Unit: "x"}, initsystem.Stopped, "inactive (dead)"},
		{"waits for a mount", fake{Unit: "x", Job: "4711"}, initsystem.Starting, "waits for its dependencies"},
		{"waits for a quorum", fake{Unit: "x", Active: "activating", Sub: "start", Restarts: "0"}, initsystem.Starting,
			"activating (start)"},
		{"systemd without NRestarts", fake{Unit: "x", Active: "activating", Sub: "start"}, initsystem.Starting,
			"activating (start)"},
		{"ready", fake{Unit: "x", Active: "active", Sub: "running", Restarts: "3"}, initsystem.Running, "restarted 3 times"},
		{
			"between two starts", fake{
				Unit: "x", Active: "activating", Sub: "auto-restart", Restarts: "2", Result: "exit-code", Exit: "7",
			},
			initsystem.Crashing, "last result exit-code 7, restarted 2 times",
		},
		{"just started again", fake{Unit: "x", Active: "activating", Sub: "start", Restarts: "2", Age: time.Second},
			initsystem.Crashing, "activating (start)"},
		{"a crash long ago", fake{Unit: "x", Active: "activating", Sub: "start", Restarts: "2", Age: time.Minute},
			initsystem.Starting, "activating (start)"},
		{"given up", fake{Unit: "x", Active: "failed", Sub: "failed", Result: "signal"}, initsystem.Crashing,
			"last result signal"},
		{"being stopped", fake{Unit: "x", Active: "deactivating", Sub: "stop-sigterm", Stuck: 5}, initsystem.Running,
			"deactivating (stop-sigterm)"},
		{"runs without its file", fake{Active: "active", Sub: "running"}, initsystem.Running, "active (running)"},
		{"of a package", fake{Unit: "x", Active: "active", Fragment: "/lib/systemd/system/etcd.service"}, initsystem.Running,
			"the unit is /lib/systemd/system/etcd.service instead of"},
		{"an alias", fake{Unit: "x", Active: "active", ID: "etcd-member.service"}, initsystem.Running,
			"the unit is an alias of etcd-member.service"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := machineWith(t, tt.fake)
			st := status(t, s)
			if st.State != tt.want || !strings.Contains(st.Detail, tt.text) {
				t.Errorf("%+v, want %s and %q", st, tt.want, tt.text)
			}
			if (len(st.LastLines) > 0) != (tt.want == initsystem.Crashing) {
				t.Errorf("last lines %q", st.LastLines)
			}
		})
	}
}

func TestLastLinesOfTheJournal(t *testing.T) {
	s, _ := machineWith(t, fake{Unit: "x", Active: "failed"})
	lines := status(t, s).LastLines
	if len(lines) != 20 || lines[19] != "line 29" {
		t.Errorf("%q", lines)
	}
}

func TestSystemdStart(t *testing.T) {
	s, observe := machineWith(t, fake{})
	write(t, observe(nil).File, "[Service]", 0o644)
	mustDo(t, s.Start)
	want := []string{"daemon-reload", "enable etcd.service", "start --no-block etcd.service"}
	if f := observe(nil); !slices.Equal(f.Calls, want) {
		t.Errorf("%q, want %q", f.Calls, want)
	}
	if st := status(t, s); st.State != initsystem.Starting || !st.Enabled {
		t.Errorf("%+v", st)
	}
	observe(func(f *fake) { f.Active, f.Sub, f.PID = "active", "running", "42" })
	mustDo(t, s.Start)
	if st := status(t, s); st.State != initsystem.Running || st.PID != 42 {
		t.Errorf("after a second start: %+v", st)
	}
}

func TestSystemdStartAfterItGaveUp(t *testing.T) {
	s, observe := machineWith(t, fake{Unit: "x", Active: "failed", Sub: "failed"})
	mustDo(t, s.Start)
	if f := observe(nil); !slices.Contains(f.Calls, "reset-failed etcd.service") || f.Active != "activating" {
		t.Errorf("%+v", f)
	}
}

func TestSystemdDoesNotStartSomethingElse(t *testing.T) {
	tests := []struct {
		name string
		fake fake
		want string
		hint string
	}{
		{"no file", fake{}, "does not exist", "UnitPath"},
		{"masked", fake{Unit: "x", Load: "masked"}, "is masked", "systemctl unmask etcd.service"},
		{"nonsense", fake{Unit: "x", Load: "bad-setting"}, "cannot be read by systemd (bad-setting)",
			"systemd-analyze verify"},
		{"a package's", fake{Unit: "x", Fragment: "/lib/systemd/system/etcd.service"},
			"is /lib/systemd/system/etcd.service instead of", "package"},
		{"an alias", fake{Unit: "x", ID: "etcd2.service"}, "is an alias of etcd2.service", "mask"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, observe := machineWith(t, tt.fake)
			err := s.Start(t.Context())
			var unit *initsystem.UnitError
			if !errors.As(err, &unit) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(unit.Hint(), tt.hint) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if f := observe(nil); !slices.Equal(f.Calls, []string{"daemon-reload"}) {
				t.Errorf("it did %q", f.Calls)
			}
		})
	}
}

func TestSystemdStop(t *testing.T) {
	for _, f := range []fake{
		{Unit: "x", Active: "active", Sub: "running", FileState: "enabled"},
		{Unit: "x", Active: "activating", Sub: "start", FileState: "enabled"},
		// Not active, and yet to be stopped: it would start again in a moment.
		{Unit: "x", Active: "activating", Sub: "auto-restart", FileState: "enabled", Restarts: "9"},
		{Unit: "x", Active: "failed", Sub: "failed", FileState: "enabled"},
		{Unit: "x", Active: "inactive", Sub: "dead", FileState: "enabled"},
		{Unit: "x", Active: "active", Sub: "running", Stuck: 3, Result: "timeout"},
		{Active: "active", Sub: "running"}, // its file is gone
		{},
	} {
		t.Run(f.Active+" "+f.Sub, func(t *testing.T) {
			s, observe := machineWith(t, f)
			mustDo(t, s.Stop)
			got := observe(nil)
			if got.Active != "inactive" || got.FileState == "enabled" {
				t.Errorf("%+v", got)
			}
			if st := status(t, s); st.State != initsystem.Stopped && st.State != initsystem.Absent || st.Enabled {
				t.Errorf("%+v", st)
			}
			mustDo(t, s.Stop)
		})
	}
}

func TestSystemdStopsAlsoWhatItCannotDisable(t *testing.T) {
	s, observe := machineWith(t, fake{
		Unit: "x", Active: "active", FileState: "enabled", Fail: map[string]string{"disable": "Read-only file system"},
	})
	if err := s.Stop(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "systemctl --no-ask-password disable etcd.service: exit status 1: Read-only") {
		t.Error(err)
	}
	if f := observe(nil); f.Active != "inactive" {
		t.Errorf("%+v", f)
	}
}

func TestSystemdStopThatDoesNotEnd(t *testing.T) {
	s, observe := machineWith(t, fake{Unit: "x", Active: "active", Stuck: 1 << 30})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	observe(func(f *fake) { f.Hang = "stop" })
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a systemctl that hangs: %v", err)
	}
}

func TestSystemdRestart(t *testing.T) {
	s, observe := machineWith(t, fake{Unit: "old", Active: "active", FileState: "enabled", Stuck: 2})
	write(t, observe(nil).File, "new", 0o644)
	if st := status(t, s); !strings.Contains(st.Detail, "its file has changed") {
		t.Errorf("%+v", st)
	}
	mustDo(t, s.Restart)
	f := observe(nil)
	want := []string{"stop etcd.service", "daemon-reload", "enable etcd.service", "start --no-block etcd.service"}
	if !slices.Equal(f.Calls, want) || f.Unit != "new" || f.FileState != "enabled" {
		t.Errorf("%+v, want %q", f, want)
	}
}

func TestSystemdReloadAfterRemoval(t *testing.T) {
	s, observe := machineWith(t, fake{Unit: "x"})
	if err := os.Remove(observe(nil).File); err != nil {
		t.Fatal(err)
	}
	mustDo(t, s.Reload)
	if st := status(t, s); st.State != initsystem.Absent {
		t.Errorf("%+v", st)
	}
}

// Timers are enabled and started by their name, and one that systemd does not know needs no
// stop.
func TestTimers(t *testing.T) {
	s, state := machineWith(t, fake{Active: "inactive", Sub: "dead", File: filepath.Join(t.TempDir(), "etcd.service")})
	timers, ok := s.(initsystem.Timers)
	if !ok {
		t.Fatal("systemd has no timers")
	}
	const name = "etcdadm-certs-renew.timer"
	if err := timers.StopTimer(t.Context(), name); err != nil {
		t.Error(err)
	}
	if err := timers.StartTimer(t.Context(), name); err != nil {
		t.Error(err)
	}
	state(func(f *fake) { f.Unit, f.Active = "x", "active" })
	on, err := timers.TimerOn(t.Context(), name)
	if err != nil || !on {
		t.Errorf("it is on: %v, %v", on, err)
	}
	if err := timers.StopTimer(t.Context(), name); err != nil {
		t.Error(err)
	}
	calls := state(func(*fake) {}).Calls
	if want := []string{"daemon-reload", "enable --now " + name, "disable --now " + name}; !slices.Equal(calls, want) {
		t.Errorf("systemctl was called with %q", calls)
	}
}
