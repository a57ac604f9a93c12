package manager

import "github.com/etcdadm/etcdadm/pkg/cli"

// sections are the headings of the flags in help. Every flag is in one of them.
var sections = []cli.FlagSection{
	{
		Title:  "The cluster and this node",
		Common: []string{"cluster-name", "backup-store", "data-dir", "node-name", "address", "pki-dir"},
		More:   []string{"grpc-port", "insecure", "env-file"},
	},
	{
		Title:  "Finding the other nodes",
		Common: []string{"seeds", "static-config"},
		More: []string{
			"discovery-scan", "discovery-multicast", "discovery-poll-interval", "dns-suffix", "hosts-file",
		},
	},
	{
		Title:  "etcd",
		Common: []string{"client-urls", "peer-urls", "etcd-dir"},
		More: []string{
			"etcd-log", "etcd-release", "etcd-release-digests", "etcd-address", "quarantine-client-urls", "listen-metrics-urls",
			"etcd-insecure",
		},
	},
	{
		Title:  "Volumes",
		Common: []string{"volume-provider", "volume-tag"},
		More:   []string{"volume-name-tag", "containerized", "network-cidr"},
	},
	{
		Title:  "Timing",
		Common: []string{"replace-grace"},
		More:   []string{"bootstrap-grace", "learner-timeout", "backup-fresh"},
	},
	{
		Title:  "Backups",
		Common: []string{"backup-interval", "backup-max-count", "backup-verify-interval", "backup-drill-interval"},
		More: []string{
			"backup-max-size", "backup-compression", "backup-encrypt-to", "backup-decrypt-key", "backup-sign-key",
			"backup-trusted-signers", "backup-require-signature", "backup-temp-dir",
		},
	},
	{
		Title:  "Metrics",
		Common: []string{"etcd-manager-metrics-port"},
		More:   []string{"etcd-manager-metrics-address"},
	},
}
