// Package certificates has the commands of etcdadm about the certificates of a
// machine, and those that give kubeadm what it needs of them.
package certificates

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/command/internal/daemons"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machineflags"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// New returns the command certs with those below it.
func New() *cobra.Command { return newCerts(daemons.Find) }

func newCerts(find finder) *cobra.Command {
	cmd := cli.Group("certs", "check, renew and replace the certificates of this machine")
	cmd.Long = `The commands work on the files in --certs-dir only and make no network connection, except for rotate-ca, which
asks the other members whether they are ready. Names and addresses that no flag gives are taken from the
existing certificates. client and user issue certificates for etcd and for the daemons, on a machine
of the cluster.`
	out := cli.AddOutput(cmd, cli.Table, cli.JSON, cli.YAML)
	cmd.AddCommand(checkCommand(out, find), renewCommand(out, find), csrCommand(out), rotateCommand(out),
		clientCommand(out, find), personCommand(out, find))
	return cmd
}

// spec returns what the flags and the configuration file say of certificates.
// Name and address stay empty where they do not.
func spec(cfg machine.Config) certs.MachineSpec {
	c := cfg.Certificates
	s := certs.MachineSpec{
		Dir: cfg.Paths.Certificates, Name: cfg.Name, Address: cfg.Listen.Address, ServerSANs: c.ServerSANs,
		PeerSANs: c.PeerSANs,
		RSA:      c.KeyAlgorithm == machine.RSA, Lifetime: time.Duration(c.Lifetime), CALifetime: time.Duration(c.CALifetime),
	}
	if ip, err := netip.ParseAddr(s.Address); err == nil && ip.IsUnspecified() {
		s.Address = "" // it stands for the address of the default route
	}
	return s
}

// dirFlag is --certs-dir as it has to be given again, with a blank in front.
func dirFlag(dir string) string {
	if dir == machine.Defaults().Paths.Certificates {
		return ""
	}
	return " --certs-dir=" + dir
}

func checkCommand(out *cli.Output, find finder) *cobra.Command {
	var within days
	cmd := &cobra.Command{
		Use: "check-expiration", Short: "print when the certificates of this machine expire",
		Long: `check-expiration prints the certificates in --certs-dir and when they expire. It exits with 1 if one has
expired, expires within the time of --within, or cannot be used. Missing certificates are listed only.
With --within=30d it serves as a check for a timer or a monitoring system.`,
		Args: cobra.NoArgs,
	}
	flags := machineflags.Add(cmd, machineflags.Certificates)
	cmd.Flags().Var(&within, "within", "fail if a certificate expires within this `time`, such as 720h or 30d")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.Config()
		if err != nil {
			return err
		}
		if err := ofDaemon(cfg.Paths.Certificates, flags, find); err != nil {
			return err
		}
		all, err := certs.Expiries(cfg.Paths.Certificates, time.Now())
		if err != nil {
			return err
		}
		if err := out.Print(cmd.OutOrStdout(), cli.Versioned("CertificateExpiration", listing(all)), func(w io.Writer) error {
			return printExpiries(w, all)
		}); err != nil {
			return err
		}
		return tooLate(all, time.Duration(within), cfg.Paths.Certificates)
	}
	return cmd
}

// ofDaemon is why there are no certificates of a member by hand in dir where a daemon has the
// member of this machine. It is nil where there are any, where no daemon has it, and where a flag
// names another place for them.
func ofDaemon(dir string, flags *machineflags.Flags, find finder) error {
	_, err := certs.Expiries(dir, time.Now())
	if err == nil || flags.Named() {
		return nil
	}
	found, findErr := find()
	if findErr != nil || len(found) == 0 {
		return nil
	}
	d := found[0]
	return cli.WithHint(
		fmt.Errorf("%w: the member of this machine is a daemon's (%s, cluster %s), which renews its certificates itself", err,
			d.Where(), cli.Plain(d.ClusterName())),
		"certificates of members by hand are in --certs-dir; for one of this cluster: etcdadm certs client NAME")
}

// An expirations is what check-expiration prints for programs, in the two lists
// that kubeadm has too.
type expirations struct {
	Certificates []certs.Expiry `json:"certificates"`
	Authorities  []certs.Expiry `json:"certificateAuthorities"`
}

