package harness

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Programs are the names of the programs that [Build] makes.
var Programs = []string{"etcdadm", "etcd-manager", "etcd-manager-ctl"}

// Build builds the programs into a directory, with build tags if there are
// any. The working directory must be inside the workspace.
func Build(ctx context.Context, dir, tags string) error {
	args := []string{"build", "-tags=" + tags, "-o", dir + "/"}
	for _, p := range Programs {
		args = append(args, "github.com/etcdadm/etcdadm/"+p)
	}
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return nil
}

// EtcdBinary returns the path of a program of an etcd version: etcd, etcdctl
// or etcdutl. dirs is a list as in ETCDADM_ETCD_DIR.
func EtcdBinary(dirs, version, program string) (string, error) {
	for _, dir := range filepath.SplitList(dirs) {
		for _, sub := range []string{"etcd-v" + version, version, "etcd-v" + version + "/usr/local/bin"} {
			if path, err := exec.LookPath(filepath.Join(dir, sub, program)); err == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("no %s of etcd %s in %s", program, version, dirs)
}
