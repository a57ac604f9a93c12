package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/daemon"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/volumes"
)

// config turns flags and environment into what the daemon runs by.
func (f *flags) config(ctx context.Context, environ []string, log *slog.Logger) (daemon.Config, error) {
	env := lookup(environ)
	c := daemon.Config{
		ClusterName: f.clusterName, BackupStore: f.backupStore, DataDir: f.dataDir, NodeName: f.nodeName,
		Address: f.address, EtcdAddress: f.etcdAddress, GRPCPort: f.grpcPort,
		PeerURLs: list(f.peerURLs), ClientURLs: list(f.clientURLs), QuarantineURLs: list(f.quarantineURLs),
		MetricsURLs: list(f.metricsURLs),
		PKIDir:      f.pkiDir, Insecure: f.insecure, EtcdInsecure: f.etcdInsecure,
		Seeds: f.seeds, Multicast: f.multicast,
		EtcdDirs: append(f.etcdDirs, filepath.SplitList(env(etcdbin.DirVariable))...),
		Release:  f.etcdRelease, ReleaseDigests: f.etcdReleaseDigests,
		UserEnv: etcdconf.User(environ),
		Policy: cluster.Policy{
			Grace: f.grace, BootstrapGrace: f.bootstrapGrace, LearnerTimeout: f.learnerTimeout,
			BackupFresh: f.backupFresh,
		},
	}
	c.MetricsPort, c.MetricsAddress = f.metrics()
	if c.DNSSuffix = strings.Trim(f.dnsSuffix, "."); c.DNSSuffix != "" {
		c.HostsFile = f.hostsFile
	}
	if err := f.durations(&c, env); err != nil {
		return c, err
	}
	var err error
	if c.EtcdLogFile, err = f.logsToFile(); err != nil {
		return c, err
	}
	if f.scanRange != "" {
		if c.ScanRange, err = netip.ParsePrefix(f.scanRange); err != nil {
			return c, fmt.Errorf("--discovery-scan: %q is not a range of addresses like 10.0.0.0/24", f.scanRange)
		}
	}
	if c.Backups, err = f.backups.config(); err != nil {
		return c, err
	}
	if err := f.backups.policy(&c.Policy); err != nil {
		return c, err
	}
	if err := f.volume(ctx, &c, log); err != nil {
		return c, err
	}
	if err := f.static(&c); err != nil {
		return c, err
	}
	c.Policy.OnRequest = f.staticConfig != "" || f.volumeProvider == "external"
	if c.Address == "" {
		c.Address = "127.0.0.1"
	}
	for _, s := range c.Seeds {
		if name, _, ok := strings.Cut(s, "="); ok {
			c.Policy.StaticNodes = append(c.Policy.StaticNodes, cluster.NodeName(name))
		}
	}
	if err := c.Validate(); err != nil {
		return c, err
	}
	f.warnAlone(c, log)
	return c, nil
}

// warnAlone warns of a daemon at an address that nobody chose, and nobody else reaches.
func (f *flags) warnAlone(c daemon.Config, log *slog.Logger) {
	if f.address == "" && !f.findsAddress && net.ParseIP(c.Address).IsLoopback() {
		log.Warn("no --address: this daemon, and etcd's URLs with __address__, are at an address where no other machine "+
			"reaches them", "address", c.Address)
	}
}

// metrics chooses the port of the metrics where no flag does. In a container nobody but the
// machine's own probes and agents knows of it: kops' firewalls let workers, and what
// runs on them, to all ports that they do not know.
func (f *flags) metrics() (port int, address string) {
	switch {
	case f.metricsGiven():
		return f.metricsPort, f.metricsAddress
	case f.containerized && f.metricsAddress == "":
		return cluster.DefaultMetricsPort(f.grpcPort), "127.0.0.1"
	}
	return cluster.DefaultMetricsPort(f.grpcPort), f.metricsAddress
}

// logsToFile says whether etcd's log goes to a file. In a container its place is the
// container's log: kops keeps that as etcd.log, and rotates it.
func (f *flags) logsToFile() (bool, error) {
	switch f.etcdLog {
	case "":
		return !f.containerized, nil
	case "file", "output":
		return f.etcdLog == "file", nil
	}
	return false, fmt.Errorf("--etcd-log=%s is unknown; it is file or output", f.etcdLog)
}

