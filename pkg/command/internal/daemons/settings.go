package daemons

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// Settings are what a daemon's command line says of how to reach it, and its etcd.
type Settings struct {
	// Address is where it listens, empty for the address of the default route.
	Address               string
	GRPCPort, MetricsPort int
	// MetricsAddress is that of the metrics port, empty for Address.
	MetricsAddress string
	// PKIDir is where its authorities are for this process, through the daemon's own root
	// directory where they are elsewhere.
	PKIDir string
	// Insecure and EtcdInsecure say that there is no TLS.
	Insecure, EtcdInsecure bool
	// ClientURLs are those of its member, with __address__ and __name__.
	ClientURLs []string
	// EtcdDirs are the directories of this machine in which it looks for etcd before /opt,
	// without those that others can write to.
	EtcdDirs []string
}

// managerPort is the daemon's port in the form of a flag.
var managerPort = strconv.Itoa(cluster.ManagerPort)

// defaults are the daemon's flags, where the first column has etcd-manager's values and the
// second those of etcdadm auto.
var defaults = map[string][2]string{
	"pki-dir":     {cluster.ManagerPKI, cluster.AutoPKI},
	"client-urls": {cluster.ManagerClientURL, cluster.AutoClientURL},
	"address":     {"127.0.0.1", ""},
	"grpc-port":   {managerPort, managerPort},

	"etcd-manager-metrics-port": {"0", "0"}, // only if it is given, see settingsOf
}

// Settings reads the daemon's command line again.
func (d Daemon) Settings() (Settings, error) {
	if d.written != nil {
		return d.written.settings()
	}
	return d.settings("/proc")
}

func (d Daemon) settings(proc string) (Settings, error) {
	dir := filepath.Join(proc, strconv.Itoa(d.PID))
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return Settings{}, fmt.Errorf("read the command line of the daemon: %w", err)
	}
	argv := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	if again, ok := parse(argv); !ok || again.Store != d.Store || again.Cluster != d.Cluster {
		return Settings{}, fmt.Errorf("process %d is no longer the daemon that it was", d.PID)
	}
	s, err := settingsOf(argv)
	s.EtcdDirs = slices.DeleteFunc(s.EtcdDirs, func(d string) bool { return !same(dir, d) || !Trusted(d) })
	switch {
	case err != nil:
	case !filepath.IsAbs(s.PKIDir):
		s.PKIDir = filepath.Join(dir, "cwd", s.PKIDir)
	case elsewhere(dir, s.PKIDir):
		s.PKIDir = filepath.Join(dir, "root", s.PKIDir)
	}
	return s, err
}

func settingsOf(argv []string) (s Settings, err error) {
	column := 0
	if filepath.Base(argv[0]) == "etcdadm" {
		column = 1
	}
	of := func(flags ...string) string {
		for _, f := range flags {
			if v := value(argv, f); v != "" {
				return v
			}
		}
		return defaults[flags[0]][column]
	}
	s = Settings{
		PKIDir: of("pki-dir"), Address: of("address", "bind-address"), MetricsAddress: of("etcd-manager-metrics-address"),
		Insecure: isSet(argv, "insecure"), EtcdInsecure: isSet(argv, "etcd-insecure"), EtcdDirs: values(argv, "etcd-dir"),
	}
	for flag, to := range map[string]*int{"grpc-port": &s.GRPCPort, "etcd-manager-metrics-port": &s.MetricsPort} {
		if *to, err = strconv.Atoi(of(flag)); err != nil {
			return s, fmt.Errorf("the daemon's --%s: %w", flag, err)
		}
	}
	if value(argv, "etcd-manager-metrics-port") == "" {
		s.MetricsPort = cluster.DefaultMetricsPort(s.GRPCPort)
		if isSet(argv, "containerized") && s.MetricsAddress == "" {
			s.MetricsAddress = "127.0.0.1"
		}
	}
	s.ClientURLs = strings.Split(of("client-urls"), ",")
	if port := value(argv, "client-port"); port != "" && column == 1 {
		s.ClientURLs = []string{"https://__address__:" + port}
	}
	return s, nil
}

// isSet reports whether a flag without a value is there.
func isSet(argv []string, flag string) bool {
	set := false
	for _, arg := range argv {
		name, v, given := strings.Cut(arg, "=")
		if name != "-"+flag && name != "--"+flag {
			continue
		}
		yes, err := strconv.ParseBool(v)
		set = !given || err == nil && yes
	}
	return set
}

// One returns the daemon that runs on this machine with its settings; ok is false where
// none does. Where there are more it is an error: it is unknown which is meant. Line
// returns the command line by which one of them is, as a hint.
func One(find func() ([]Daemon, error), line func(Daemon, Settings) string) (d Daemon, s Settings, ok bool, err error) {
	found, err := find()
	switch {
	case err != nil || len(found) == 0:
		return Daemon{}, Settings{}, false, err
	case len(found) > 1:
		return Daemon{}, Settings{}, false, several(found, line)
	}
	if s, err = found[0].Settings(); err != nil {
		return Daemon{}, Settings{}, false, err
	}
	return found[0], s, true, nil
}

// ClusterName is the name of the daemon's cluster, that of etcdadm auto where it says none.
func (d Daemon) ClusterName() string {
	if d.Cluster == "" {
		return "etcd"
	}
	return d.Cluster
}

// Node is where the daemon answers; own is the machine's address where it listens at the
// default one.
func (s Settings) Node(own string) string {
	return net.JoinHostPort(host(s.Address, own), strconv.Itoa(s.GRPCPort))
}

// Metrics is where its metrics port is, empty for none.
func (s Settings) Metrics(own string) string {
	if s.MetricsPort == 0 {
		return ""
	}
	at := s.MetricsAddress
	if at == "" {
		at = host(s.Address, own)
	}
	if ip := net.ParseIP(at); ip != nil && ip.IsUnspecified() {
		at = "127.0.0.1"
	}
	return net.JoinHostPort(at, strconv.Itoa(s.MetricsPort))
}

// Endpoints are the client URLs of its member.
func (s Settings) Endpoints(own string) []string {
	at := host(s.Address, own)
	if ip := net.ParseIP(at); ip != nil && ip.To4() == nil {
		at = "[" + at + "]"
	}
	var list []string
	for _, u := range s.ClientURLs {
		u = strings.NewReplacer("__address__", at, "__name__", at).Replace(strings.TrimSpace(u))
		if s.EtcdInsecure {
			u = strings.Replace(u, "https://", "http://", 1)
		}
		list = append(list, u)
	}
	return list
}

func host(address, own string) string {
	if address == "" {
		return own
	}
	return address
}
