package docs

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/config"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machineflags"
)

// tree is a program with commands as etcdadm has them.
func tree() *cobra.Command {
	root := &cobra.Command{Use: "etcdadm", Short: "change an etcd cluster", Args: cli.Known,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cli.AddOutput(root, cli.Table, cli.JSON, cli.YAML)
	initial := &cobra.Command{
		Use: "init", Short: "begin a cluster", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return nil },
	}
	machineflags.Add(initial, machineflags.Member, machineflags.Snapshot)
	secret := &cobra.Command{Use: "secret", Hidden: true, RunE: func(*cobra.Command, []string) error { return nil }}
	root.AddCommand(initial, secret, config.New(), New("etcdadm"))
	return root
}

// run executes the tree and returns its exit code and outputs.
func run(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	root := tree()
	root.SetOut(&out)
	root.SetErr(&errs)
	code = cli.Run(context.Background(), root, args)
	return code, out.String(), errs.String()
}

func TestManualPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	dir := filepath.Join(t.TempDir(), "share", "man1")
	if code, _, errs := run("docs", "man", "--dir", dir); code != 0 {
		t.Fatal(errs)
	}
	for _, name := range []string{
		"etcdadm", "etcdadm-init", "etcdadm-config", "etcdadm-config-validate", "etcdadm-docs-man", "etcdadm-completion-bash",
	} {
		if _, err := os.Stat(filepath.Join(dir, name+".1")); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "etcdadm-secret.1")); err == nil {
		t.Error("a hidden command has a page")
	}
	page, err := os.ReadFile(filepath.Join(dir, "etcdadm-init.1"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, want := range []string{
		`.TH "ETCDADM-INIT" "1" "Jan 1970"`, "begin a cluster", `\fB--init-system\fP="systemd"`, `etcdadm(1)`,
	} {
		if !strings.Contains(strings.ReplaceAll(text, `\-`, "-"), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(text, "cobra") || strings.Contains(text, "HISTORY") {
		t.Error("the page says how it was made")
	}
	if t.Failed() {
		t.Log(text)
	}
	if code, _, errs := run("docs", "man", "--dir", dir); code != 0 {
		t.Errorf("writing them again: %s", errs)
	}
	if again, err := os.ReadFile(filepath.Join(dir, "etcdadm-init.1")); err != nil || string(again) != text {
		t.Errorf("the page is not the same again: %v", err)
	}
}

func TestManualPagesThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := run("docs", "man", "--dir", file); code != 1 || !strings.Contains(errs, "write manual pages: ") {
		t.Errorf("code %d, %s", code, errs)
	}
	if code, _, errs := run("docs", "man"); code != 2 || !strings.Contains(errs, `"dir" not set`) {
		t.Errorf("without a directory: code %d, %s", code, errs)
	}
	if code, _, errs := run("docs"); code != 2 || !strings.Contains(errs, "docs needs a command: man") {
		t.Errorf("without a command: code %d, %s", code, errs)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "etcdadm-init.1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Man(tree(), dir); err == nil || !strings.Contains(err.Error(), "etcdadm-init.1") {
		t.Errorf("over a directory: %v", err)
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, script, errs := run("completion", shell)
		if code != 0 || !strings.Contains(script, "etcdadm") || !strings.Contains(script, "__complete") {
			t.Errorf("%s: code %d, %.200s %s", shell, code, script, errs)
		}
		if shell != "bash" {
			continue
		}
		bash, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("there is no %s to read its script", shell)
			continue
		}
		cmd := exec.CommandContext(t.Context(), bash, "-n")
		cmd.Stdin = strings.NewReader(script)
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("bash does not read it: %v, %s", err, b)
		}
	}
}

// A line that ends with a blank asks for the next word. Shells choose by the
// beginning of a word themselves where the values are few.
func TestValuesThatAreCompleted(t *testing.T) {
	for line, want := range map[string][]string{
		"init --init-system ":                 {"systemd", "kubelet", "process"},
		"init --init-system=kube":             {"systemd", "kubelet", "process"},
		"init --key-algorithm ":               {"ECDSA-P256", "RSA-2048"},
		"init -o ":                            {"table", "json", "yaml"},
		"init --output ":                      {"table", "json", "yaml"},
		"config print -o ":                    {"yaml", "json"},
		"config ":                             {"migrate", "print", "validate"},
		"init --init-system kubelet --key-al": {"--key-algorithm"},
		"--":                                  {"--help", "--help-all", "--output"},
	} {
		args := append([]string{cobra.ShellCompNoDescRequestCmd}, strings.Split(line, " ")...)
		_, out, _ := run(args...)
		var got []string
		for word := range strings.FieldsSeq(out) {
			if !strings.HasPrefix(word, ":") {
				got = append(got, word)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q completes to %v, want %v", line, got, want)
		}
	}
}