func lookup(environ []string) func(string) string {
	m := map[string]string{}
	for _, kv := range environ {
		key, value, _ := strings.Cut(kv, "=")
		m[key] = value
	}
	return func(key string) string { return m[key] }
}

// list splits a comma list; an empty flag is an empty list.
func list(s string) []string {
	var out []string
	for _, p := range strings.Split(s, ",") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}

// The existing etcd-manager takes a backup in each round, of ten seconds, where the
// interval is zero, and looks for others without a pause, which helps nobody. A
// retention of zero keeps nothing for its age.
const (
	minBackupInterval = 10 * time.Second
	minPollInterval   = time.Second
	noTime            = time.Nanosecond
)

func (f *flags) durations(c *daemon.Config, env func(string) string) error {
	for _, d := range []struct {
		name, text string
		to         *time.Duration
		// zero is what zero means, which others take for the default; nothing where it
		// makes no sense.
		zero time.Duration
	}{
		{"--backup-interval", f.backupInterval, &c.Policy.BackupInterval, minBackupInterval},
		{"--discovery-poll-interval", f.discoveryInterval, &c.DiscoveryInterval, minPollInterval},
		{"ETCD_MANAGER_HOURLY_BACKUPS_RETENTION", env("ETCD_MANAGER_HOURLY_BACKUPS_RETENTION"), &c.Policy.HourlyRetention,
			noTime},
		{"ETCD_MANAGER_DAILY_BACKUPS_RETENTION", env("ETCD_MANAGER_DAILY_BACKUPS_RETENTION"), &c.Policy.DailyRetention,
			noTime},
		{"ETCD_MANAGER_CERT_DURATION", env("ETCD_MANAGER_CERT_DURATION"), &c.CertLifetime, 0},
	} {
		if d.text == "" {
			continue
		}
		v, err := retention.ParseDuration(d.text)
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		if v == 0 {
			v = d.zero
		}
		if v <= 0 {
			return fmt.Errorf("%s: %s is not a positive duration", d.name, d.text)
		}
		*d.to = v
	}
	return nil
}

// providers are those of the existing etcd-manager that give a volume through
// a cloud.
var providers = []string{"aws", "gce", "openstack", "do", "hetzner", "linode", "azure", "scaleway"}

func (f *flags) volume(ctx context.Context, c *daemon.Config, log *slog.Logger) error {
	if f.networkCIDR != "" && f.volumeProvider != "openstack" {
		return errors.New("--network-cidr is only supported with provider 'openstack'")
	}
	if factory := volumes.Lookup(f.volumeProvider); factory != nil {
		return f.cloudVolume(ctx, c, factory, log)
	}
	for _, p := range providers {
		if f.volumeProvider == p {
			return fmt.Errorf("--volume-provider=%s is not built into this program; mount the volume and use --data-dir, or "+
				"--volume-provider=external", p)
		}
	}
	switch f.volumeProvider {
	case "":
		return nil
	case "external":
	default:
		return fmt.Errorf("--volume-provider=%s is unknown; it is one of external and %s", f.volumeProvider,
			strings.Join(providers, ", "))
	}
	if len(f.volumeTags) != 1 {
		return fmt.Errorf("provider external needs exactly one --volume-tag, %d are given", len(f.volumeTags))
	}
	root := "/"
	if f.containerized {
		root = "/rootfs"
	}
	return f.externalVolume(ctx, c, root, log)
}

// static reads --static-config: its nodes are the static list, and with their
// number and the version they are the spec.
func (f *flags) static(c *daemon.Config) error {
	if f.staticConfig == "" {
		return nil
	}
	var s struct {
		EtcdVersion etcdversion.Version `json:"etcdVersion"`
		Nodes       []struct {
			ID string   `json:"id"`
			IP []string `json:"ip"`
		} `json:"nodes"`
	}
	if err := json.Unmarshal([]byte(f.staticConfig), &s); err != nil {
		return fmt.Errorf("--static-config: %w", err)
	}
	for _, n := range s.Nodes {
		if n.ID == "" || len(n.IP) == 0 {
			return errors.New("--static-config: each node needs an id and an ip")
		}
		c.Seeds = append(c.Seeds, n.ID+"="+net.JoinHostPort(n.IP[0], strconv.Itoa(f.grpcPort)))
	}
	c.Static = &cluster.Spec{MemberCount: len(s.Nodes), EtcdVersion: s.EtcdVersion}
	if err := c.Static.Validate(); err != nil {
		return fmt.Errorf("--static-config: %w", err)
	}
	return nil
}
