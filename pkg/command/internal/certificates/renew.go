package certificates

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machineflags"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// allPairs is the argument that stands for all pairs.
const allPairs = "all"

func renewCommand(out *cli.Output, find finder) *cobra.Command {
	cmd := &cobra.Command{
		Use: "renew all|NAME...", Short: "issue new certificates for this machine",
		Long: "renew issues new certificates for the existing keys: " + strings.Join(certs.MachinePairs(), ", ") + `.
Subject and names stay as they are; --server-cert-extra-sans, --peer-cert-extra-sans and --bind-address add to
them. A running etcd uses the new certificates from the next connection on, without a restart.

With --within=60d only those are renewed that have expired or expire within 60 days, for a timer.`,
		Example:   "  etcdadm certs renew all\n  etcdadm certs renew all --within=60d\n  etcdadm certs renew server --server-cert-extra-sans=etcd.example.com",
		ValidArgs: append([]string{allPairs}, certs.MachinePairs()...),
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return &cli.UsageError{Text: "say which certificates: all, or " + strings.Join(certs.MachinePairs(), ", "),
					Next: "etcdadm certs renew all"}
			case slices.Contains(args, allPairs) && len(args) == 1:
				return nil
			}
			return pairNames(args)
		},
	}
	flags := machineflags.Add(cmd, machineflags.Certificates)
	var force bool
	var within days
	cmd.Flags().Var(&within, "within", "only those that expire within this `time`, such as 720h or 30d")
	cmd.Flags().BoolVar(&force, "force", false, "replace valid certificates even if no CA in ca.crt has issued them")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := flags.Config()
		if err != nil {
			return err
		}
		if args[0] == allPairs {
			args = nil
		}
		if err := ofDaemon(cfg.Paths.Certificates, flags, find); err != nil {
			return err
		}
		if !cmd.Flags().Changed("within") {
			_, err := renew(cmd, out, cfg, args, force)
			return err
		}
		args, err = ending(cfg.Paths.Certificates, args, time.Duration(within))
		if err != nil {
			return err
		}
		if len(args) == 0 {
			return out.Print(cmd.OutOrStdout(), cli.Versioned("CertificateRenewal", renewal{[]certs.Renewed{}}),
				func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "No certificate expires within %s: nothing is renewed.\n", span(time.Duration(within)))
					return err
				})
		}
		renewed, err := renew(cmd, out, cfg, args, force)
		if err != nil {
			return err
		}
		return endsStill(renewed, time.Duration(within))
	}
	return cmd
}

// renew issues the certificates of args again, all for none, and prints what it has issued.
func renew(cmd *cobra.Command, out *cli.Output, cfg machine.Config, args []string,
	force bool) ([]certs.Renewed, error) {
	if strangers := spec(cfg).ForeignPairs(args, time.Now()); len(strangers) > 0 && !force {
		return nil, cli.WithHint(
			fmt.Errorf("no CA in %s has issued these valid certificates: %s; the other members would not accept new ones from it",
				cfg.Paths.Certificate("ca.crt"), strings.Join(strangers, ", ")),
			"compare ca.crt and ca.key with those of another machine; --force replaces the certificates anyway")
	}
	renewed, err := certs.RenewFiles(spec(cfg), args, time.Now())
	if len(renewed) == 0 && err != nil {
		return nil, hinted(err)
	}
	text := func(w io.Writer) error { return printRenewed(w, renewed) }
	list := renewal{append([]certs.Renewed{}, renewed...)}
	if perr := out.Print(cmd.OutOrStdout(), cli.Versioned("CertificateRenewal", list), text); perr != nil {
		return nil, perr
	}
	afterRenewal(cmd.ErrOrStderr(), renewed, cfg.Paths.Certificates)
	return renewed, hinted(err)
}

// endsStill is an error where a new certificate expires within the time, too: a timer would
// go on without a word until its authority ends.
func endsStill(renewed []certs.Renewed, within time.Duration) error {
	for _, r := range renewed {
		if time.Until(r.NotAfter) < within {
			return cli.WithHint(
				fmt.Errorf("the new certificate of %s expires within %s as well, on %s", r.Name, span(within), stamp(r.NotAfter)),
				"its authority ends then, or --cert-lifetime is shorter than --within")
		}
	}
	return nil
}

