package etcdbackup

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/backup/backupagent"
	"github.com/etcdadm/etcdadm/pkg/cli"
)

// The test binary is also etcd-backup.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == program {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := cli.Run(ctx, New(), os.Args[2:])
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

const program = "etcd-backup"

func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	root := New()
	var out, err strings.Builder
	root.SetOut(&out)
	root.SetErr(&err)
	code = cli.Run(t.Context(), root, args)
	return code, out.String(), err.String()
}

func TestWrongCommandLines(t *testing.T) {
	for args, want := range map[string]string{
		"":                                              "--cluster-name is required\nhint: etcd-backup --help",
		"now":                                           `unknown command "now"`,
		"--cluster":                                     "unknown flag --cluster",
		"--cluster-name=x --interval=0":                 "--interval: the interval 0s is shorter than a second",
		"--cluster-name=x --interval=often":             "--interval: it is not of a form such as 15m",
		"--cluster-name=x --cron=daily":                 "--cron: cron expression",
		"--cluster-name=x --client-url=":                "--client-url is empty",
		"--cluster-name=x --client-url=m:1":             "--client-url: \"m:1\"",
		"--cluster-name=x --timeout=0":                  "--timeout must be positive",
		"--cluster-name=x --prefer=nobody":              "not one of follower, leader, local",
		"--cluster-name=x --compression=lz4":            "not one of gzip, zstd",
		"--cluster-name=x --encrypt-to=age2":            "--encrypt-to:",
		"--cluster-name=x --sign-key=/no/way":           "--sign-key:",
		"--cluster-name=x --trusted-signers=/no":        "--trusted-signers:",
		"--cluster-name=x --backup-trusted-signers=/no": "--trusted-signers:",
		"-cluster-name=x -backup-trusted-signers=/no":   "--trusted-signers:",
		"-cluster-name=x -backup-trusted-signers /no":   "--trusted-signers:",
		"--cluster-name=x --hourly=z":                   "--hourly-retention:",
		"-cluster-name=x -hourly z":                     "--hourly-retention:",
		"--cluster-name=x --max-count=-1":               "--max-count is -1",
		"--cluster-name=x --hourly-retention=z":         "--hourly-retention:",
		"--cluster-name=x --leader-only --prefer=local": "exclude each other",
		"--cluster-name=x --backup-store=nfs://x":       "--backup-store:",
		"--cluster-name=x --client-ca-file=a":           "--client-cert-file and --client-key-file is missing",
		"--cluster-name=x --client-url=https://h:1 --client-ca-file=a --client-cert-file=b": "--client-key-file is missing",
		"--cluster-name=x --client-ca-file=a --client-cert-file=b --client-key-file=c":      "no --client-url is https",
		"prune --max-size=big": "--max-size",
		"prune x":              "unknown command",
	} {
		code, stdout, stderr := run(t, strings.Fields(args)...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q, want %q", args, code, stdout, stderr, want)
		}
	}
	if code, _, stderr := run(t, "--cluster-name=x", "--listen-metrics=nowhere:x",
		"--backup-store="+t.TempDir()); code != 2 || !strings.Contains(stderr, "--listen-metrics") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// parse returns the flags and what the agent would run by.
func parse(t *testing.T, env map[string]string, args ...string) (backupagent.Config, *flags, error) {
	t.Helper()
	var f flags
	cmd := &cobra.Command{}
	f.add(cmd)
	get := func(name string) string { return env[name] }
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.AddFlagSet(cmd.Flags())
	fs.AddFlagSet(cmd.PersistentFlags())
	if err := fs.Parse(cli.SingleDash(args, fs)); err != nil {
		t.Fatal(err)
	}
	if err := fromEnvironment(fs, get); err != nil {
		return backupagent.Config{}, &f, err
	}
	c, err := f.config(get, fs.Changed("interval"))
	return c, &f, err
}

func TestDefaultsAreThoseOfTheExistingTool(t *testing.T) {
	c, f, err := parse(t, nil, "-cluster-name=main", "-v=2", "--logtostderr")
	if err != nil {
		t.Fatal(err)
	}
	if f.backupStore != "/backups" || f.dataDir != "/data" || len(c.Endpoints) != 1 ||
		c.Endpoints[0] != "http://127.0.0.1:4001" ||
		c.Schedule.Interval != 15*time.Minute || c.Retention == nil || f.ifDue {
		t.Errorf("%+v %+v", c, f)
	}
}

func TestFlagsAndVariables(t *testing.T) {
	env := map[string]string{
		"ETCD_BACKUP_CLUSTER_NAME":              "from-env",
		"ETCD_BACKUP_CLIENT_URL":                "http://a:1,http://b:2",
		"ETCD_BACKUP_INTERVAL":                  "1d",
		"ETCD_BACKUP_VERIFY":                    "true",
		"ETCD_BACKUP_BACKUP_STORE":              "/elsewhere",
		"ETCD_BACKUP_PORT":                      "tcp://10.0.0.1:80",
		"ETCD_BACKUP_MAX_SIZE":                  "1GiB",
		"ETCD_MANAGER_HOURLY_BACKUPS_RETENTION": "36h",
		"ETCD_MANAGER_DAILY_BACKUPS_RETENTION":  "90d",
	}
	c, f, err := parse(t, env, "--interval=6h", "--prefer=local", "--compression=zstd", "--daily-retention=30d",
		"--skip-unchanged")
	if err != nil {
		t.Fatal(err)
	}
	if c.ClusterName != "from-env" || len(c.Endpoints) != 2 || c.Schedule.Interval != 6*time.Hour || !c.Verify ||
		f.backupStore != "/elsewhere" ||
		c.Prefer != backupagent.Local || c.Compression != "zstd" || !c.SkipUnchanged || !f.ifDue {
		t.Errorf("%+v %+v", c, f)
	}
	if p := c.Retention; p.Hourly != 36*time.Hour || p.Daily != 30*24*time.Hour || p.MaxBytes != 1<<30 {
		t.Errorf("%+v", *p)
	}
	if c, _, err = parse(t, nil, "--cluster-name=x", "--no-prune", "--leader-only", "--cron=0 3 * * *",
		"--cron-spread=1h"); err != nil || c.Retention != nil || c.Prefer != backupagent.LeaderOnly ||
		c.Schedule.Cron == "" || c.Schedule.Offset == 0 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, _, err = parse(t, map[string]string{"ETCD_BACKUP_VERIFY": "perhaps"}, "--cluster-name=x"); err == nil ||
		!strings.Contains(err.Error(), "ETCD_BACKUP_VERIFY") {
		t.Errorf("%v", err)
	}
}

// TestTheVariablesOfTrustedSigners: which signers count is not left to which of two names is read.
func TestTheVariablesOfTrustedSigners(t *testing.T) {
	const name, before = "ETCD_BACKUP_TRUSTED_SIGNERS", "ETCD_BACKUP_BACKUP_TRUSTED_SIGNERS"
	for _, tc := range []struct {
		env     map[string]string
		args    []string
		trusted string
		want    string
	}{
		{map[string]string{name: "/no/new"}, nil, "[/no/new]", "--trusted-signers: "},
		{map[string]string{before: "/no/old"}, nil, "[/no/old]", "--trusted-signers: "},
		{map[string]string{name: "/no/new", before: "/no/old"}, nil, "[]", name + " and " + before + " are both set"},
		{map[string]string{name: "/no/new", before: "/no/old"}, []string{"--trusted-signers=/no/flag"}, "[/no/flag]",
			"--trusted-signers: "},
	} {
		_, f, err := parse(t, tc.env, append(tc.args, "--cluster-name=x")...)
		if got := fmt.Sprint(f.trusted); got != tc.trusted || !errors.As(err, new(*cli.UsageError)) ||
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v %q: %s, %v", tc.env, tc.args, got, err)
		}
	}
}

const recipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"

func TestKeys(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "recipients")
	write(t, list, "# who may read\n"+recipient+"\n")
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "sign.pem")
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	c, _, err := parse(t, nil, "--cluster-name=x", "--encrypt-to="+recipient, "--encrypt-to="+list, "--sign-key="+key)
	if err != nil || len(c.Recipients) != 2 || c.Signer == nil {
		t.Errorf("%d recipients, %v", len(c.Recipients), err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestVersionAndPruneAreThere(t *testing.T) {
	if code, stdout, _ := run(t, "version", "-o", "json"); code != 0 ||
		!strings.Contains(stdout, `"program": "etcd-backup"`) {
		t.Errorf("exit code %d, %s", code, stdout)
	}
	if code, stdout, stderr := run(t, "prune", "--backup-store="+t.TempDir(), "--dry-run"); code != 0 ||
		stdout != "0 stay (0 B)\n" {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	t.Setenv("ETCD_BACKUP_BACKUP_STORE", t.TempDir())
	t.Setenv("ETCD_BACKUP_DRY_RUN", "true")
	if code, stdout, stderr := run(t, "prune", "-o=json"); code != 0 || !strings.Contains(stdout, `"dryRun": true`) {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
}

func TestOnceWithoutEtcd(t *testing.T) {
	code, _, stderr := run(t, "--cluster-name=x", "--once", "--client-url=http://127.0.0.1:1",
		"--backup-store="+t.TempDir())
	if code != 1 || !strings.Contains(stderr, "nothing listens there") || !strings.Contains(stderr, "hint: ") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

func TestEveryFlagIsInThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/etcd-backup.md")
	if err != nil {
		t.Fatal(err)
	}
	root := New()
	known := map[string]bool{}
	observed := func(f *pflag.Flag) {
		known[f.Name] = true
		if !f.Hidden && !strings.Contains(string(page), "`--"+f.Name+"`") {
			t.Errorf("--%s is not in the page", f.Name)
		}
	}
	root.Flags().VisitAll(observed)
	root.PersistentFlags().VisitAll(observed)
	for line := range strings.Lines(string(page)) {
		rest, ok := strings.CutPrefix(line, "| `--")
		if name, _, _ := strings.Cut(rest, "`"); ok && !known[name] {
			t.Errorf("the page has --%s, which is no flag", name)
		}
	}
}