func listing(all []certs.Expiry) expirations {
	list := expirations{[]certs.Expiry{}, []certs.Expiry{}}
	for _, e := range all {
		if e.IsCA() {
			list.Authorities = append(list.Authorities, e)
		} else {
			list.Certificates = append(list.Certificates, e)
		}
	}
	return list
}

func printExpiries(w io.Writer, all []certs.Expiry) error {
	list := listing(all)
	rows := [][]string{{"CERTIFICATE", "EXPIRES", "RESIDUAL TIME", "CERTIFICATE AUTHORITY", "EXTERNALLY MANAGED"}}
	for _, e := range list.Certificates {
		rows = append(rows, []string{e.Name, expires(e), residual(e), orDash(e.CA), yesNo(e.External)})
	}
	rows = append(rows, nil, []string{
		"CERTIFICATE AUTHORITY", "EXPIRES", "RESIDUAL TIME", "FINGERPRINT", "EXTERNALLY MANAGED",
	})
	for _, e := range list.Authorities {
		rows = append(rows, []string{e.Name, expires(e), residual(e), orDash(e.Fingerprint), yesNo(e.External)})
	}
	return cli.Rows(w, rows...)
}

func expires(e certs.Expiry) string {
	switch {
	case e.Missing:
		return "missing"
	case e.NotAfter.IsZero():
		return "unreadable"
	}
	return stamp(e.NotAfter)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func residual(e certs.Expiry) string {
	if e.NotAfter.IsZero() {
		return "-"
	}
	left := e.Left()
	if left < 0 {
		return "expired " + span(-left) + " ago"
	}
	return span(left)
}

// span writes a time in its largest sensible unit, rounded down.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*365*day:
		return fmt.Sprintf("%dy", d/(365*day))
	case d >= 2*day:
		return fmt.Sprintf("%dd", d/day)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dm", d/time.Minute)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// tooLate is the error of check-expiration.
func tooLate(all []certs.Expiry, within time.Duration, dir string) error {
	var errs []error
	hint := ""
	for _, e := range all {
		switch {
		case e.Missing:
			continue
		case e.Problem != "" && e.NotAfter.IsZero():
			errs = append(errs, fmt.Errorf("%s cannot be read: %s", e.Name, e.Problem))
		case e.Left() < 0:
			errs = append(errs, fmt.Errorf("%s expired on %s", e.Name, stamp(e.NotAfter)))
		case e.Problem != "":
			errs = append(errs, fmt.Errorf("%s cannot be used: %s", e.Name, e.Problem))
		case e.Left() < within:
			errs = append(errs, fmt.Errorf("%s expires on %s, in %s", e.Name, stamp(e.NotAfter), span(e.Left())))
		default:
			continue
		}
		if hint == "" {
			hint = nextStep(e, dir)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return cli.WithHint(errors.Join(errs...), hint)
}

// nextStep is what to do about a certificate.
func nextStep(e certs.Expiry, dir string) string {
	switch {
	case e.IsCA() && e.Problem != "":
		return "compare ca.crt and ca.key with those of another machine of the cluster"
	case e.IsCA() && e.Left() < 0:
		return "nothing that it issued is accepted any more: make a new authority on one machine, with etcdadm " +
			"init phase certificates, and copy it to the others"
	case e.IsCA():
		return "etcdadm certs rotate-ca prepare" + dirFlag(dir) + " begins to replace the certificate authority"
	case e.External:
		return "etcdadm certs generate-csr" + dirFlag(dir) + " writes requests for the external certificate authority"
	}
	return "etcdadm certs renew all" + dirFlag(dir)
}

// days is the value of a flag: a time as Go writes it, or in days.
type days time.Duration

// String, Set and Type make it a flag.
func (d *days) String() string { return time.Duration(*d).String() }

// Set takes 720h, 30d or 1y.
func (d *days) Set(text string) error {
	v, err := retention.ParseDuration(text)
	*d = days(v)
	return err
}

// Type names the value in help texts.
func (d *days) Type() string { return "duration" }

// pairNames completes and checks arguments that are names of pairs.
func pairNames(names []string) error {
	for _, n := range names {
		if !slices.Contains(certs.MachinePairs(), n) {
			return &cli.UsageError{Text: fmt.Sprintf("there is no certificate %q", n),
				Next: "the certificates are " + strings.Join(certs.MachinePairs(), ", ")}
		}
	}
	return nil
}
