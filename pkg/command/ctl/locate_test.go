package ctl

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/contexts"
	"github.com/etcdadm/etcdadm/pkg/command/internal/daemons"
)

// running starts processes with the command lines of daemons, and returns how those
// alone are found, whatever else runs on the machine.
func running(t *testing.T, stores ...string) func() ([]daemons.Daemon, error) {
	t.Helper()
	var pids []int
	for _, location := range stores {
		cmd := exec.Command("sh", "-c", "echo; read line", "x", "--cluster-name=main", "--backup-store="+location)
		cmd.Args[0] = "etcd-manager"
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = in.Close()
			_ = cmd.Wait()
		})
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, cmd.Process.Pid)
	}
	return func() ([]daemons.Daemon, error) {
		all, err := daemons.Find()
		return slices.DeleteFunc(all, func(d daemons.Daemon) bool { return !slices.Contains(pids, d.PID) }), err
	}
}

// withContexts has the contexts in the place where they are looked for; none for "".
func withContexts(t *testing.T, text string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	if text == "" {
		return
	}
	text = "apiVersion: etcdadm.dev/v1\nkind: Contexts\n" + text
	err := errors.Join(os.MkdirAll(dir+"/etcdadm", 0o700), os.WriteFile(dir+"/etcdadm/config", []byte(text), 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

// Without a flag the store is that of the daemon on this machine; the environment and the
// flag win over it.
func TestStoreOfTheDaemonHere(t *testing.T) {
	dir := func(count string) string {
		d := t.TempDir()
		var none strings.Builder
		root := New()
		root.SetOut(&none)
		if code := cli.Run(t.Context(), root, []string{"--backup-store=file://" + d, "--member-count=" + count,
			"--etcd-version=3.6.16", "configure-cluster"}); code != 0 {
			t.Fatalf("configure-cluster ends with %d", code)
		}
		return d
	}
	one, three := dir("1"), dir("3")
	big := "contexts:\n- name: big\n  backup-store: " + three + "\n"
	for name, tc := range map[string]struct {
		stores       []string
		old          string
		env          string
		contexts     string
		named        string
		args         []string
		code         int
		stdout, errs string
	}{
		"one": {stores: []string{"file://" + one}, args: []string{"get"},
			stdout: "Backup Store: file://" + one + "\n",
			errs:   "note: the store is file://" + one + ", that of the daemon on this machine (process "},
		"status": {stores: []string{one}, args: []string{"status"},
			stdout: `member_count:1 etcd_version:"3.6.16"`, errs: "cluster main)"},
		"list-backups": {stores: []string{one}, args: []string{"list-backups"},
			stdout: "Backup Store: " + one, errs: "note: "},
		"two of one store": {stores: []string{one, one}, args: []string{"status"},
			stdout: `member_count:1 etcd_version:"3.6.16"`,
			errs:   "note: "},
		"two stores": {stores: []string{one, three}, args: []string{"status"}, code: 2,
			errs: "hint: give --backup-store=" + min(one, three) + "\nhint: give --backup-store=" + max(one, three) + "\n"},
		"two stores, of backups": {stores: []string{one, three}, args: []string{"list-backups"}, code: 2,
			errs: "error: there are daemons of 2 stores on this machine: "},
		"the environment wins": {stores: []string{one}, env: three, args: []string{"status"},
			stdout: `member_count:3 etcd_version:"3.6.16"`},
		"the flag wins": {stores: []string{one}, env: one, args: []string{"--backup-store=" + three, "status"},
			stdout: `member_count:3 etcd_version:"3.6.16"`},
		"a directory that is not here": {stores: []string{"relative"}, args: []string{"plan"}, code: 2,
			errs: "hint: give --backup-store with the path"},
		"where the existing tool has it": {old: three, args: []string{"status"},
			stdout: `member_count:3 etcd_version:"3.6.16"`},
		"none": {args: []string{"status"}, code: 2,
			errs: "hint: give --backup-store, set ETCDADM_BACKUP_STORE in the environment, or name the cluster once: "},
		"the current context": {stores: []string{one}, contexts: "current-context: big\n" + big, args: []string{"status"},
			stdout: `member_count:3 etcd_version:"3.6.16"`,
			errs:   "note: the store is " + three + ", that of the context big (the current context)"},
		"the context of the environment": {contexts: "current-context: none\n" + big, named: "big", args: []string{"status"},
			stdout: `member_count:3 etcd_version:"3.6.16"`, errs: "the context big ($ETCDADM_CONTEXT)"},
		"the environment wins over a context": {contexts: "current-context: big\n" + big, env: one, named: "big",
			args: []string{"status"}, stdout: `member_count:1 etcd_version:"3.6.16"`},
		"a flag that names a context wins over the environment": {contexts: big, env: one,
			args: []string{"status", "--context=big"}, stdout: `member_count:3 etcd_version:"3.6.16"`},
		"the flag wins over a context": {contexts: "nonsense", args: []string{"status", "--backup-store=" + one},
			stdout: `member_count:1 etcd_version:"3.6.16"`},
		"no context is chosen": {stores: []string{one}, contexts: big, args: []string{"status"},
			stdout: `member_count:1 etcd_version:"3.6.16"`, errs: "that of the daemon on this machine"},
		"both flags": {contexts: big, args: []string{"status", "--context=big", "--backup-store=" + one}, code: 2,
			errs: "use only one of --backup-store and --context"},
		"no name":      {contexts: big, args: []string{"status", "--context="}, code: 2, errs: "--context has no name"},
		"another name": {contexts: big, args: []string{"status", "--context=bug"}, code: 2, errs: "hint: did you mean big?"},
		"a current context that is none": {contexts: "current-context: gone\n" + big, args: []string{"status"}, code: 2,
			errs: "hint: the contexts are big"},
		"a context without a store": {contexts: "current-context: x\ncontexts: [{name: x, nodes: [\"a:1\"]}]\n",
			args: []string{"status"}, code: 2, errs: "hint: etcd-manager-ctl config set-context x --backup-store=URL"},
		"a file that is none": {contexts: "context: []\n", args: []string{"status"}, code: 1,
			errs: "hint: correct the file; a command with --backup-store does not read it"},
		"no store is needed": {args: []string{"explain", "paused"}, stdout: "paused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(storeVariable, tc.env)
			t.Setenv(contexts.Variable, tc.named)
			withContexts(t, tc.contexts)
			root := newTree(running(t, tc.stores...), tc.old)
			var out, errs strings.Builder
			root.SetOut(&out)
			root.SetErr(&errs)
			code := cli.Run(t.Context(), root, tc.args)
			if code != tc.code || !strings.Contains(out.String(), tc.stdout) || !strings.Contains(errs.String(), tc.errs) ||
				tc.errs == "" && errs.Len() > 0 {
				t.Errorf("code %d\n%s\n%s\nwant %+v", code, out.String(), errs.String(), tc)
			}
		})
	}
}

// A machine that cannot be asked is an error with a next step.
func TestNoDaemonsCanBeFound(t *testing.T) {
	t.Setenv(storeVariable, "")
	withContexts(t, "")
	root := newTree(func() ([]daemons.Daemon, error) { return nil, errors.New("no /proc here") }, "")
	var errs strings.Builder
	root.SetOut(&errs)
	root.SetErr(&errs)
	if code := cli.Run(t.Context(), root, []string{"status"}); code != 1 ||
		!strings.Contains(errs.String(), "hint: give") {
		t.Errorf("code %d: %s", code, errs.String())
	}
}
