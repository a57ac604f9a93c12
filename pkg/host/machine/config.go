package machine

import (
	"net"
	"net/url"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// An InitSystem keeps etcd running on the machine.
type InitSystem string

// The init systems.
const (
	// Systemd: the unit etcd.service with the environment file etcd.env.
	Systemd InitSystem = "systemd"
	// Kubelet: the static pod in the manifest etcd.manifest.
	Kubelet InitSystem = "kubelet"
	// Process: a process that etcdadm itself starts and keeps running, for
	// machines that have neither.
	Process InitSystem = "process"
)

// A Config is the spec for the etcd of one machine. The JSON names are those
// of the configuration file; a flag has the same meaning and goes first. The
// zero value of a field means its default, see [Defaults].
type Config struct {
	// Name of the member, by default the machine's host name.
	Name cluster.NodeName `json:"name,omitempty"`
	// Version of etcd.
	Version etcdversion.Version `json:"version,omitzero"`

	Listen       Listen       `json:"listen,omitzero"`
	Paths        Paths        `json:"paths,omitzero"`
	Certificates Certificates `json:"certificates,omitzero"`
	Binaries     Binaries     `json:"binaries,omitzero"`
	Service      Service      `json:"service,omitzero"`
	Etcd         Etcd         `json:"etcd,omitzero"`
	Snapshot     Snapshot     `json:"snapshot,omitzero"`
	Timeouts     Timeouts     `json:"timeouts,omitzero"`
}

// Listen says where etcd is to be found.
type Listen struct {
	// Address is the IP address of all URLs, by default that of the default
	// route.
	Address string `json:"address,omitempty"`
	// ClientPort and PeerPort are 2379 and 2380 by default.
	ClientPort int `json:"clientPort,omitempty"`
	PeerPort   int `json:"peerPort,omitempty"`
	// ClientURLs and PeerURLs replace the addresses that etcd binds to; what it
	// advertises still follows from Address and the ports.
	ClientURLs []string `json:"clientURLs,omitempty"`
	PeerURLs   []string `json:"peerURLs,omitempty"`
	// MetricsURLs are extra listeners for /metrics and /health without client
	// certificates, http or https.
	MetricsURLs []string `json:"metricsURLs,omitempty"`
}

// A KeyAlgorithm is the kind of keys that certificates are issued for.
type KeyAlgorithm string

// The key algorithms.
const (
	ECDSA KeyAlgorithm = "ECDSA-P256"
	RSA   KeyAlgorithm = "RSA-2048"
)

// Certificates say what is issued.
type Certificates struct {
	// ServerSANs and PeerSANs are host names and IP addresses in the server's and
	// the peer's certificate, besides those that follow from the rest.
	ServerSANs []string `json:"serverSANs,omitempty"`
	PeerSANs   []string `json:"peerSANs,omitempty"`
	// KeyAlgorithm is ECDSA-P256 by default; RSA-2048 where the CA's key is RSA, or
	// the cipher suites are for RSA alone.
	KeyAlgorithm KeyAlgorithm `json:"keyAlgorithm,omitempty"`
	// Lifetime and CALifetime are one year and ten years by default.
	Lifetime   Duration `json:"lifetime,omitempty"`
	CALifetime Duration `json:"caLifetime,omitempty"`
}

// Binaries say where etcd comes from. The first that is set is used: Dir,
// Archive, Image, ReleaseURL.
type Binaries struct {
	// Dir is a directory that holds etcd, etcdctl and etcdutl.
	Dir string `json:"dir,omitempty"`
	// Archive is a release archive (.tar.gz).
	Archive string `json:"archive,omitempty"`
	// Image is an OCI image: a reference with a digest, or the path of an archive
	// of "docker save" or of an OCI layout.
	Image string `json:"image,omitempty"`
	// ReleaseURL is where release archives are; what ends in .gz is the archive
	// itself.
	ReleaseURL string `json:"releaseURL,omitempty"`
	// SHA256 is the archive's digest in hexadecimal. Without it, the release's
	// SHA256SUMS decides.
	SHA256 string `json:"sha256,omitempty"`
	// SkipChecksum takes an archive that has no checksum anywhere.
	SkipChecksum bool `json:"skipChecksum,omitempty"`
	// AllowHTTP takes an archive over plain http from another machine. What such a
	// server says of its own files proves nothing, so that SHA256 is needed too.
	AllowHTTP bool `json:"allowHTTP,omitempty"`
}

// PlainHTTP reports whether a URL asks another machine over plain http, where
// anybody in between can answer.
func PlainHTTP(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}

// PlainHTTPWarning is printed for everybody who takes a release from there.
const PlainHTTPWarning = "etcd is downloaded over plain http: only the digest proves what it is"

// A Service says how etcd is kept running.
type Service struct {
	// InitSystem is systemd by default.
	InitSystem InitSystem `json:"initSystem,omitempty"`
	// User and Group run etcd; empty means root. They must exist.
	User  string `json:"user,omitempty"`
	Group string `json:"group,omitempty"`
	// Priorities are lines for the unit's section [Service], as KEY=VALUE.
	Priorities []string `json:"priorities,omitempty"`
	// ImageRepository has the image of the static pod, tagged with the version.
	ImageRepository string `json:"imageRepository,omitempty"`
	// CPU and Memory are what the static pod requests, 100m and 100Mi by default.
	CPU    string `json:"cpu,omitempty"`
	Memory string `json:"memory,omitempty"`
	// HardeningOff leaves the unit's protections out.
	HardeningOff bool `json:"hardeningOff,omitempty"`
}

// Etcd is what etcd itself is given.
type Etcd struct {
	// CipherSuites restricts TLS 1.2, by the names of Go's crypto/tls.
	CipherSuites []string `json:"cipherSuites,omitempty"`
	// QuotaBytes is the size at which the database stops taking writes, 0 for
	// etcd's default of 2 GiB.
	QuotaBytes int64 `json:"quotaBytes,omitempty"`
	// Flags are etcd flags without dashes: "snapshot-count": "5000". Flags that
	// the version does not know are an error.
	Flags map[string]string `json:"flags,omitempty"`
	// Environment are further variables of the process.
	Environment map[string]string `json:"environment,omitempty"`
}

// A Snapshot is what a new cluster begins with.
type Snapshot struct {
	// File is a snapshot of etcd, empty for an empty cluster.
	File string `json:"file,omitempty"`
	// SkipHashCheck takes a database file that was copied instead of saved.
	SkipHashCheck bool `json:"skipHashCheck,omitempty"`
	// BumpRevision is by how much the revision is raised, and all before marked as
	// compacted: for clients that may have seen later revisions than the
	// snapshot's, as the watches of Kubernetes have (etcd issue 16028).
	BumpRevision int `json:"bumpRevision,omitempty"`
}

// Timeouts bound the waiting. The defaults are in brackets.
type Timeouts struct {
	// Connect is for a download to begin (10s).
	Connect Duration `json:"connect,omitempty"`
	// Start is for etcd to start and be healthy (2m; 15m for a static pod, whose image
	// the kubelet may have to pull).
	Start Duration `json:"start,omitempty"`
	// Membership is for the cluster to answer and accept the member (6h: whoever runs
	// join on a new machine runs it once, and other machines may come much later).
	Membership Duration `json:"membership,omitempty"`
	// Promotion is for a learner to catch up (10m).
	Promotion Duration `json:"promotion,omitempty"`
	// Orphan is for how long another machine's learner may be absent, unheard or without a
	// snapshot, until a join takes it out (30m: longer than an image is pulled).
	Orphan Duration `json:"orphan,omitempty"`
}

// A Duration is written as in "1m30s".
type Duration time.Duration

// String writes the form that UnmarshalText reads.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the String form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads "1m30s".
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// PodStartTimeout is how long a static pod may take to start and be healthy where nothing
// else is said.
const PodStartTimeout = 15 * time.Minute

// DefaultVersion is the etcd that is installed where nothing else is said: the
// newest patch of the minor that current Kubernetes releases ship.
var DefaultVersion = etcdversion.Must("3.6.16")

// Defaults are the values of fields that are not set, except for those that
// come from the machine: Name and Listen.Address.
func Defaults() Config {
	return Config{
		Version: DefaultVersion,
		Listen:  Listen{ClientPort: cluster.EtcdClientPort, PeerPort: cluster.EtcdPeerPort},
		Paths: Paths{
			Data: "/var/lib/etcd", Certificates: "/etc/etcd/pki", Install: "/opt/bin", Cache: "/var/cache/etcdadm",
			Environment: "/etc/etcd", Units: "/etc/systemd/system", Manifests: "/etc/kubernetes/manifests",
		},
		Certificates: Certificates{
			KeyAlgorithm: ECDSA, Lifetime: Duration(365 * 24 * time.Hour), CALifetime: Duration(3650 * 24 * time.Hour),
		},
		Binaries: Binaries{ReleaseURL: "https://github.com/etcd-io/etcd/releases/download"},
		Service: Service{
			InitSystem:      Systemd,
			Priorities:      []string{"Nice=-10", "IOSchedulingClass=best-effort", "IOSchedulingPriority=2"},
			ImageRepository: "quay.io/coreos/etcd", CPU: "100m", Memory: "100Mi",
		},
		Timeouts: Timeouts{
			Connect: Duration(10 * time.Second), Start: Duration(2 * time.Minute),
			Membership: Duration(6 * time.Hour), Promotion: Duration(10 * time.Minute),
			Orphan: Duration(30 * time.Minute),
		},
	}
}
