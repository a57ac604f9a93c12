package manager

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/volumes"
)

// flags are the values of the command line.
type flags struct {
	clusterName, backupStore, dataDir, nodeName string
	address, etcdAddress                        string
	grpcPort, metricsPort                       int
	peerURLs, clientURLs, quarantineURLs        string
	metricsURLs, metricsAddress                 string
	backupInterval, discoveryInterval           string
	pkiDir                                      string
	insecure, etcdInsecure, containerized       bool
	volumeProvider, volumeNameTag               string
	volumeTags                                  []string
	dnsSuffix, networkCIDR, staticConfig        string
	envFile, hostsFile, etcdRelease, etcdLog    string
	etcdReleaseDigests                          string
	etcdDirs, seeds                             []string
	scanRange                                   string
	multicast                                   bool
	// findsAddress says that the daemon that is printed finds its address itself.
	findsAddress                          bool
	grace, bootstrapGrace, learnerTimeout time.Duration
	backupFresh                           time.Duration
	backups                               backupFlags
	verbosity                             *int
	// metricsGiven says whether --etcd-manager-metrics-port was given.
	metricsGiven func() bool
	// mounting is what a test does instead of mounting a volume, nil otherwise.
	mounting func(volumes.Host, volumes.Volume) (string, error)
}

func (f *flags) add(fs *pflag.FlagSet) {
	d := cluster.DefaultPolicy()
	fs.StringVar(&f.clusterName, "cluster-name", "", "name of the etcd cluster (required)")
	fs.StringVar(&f.backupStore, "backup-store", "",
		"control and backup store: file:///path, s3://bucket/path, gs://..., azblob://..., swift://... (required)")
	fs.StringVar(&f.dataDir, "data-dir", "", "directory for the node's data, if no volume provider gives one")
	fs.StringVar(&f.nodeName, "node-name", "",
		"name of this node and of its member; default: the content of the file myid in the data directory")
	fs.StringVar(&f.address, "address", "", "IP address to listen on and to announce (default 127.0.0.1)")
	fs.StringVar(&f.etcdAddress, "etcd-address", "0.0.0.0",
		"address that etcd listens on, instead of the host in its URLs")
	fs.IntVar(&f.grpcPort, "grpc-port", cluster.ManagerPort, "port of this daemon")
	fs.StringVar(&f.peerURLs, "peer-urls", cluster.DaemonPeerURL,
		"etcd's peer URLs; __address__ and __name__ (with --dns-suffix) are replaced")
	fs.StringVar(&f.clientURLs, "client-urls", cluster.ManagerClientURL,
		"etcd's client URLs; __address__ and __name__ (with --dns-suffix) are replaced")
	fs.StringVar(&f.quarantineURLs, "quarantine-client-urls", cluster.ManagerQuarantineURL,
		"client URLs while clients are kept away")
	fs.StringVar(&f.backupInterval, "backup-interval", "15m", "time between two backups")
	fs.StringVar(&f.discoveryInterval, "discovery-poll-interval", "60s",
		"how often to look for other nodes once all are known")
	fs.StringVar(&f.pkiDir, "pki-dir", cluster.ManagerPKI, "directory with the three CAs")
	fs.BoolVar(&f.insecure, "insecure", false, "no TLS between daemons")
	fs.BoolVar(&f.etcdInsecure, "etcd-insecure", false, "no TLS for etcd")
	fs.BoolVar(&f.containerized, "containerized", false, "the host's file system is at /rootfs")
	fs.StringVar(&f.volumeProvider, "volume-provider", "",
		"provider of the data directory: none, external, aws, azure, do, gce, hetzner, linode, openstack or scaleway")
	fs.StringArrayVar(&f.volumeTags, "volume-tag", nil, "tag of the volumes to use (repeatable)")
	fs.StringVar(&f.volumeNameTag, "volume-name-tag", "", "tag whose value names the node")
	fs.StringVar(&f.dnsSuffix, "dns-suffix", "", "suffix of node names, in URLs and in the hosts file; empty leaves the file alone")
	fs.StringVar(&f.hostsFile, "hosts-file", "/etc/hosts", "hosts file to maintain when --dns-suffix is set")
	fs.StringVar(&f.networkCIDR, "network-cidr", "", "network of the nodes (OpenStack only)")
	fs.StringVar(&f.staticConfig, "static-config", "",
		`JSON: {"etcdVersion":"3.6.16","nodes":[{"id":"a","ip":["10.0.0.1"]}]}`)
	fs.StringVar(&f.envFile, "env-file", "", "file of KEY=VALUE lines to set in the environment")
	fs.StringArrayVar(&f.etcdDirs, "etcd-dir", nil, "directory to search for etcd binaries, before /opt (repeatable)")
	fs.StringVar(&f.etcdRelease, "etcd-release", "",
		"`URL` of release archives (https, or file), from which this daemon fetches versions of etcd that it lacks, as "+
			"etcdadm download does: https://github.com/etcd-io/etcd/releases/download; empty fetches none")
	fs.StringVar(&f.etcdReleaseDigests, "etcd-release-digests", "",
		"`file` with the digests of the archives that --etcd-release may bring, as in SHA256SUMS, for builds of your own; "+
			"empty takes etcd's own")
	fs.StringSliceVar(&f.seeds, "seeds", nil, "other daemons, as host:port, or as name=host:port for a fixed list of nodes")
	fs.StringVar(&f.scanRange, "discovery-scan", "",
		"`range` of addresses like 10.0.0.0/24, of at most 1024, to scan for other daemons on --grpc-port; empty scans none")
	fs.BoolVar(&f.multicast, "discovery-multicast", false, "find other daemons, and be found, by multicast DNS")
	fs.DurationVar(&f.grace, "replace-grace", d.Grace, "how long a voter may be unhealthy before it is replaced")
	fs.DurationVar(&f.bootstrapGrace, "bootstrap-grace", d.BootstrapGrace,
		"how long bootstrap waits for missing nodes")
	fs.DurationVar(&f.learnerTimeout, "learner-timeout", d.LearnerTimeout, "how long to wait until a learner has caught up")
	fs.DurationVar(&f.backupFresh, "backup-fresh", d.BackupFresh, "maximum age of the newest backup before a risky step")
	f.addReporting(fs)
	f.backups.add(fs)
	f.verbosity = cli.AddKlogFlags(fs)
}

