package operate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/initsystem"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// renewal observes what renews the certificates.
func (m *Machine) renewal(ctx context.Context) (r machine.Renewal) {
	timers, ok := m.initSystem.(initsystem.Timers)
	if m.cfg.Service.InitSystem != machine.Systemd || !ok {
		return r
	}
	if exe, err := os.Executable(); err == nil {
		inPath, _ := exec.LookPath("etcdadm")       // "" where there is none
		exe = strings.TrimSuffix(exe, " (deleted)") // it was replaced while it runs
		r.Program, r.Problem = renewProgram(exe, inPath, m.changeable)
	}
	if r.Theirs = RenewalOfOthers(m.cfg.Paths); len(r.Theirs) > 0 {
		r.Problem = r.Theirs[0] + " is not etcdadm's"
	}
	var err error
	if r.Enabled, err = timers.TimerOn(ctx, initfiles.RenewTimerName); err != nil {
		r.Problem = "systemd does not say how it is: " + err.Error()
	}
	return r
}

// The permissions that others than root must not have of what root is to run. Of a program in root's
// PATH a group may be trusted, as Debian's "staff" is with /usr/local.
const (
	byOthers        fs.FileMode = 0o002
	byGroupOrOthers fs.FileMode = 0o022
)

// renewProgram returns the path of this program that root is to run by itself from now on, or why
// there is none: root runs whatever is there then. That which is in the PATH stays right when a link
// is moved to another version. changeable says what of a path others than root can change.
func renewProgram(exe, inPath string, changeable func(string, fs.FileMode) string) (path, problem string) {
	if !sameFile(exe, inPath) {
		inPath = ""
	}
	if inPath == "" && !strings.HasPrefix(filepath.Base(exe), "etcdadm") {
		return "", "" // another program, of which this package is a part
	}
	for _, c := range []struct {
		path string
		bits fs.FileMode
	}{{inPath, byOthers}, {exe, byGroupOrOthers}} {
		if !filepath.IsAbs(c.path) {
			continue
		}
		if at := changeable(c.path, c.bits); at != "" {
			problem = fmt.Sprintf("root would run %s again and again, and others than root can change %s", c.path, at)
			continue
		}
		if _, err := initfiles.RenewService(initfiles.RenewOptions{Program: c.path}); err != nil {
			problem = err.Error()
			continue
		}
		return c.path, ""
	}
	return "", problem
}

func sameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// changeable returns the first file or directory on the way to a path, links included, that is not
// root's, or for which somebody else has one of the permissions; "" for none. What cannot be read is
// one.
func changeable(path string, bits fs.FileMode) string { return changeableBy(0, "/", path, bits) }

// changeableBy is changeable below a directory, of another owner.
func changeableBy(owner uint32, dir, path string, bits fs.FileMode) string {
	at, rest := dir, words(path)
	for links := 0; ; {
		info, err := os.Lstat(at)
		if err != nil {
			return at
		}
		link := info.Mode()&fs.ModeSymlink != 0 // its own permissions mean nothing
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != owner || !link && info.Mode().Perm()&bits != 0 {
			return at
		}
		if link {
			target, err := os.Readlink(at)
			if links++; err != nil || links > 40 {
				return at
			}
			rest = append(words(target), rest...)
			if at = filepath.Dir(at); filepath.IsAbs(target) {
				at = "/"
			}
			continue
		}
		if len(rest) == 0 {
			return ""
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:]
	}
}

func words(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// RenewalOfOthers returns which of the units that renew certificates are not as etcdadm wrote them: a
// person has written, changed or masked them.
func RenewalOfOthers(p machine.Paths) (list []string) {
	service, timer := p.RenewPaths()
	for _, path := range []string{service, timer} {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && info.Mode().IsRegular() {
			if b, err := os.ReadFile(path); err == nil && initfiles.IsMarked(string(b)) {
				continue
			}
		}
		list = append(list, path)
	}
	return list
}

// startTimer has systemd start what renews the certificates, if that is among the files.
func (m *Machine) startTimer(ctx context.Context, files []initfiles.File) error {
	_, path := m.cfg.Paths.RenewPaths()
	timers, ok := m.initSystem.(initsystem.Timers)
	if !ok || !slices.ContainsFunc(files, func(f initfiles.File) bool { return f.Path == path }) {
		return nil
	}
	return timers.StartTimer(ctx, initfiles.RenewTimerName)
}

// unrenewed goes on without a timer that could not be made: the member is there, and its certificates
// are new. Who asked for just that phase gets the error, and so does who is in another phase.
func (m *Machine) unrenewed(ctx context.Context, goal machine.Goal, step machine.Step, err error) (
	machine.Goal, error) {
	if err == nil || step.Phase != machine.RenewalPhase || goal.Phase != "" || ctx.Err() != nil {
		return goal, err
	}
	if m.o.Warned != nil {
		m.o.Warned("Renewal", fmt.Sprintf("nothing renews the certificates of this machine yet: %v; fix that, then run: etcdadm "+
			"init phase %s, with the same flags", err, machine.RenewalPhase))
	}
	goal.Skip = append(slices.Clone(goal.Skip), machine.RenewalPhase)
	return goal, nil
}

// StopTimer has systemd forget what renews the certificates, if that is among the files that
// are about to be removed.
func StopTimer(ctx context.Context, cfg machine.Config, paths []string) error {
	_, path := cfg.Paths.RenewPaths()
	if !slices.Contains(paths, path) {
		return nil
	}
	s, err := initsystem.New(initsystem.Options{Kind: machine.Systemd, UnitPath: cfg.Paths.Unit()})
	if timers, ok := s.(initsystem.Timers); err == nil && ok {
		err = timers.StopTimer(ctx, initfiles.RenewTimerName)
	}
	var missing *initsystem.MissingError
	if errors.As(err, &missing) {
		return nil // nothing that could run it
	}
	return err
}
