// Package daemon puts etcd-manager together: it opens the edges, hands them to
// the loop and to the executor, and closes them in the right order. It decides
// nothing.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/discovery"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// Config is what the flags and the environment say.
type Config struct {
	ClusterName string
	BackupStore string
	DataDir     string
	// NodeName is empty for the name in the file myid.
	NodeName string
	// Address is the IP address to listen on and to be known by.
	Address string
	// EtcdAddress replaces the host of the URLs that etcd listens on.
	EtcdAddress string
	GRPCPort    int
	// The URLs may hold __address__ and __name__.
	PeerURLs, ClientURLs, QuarantineURLs, MetricsURLs []string

	PKIDir string
	// Insecure and EtcdInsecure turn TLS off between daemons and for etcd.
	Insecure, EtcdInsecure bool
	// CertLifetime is how long issued certificates live.
	CertLifetime time.Duration

	DiscoveryInterval time.Duration
	// ListenFor is how long a daemon listens for those of the existing etcd-manager before
	// none counts as being there, zero for [Config.DiscoveryInterval] and 15 s more.
	ListenFor time.Duration
	// Seeds are addresses of other daemons, host:port or name=host:port.
	Seeds []string
	// SeedsDir is a directory of files named by the addresses of other daemons,
	// empty for none.
	SeedsDir string
	// Lookup asks the cloud where other daemons are, nil for no cloud.
	Lookup func(ctx context.Context) ([]discovery.Seed, error)
	// ScanRange is scanned for other daemons, nothing where it is the zero value.
	// Multicast has daemons look for each other by multicast DNS.
	ScanRange netip.Prefix
	Multicast bool
	// Static is the spec that a static configuration implies, nil for none.
	Static *cluster.Spec
	Policy cluster.Policy

	// Backups say how backups are written and read.
	Backups Backups

	EtcdDirs []string
	// Release is the URL below which releases of etcd are that no directory has, empty for
	// none: an operator puts them there.
	Release string
	// ReleaseDigests is a file with the digests of the archives that may be fetched from
	// there, empty where etcd's own count. It is read for each.
	ReleaseDigests string
	UserEnv        map[string]string
	// DNSSuffix stands behind the names of nodes in URLs, and in the hosts file, which
	// without one is left alone.
	DNSSuffix   string
	HostsFile   string
	MetricsPort int
	// MetricsAddress is the IP address that the metrics are served on, empty for
	// Address.
	MetricsAddress string
	// Page makes the status page of the metrics port, nil for none.
	Page func(PageSource) http.Handler
	// EtcdLog gets the lines that etcd prints, each behind "etcd: ".
	EtcdLog io.Writer
	// EtcdLogFile has them go to a file in DataDir instead, and only errors, and what is no
	// line of a log, to EtcdLog, too.
	EtcdLogFile bool
}

// Backups say how the daemon writes backups, and what it demands of one that it
// restores.
type Backups struct {
	// Compression is gzip, also where it is empty, or zstd.
	Compression string
	// Recipients can decrypt what is written; without any it is not encrypted.
	Recipients []backup.Recipient
	// Signer signs what is written, nil for nobody.
	Signer *backup.Signer
	// Fetch has the keys, and whose signatures count.
	Fetch backup.FetchOptions
	// TempDir is where backups are inspected, empty for the system's own.
	TempDir string
	// Tool is the name and version of the program, for the backups' descriptions.
	Tool string
}

// Validate reports what is missing or contradicts itself.
func (c Config) Validate() error {
	switch {
	case c.ClusterName == "":
		return errors.New("--cluster-name is missing")
	case c.BackupStore == "":
		return errors.New("--backup-store is missing")
	case c.DataDir == "":
		return errors.New("--data-dir is missing (no --volume-provider gives one)")
	case !filepath.IsAbs(c.DataDir):
		return fmt.Errorf("--data-dir %q is not an absolute path", c.DataDir)
	case net.ParseIP(c.Address) == nil:
		return fmt.Errorf("--address %q is not an IP address", c.Address)
	case c.GRPCPort < 0 || c.GRPCPort > 65535:
		return fmt.Errorf("--grpc-port %d is not a port", c.GRPCPort)
	case c.MetricsPort < 0 || c.MetricsPort > 65535:
		return fmt.Errorf("--etcd-manager-metrics-port %d is not a port", c.MetricsPort)
	case c.MetricsAddress != "" && net.ParseIP(c.MetricsAddress) == nil:
		return fmt.Errorf("--etcd-manager-metrics-address %q is not an IP address", c.MetricsAddress)
	case c.PKIDir == "" && !(c.Insecure && c.EtcdInsecure):
		return errors.New("--pki-dir is missing; only --insecure and --etcd-insecure together need none")
	}
	for _, d := range []struct {
		flag string
		wait time.Duration
	}{
		{"replace-grace", c.Policy.Grace}, {"bootstrap-grace", c.Policy.BootstrapGrace},
		{"learner-timeout", c.Policy.LearnerTimeout}, {"backup-fresh", c.Policy.BackupFresh},
	} {
		if d.wait < 0 {
			return fmt.Errorf("--%s %s is not a positive duration", d.flag, d.wait)
		}
	}
	if c.NodeName != "" {
		if err := cluster.NodeName(c.NodeName).Validate(); err != nil {
			return fmt.Errorf("--node-name: %w", err)
		}
	}
	// The name does not matter yet: it is the forms that are checked.
	if _, err := c.URLs("name"); err != nil {
		return err
	}
	if _, err := etcdconf.Expand(c.MetricsURLs, c.Address, "name"); err != nil {
		return fmt.Errorf("--listen-metrics-urls: %w", err)
	}
	if err := checkRelease(c.Release); err != nil {
		return err
	}
	if c.ReleaseDigests != "" && c.Release == "" {
		return errors.New("--etcd-release-digests needs --etcd-release: nothing is fetched without it")
	}
	if err := c.checkNearby(); err != nil {
		return err
	}
	if _, err := discovery.ParseSeeds(c.Seeds, c.GRPCPort); err != nil {
		return fmt.Errorf("--seeds: %w", err)
	}
	return nil
}

