package etcdbackup

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/backup/backupagent"
	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/command/internal/prune"
)

// flags are the values of the command line.
type flags struct {
	clusterName, backupStore, dataDir string
	clientURLs                        []string
	caFile, certFile, keyFile         string
	interval, cron                    string
	spread, timeout                   time.Duration
	once                              bool
	prefer, compression               pflag.Value
	leaderOnly, skipUnchanged         bool
	encryptTo                         []string
	signKey                           string
	trusted                           []string
	noPrune, verify                   bool
	retention                         prune.Flags
	listenMetrics                     string
	verbosity                         *int

	// ifDue is that --once goes by the schedule.
	ifDue bool
}

func (f *flags) add(root *cobra.Command) {
	root.PersistentFlags().StringVar(&f.backupStore, "backup-store", "/backups",
		"`location` of the backup store: a path, file://, s3://, gs://, azblob:// and others")
	f.verbosity = cli.AddKlogFlags(root.PersistentFlags())
	fs := root.Flags()
	fs.StringVar(&f.clusterName, "cluster-name", "", "`name` of the etcd cluster (required)")
	fs.StringVar(&f.dataDir, "data-dir", "/data", "has no effect: nothing is staged on disk")
	fs.StringSliceVar(&f.clientURLs, "client-url", []string{"http://127.0.0.1:4001"},
		"client `URL` of the member to read from (repeatable)")
	fs.StringVar(&f.caFile, "client-ca-file", "", "`file` of the CA of etcd's certificate; give this and the next two together")
	fs.StringVar(&f.certFile, "client-cert-file", "",
		"`file` of the client certificate for etcd, read again when it is renewed")
	fs.StringVar(&f.keyFile, "client-key-file", "", "`file` of the client certificate's key")
	fs.StringVar(&f.interval, "interval", "15m",
		"`time` between two backups; --once takes none while the newest is younger than that")
	fs.StringVar(&f.cron, "cron", "", "cron `expression` of five fields, in UTC, instead of an interval")
	fs.DurationVar(&f.spread, "cron-spread", 0,
		"delay the times of --cron by up to this, always by the same time for a cluster name")
	fs.BoolVar(&f.once, "once", false, "take one backup and exit")
	f.prefer = cli.Choice([]string{string(backupagent.Follower), string(backupagent.Leader), string(backupagent.Local)},
		string(backupagent.Follower))
	fs.Var(f.prefer, "prefer",
		"member to read from: follower, leader, or local for agents that each have a store of their own")
	fs.BoolVar(&f.leaderOnly, "leader-only", false, "read from the leader or not at all, as the existing etcd-backup does")
	fs.DurationVar(&f.timeout, "timeout", time.Hour, "time limit of one backup")
	f.compression = cli.Choice([]string{backup.Gzip, backup.Zstd}, backup.Gzip)
	fs.Var(f.compression, "compression", "gzip, which the existing tools can restore, or zstd")
	fs.StringSliceVar(&f.encryptTo, "encrypt-to", nil,
		"age `recipient` (age1..., ssh-ed25519 ...), or a file of them, that can decrypt the backups (repeatable)")
	fs.StringVar(&f.signKey, "sign-key", "", "`file` of an ed25519 private key (PEM) to sign the backups with")
	fs.StringArrayVar(&f.trusted, signersFlag, nil,
		"`file` with public keys (PEM, ed25519) of signers: only backups that one of them signed, for this cluster, count; "+
			"--sign-key must be one of them (repeatable)")
	cli.Alias(fs, signersFlag, "backup-"+signersFlag)
	fs.BoolVar(&f.skipUnchanged, "skip-unchanged", false, "take no backup while etcd's revision is that of the newest backup")
	fs.BoolVar(&f.verify, "verify", false, "read each backup back and check it")
	fs.BoolVar(&f.noPrune, "no-prune", false, "never delete old backups")
	f.retention.Add(fs)
	fs.StringVar(&f.listenMetrics, "listen-metrics", "", "`host:port` to serve /metrics and /healthz on; empty for none")
}

// signersFlag says whom the agent trusts.
const signersFlag = "trusted-signers"

