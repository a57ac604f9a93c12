//go:build crashpoints

package etcdrelease

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
)

// Killed between any two effects, the old etcd or the new one is there whole,
// and the same again makes the set whole.
func TestCrashAndInstallAgain(t *testing.T) {
	for _, point := range []string{
		"download.before-rename", "install.before-rename",
		"install.after-etcdutl", "install.after-etcdctl", "install.after-etcd",
	} {
		t.Run(point, func(t *testing.T) {
			s := newSite(t, version)
			o := s.from(t, version)
			dir := dirOf(t, "3.5.1", tools...)
			err := child(t, o, dir, crashpoint.Variable+"="+point).Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("it was not killed: %v", err)
			}
			now := Present(soon(t), dir).Etcd.Version
			if want := map[bool]string{
				true: version, false: "3.5.1",
			}[point == "install.after-etcd"]; now != etcdversion.Must(want) {
				t.Errorf("etcd is of version %s", now)
			}
			done := mustInstallOver(t, o, dir)
			if done.Changed == (point == "install.after-etcd") {
				t.Errorf("it says %+v", done)
			}
			if got := s.archiveRequests(); len(got) != 1 {
				t.Errorf("it was fetched again: %q", got)
			}
		})
	}
}

// mustInstallOver is mustInstall where a killed process may have left its
// directory, which only the next one that has something to do removes.
func mustInstallOver(t *testing.T, o Options, dir string) Installed {
	t.Helper()
	done, err := Install(soon(t), o, dir)
	if err != nil {
		t.Fatal(err)
	}
	if done.Changed {
		wantSet(t, dir, o.Version, "etcd", "etcdctl", "etcdutl")
	}
	return done
}
