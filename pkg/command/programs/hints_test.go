package programs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/command/ctl"
)

// runCtl runs etcd-manager-ctl, and returns what it printed and its exit code.
func runCtl(t *testing.T, args ...string) (text string, code int) {
	t.Helper()
	root := ctl.New()
	var out strings.Builder
	root.SetOut(&out)
	root.SetErr(&out)
	code = cli.Run(t.Context(), root, args)
	return out.String(), code
}

// advised finds the command lines of etcd-manager-ctl in a text: each goes to the end of a line or of a
// half sentence.
var advised = regexp.MustCompile(`etcd-manager-ctl( [^;\n]+)`)

// words are the words of a command line, of which one may have quotes.
func words(line string) (list []string) {
	for _, w := range regexp.MustCompile(`(?:[^\s']|'[^']*')+`).FindAllString(line, -1) {
		list = append(list, strings.ReplaceAll(w, "'", ""))
	}
	return list
}

// A line that a command advises can be pasted: it is about the same store, and a command line that
// etcd-manager-ctl accepts.
func TestAdvisedLinesRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "the store")
	if err := os.Rename(published(t), dir); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "no store")
	if err := os.MkdirAll(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	if text, code := runCtl(t, "config", "set-context", "lab", "--backup-store="+dir); code != 0 {
		t.Fatal(text)
	}
	found := 0
	for _, chosen := range []string{"--backup-store=" + dir, "--backup-store=" + empty, "--context=lab"} {
		for _, args := range []string{
			"forget-node zz", "get", "status", "plan", "explain", "verify nope", "drill nope", "dump nope", "diff nope nope2",
			"list-backups", "restore-backup", "restore-backup nope", "restore-backup latest",
			"delete-command nope", "history", "configure-cluster", "recover-lease-voters", "explain spec-missing",
		} {
			text, _ := runCtl(t, append([]string{chosen}, strings.Fields(args)...)...)
			for _, m := range advised.FindAllStringSubmatch(text, -1) {
				if strings.Contains(m[1], " config ") {
					continue
				}
				found++
				line := strings.TrimSuffix(strings.ReplaceAll(m[1], "VERSION", "3.6.16"), ".")
				again := words(line)
				same := chosen == "--context=lab" && slices.Contains(again, "--backup-store="+dir)
				if !same && !slices.Contains(again, chosen) {
					t.Errorf("%s %s: %q is not about the same store", chosen, args, line)
					continue
				}
				if printed, code := runCtl(t, again...); code == 2 {
					t.Errorf("%s %s: %q cannot be run: %s", chosen, args, line, printed)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d lines were found", found)
	}
}

// No command prints a secret in the location of a store, or advises a line with it.
func TestNoSecretOfALocationIsPrinted(t *testing.T) {
	const secret = "token=abc"
	dir := filepath.Join(t.TempDir(), secret)
	if err := os.Rename(published(t), dir); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"get", "restore-backup nope", "restore-backup latest", "verify nope", "list-backups", "status",
	} {
		text, _ := runCtl(t, append([]string{"--backup-store=" + dir}, strings.Fields(args)...)...)
		if text == "" || strings.Contains(text, secret) {
			t.Errorf("etcd-manager-ctl %s prints %s", args, text)
		}
	}
}

// The lists of commands by which lines are found are those of the programs.
func TestAdvisedLinesAreFound(t *testing.T) {
	for _, c := range ctl.New().Commands() {
		if slices.Contains([]string{"config", "docs", "version", "help", "completion"}, c.Name()) {
			continue
		}
		root := Etcdadm()
		root.SetArgs([]string{"plan", "--backup-store=/x", "--observation=/dev/null"})
		root.SilenceErrors, root.SilenceUsage = true, true
		cmd, _ := root.ExecuteC()
		if got := cli.Pasteable(cmd, "etcd-manager-ctl "+c.Name()); got != "etcd-manager-ctl --backup-store=/x "+c.Name() {
			t.Errorf("%s: %s", c.Name(), got)
		}
	}
}

// No explanation of a hold leaves a placeholder for the store where that is known.
func TestExplanationsNameTheStore(t *testing.T) {
	dir := t.TempDir()
	for _, d := range plan.Reasons() {
		text, code := runCtl(t, "--backup-store="+dir, "explain", string(d.Reason))
		if code != 0 || strings.Contains(text, plan.StoreFlag+" ") {
			t.Errorf("%s: code %d: %s", d.Reason, code, text)
		}
		if strings.Contains(d.Do, plan.StoreFlag+" ") && !strings.Contains(text, "--backup-store="+dir+" ") {
			t.Errorf("%s does not name the store: %s", d.Reason, text)
		}
	}
}