// ending returns those of the named pairs, of all for none, that have to be renewed because
// they expire within a time, or cannot be read at all. Those that are missing are left
// missing.
func ending(dir string, names []string, within time.Duration) (list []string, err error) {
	all, err := certs.Expiries(dir, time.Now())
	for _, e := range all {
		asked := !e.IsCA() && (len(names) == 0 || slices.Contains(names, e.Name))
		if asked && !e.Missing && (e.NotAfter.IsZero() || e.Left() < within) {
			list = append(list, e.Name)
		}
	}
	return list, err
}

// A renewal is what renew prints for programs.
type renewal struct {
	Renewed []certs.Renewed `json:"renewed"`
}

// A requests is what generate-csr prints for programs.
type requests struct {
	Requests []certs.CSR `json:"requests"`
}

func printRenewed(w io.Writer, renewed []certs.Renewed) error {
	rows := [][]string{{"CERTIFICATE", "WAS VALID UNTIL", "VALID UNTIL"}}
	for _, r := range renewed {
		before := "-"
		if !r.Before.IsZero() {
			before = stamp(r.Before)
		}
		rows = append(rows, []string{r.Name, before, stamp(r.NotAfter)})
	}
	return cli.Rows(w, rows...)
}

// afterRenewal says what is left to do.
func afterRenewal(w io.Writer, renewed []certs.Renewed, dir string) {
	var said string
	for _, r := range renewed {
		if r.Warning != "" && r.Warning != said {
			fmt.Fprintf(w, "warning: %s\n", cli.Plain(r.Warning))
			said = r.Warning
		}
	}
	if slices.ContainsFunc(renewed, func(r certs.Renewed) bool { return r.Name == certs.APIServerPair }) {
		fmt.Fprintf(w, "The API servers have their own copy of %s: etcdadm kubeadm bundle%s packs it for them.\n",
			certs.APIServerPair, dirFlag(dir))
	}
}

// hinted adds a hint to errors about what neither flags nor certificates say,
// and about somebody else who changes the files.
func hinted(err error) error {
	var locked *hostfs.LockedError
	switch {
	case errors.As(err, &locked):
		return cli.WithHint(err,
			fmt.Sprintf("another etcdadm is running; when process %d is done, run the command again", locked.Holder))
	case errors.Is(err, certs.ErrNoAddress):
		return cli.WithHint(err, "name the machine's address: --bind-address=IP")
	case errors.Is(err, certs.ErrNoName):
		return cli.WithHint(err, "name the member: --name=NAME")
	}
	return err
}

func csrCommand(out *cli.Output) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "generate-csr [NAME...]", Short: "write requests for an external certificate authority",
		Long: `generate-csr writes a certificate signing request (NAME.csr) for each pair, or for the named ones. Missing keys
are made in --certs-dir, and never leave it. Subject and names are those of the present certificate, or of the
flags.

The authority signs the requests. Its certificates go into --certs-dir as NAME.crt, and its own certificate as
ca.crt. Its key does not have to be on this machine.`,
		Example:   "  etcdadm certs generate-csr --name=a --bind-address=10.0.0.1 --csr-dir=/root/requests",
		ValidArgs: certs.MachinePairs(),
		Args:      func(_ *cobra.Command, args []string) error { return pairNames(args) },
	}
	flags := machineflags.Add(cmd, machineflags.Certificates)
	cmd.Flags().StringVar(&dir, "csr-dir", "", "`directory` for the requests (default: --certs-dir)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := flags.Config()
		if err != nil {
			return err
		}
		s := spec(cfg)
		for _, w := range s.FromFiles().Warnings() {
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", cli.Plain(w))
		}
		csrs, err := certs.GenerateCSRs(s, dir, args...)
		if err != nil {
			return hinted(err)
		}
		list := cli.Versioned("CertificateRequests", requests{append([]certs.CSR{}, csrs...)})
		if err := out.Print(cmd.OutOrStdout(), list, func(w io.Writer) error { return printCSRs(w, csrs) }); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(),
			"Have the requests signed, and put each certificate where the last column says. Then: etcdadm certs "+
				"check-expiration%s\n", dirFlag(s.Dir))
		return nil
	}
	return cmd
}

func printCSRs(w io.Writer, csrs []certs.CSR) error {
	rows := [][]string{{"REQUEST", "SUBJECT", "NAMES", "USAGE", "CERTIFICATE GOES TO"}}
	for _, c := range csrs {
		subject := "CN=" + c.CommonName
		for _, o := range c.Organization {
			subject += ",O=" + o
		}
		rows = append(rows, []string{
			c.File, subject, orDash(strings.Join(c.SANs, ",")), strings.Join(c.Usages, ","), c.CertFile,
		})
	}
	return cli.Rows(w, rows...)
}
