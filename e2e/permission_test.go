package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nobody is a user without rights on every Linux system.
const nobody = 65534

// A store that this user may not read is unreachable, not empty.
func TestStoreWithoutPermission(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	bin, err := programs.plain()
	if err != nil {
		t.Fatal(err)
	}
	// The test's own directory is for its user alone.
	dir, err := os.MkdirTemp("", "etcdadm-e2e-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(filepath.Join(bin, "etcd-manager-ctl"))
	if err != nil {
		t.Fatal(err)
	}
	ctl := filepath.Join(dir, "etcd-manager-ctl")
	if err := os.WriteFile(ctl, program, 0o755); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(dir, "store")
	putFile(t, filepath.Join(store, "control/etcd-cluster-spec"), `{"memberCount":3,"etcdVersion":"3.6.16"}`)
	if err := os.Chmod(store, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"get"}, {"status"}, {"list-backups"}, {"--member-count=1", "configure-cluster"}} {
		cmd := exec.CommandContext(t.Context(), ctl, append([]string{"--backup-store=" + store}, args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		err := cmd.Run()
		if code := cmd.ProcessState.ExitCode(); err == nil || code != 6 ||
			!strings.Contains(stderr.String(), "permission denied") {
			t.Errorf("%v ended with %d (%v): %s", args, code, err, stderr.String())
		}
	}
	b, err := os.ReadFile(filepath.Join(store, "control/etcd-cluster-spec"))
	if err != nil || !strings.Contains(string(b), `"memberCount":3`) {
		t.Errorf("the spec is %s, %v", b, err)
	}
}
