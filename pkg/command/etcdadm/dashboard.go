package etcdadm

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/internal/dashboard"
	"github.com/etcdadm/etcdadm/pkg/daemon/fleet"
)

// dashboardFlags are the flags of dashboard.
type dashboardFlags struct {
	listen string
	port   uint16
}

func (t *tool) dashboardCommand() *cobra.Command {
	var f dashboardFlags
	cmd := &cobra.Command{
		Use: "dashboard", Short: "show the daemons' status page in a browser", GroupID: "show",
		Long: `dashboard prints a URL on this machine at which a browser finds the status page of the daemons. Runs until
interrupted. It reaches them with the certificate of --cert, or with one for readers that it issues from --pki-dir,
and goes on to another daemon where one does not answer. On a machine where a daemon runs it needs no flag.

The URL has a secret in it, and works on this machine only; through ssh -L also elsewhere. Read-only.`,
		Example: "  etcdadm dashboard\n  etcdadm dashboard --nodes=10.0.0.1:8000 --metrics-port=8081 --cert=bob.crt --key=bob.key " +
			"--cacert=bob-ca.crt",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:0", "loopback `address` and port of the page; port 0 for a free one")
	cmd.Flags().Uint16Var(&f.port, "metrics-port", 0,
		"the daemons' --etcd-manager-metrics-port (default: that of the daemon on this machine, or the daemons' default)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return t.dashboard(cmd, f) }
	return cmd
}

// A page is what dashboard prints.
type page struct {
	URL string `json:"url"`
}

func (t *tool) dashboard(cmd *cobra.Command, f dashboardFlags) error {
	host, _, err := net.SplitHostPort(f.listen)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return cli.Usagef("--listen is %q, it must be a loopback address and a port, such as 127.0.0.1:8080", f.listen)
	}
	targets, err := t.targets(cmd, f.port)
	if err != nil {
		return err
	}
	o := t.connect
	tlsOf, err := fleet.ReaderTLS(fleet.ConnectOptions{
		PKIDir: o.PKIDir, Cert: o.Cert, Key: o.Key, CACert: o.CACert, Insecure: o.Insecure,
	})
	if err != nil {
		return err
	}
	p, err := dashboard.New(targets, tlsOf)
	if err != nil {
		return err
	}
	if err := t.checkPage(cmd.Context(), p); err != nil {
		return cli.WithHint(fmt.Errorf("no daemon serves its status page: %w", err),
			"where the daemons have --etcd-manager-metrics-port, give it as --metrics-port")
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	url := p.URL(l)
	if err := t.out.Print(cmd.OutOrStdout(), cli.Versioned("Dashboard", page{url}), func(w io.Writer) error {
		_, err := fmt.Fprintln(w, url)
		return err
	}); err != nil {
		return err
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "the page is there until this command ends")
	return p.Serve(cmd.Context(), l)
}

func (t *tool) checkPage(ctx context.Context, p *dashboard.Proxy) error {
	ctx, cancel := context.WithTimeout(ctx, t.connect.Timeout)
	defer cancel()
	return p.Check(ctx)
}

// targets are the metrics ports of the daemons: first that of the one on this machine, then
// those of the nodes that answer, then the others.
func (t *tool) targets(cmd *cobra.Command, port uint16) (list []dashboard.Target, err error) {
	if _, err := t.fromHere(cmd); err != nil {
		return nil, err
	}
	if t.metrics != "" {
		list = append(list, dashboard.Target{Address: t.metrics})
		if _, text, err := net.SplitHostPort(t.metrics); err == nil && port == 0 {
			n, _ := strconv.ParseUint(text, 10, 16) // it was printed from a number
			port = uint16(n)
		}
	}
	var nodes []cluster.Node
	err = t.run(cmd, func(ctx context.Context, c Cluster) error {
		_, obs, err := c.Observe(ctx)
		nodes = obs.Nodes
		return err
	})
	if err != nil && len(list) == 0 {
		return nil, fmt.Errorf("find the daemons: %w", err)
	}
	slices.SortStableFunc(nodes, func(a, b cluster.Node) int {
		switch {
		case a.Reachable && !b.Reachable:
			return -1
		case b.Reachable && !a.Reachable:
			return 1
		}
		return 0
	})
	for _, n := range nodes {
		address, err := pageAddress(n.Address, port)
		at := dashboard.Target{Name: n.Name, Address: address}
		if err == nil && (len(list) == 0 || list[0].Address != at.Address) {
			list = append(list, at)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no daemon is known")
	}
	return list, nil
}

// pageAddress is where the page of a daemon is: at port, or at the default one for 0.
func pageAddress(node string, port uint16) (string, error) {
	host, text, err := net.SplitHostPort(node)
	if err != nil {
		return "", err
	}
	at := int(port)
	if grpc, err := strconv.Atoi(text); err == nil && at == 0 {
		at = cluster.DefaultMetricsPort(grpc)
	}
	return net.JoinHostPort(host, strconv.Itoa(at)), nil
}
