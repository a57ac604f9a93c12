package prune

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/store"
)

var now = time.Date(2026, 11, 20, 10, 39, 37, 0, time.UTC)

// fill makes a store with backups of these names.
func fill(t *testing.T, names ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s := open(t, dir)
	for _, name := range names {
		for file, text := range map[string]string{
			retention.DataFile: "1234567890", retention.MarkerFile: `{"etcdVersion":"3.6.16"}`,
		} {
			if err := s.Put(t.Context(), name+"/"+file, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func open(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tree returns a program that has the command, on the store in dir.
func tree(dir string, env map[string]string) *cobra.Command {
	root := cli.Group("tool", "")
	root.AddCommand(New(Options{
		Open: func(ctx context.Context) (*store.Store, error) {
			s, err := store.Open(ctx, dir)
			if err != nil {
				return nil, cli.Usagef("%v", err)
			}
			return s, nil
		},
		Out: cli.AddOutput(root, cli.Table, cli.JSON),
		Now: func() time.Time { return now },
		Env: func(name string) string { return env[name] },
	}))
	return root
}

func run(t *testing.T, root *cobra.Command, args string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err strings.Builder
	root.SetOut(&out)
	root.SetErr(&err)
	code = cli.Run(t.Context(), root, strings.Fields("prune "+args))
	return code, out.String(), err.String()
}

var some = []string{
	"2020-01-01T00:00:00Z-000001", "2026-11-20T08:00:00Z-000001", "2026-11-20T08:15:00Z-000001",
	"2026-11-20T10:30:00Z-000001", "by-hand",
}

func left(t *testing.T, dir string) int {
	t.Helper()
	list, err := open(t, dir).Backups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestPruneSaysWhyAndDeletes(t *testing.T) {
	dir := fill(t, some...)
	code, stdout, stderr := run(t, tree(dir, nil), "--dry-run --by-clock")
	if code != 0 || stderr != "" || left(t, dir) != 5 {
		t.Fatalf("exit code %d, %s, %d are left", code, stderr, left(t, dir))
	}
	for _, line := range []string{
		"BACKUP RESULT WHY",
		"2020-01-01T00:00:00Z-000001 goes older than the daily retention",
		"2026-11-20T08:00:00Z-000001 stays the earliest of its hour",
		"2026-11-20T08:15:00Z-000001 goes not the earliest of its hour",
		"2026-11-20T10:30:00Z-000001 stays younger than an hour",
		"by-hand stays the name has no time, so it is never deleted",
	} {
		if !hasLine(stdout, line) {
			t.Errorf("there is no line %q in\n%s", line, stdout)
		}
	}
	if !strings.Contains(stdout, "3 stay (") || !strings.Contains(stdout, ", 2 would go (") {
		t.Errorf("no summary in\n%s", stdout)
	}

	code, stdout, stderr = run(t, tree(dir, nil), "--dry-run")
	if line := "2020-01-01T00:00:00Z-000001 stays old by the clock alone"; code != 0 || stderr != "" ||
		!hasLine(stdout, line) {
		t.Errorf("exit code %d, %s: there is no line %q in\n%s", code, stderr, line, stdout)
	}

	code, stdout, stderr = run(t, tree(dir, nil), "--by-clock")
	if code != 0 || stderr != "" || left(t, dir) != 3 || !strings.Contains(stdout, ", 2 are deleted (") {
		t.Errorf("exit code %d, %s, %d are left\n%s", code, stderr, left(t, dir), stdout)
	}
	code, stdout, _ = run(t, tree(dir, nil), "")
	if code != 0 || left(t, dir) != 3 || strings.Contains(stdout, "are deleted") {
		t.Errorf("exit code %d, %d are left\n%s", code, left(t, dir), stdout)
	}
}

// hasLine reports whether text has a line with these words in this order.
func hasLine(text, words string) bool {
	for line := range strings.Lines(text) {
		rest, all := strings.Join(strings.Fields(line), " "), true
		for _, w := range strings.Fields(words) {
			var found bool
			if _, rest, found = strings.Cut(rest, w); !found {
				all = false
			}
		}
		if all {
			return true
		}
	}
	return false
}

func TestPolicyOfFlagsAndVariables(t *testing.T) {
	for _, c := range []struct {
		args string
		env  map[string]string
		left int
	}{
		{"", nil, 4},
		{"--by-clock", nil, 3},
		{"--by-clock --daily=20y", nil, 4},
		{"--by-clock", map[string]string{DailyVariable: "20y"}, 4},
		{"--by-clock --daily=90d", map[string]string{DailyVariable: "20y"}, 3},
		{"--by-clock --hourly=90m --daily=100m", nil, 2},
		{"-by-clock -hourly 90m -daily=100m", nil, 2},
		{"--by-clock", map[string]string{HourlyVariable: "90m", DailyVariable: "100m"}, 2},
		{"--max-count=1", nil, 2},
		{"--max-size=1B", nil, 2},
		{"--max-size=1TiB --max-count=9", nil, 4},
	} {
		dir := fill(t, some...)
		code, stdout, stderr := run(t, tree(dir, c.env), c.args)
		if code != 0 || left(t, dir) != c.left && !strings.Contains(c.args, "max-size=1B") {
			t.Errorf("%q %v: exit code %d, %d are left, want %d\n%s%s", c.args, c.env, code, left(t, dir), c.left, stdout,
				stderr)
		}
	}
	for args, want := range map[string]string{
		"--hourly=x":     "--hourly-retention: \"x\" is not a duration",
		"--daily=-1h":    "--daily-retention: \"-1h\" is not a duration",
		"--daily=0":      "--daily-retention must not be zero",
		"--max-count=-1": "--max-count is -1",
		"--max-size=big": "--max-size: \"big\" is not a size",
		"name":           "unknown command",
	} {
		dir := fill(t, some...)
		if code, _, stderr := run(t, tree(dir, nil), args); code != 2 || !strings.Contains(stderr, want) ||
			left(t, dir) != 5 {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}
	if code, _, stderr := run(t, tree(fill(t), map[string]string{HourlyVariable: "x"}), ""); code != 2 ||
		!strings.Contains(stderr, HourlyVariable) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// What no trusted signer has signed is no reason for another backup to go, and
// stays itself.
func TestPruneCountsWhatIsSigned(t *testing.T) {
	_, public, err := backup.GenerateSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "signer.pub")
	if err := os.WriteFile(key, public, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := fill(t, some...)
	if code, out, stderr := run(t, tree(dir, nil), "--backup-trusted-signers="+key+" --max-count=1"); code != 0 ||
		!strings.HasPrefix(out, "0 stay (") || strings.Contains(out, "deleted") {
		t.Errorf("code %d: %s%s", code, out, stderr)
	}
	if code, _, stderr := run(t, tree(dir, nil), "--backup-trusted-signers=/no/way"); code != 2 {
		t.Errorf("code %d: %s", code, stderr)
	}
}

func TestPruneAsJSON(t *testing.T) {
	dir := fill(t, some...)
	_, stdout, _ := run(t, tree(dir, nil), "-o json --dry-run --by-clock")
	var r report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	if !r.DryRun || len(r.Backups) != 5 || r.Totals[goes].Count != 2 || r.Totals[stays].Count != 3 ||
		r.Backups[0].Result != goes || r.Backups[0].Reason == "" {
		t.Errorf("%+v", r)
	}
	_, stdout, _ = run(t, tree(t.TempDir(), nil), "-o json")
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || !strings.Contains(stdout, `"backups": []`) {
		t.Errorf("an empty store: %s, %v", stdout, err)
	}
	if code, stdout, _ := run(t, tree(t.TempDir(), nil), ""); code != 0 || stdout != "0 stay (0 B)\n" {
		t.Errorf("an empty store: exit code %d, %q", code, stdout)
	}
}

func TestAStoreThatDoesNotOpen(t *testing.T) {
	if code, _, stderr := run(t, tree("nowhere://x", nil), ""); code != 2 || !strings.Contains(stderr, "nowhere") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// denying is a store that denies deletion.
type denying struct{ *store.Store }

func (denying) DeleteBackup(_ context.Context, name string) error {
	return errors.New("delete backup: " + name + ": access\x1bdenied")
}

func (d denying) Leftovers(context.Context, time.Time) ([]string, error) {
	return []string{"2020-01-01T00:00:00Z-000007"}, nil
}

func TestDeniedDeletionWarnsAndFails(t *testing.T) {
	dir := fill(t, some...)
	root := cli.Group("tool", "")
	c := &command{Options: Options{Out: cli.AddOutput(root, cli.Table), Now: func() time.Time { return now }}}
	leaf := &cobra.Command{Use: "prune", RunE: func(cmd *cobra.Command, _ []string) error {
		return c.prune(cmd.Context(), cmd, denying{open(t, dir)}, retention.Policy{ByClock: true})
	}}
	root.AddCommand(leaf)
	code, stdout, stderr := run(t, root, "")
	if code != 1 || left(t, dir) != 5 {
		t.Errorf("exit code %d, %d are left", code, left(t, dir))
	}
	for _, text := range []string{"could not be deleted", "2020-01-01T00:00:00Z-000007", "interrupted"} {
		if !strings.Contains(stdout, text) {
			t.Errorf("%q is not in\n%s", text, stdout)
		}
	}
	for _, text := range []string{
		"warning: delete backup: 2020-01-01T00:00:00Z-000001: access", "error: prune: 3 of 3 could not be deleted",
		"hint: nothing else is lost",
	} {
		if !strings.Contains(stderr, text) {
			t.Errorf("%q is not in\n%s", text, stderr)
		}
	}
	if strings.Contains(stderr, "\x1b") {
		t.Error("the store's text steers the terminal")
	}
}

func TestFlagsHaveASuffix(t *testing.T) {
	var f Flags
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Add(fs)
	if err := fs.Parse([]string{"--hourly-retention=0"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Policy(func(string) string { return "" }); err == nil ||
		!strings.Contains(err.Error(), "--hourly-retention") {
		t.Errorf("%v", err)
	}
}
