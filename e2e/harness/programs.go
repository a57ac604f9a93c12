package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Programs are the names of the programs that [Build] makes.
var Programs = []string{"etcdadm", "etcd-manager", "etcd-manager-ctl"}

// Build builds the programs into a directory as "make build" does, with further build tags if
// there are any: the container of kops' pod has nothing that they could be linked to. The
// working directory must be inside the workspace.
func Build(ctx context.Context, dir, tags string) error {
	args := []string{"build", "-tags=disable_grpc_modules,grpcnotrace," + tags, "-trimpath", "-o", dir + "/"}
	for _, p := range Programs {
		args = append(args, "github.com/etcdadm/etcdadm/"+p)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return nil
}

// BuildLogRunner builds the program that runs the daemon in the image, into a directory, and
// returns its path. The working directory must be inside the workspace.
func BuildLogRunner(ctx context.Context, dir string) (string, error) {
	images, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/etcdadm/etcdadm/images").Output()
	if err != nil {
		return "", fmt.Errorf("find the log runner: %w", err)
	}
	path := filepath.Join(dir, "go-runner")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "k8s.io/component-base/logs/kube-log-runner")
	cmd.Dir = filepath.Join(strings.TrimSpace(string(images)), "log-runner")
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the log runner: %w\n%s", err, out)
	}
	return path, nil
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

// GateEtcd gives n, which does not run yet, an etcd of one version that waits before it does
// anything: it makes the file begun, and goes on when there is the file open. Other versions
// stay as they are.
func (n *Node) GateEtcd(version string) (begun, open string) {
	n.c.t.Helper()
	real, err := EtcdBinary(n.EtcdDirs, version, "etcd")
	n.c.must(err, "find etcd")
	dir := filepath.Join(n.c.Dir, n.Name+"-gate")
	begun, open = filepath.Join(dir, "begun"), filepath.Join(dir, "open")
	place := filepath.Join(dir, "etcd-v"+version)
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = --version ] && exec %[1]s --version\n: > %[2]s\n"+
		"while ! [ -e %[3]s ]; do sleep 0.1; done\nexec %[1]s \"$@\"\n", real, begun, open)
	n.c.must(os.MkdirAll(place, 0o755), "make a directory")
	n.c.must(os.WriteFile(filepath.Join(place, "etcd"), []byte(script), 0o755), "write an etcd")
	n.EtcdDirs = dir + string(filepath.ListSeparator) + n.EtcdDirs
	return begun, open
}