// variable is the name of the variable of a flag.
func variable(flag string) string {
	return "ETCD_BACKUP_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment sets the flags that the command line does not have. Variables
// with other names may be there: Kubernetes makes ETCD_BACKUP_SERVICE_HOST.
func fromEnvironment(fs *pflag.FlagSet, env func(string) string) error {
	var wrong error
	fs.VisitAll(func(flag *pflag.Flag) {
		value := env(variable(flag.Name))
		if flag.Name == signersFlag && !flag.Changed {
			value, wrong = signersOf(env, wrong)
		}
		if flag.Changed || flag.Hidden || value == "" || flag.Name == "help" || flag.Name == "help-all" ||
			flag.Name == "version" {
			return
		}
		if err := fs.Set(flag.Name, value); err != nil && wrong == nil {
			wrong = cli.Usagef("%s: %v", variable(flag.Name), err)
		}
	})
	return wrong
}

// signersOf returns the variable of the trusted signers, which has two names. Both
// together are refused: none of the signers may be left out without a word.
func signersOf(env func(string) string, wrong error) (string, error) {
	name, other := variable(signersFlag), variable("backup-"+signersFlag) // the daemon's name of it
	if env(name) != "" && env(other) != "" {
		return "", cmp.Or[error](wrong, &cli.UsageError{
			Text: name + " and " + other + " are both set, and mean the same",
			Next: "set one of them; more than one file: --" + signersFlag + ", once for each",
		})
	}
	return cmp.Or(env(name), env(other)), wrong
}

// config turns the flags into what the agent runs by. Every error is a usage
// error. IntervalSet says that an interval was asked for.
func (f *flags) config(env func(string) string, intervalSet bool) (backupagent.Config, error) {
	f.ifDue = intervalSet || f.cron != ""
	c, err := f.settings(env)
	if err == nil {
		err = f.keys(&c)
	}
	return c, err
}

// settings is config without the keys, so it reads no file.
func (f *flags) settings(env func(string) string) (backupagent.Config, error) {
	if f.clusterName == "" {
		return backupagent.Config{}, &cli.UsageError{
			Text: "--cluster-name is required", Next: "etcd-backup --help has examples",
		}
	}
	c := backupagent.Config{
		ClusterName: f.clusterName, Endpoints: f.clientURLs, Prefer: backupagent.Prefer(f.prefer.String()),
		Timeout: f.timeout, Compression: f.compression.String(), SkipUnchanged: f.skipUnchanged, Verify: f.verify,
		Name: agentName(), Tool: "etcd-backup " + cli.BuildVersion(),
	}
	for _, set := range []func(*backupagent.Config) error{f.schedule, f.etcd} {
		if err := set(&c); err != nil {
			return c, err
		}
	}
	if f.leaderOnly {
		if f.prefer.String() != string(backupagent.Follower) {
			return c, cli.Usagef("--leader-only and --prefer=%s exclude each other", f.prefer)
		}
		c.Prefer = backupagent.LeaderOnly
	}
	if f.timeout <= 0 {
		return c, cli.Usagef("--timeout must be positive")
	}
	policy, err := f.retention.Policy(env)
	if !f.noPrune {
		c.Retention = &policy
	}
	return c, err
}

func (f *flags) schedule(c *backupagent.Config) error {
	interval, err := retention.ParseDuration(f.interval)
	if err != nil {
		return cli.Usagef("--interval: it is not of a form such as 15m, 6h or 1d")
	}
	c.Schedule = backupagent.Schedule{
		Interval: interval, Cron: strings.TrimSpace(f.cron), Offset: backupagent.Spread(f.clusterName, f.spread),
	}
	if err := c.Schedule.Validate(); err != nil {
		flag := "--interval"
		if f.cron != "" {
			flag = "--cron"
		}
		return cli.Usagef("%s: %v", flag, err)
	}
	return nil
}

// etcd sets how to connect.
func (f *flags) etcd(c *backupagent.Config) error {
	if len(f.clientURLs) == 0 {
		return cli.Usagef("--client-url is empty")
	}
	secure := false
	for _, text := range f.clientURLs {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return cli.Usagef("--client-url: %q is not of a form such as https://127.0.0.1:2379", text)
		}
		secure = secure || u.Scheme == "https"
	}
	var missing []string
	for _, file := range []struct{ flag, path string }{
		{"--client-ca-file", f.caFile}, {"--client-cert-file", f.certFile}, {"--client-key-file", f.keyFile},
	} {
		if file.path == "" {
			missing = append(missing, file.flag)
		}
	}
	switch {
	case len(missing) == 3:
		c.Dial = backupagent.DialEtcd(nil)
		return nil
	case len(missing) > 0:
		return &cli.UsageError{Text: "TLS needs all three files: " + strings.Join(missing, " and ") + " is missing",
			Next: "give --client-ca-file, --client-cert-file and --client-key-file, or none of them"}
	case !secure:
		return &cli.UsageError{Text: "client certificate files are given, but no --client-url is https",
			Next: "use --client-url=https://..., or omit the files"}
	}
	c.Dial = backupagent.DialEtcd(func() (*tls.Config, error) {
		return certs.ClientTLSFromFiles(f.caFile, f.certFile, f.keyFile)
	})
	return nil
}

// keys reads the keys that encrypt and sign.
func (f *flags) keys(c *backupagent.Config) error {
	var err error
	if c.Recipients, err = backup.Recipients(f.encryptTo...); err != nil {
		return cli.Usagef("--encrypt-to: %v", err)
	}
	if f.signKey != "" {
		if c.Signer, err = backup.ReadSigner(f.signKey); err != nil {
			return cli.Usagef("--sign-key: %v", err)
		}
	}
	if c.Trusted, err = backup.ReadTrusted(f.trusted...); err != nil {
		return cli.Usagef("--trusted-signers: %v", err)
	}
	if len(c.Trusted) > 0 && (c.Signer == nil || !slices.Contains(c.Trusted.IDs(), c.Signer.ID())) {
		return &cli.UsageError{Text: "--trusted-signers lacks the public key of --sign-key: this agent's own " +
			"backups would not count", Next: "give --sign-key, and add its public key to the trusted ones"}
	}
	return nil
}

// agentName names this agent among others, in this life of it.
func agentName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strings.ToLower(rand.Text()[:6]))
}

// logger writes structured lines, as the daemon does.
func (f *flags) logger(w io.Writer) *slog.Logger {
	level := slog.LevelInfo
	if f.verbosity != nil && *f.verbosity >= 8 {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}
