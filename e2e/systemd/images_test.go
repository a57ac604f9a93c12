//go:build e2e

package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Docker and containerd take what "images build" writes, and the images run as kops'
// manifests start them.
func TestImagesRun(t *testing.T) {
	dir := t.TempDir()
	archive, layout := filepath.Join(dir, "images.tar"), filepath.Join(dir, "layout")
	const prefix, version = "registry.test/etcdadm", "v0.0.1"
	cmd := exec.CommandContext(t.Context(), "go", "run", "./images", "build", "etcd-manager", "etcd-backup", "etcd:3.6.16",
		"-version="+version, "-prefix="+prefix, "-tarball="+archive, "-output="+layout)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	manager, backup, etcd := prefix+"/etcd-manager:"+version, prefix+"/etcd-backup:"+version, prefix+"/etcd:v3.6.16"
	must := func(args ...string) string {
		t.Helper()
		out, err := docker(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	must("load", "--input="+archive)
	t.Cleanup(func() {
		if out, err := exec.Command("docker", "rmi", "--force", manager, backup, etcd).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	logs := filepath.Join(dir, "log")
	if err := os.Mkdir(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	alone := []string{"run", "--rm", "--network=none"}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{manager, "--version"}, version},
		// as kops starts it
		{[]string{"--volume=" + logs + ":/var/log", "--entrypoint=/go-runner", manager, "--log-file=/var/log/etcd.log",
			"--also-stdout", "/ko-app/etcd-manager", "--version"}, version},
		{[]string{"--entrypoint=/etcd-manager", manager, "--version"}, version},
		{[]string{"--entrypoint=/ko-app/etcd-manager-ctl", manager, "version"}, "etcd-manager-ctl " + version},
		{[]string{"--entrypoint=etcdadm", manager, "version"}, "etcdadm " + version},
		{[]string{"--entrypoint=/ko-app/etcdadm", manager, "version"}, "etcdadm " + version},
		{[]string{backup, "--version"}, version},
		{[]string{etcd, "etcd", "--version"}, "etcd Version: 3.6.16"},
	} {
		if out := must(append(alone, tc.args...)...); !strings.Contains(out, tc.want) {
			t.Errorf("%v prints %q", tc.args, out)
		}
	}
	logged, err := os.ReadFile(filepath.Join(logs, "etcd.log"))
	if err != nil || !strings.Contains(string(logged), version) {
		t.Errorf("the log file has %q, %v", logged, err)
	}
	importedByContainerd(t, layout, []string{manager, backup, etcd})
}

// importedByContainerd has the containerd of Docker's daemon import the layout.
func importedByContainerd(t *testing.T, layout string, want []string) {
	t.Helper()
	tarred := layout + ".tar"
	if out, err := exec.CommandContext(t.Context(), "tar", "-C", layout, "-cf", tarred, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const namespace = "etcdadm-images-test"
	ctr := func(args ...string) string {
		t.Helper()
		all := append([]string{"--address=/var/run/docker/containerd/containerd.sock", "--namespace=" + namespace}, args...)
		out, err := exec.Command("ctr", all...).CombinedOutput()
		if err != nil {
			t.Fatalf("ctr %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	ctr("images", "import", "--no-unpack", tarred)
	have := ctr("images", "list", "--quiet")
	ctr(append([]string{"images", "remove", "--sync"}, want...)...)
	for _, image := range want {
		if !strings.Contains(have, image) {
			t.Errorf("containerd has\n%s\nwithout %s", have, image)
		}
	}
}
