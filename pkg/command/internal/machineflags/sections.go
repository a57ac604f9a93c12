package machineflags

import "github.com/etcdadm/etcdadm/pkg/cli"

// sections are the headings of the flags in help. Every flag of the table is in
// one of them.
var sections = []cli.FlagSection{
	{
		Title:  "The member",
		Common: []string{"config", "name", "version", "bind-address", "data-dir", "certs-dir", "init-system"},
		More: []string{
			"client-port", "peer-port", "listen-client-urls", "listen-peer-urls", "listen-metrics-urls",
			"environment-dir", "unit-dir", "kubelet-pod-manifest-path", "user", "group",
			"disk-priorities", "no-hardening", "image-repository", "pod-cpu", "pod-memory",
		},
	},
	{
		Title:  "Starting from a snapshot",
		Common: []string{"snapshot"},
		More:   []string{"skip-hash-check", "bump-revision"},
	},
	{
		Title:  "Source of etcd's binaries",
		Common: []string{"binaries-dir", "binaries-archive", "release-url"},
		More: []string{
			"binaries-image", "binaries-sha256", "skip-checksum", "allow-http", "install-dir", "cache-dir",
			"download-connect-timeout",
		},
	},
	{
		Title:  "Certificates",
		Common: []string{"server-cert-extra-sans"},
		More:   []string{"peer-cert-extra-sans", "key-algorithm", "cert-lifetime", "ca-lifetime"},
	},
	{
		Title:  "etcd's settings",
		Common: []string{"quota-backend-bytes"},
		More:   []string{"cipher-suites", "etcd-flag", "etcd-env"},
	},
	{
		Title: "Waiting",
		More:  []string{"start-timeout", "membership-timeout", "promotion-timeout", "orphan-timeout", "retry"},
	},
}
