package machineflags

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// An entry is one flag.
type entry struct {
	name   string
	groups []Group
	// field returns a pointer to the field of c that the flag sets.
	field func(c *machine.Config) any
	usage string
	// choice are the values that there are, where they are few.
	choice []string
}

// in says whether the flag belongs to a group. Member holds all of the groups
// that its comment names.
func (e *entry) in(g Group) bool {
	has := func(g Group) bool { return slices.Contains(e.groups, g) }
	if g == Member {
		return has(Member) || has(Certificates) || has(Binaries) || has(Paths)
	}
	return has(g)
}

type (
	config = machine.Config
	groups = []Group
)

// table is the one list of flags. Those of the retired CLI keep their name and
// meaning.
var table = []entry{
	{name: "name", groups: groups{Certificates, Paths}, field: func(c *config) any { return &c.Name },
		usage: "`name` of the member (default: the host name)"},
	{name: "version", groups: groups{Binaries}, field: func(c *config) any { return &c.Version },
		usage: "`version` of etcd, with or without a v"},

	{name: "bind-address", groups: groups{Certificates, Paths}, field: func(c *config) any { return &c.Listen.Address },
		usage: "`IP` address of all URLs (default: that of the default route)"},
	{name: "client-port", groups: groups{Certificates, Paths}, field: func(c *config) any { return &c.Listen.ClientPort },
		usage: "`port` for clients"},
	{name: "peer-port", groups: groups{Certificates, Paths}, field: func(c *config) any { return &c.Listen.PeerPort },
		usage: "`port` for the other members"},
	{name: "listen-client-urls", groups: groups{Certificates}, field: func(c *config) any { return &c.Listen.ClientURLs },
		usage: "`URLs` to bind to for clients (default: the address and the loopback)"},
	{name: "listen-peer-urls", groups: groups{Certificates}, field: func(c *config) any { return &c.Listen.PeerURLs },
		usage: "`URLs` to bind to for the other members (default: the address)"},
	{name: "listen-metrics-urls", groups: groups{Member}, field: func(c *config) any { return &c.Listen.MetricsURLs },
		usage: "additional `URLs` for /metrics and /health, http or https"},

	{name: "data-dir", groups: groups{Paths}, field: func(c *config) any { return &c.Paths.Data },
		usage: "etcd's data `directory`"},
	{name: "certs-dir", groups: groups{Certificates, Paths}, field: func(c *config) any { return &c.Paths.Certificates },
		usage: "`directory` of the certificates and keys"},
	{name: "install-dir", groups: groups{Binaries, Paths}, field: func(c *config) any { return &c.Paths.Install },
		usage: "`directory` for etcd, etcdctl, etcdutl and etcdctl.sh"},
	{name: "cache-dir", groups: groups{Binaries}, field: func(c *config) any { return &c.Paths.Cache },
		usage: "`directory` for release archives"},
	{name: "environment-dir", groups: groups{Paths}, field: func(c *config) any { return &c.Paths.Environment },
		usage: "`directory` for etcd.env and etcdctl.env"},
	{name: "unit-dir", groups: groups{Paths}, field: func(c *config) any { return &c.Paths.Units },
		usage: "`directory` of systemd units"},
	{name: "kubelet-pod-manifest-path", groups: groups{Paths}, field: func(c *config) any { return &c.Paths.Manifests },
		usage: "the kubelet's `directory` of static pods, may be relative"},

	{name: "server-cert-extra-sans", groups: groups{Certificates}, field: func(c *config) any {
		return &c.Certificates.ServerSANs
	}, usage: "additional host `names` and IP addresses in the server certificate"},
	{name: "peer-cert-extra-sans", groups: groups{Certificates}, field: func(c *config) any {
		return &c.Certificates.PeerSANs
	}, usage: "additional host `names` and IP addresses in the peer certificate"},
	{
		name: "key-algorithm", groups: groups{Certificates}, field: func(c *config) any {
			return &c.Certificates.KeyAlgorithm
		}, usage: "`kind` of new keys: ECDSA-P256|RSA-2048",
		choice: []string{string(machine.ECDSA), string(machine.RSA)},
	},
	{name: "cert-lifetime", groups: groups{Certificates}, field: func(c *config) any { return &c.Certificates.Lifetime },
		usage: "how long a new certificate is valid"},
	{name: "ca-lifetime", groups: groups{Certificates}, field: func(c *config) any { return &c.Certificates.CALifetime },
		usage: "how long a new certificate authority is valid"},

	{name: "binaries-dir", groups: groups{Binaries}, field: func(c *config) any { return &c.Binaries.Dir },
		usage: "take etcd from this `directory`"},
	{name: "binaries-archive", groups: groups{Binaries}, field: func(c *config) any { return &c.Binaries.Archive },
		usage: "take etcd from this release archive, a `file`"},
	{name: "binaries-image", groups: groups{Binaries}, field: func(c *config) any { return &c.Binaries.Image },
		usage: "take etcd from this OCI `image`: a reference with a digest, or the path of a saved one"},
	{name: "release-url", groups: groups{Binaries}, field: func(c *config) any { return &c.Binaries.ReleaseURL },
		usage: "download etcd from the releases below this `URL`; if it ends in .gz it is the archive itself"},
	{name: "binaries-sha256", groups: groups{Binaries}, field: func(c *config) any { return &c.Binaries.SHA256 },
		usage: "the archive's SHA-256 `digest` (default: from the release's SHA256SUMS)"},
	{name: "skip-checksum", groups: groups{Binaries}, field: func(c *config) any { return &c.Binaries.SkipChecksum },
		usage: "accept an archive without a known checksum"},
	{name: "allow-http", groups: groups{Binaries}, field: func(c *config) any { return &c.Binaries.AllowHTTP },
		usage: "accept an archive over plain http from another machine, with the digest in --binaries-sha256"},
	{name: "download-connect-timeout", groups: groups{Binaries}, field: func(c *config) any { return &c.Timeouts.Connect },
		usage: "how long to wait until a download begins"},

	{
		name: "init-system", groups: groups{Paths}, field: func(c *config) any { return &c.Service.InitSystem },
		usage:  "what runs etcd: systemd|kubelet|process",
		choice: []string{string(machine.Systemd), string(machine.Kubelet), string(machine.Process)},
	},
	{name: "user", groups: groups{Member}, field: func(c *config) any { return &c.Service.User },
		usage: "`user` that runs etcd (default: root)"},
	{name: "group", groups: groups{Member}, field: func(c *config) any { return &c.Service.Group },
		usage: "`group` that runs etcd (default: that of the user)"},
	{name: "disk-priorities", groups: groups{Member}, field: func(c *config) any { return &c.Service.Priorities },
		usage: "additional `lines` for the [Service] section of the unit"},
	{name: "no-hardening", groups: groups{Member}, field: func(c *config) any { return &c.Service.HardeningOff },
		usage: "write the unit without its sandboxing"},
	{name: "image-repository", groups: groups{Member}, field: func(c *config) any { return &c.Service.ImageRepository },
		usage: "`repository` of the static pod's image"},
	{name: "pod-cpu", groups: groups{Member}, field: func(c *config) any { return &c.Service.CPU },
		usage: "`CPU` that the static pod requests"},
	{name: "pod-memory", groups: groups{Member}, field: func(c *config) any { return &c.Service.Memory },
		usage: "`memory` that the static pod requests"},

	{name: "cipher-suites", groups: groups{Member}, field: func(c *config) any { return &c.Etcd.CipherSuites },
		usage: "cipher `suites` allowed for TLS 1.2, by Go's names"},
	{name: "quota-backend-bytes", groups: groups{Member}, field: func(c *config) any { return &c.Etcd.QuotaBytes },
		usage: "`size` at which the database takes no more writes, such as 8Gi (default: etcd's own, 2Gi)"},
	{name: "etcd-flag", groups: groups{Member}, field: func(c *config) any { return &c.Etcd.Flags },
		usage: "a flag of etcd without dashes, as `KEY=VALUE` (repeatable)"},
	{name: "etcd-env", groups: groups{Member}, field: func(c *config) any { return &c.Etcd.Environment },
		usage: "a variable of etcd's environment, as `KEY=VALUE` (repeatable)"},

	{name: "snapshot", groups: groups{Snapshot}, field: func(c *config) any { return &c.Snapshot.File },
		usage: "start with the data of this snapshot `file`"},
	{name: "skip-hash-check", groups: groups{Snapshot}, field: func(c *config) any { return &c.Snapshot.SkipHashCheck },
		usage: "accept a database file that was copied instead of saved"},
	{name: "bump-revision", groups: groups{Snapshot}, field: func(c *config) any { return &c.Snapshot.BumpRevision },
		usage: "raise the snapshot's revision by this `number`, and mark everything before as compacted"},

	{name: "start-timeout", groups: groups{Member}, field: func(c *config) any { return &c.Timeouts.Start },
		usage: "how long to wait until etcd is started and healthy"},
	{name: "membership-timeout", groups: groups{Paths}, field: func(c *config) any { return &c.Timeouts.Membership },
		usage: "how long to wait until the cluster answers and accepts a change"},
	{name: "promotion-timeout", groups: groups{Join}, field: func(c *config) any { return &c.Timeouts.Promotion },
		usage: "how long to wait until a learner has caught up"},
	{name: "orphan-timeout", groups: groups{Join}, field: func(c *config) any { return &c.Timeouts.Orphan },
		usage: "how long another machine's learner may get nowhere before it is removed"},
}