// addReporting adds the flags of what the daemon and etcd report of themselves.
func (f *flags) addReporting(fs *pflag.FlagSet) {
	fs.StringVar(&f.metricsURLs, "listen-metrics-urls", "", "URLs at which etcd serves its metrics")
	fs.IntVar(&f.metricsPort, "etcd-manager-metrics-port", 0,
		"port for /metrics, /healthz, /readyz and the status page; 0 for none (default: --grpc-port and 81 more, as 8081)")
	f.metricsGiven = func() bool { return fs.Changed("etcd-manager-metrics-port") }
	fs.StringVar(&f.metricsAddress, "etcd-manager-metrics-address", "",
		"IP address of that port, 0.0.0.0 for all (default: that of --address, and 127.0.0.1; that alone where the port is "+
			"the default one, with --containerized)")
	fs.StringVar(&f.etcdLog, "etcd-log", "",
		"`where` etcd's log goes: file (etcd.log in the data directory; etcd's errors are in this program's output, too) or "+
			"output (all of it is; default with --containerized)")
}

// logger writes structured lines; --v=6 and more, which kops passes, is the
// normal level, so that a quiet cluster stays quiet there too.
func (f *flags) logger(w io.Writer) *slog.Logger {
	level := slog.LevelInfo
	if f.verbosity != nil && *f.verbosity >= 8 {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

var envKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// readEnvFile sets the variables of --env-file.
func (f *flags) readEnvFile() error {
	if f.envFile == "" {
		return nil
	}
	file, err := os.Open(f.envFile)
	if err != nil {
		return fmt.Errorf("--env-file: %w", err)
	}
	defer func() { _ = file.Close() }()
	s := bufio.NewScanner(file)
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSpace(s.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || !envKey.MatchString(key) {
			return fmt.Errorf("--env-file: %s line %d is not of the form KEY=VALUE", f.envFile, n)
		}
		if err := os.Setenv(key, value); err != nil {
			return fmt.Errorf("--env-file: %s line %d: %w", f.envFile, n, err)
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("--env-file: read %s: %w", f.envFile, err)
	}
	return nil
}
