package prune

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/internal/bytesize"
)

// The variables of the existing tools for the ages of the policy. A flag goes
// before them.
const (
	HourlyVariable = "ETCD_MANAGER_HOURLY_BACKUPS_RETENTION"
	DailyVariable  = "ETCD_MANAGER_DAILY_BACKUPS_RETENTION"
)

// Flags are the flags that make a retention policy.
type Flags struct {
	hourly, daily, maxSize string
	maxCount               int
}

// trust says which backups count.
type trust struct {
	signers []string
	cluster string
}

// add gives a command the flags, named as those of the daemons.
func (f *trust) add(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.signers, "trusted-signers", nil,
		"`file` with public keys (PEM, ed25519) of signers: only backups that one of them signed count, and are kept or deleted "+
			"(repeatable)")
	cli.Alias(fs, "trusted-signers", "backup-trusted-signers")
	fs.StringVar(&f.cluster, "cluster-name", "", "`name` of the cluster that a signed backup must be of; empty for any")
}

// options are those by which a backup counts.
func (f *trust) options() (o backup.FetchOptions, err error) {
	o.Cluster = f.cluster
	if o.Trusted, err = backup.ReadTrusted(f.signers...); err != nil {
		return o, cli.Usagef("--trusted-signers: %v", err)
	}
	return o, nil
}

// names are those of the flags of a policy.
var names = [4]string{"hourly-retention", "daily-retention", "max-count", "max-size"}

// Add gives a command the flags.
func (f *Flags) Add(fs *pflag.FlagSet) {
	d := cluster.DefaultPolicy()
	fs.StringVar(&f.hourly, names[0], "",
		fmt.Sprintf("`age` up to which one backup an hour is kept, such as 36h or 7d (default $%s, or %s)", HourlyVariable,
			days(d.HourlyRetention)))
	fs.StringVar(&f.daily, names[1], "",
		fmt.Sprintf("`age` up to which one backup a day is kept, such as 90d or 2y (default $%s, or %s)", DailyVariable,
			days(d.DailyRetention)))
	cli.Alias(fs, names[0], "hourly")
	cli.Alias(fs, names[1], "daily")
	fs.IntVar(&f.maxCount, names[2], 0, "`number` of backups over which the oldest go; 0 for no limit")
	fs.StringVar(&f.maxSize, names[3], "",
		"`size` of all backups in the store over which the oldest go, such as 20GiB; empty for no limit")
}

func days(d time.Duration) string { return fmt.Sprintf("%dd", d/(24*time.Hour)) }

// Policy returns what the flags and, where they say nothing, the variables say.
// Every error is a usage error.
func (f *Flags) Policy(env func(string) string) (retention.Policy, error) {
	p := retention.Policy{MaxCount: f.maxCount}
	for _, a := range []struct {
		flag, text, variable string
		to                   *time.Duration
	}{
		{"--" + names[0], f.hourly, HourlyVariable, &p.Hourly},
		{"--" + names[1], f.daily, DailyVariable, &p.Daily},
	} {
		name, text := a.flag, a.text
		if text == "" {
			name, text = a.variable, env(a.variable)
		}
		if text == "" {
			continue
		}
		d, err := retention.ParseDuration(text)
		switch {
		case err != nil:
			return p, cli.Usagef("%s: %v", name, err)
		case d == 0:
			return p, cli.Usagef("%s must not be zero; use 1s for none", name)
		}
		*a.to = d
	}
	if p.MaxCount < 0 {
		return p, cli.Usagef("--%s is %d, it must not be negative", names[2], p.MaxCount)
	}
	if f.maxSize != "" {
		var err error
		if p.MaxBytes, err = bytesize.Parse(f.maxSize); err != nil {
			return p, cli.Usagef("--%s: %v", names[3], err)
		}
	}
	return p, nil
}
