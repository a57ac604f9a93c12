package machine

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/shell"
)

// A Daemon says how etcd-manager is to be started on a machine that was handed
// over to it.
type Daemon struct {
	Node        cluster.NodeName `json:"node"`
	Incarnation cluster.Token    `json:"incarnation"`
	// Environment goes to the daemon, which hands it on to etcd.
	Environment []string `json:"environment,omitempty"`
	Argv        []string `json:"argv"`
	// Line is both, as sh takes it.
	Line string `json:"line"`
	// LeaseVoters are those that the node begins with; where there are none,
	// LeaseVotersWhy says why.
	LeaseVoters    []cluster.NodeName `json:"leaseVoters,omitempty"`
	LeaseVotersWhy string             `json:"leaseVotersWhy,omitempty"`
	// Configure writes the spec, when all machines are handed over; empty where the
	// store has one.
	Configure string `json:"configure,omitempty"`
}

// Daemon says how the daemon is to be started for a member that was handed over to it.
// seeded says that the store has a spec.
func (o Manager) Daemon(cfg Config, j Journal, seeded bool) *Daemon {
	argv := []string{
		"etcd-manager", "--cluster-name=" + o.ClusterName, "--backup-store=" + o.BackupStore, "--data-dir=" + o.ManagerDir,
		"--node-name=" + string(j.Node), "--address=" + address(cfg, j), "--etcd-address=" + j.EtcdAddress,
		fmt.Sprintf("--grpc-port=%d", o.GRPCPort),
		"--peer-urls=" + strings.Join(j.URLs.Peer, ","), "--client-urls=" + strings.Join(j.URLs.Client, ","),
		"--pki-dir=" + o.PKIDir, "--etcd-dir=" + o.EtcdDir,
	}
	if len(j.MetricsURLs) > 0 {
		argv = append(argv, "--listen-metrics-urls="+strings.Join(j.MetricsURLs, ","))
	}
	if seeds := o.seeds(j); len(seeds) > 0 {
		argv = append(argv, "--seeds="+strings.Join(seeds, ","))
	}
	d := &Daemon{
		Node: j.Node, Incarnation: j.Token, Environment: j.Environment, Argv: argv,
		Line: line(slices.Concat(j.Environment, argv)), LeaseVoters: j.Agreement.LeaseVoters, LeaseVotersWhy: j.Agreement.Why,
	}
	if !seeded {
		d.Configure = line([]string{
			"etcd-manager-ctl", "--backup-store=" + o.BackupStore,
			fmt.Sprintf("--member-count=%d", len(j.Peers)), "--etcd-version=" + j.Version.String(), "configure-cluster",
		})
	}
	return d
}

// address is where the machine is to be found: where its member is.
func address(cfg Config, j Journal) string {
	if len(j.URLs.Peer) > 0 && isAddress(hostOf(j.URLs.Peer[0])) {
		return hostOf(j.URLs.Peer[0])
	}
	return cfg.Listen.Address
}

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// seeds are the addresses of the other daemons, without names: hints, for the
// time until all have met in the store.
func (o Manager) seeds(j Journal) []string {
	var list []string
	for _, u := range j.Others {
		s := net.JoinHostPort(hostOf(u), strconv.Itoa(o.GRPCPort))
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// line writes words as sh takes them. A variable in front keeps its name
// outside of the quotes.
func line(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		name, value, _ := strings.Cut(w, "=")
		if strings.HasPrefix(w, "ETCD_") {
			out[i] = name + "=" + shell.Quote(value)
		} else {
			out[i] = shell.Quote(w)
		}
	}
	return strings.Join(out, " ")
}