// Warnings says what of the configuration gives others more than they should
// have, see docs/security.md, and what of a spec of its own may be a mistake.
func (c Config) Warnings() []string {
	var list []string
	if c.Insecure {
		list = append(list, "--insecure: anybody who reaches port "+strconv.Itoa(c.GRPCPort)+
			" can act as any node and stop this cluster; use --pki-dir in production")
	}
	if c.EtcdInsecure {
		list = append(list, "--etcd-insecure: anybody who reaches etcd's ports can read and write everything in it; use "+
			"--pki-dir in production")
	}
	if c.Static != nil {
		list = append(list, evenCount(*c.Static)...)
	}
	if c.Insecure && c.EtcdInsecure {
		return list
	}
	for _, text := range certs.Exposed(c.PKIDir) {
		list = append(list, text+"; make it readable by root only (chmod 600, and 700 for the directory)")
	}
	return list
}

// newPlaces says which of the directories that this daemon was given are not there, and are
// made: names that nobody meant look like that, and volumes that are not mounted.
func (c Config) newPlaces(stat func(string) (fs.FileInfo, error)) []string {
	missing := func(dir string) bool {
		_, err := stat(dir)
		return errors.Is(err, fs.ErrNotExist)
	}
	var list []string
	if parent := filepath.Dir(c.DataDir); missing(parent) {
		list = append(list, fmt.Sprintf("--data-dir: not even %s was there, and it was made: check whether that is mistyped, or a "+
			"volume is not mounted", parent))
	}
	if dir := store.NewDirectory(c.BackupStore, stat); dir != "" {
		list = append(list, "--backup-store: "+store.NewDirectoryWarning(dir))
	}
	return list
}

// Listen returns the address of the daemon's one port.
func (c Config) Listen() string { return net.JoinHostPort(c.Address, strconv.Itoa(c.GRPCPort)) }

// ListenMetrics returns the addresses of the port of metrics and health: that of
// the daemon, and loopback for the machine's own probes, if nothing else is said.
func (c Config) ListenMetrics() []string {
	hosts := []string{c.MetricsAddress}
	if ip := net.ParseIP(c.Address); c.MetricsAddress == "" {
		hosts[0] = c.Address
		if !ip.IsLoopback() && !ip.IsUnspecified() {
			hosts = append(hosts, "127.0.0.1")
		}
	}
	for i, h := range hosts {
		hosts[i] = net.JoinHostPort(h, strconv.Itoa(c.MetricsPort))
	}
	return hosts
}

// host returns what __name__ stands for in URLs.
func (c Config) host(name cluster.NodeName) string { return cluster.HostName(name, c.DNSSuffix) }

// URLs returns the addresses of the node's member.
func (c Config) URLs(name cluster.NodeName) (cluster.URLs, error) {
	var urls cluster.URLs
	for _, u := range []struct {
		flag      string
		templates []string
		to        *[]string
	}{
		{"peer-urls", c.PeerURLs, &urls.Peer},
		{"client-urls", c.ClientURLs, &urls.Client},
		{"quarantine-client-urls", c.QuarantineURLs, &urls.Quarantine},
	} {
		list, err := etcdconf.Expand(u.templates, c.Address, c.host(name))
		if err != nil {
			return cluster.URLs{}, fmt.Errorf("--%s: %w", u.flag, err)
		}
		if c.EtcdInsecure {
			list = etcdconf.Insecure(list)
		}
		*u.to = list
	}
	return urls, nil
}
