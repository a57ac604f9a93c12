package client

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/contexts"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// runEtcdctl runs the command with a program in place of etcdctl, which is started, not
// become.
func runEtcdctl(t *testing.T, finder etcdbin.Finder, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	become := func(path string, argv, env []string) error {
		cmd := &exec.Cmd{Path: path, Args: argv, Env: env, Stdout: &stdout, Stderr: &stderr}
		return cmd.Run()
	}
	e := &etcdctl{finder: finder, byHand: filepath.Join(t.TempDir(), "etcdctl"), exec: become}
	root := &cobra.Command{Use: "etcdadm", Args: cli.Known}
	cli.AddOutput(root, cli.Table, cli.JSON)
	root.AddCommand(etcdctlCommand(e))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code := cli.Run(t.Context(), root, append([]string{"etcdctl"}, args...))
	return result{code, stdout.String(), stderr.String()}
}

// etcdctl itself is run with what reaches etcd, and with its own flags.
func TestEtcdctl(t *testing.T) {
	w := newTestCluster(t, machine.DefaultVersion.String(), 1, newPKI(t))
	flags := append(w.flags(), "--etcdctl="+w.bin.Etcdctl)
	r := runEtcdctl(t, etcdbin.Finder{}, append(flags, "member", "list", "-w", "json", "--command-timeout=60s")...)
	if r.code != 0 || !strings.Contains(r.stdout, w.members[0].ClientURL) {
		t.Errorf("%+v", r)
	}
	r = runEtcdctl(t, etcdbin.Finder{}, append(flags, "get", "ready", "--command-timeout=60s",
		"--endpoints="+w.members[0].ClientURL)...)
	if r.code != 0 || r.stdout != "ready\nyes\n" {
		t.Errorf("a flag that is given beside its variable: %+v", r)
	}
}

// aVersion makes a directory with an etcd and an etcdctl that prints its variables, arguments
// and what is in the files.
func aVersion(t *testing.T, parent, version string) {
	t.Helper()
	dir := filepath.Join(parent, "etcd-v"+version)
	script := "#!/bin/sh\necho " + version + "\nenv | grep ^ETCDCTL_ | sort\necho \"$@\"\n"
	for name, text := range map[string]string{"etcd": "", "etcdctl": script} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhichEtcdctl(t *testing.T) {
	dir, none := t.TempDir(), t.TempDir()
	aVersion(t, dir, "3.6.16")
	aVersion(t, dir, "3.10.0")
	t.Setenv("PATH", none+":/usr/bin:/bin")
	t.Setenv("ETCDCTL_ENDPOINTS", "http://elsewhere:1")
	t.Setenv("ETCDCTL_USER", "root")
	finder := etcdbin.Finder{Dirs: []string{dir}, Opt: none}
	r := runEtcdctl(t, finder, "--endpoints=http://10.0.0.1:1", "get", "--limit=1", "-o", "x")
	if want := "3.10.0\nETCDCTL_ENDPOINTS=http://10.0.0.1:1\nETCDCTL_USER=root\nget --limit=1 -o x\n"; r.stdout != want {
		t.Errorf("%+v", r)
	}
	r = runEtcdctl(t, finder, "--endpoints=http://10.0.0.1:1", "get", "--endpoints", "http://b:1")
	if want := "3.10.0\nETCDCTL_USER=root\nget --endpoints http://b:1\n"; r.stdout != want {
		t.Errorf("%+v", r)
	}
	empty := etcdbin.Finder{Opt: none}
	t.Setenv("PATH", none)
	r = runEtcdctl(t, empty, "--endpoints=http://10.0.0.1:1", "get")
	if r.code != 1 || !strings.Contains(r.stderr, "no etcdctl is on this machine") ||
		!strings.Contains(r.stderr, "hint: ") {
		t.Errorf("%+v", r)
	}
	t.Setenv("PATH", none+":/usr/bin:/bin")
	if err := os.Symlink(filepath.Join(dir, "etcd-v3.6.16", "etcdctl"), filepath.Join(none, "etcdctl")); err != nil {
		t.Fatal(err)
	}
	if r = runEtcdctl(t, empty, "--endpoints=http://10.0.0.1:1", "get"); !strings.HasPrefix(r.stdout, "3.6.16\n") {
		t.Errorf("of the PATH: %+v", r)
	}
	for args, want := range map[string]string{
		"":                     "hint: etcdadm etcdctl member list\n",
		"-w table member list": "flags of etcdctl follow its command",
		"--etcdctl=/nowhere --insecure member list": "--etcdctl: ",
	} {
		if r := runEtcdctl(t, finder, strings.Fields(args)...); r.code != 2 || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

// The flags that say whose etcd it is have no say where etcd's certificates are wrong.
func TestEtcdctlWithoutCertificates(t *testing.T) {
	dir := t.TempDir()
	aVersion(t, dir, "3.6.16")
	r := runEtcdctl(t, etcdbin.Finder{Dirs: []string{dir}}, "--endpoints=https://10.0.0.1:1",
		"--certs-dir="+t.TempDir(), "get")
	if r.code != 1 || r.stdout != "" || !strings.Contains(r.stderr, "no client certificate for etcd") {
		t.Errorf("%+v", r)
	}
}

// A context that is named for the shell is of a cluster that this command knows nothing of:
// it is not run on the etcd of the machine instead.
func TestEtcdctlKnowsNoContexts(t *testing.T) {
	dir := t.TempDir()
	aVersion(t, dir, "3.6.16")
	finder := etcdbin.Finder{Dirs: []string{dir}, Opt: t.TempDir()}
	t.Setenv(contexts.Variable, "lab")
	r := runEtcdctl(t, finder, "del", "--prefix", "/")
	if r.code != 2 || r.stdout != "" || !strings.Contains(r.stderr, "ETCDADM_CONTEXT is lab") ||
		!strings.Contains(r.stderr, "hint: name the etcd of that cluster with --endpoints") {
		t.Errorf("%+v", r)
	}
	r = runEtcdctl(t, finder, "--endpoints=http://10.0.0.1:1", "get")
	if r.code != 0 {
		t.Errorf("with endpoints: %+v", r)
	}
}

func TestWhatIsInMemoryIsAFile(t *testing.T) {
	path, err := inMemory("client.key", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // etcdctl reads it at each connection
		if b, err := os.ReadFile(path); err != nil || string(b) != "secret" {
			t.Errorf("%q, %v", b, err)
		}
	}
	out, err := exec.Command("cat", path).CombinedOutput()
	if err != nil || string(out) != "secret" {
		t.Errorf("another program reads %q, %v", out, err)
	}
}

func TestControlEnv(t *testing.T) {
	env := []string{"A=b", "ETCDCTL_KEY=/old", "ETCDCTL_KEYS=1"}
	got := controlEnv(env, []string{"get", "--cert=x", "cacert"},
		[][2]string{{"cacert", "/ca"}, {"cert", "/c"}, {"key", ""}})
	if want := []string{"A=b", "ETCDCTL_KEYS=1", "ETCDCTL_CACERT=/ca"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if fmt.Sprint(env) != "[A=b ETCDCTL_KEY=/old ETCDCTL_KEYS=1]" {
		t.Errorf("the environment has changed: %v", env)
	}
}
