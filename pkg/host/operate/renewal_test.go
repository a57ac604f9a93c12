package operate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// nobody can change a path.
func nobody(string, fs.FileMode) string { return "" }

// systemctl puts a script in front of the PATH, and this test as etcdadm.
func systemctl(t *testing.T, script string) {
	t.Helper()
	bin := t.TempDir()
	self, err := os.Executable()
	if err := errors.Join(err, os.WriteFile(bin+"/systemctl", []byte("#!/bin/sh\n"+script), 0o755),
		os.Symlink(self, bin+"/etcdadm")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}

// withSystemd returns a machine below a directory of the test that has an authority, and the
// warnings.
func withSystemd(t *testing.T) (m *Machine, warned *[]string) {
	t.Helper()
	dir := t.TempDir()
	cfg := onDisk(t)
	cfg.Name, cfg.Listen.Address, cfg.Version = "a", "127.0.0.1", etcdversion.Must("3.6.16")
	cfg.Service.InitSystem = machine.Systemd
	cfg.Paths.Certificates, cfg.Paths.Install, cfg.Paths.Cache = dir+"/pki", dir+"/bin", dir+"/cache"
	cfg.Paths.Environment, cfg.Paths.Units, cfg.Paths.Manifests = dir+"/etc", dir+"/units", dir+"/manifests"
	warned = new([]string)
	m, err := New(t.Context(), Options{
		Config: cfg, Warned: func(_, text string) { *warned = append(*warned, text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	m.changeable = nobody
	if err := certs.CreateMachineCA(m.certSpec(), time.Now()); err != nil {
		t.Fatal(err)
	}
	return m, warned
}

// A timer that cannot be made is warned of, with the next step: the member is there. Who asks for
// the timer alone gets the error.
func TestATimerThatCannotBeMadeEndsNothing(t *testing.T) {
	for name, script := range map[string]string{
		"enabling it fails": "case $* in\n*show*) printf 'LoadState=not-found\\nActiveState=inactive\\n' ;;\n" +
			"*enable*) echo no bus >&2; exit 1 ;;\nesac\n",
		"it does not become active": "case $* in\n*show*) printf 'LoadState=loaded\\nActiveState=inactive\\n' ;;\nesac\n",
	} {
		t.Run(name, func(t *testing.T) {
			systemctl(t, script)
			m, warned := withSystemd(t)
			goal := machine.Goal{Action: machine.Init}
			for _, p := range machine.Phases(machine.Init) {
				if p.Name != machine.RenewalPhase {
					goal.Skip = append(goal.Skip, p.Name)
				}
			}
			r, err := m.Run(t.Context(), goal)
			if err != nil || len(r.Steps) == 0 || r.Steps[0].Phase != machine.RenewalPhase {
				t.Fatalf("%v, after %v", err, r.Steps)
			}
			if len(*warned) != 1 || !strings.Contains((*warned)[0], "etcdadm init phase renewal") {
				t.Errorf("it warns %q", *warned)
			}
			if _, err := m.Run(t.Context(), machine.Goal{Action: machine.Init, Phase: machine.RenewalPhase}); err == nil {
				t.Error("the phase by itself did not fail")
			}
		})
	}
}

// In a chroot systemctl prints nothing, and ends with 0.
func TestATimerOfWhichSystemdSaysNothingIsNotMade(t *testing.T) {
	systemctl(t, "exit 0\n")
	m, _ := withSystemd(t)
	phase := machine.Goal{Action: machine.Init, Phase: machine.RenewalPhase}
	r, err := m.Run(t.Context(), phase)
	if err != nil || len(r.Steps) > 0 || r.Last.Renewal.Problem == "" {
		t.Errorf("%v, %v, %+v", err, r.Steps, r.Last.Renewal)
	}
}

// Where systemd is installed and has not started the machine, a reset has nothing to stop.
func TestNoTimerIsStoppedWhereSystemdDoesNotRun(t *testing.T) {
	if exists("/run/systemd/system") {
		t.Skip("systemd has started this machine")
	}
	systemctl(t, "echo 'System has not been booted with systemd as init system (PID 1).' >&2\nexit 1\n")
	m, _ := withSystemd(t)
	service, timer := m.cfg.Paths.RenewPaths()
	if err := StopTimer(t.Context(), m.cfg, []string{service, timer}); err != nil {
		t.Error(err)
	}
	systemctl(t, "exit 0\n")
	if err := StopTimer(t.Context(), m.cfg, []string{service, timer}); err == nil {
		t.Error("a systemd that does not answer is taken for none")
	}
	if err := StopTimer(t.Context(), m.cfg, []string{service}); err != nil {
		t.Errorf("there is no timer to stop: %v", err)
	}
}

// What a person has written, changed, or masked in place of the units is neither replaced nor
// deleted.
func TestUnitsOfAPersonStay(t *testing.T) {
	systemctl(t, "case $* in *show*) printf 'LoadState=masked\\nActiveState=inactive\\n' ;; esac\n")
	ours := initfiles.Marked(initfiles.RenewTimer(initfiles.RenewEach(0)))
	for name, c := range map[string]struct {
		text string // "" for none, "-> X" for a link
		stay bool
	}{
		"none":              {"", false},
		"ours":              {ours, false},
		"one that is empty": {"\n", true},
		"a changed copy":    {strings.Replace(ours, "minutely", "weekly", 1), true},
		"the package's":     {initfiles.RenewTimer(initfiles.RenewEach(0)), true},
		"a mask":            {"-> /dev/null", true},
		"a link to ours":    {"-> other.timer", true},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := withSystemd(t)
			_, timer := m.cfg.Paths.RenewPaths()
			err := errors.Join(os.Mkdir(m.cfg.Paths.Units, 0o755),
				os.WriteFile(filepath.Join(m.cfg.Paths.Units, "other.timer"), []byte(ours), 0o644))
			if target, link := strings.CutPrefix(c.text, "-> "); link {
				err = errors.Join(err, os.Symlink(target, timer))
			} else if c.text != "" {
				err = errors.Join(err, os.WriteFile(timer, []byte(c.text), 0o644))
			}
			if err != nil {
				t.Fatal(err)
			}
			obs, err := m.Observe(t.Context(), machine.Goal{Action: machine.Reset, SkipRemoveMember: true})
			if err != nil {
				t.Fatal(err)
			}
			phase := machine.Goal{Action: machine.Join, Phase: machine.RenewalPhase}
			step, why := machine.Next(phase, m.cfg, obs)
			if why != nil || (step == nil) != c.stay {
				t.Errorf("a join: %v, %v", step, why)
			}
			steps, _, err := machine.Plan(machine.Goal{Action: machine.Reset, SkipRemoveMember: true}, m.cfg, obs)
			deletes := slices.ContainsFunc(steps, func(s machine.Step) bool { return strings.Contains(s.Text(), timer) })
			if err != nil || deletes != (c.text == ours) {
				t.Errorf("a reset: %v, %v", steps, err)
			}
		})
	}
}

// Root runs a program again and again only where nobody else can put another one in its place.
func TestWhoCanChangeAPath(t *testing.T) {
	dir := t.TempDir()
	me := uint32(os.Geteuid())
	for path, mode := range map[string]fs.FileMode{
		"safe": 0o755, "safe/bin": 0o755, "group": 0o775, "sticky": 0o777 | fs.ModeSticky, "safe/v1": 0o755,
	} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, path), 0o755), os.Chmod(filepath.Join(dir, path), mode),
			os.WriteFile(filepath.Join(dir, path, "etcdadm"), nil, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"safe/up": "../safe/v1/etcdadm", "safe/out": "../sticky/etcdadm", "safe/through": "../sticky/back",
		"sticky/back": "../safe/bin/etcdadm", "safe/loop": "loop", "safe/abs": dir + "/safe/bin/etcdadm",
		"current": "safe/v1",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(dir+"/safe/open", nil, 0o755), os.Chmod(dir+"/safe/open", 0o757)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		bits fs.FileMode
		want string
	}{
		{"safe/bin/etcdadm", byGroupOrOthers, ""}, {"safe/up", byGroupOrOthers, ""},
		{"current/etcdadm", byGroupOrOthers, ""},
		{"group/etcdadm", byGroupOrOthers, "group"}, {"group/etcdadm", byOthers, ""},
		{"sticky/etcdadm", byOthers, "sticky"}, {"safe/out", byOthers, "sticky"}, {"safe/through", byOthers, "sticky"},
		{"safe/open", byOthers, "safe/open"}, {"safe/loop", byOthers, "safe/loop"}, {"safe/none", byOthers, "safe/none"},
	} {
		want := ""
		if c.want != "" {
			want = filepath.Join(dir, c.want)
		}
		if got := changeableBy(me, dir, c.path, c.bits); got != want {
			t.Errorf("%s, %o: %q, want %q", c.path, c.bits, got, want)
		}
	}
	if got := changeableBy(me+1, dir, "safe/bin/etcdadm", byOthers); got != dir {
		t.Errorf("what is another's: %q", got)
	}
	// The temporary directory is everybody's.
	if info, err := os.Stat("/tmp"); err == nil && info.Mode().Perm()&byOthers != 0 && strings.HasPrefix(dir, "/tmp/") {
		if got := changeable(dir+"/safe/bin/etcdadm", byOthers); got != "/tmp" {
			t.Errorf("below a directory that all can write: %q", got)
		}
		if got := changeableBy(me, dir, "safe/abs", byOthers); got == "" {
			t.Error("a link out of the directory is not followed")
		}
	}
}

// A link in the PATH is what root runs: it stays right when it is moved to another version.
func TestTheProgramThatRootRuns(t *testing.T) {
	dir := t.TempDir()
	exe, link := dir+"/opt/etcdadm-1.2/etcdadm", dir+"/bin/etcdadm"
	other, library := dir+"/other/etcdadm", dir+"/lib/provider"
	odd := dir + "/opt/etcdadm~1"
	for _, path := range []string{exe, other, library, odd} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(dir+"/bin", 0o755), os.Symlink(exe, link)); err != nil {
		t.Fatal(err)
	}
	open := func(paths ...string) func(string, fs.FileMode) string {
		return func(path string, bits fs.FileMode) string {
			if bits == byGroupOrOthers && slices.Contains(paths, "group") || slices.Contains(paths, path) {
				return "/tmp"
			}
			return ""
		}
	}
	for name, c := range map[string]struct {
		exe, inPath string
		changeable  func(string, fs.FileMode) string
		want        string
		problem     string
	}{
		"a link in the PATH":               {exe, link, nobody, link, ""},
		"of which a group has the place":   {exe, link, open("group"), link, ""},
		"a link that others can move":      {exe, link, open(link), exe, ""},
		"another one in the PATH":          {exe, other, nobody, exe, ""},
		"none in the PATH":                 {exe, "", nobody, exe, ""},
		"in /tmp":                          {exe, "", open(exe), "", "others than root can change /tmp"},
		"in /tmp, and another in the PATH": {exe, other, open(exe), "", "root would run " + exe},
		"for a group, not in the PATH":     {exe, "", open("group"), "", "others than root"},
		"relative":                         {exe, "etcdadm", nobody, exe, ""},
		"a library":                        {library, other, nobody, "", ""},
		"a path that a unit cannot have":   {odd, "", nobody, "", "character '~'"},
	} {
		got, problem := renewProgram(c.exe, c.inPath, c.changeable)
		if got != c.want || !strings.Contains(problem, c.problem) || (problem == "") != (c.problem == "") {
			t.Errorf("%s: %q, %q", name, got, problem)
		}
	}
}
