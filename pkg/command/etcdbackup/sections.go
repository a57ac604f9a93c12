package etcdbackup

import "github.com/etcdadm/etcdadm/pkg/cli"

// sections are the headings of the flags in help. Every flag is in one of them.
var sections = []cli.FlagSection{
	{
		Title: "The cluster and the store",
		Common: []string{
			"cluster-name", "backup-store", "client-url", "client-ca-file", "client-cert-file", "client-key-file",
		},
		More: []string{"prefer", "leader-only", "data-dir"},
	},
	{
		Title:  "When to back up",
		Common: []string{"interval", "cron", "once"},
		More:   []string{"cron-spread", "skip-unchanged", "timeout"},
	},
	{
		Title:  "How backups are stored",
		Common: []string{"verify"},
		More:   []string{"compression", "encrypt-to", "sign-key", "trusted-signers"},
	},
	{
		Title:  "What is kept",
		Common: []string{"hourly-retention", "daily-retention", "max-count"},
		More:   []string{"max-size", "no-prune"},
	},
	{Title: "Metrics", Common: []string{"listen-metrics"}},
}
