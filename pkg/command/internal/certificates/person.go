package certificates

import (
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// personLifetime is how long a user's certificate lives where nothing is
// said: there is no revocation, so the time bounds what a lost one can do.
const personLifetime = 90 * 24 * time.Hour

// A person is what certs user has issued.
type person struct {
	Name     string     `json:"name"`
	Role     certs.Role `json:"role"`
	NotAfter time.Time  `json:"notAfter"`
	// Cert, Key and CACert are for the daemons, the Etcd files for etcd; those are
	// empty for a user who may only read.
	Cert       string `json:"cert"`
	Key        string `json:"key"`
	CACert     string `json:"cacert"`
	EtcdCert   string `json:"etcdCert,omitempty"`
	EtcdKey    string `json:"etcdKey,omitempty"`
	EtcdCACert string `json:"etcdCacert,omitempty"`
}

type personFlags struct {
	role, pkiDir, outDir string
	lifetime             days
	etcdInsecure         bool
}

func personCommand(out *cli.Output, find finder) *cobra.Command {
	f := personFlags{lifetime: days(personLifetime)}
	cmd := &cobra.Command{
		Use: "user NAME", Aliases: []string{"person"}, Short: "issue a user's client certificate for the daemons",
		Long: `user issues a client certificate for etcd-manager's daemons to NAME, from the authorities in --pki-dir, and
writes it and its key to --out-dir. There are two kinds. An operator may take the coordinator's lease and give
orders, and gets a certificate for etcd, too. With a read-only certificate the daemons answer observe, plan and
status, and refuse everything else. NAME appears in the daemons' logs and in the history of operations.

On a machine where a daemon runs the authorities are those of that daemon.`,
		Args: cobra.ExactArgs(1),
	}
	fs := cmd.Flags()
	fs.StringVar(&f.role, "role", string(certs.ReadOnly), "`kind` of the certificate: operator or read-only")
	fs.StringVar(&f.pkiDir, "pki-dir", "", "`directory` with the daemons' certificate authorities and their keys "+
		"(default: that of the daemon on this machine, or "+cluster.ManagerPKI+")")
	fs.StringVar(&f.outDir, "out-dir", ".", "`directory` to write the files to")
	fs.Var(&f.lifetime, "lifetime", "`time` for which the certificate is valid, such as 720h or 30d")
	fs.BoolVar(&f.etcdInsecure, "etcd-insecure", false, "etcd runs without TLS: issue no certificate for it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.here(cmd, find); err != nil {
			return err
		}
		p, err := f.issue(args[0], time.Now())
		if err != nil {
			return err
		}
		return out.Print(cmd.OutOrStdout(), cli.Versioned("PersonCertificate", p), func(w io.Writer) error {
			return printPerson(w, p)
		})
	}
	return cmd
}

func (f personFlags) issue(name string, now time.Time) (person, error) {
	p := person{Name: name, Role: certs.Role(f.role)}
	request, err := certs.Person(name, p.Role)
	if err != nil {
		return p, cli.Usagef("%v", err)
	}
	if f.lifetime <= 0 {
		return p, cli.Usagef("--lifetime is %s, it must be positive", f.lifetime.String())
	}
	request.Lifetime = time.Duration(f.lifetime)
	if err := makeOutDir(f.outDir, f.pkiDir); err != nil {
		return p, err
	}
	base := filepath.Join(f.outDir, name)
	p.Cert, p.Key, p.CACert = base+".crt", base+".key", base+"-ca.crt"
	if p.NotAfter, err = f.write(certs.ManagerCA, request, p.Cert, p.Key, p.CACert, now); err != nil {
		return p, err
	}
	if p.Role != certs.Operator || f.etcdInsecure {
		return p, nil
	}
	p.EtcdCert, p.EtcdKey, p.EtcdCACert = base+"-etcd.crt", base+"-etcd.key", base+"-etcd-ca.crt"
	etcd := certs.EtcdClient(certs.PersonPrefix + name)
	etcd.Lifetime = request.Lifetime
	_, err = f.write(certs.ClientsCA, etcd, p.EtcdCert, p.EtcdKey, p.EtcdCACert, now)
	return p, err
}

// here takes the authorities of the daemon on this machine, if no flag names some.
func (f *personFlags) here(cmd *cobra.Command, find finder) error {
	if f.pkiDir != "" {
		return nil
	}
	f.pkiDir = cluster.ManagerPKI
	d, s, ok, err := theDaemon(cmd, find)
	if err != nil || !ok || s.Insecure {
		return err
	}
	f.pkiDir, f.etcdInsecure = s.PKIDir, f.etcdInsecure || s.EtcdInsecure
	reportDaemon(cmd, d)
	return nil
}

// write issues one certificate and writes it, its key and its authority.
func (f personFlags) write(authority string, r certs.Request, cert, key, caCert string, now time.Time) (
	time.Time, error) {
	i, err := home{dir: f.pkiDir, authority: authority}.issue(r, now)
	if err != nil {
		return time.Time{}, err
	}
	return i.leaf.Cert.NotAfter, i.write(cert, key, caCert)
}

func printPerson(w io.Writer, p person) error {
	flags := fmt.Sprintf("--cert=%s --key=%s --cacert=%s", p.Cert, p.Key, p.CACert)
	if p.EtcdCert != "" {
		flags += fmt.Sprintf(" --etcd-cert=%s --etcd-key=%s --etcd-cacert=%s", p.EtcdCert, p.EtcdKey, p.EtcdCACert)
	}
	_, err := fmt.Fprintf(w, "issued to %s, %s, valid until %s; the flags of etcdadm are\n%s\n", p.Name, p.Role,
		stamp(p.NotAfter), flags)
	return err
}
