package auto

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
)

// caLifetime is how long the CAs are valid.
const caLifetime = 10 * 365 * 24 * time.Hour

// newPKI returns "auto pki".
func newPKI() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pki",
		Short: "make the three CAs of the daemons and etcd",
		Long: `pki makes the three CAs that auto needs. Run it once, on one machine, and copy the directory to the others:
each daemon issues its own certificates from it. Existing CAs are kept.`,
		Example: "  etcdadm auto pki && scp -rp /etc/etcd-manager/pki other:/etc/etcd-manager/",
		Args:    cobra.NoArgs,
	}
	out := cli.AddOutput(cmd, cli.Table, cli.JSON, cli.YAML)
	dir := cmd.Flags().String("pki-dir", defaults["pki-dir"], "`directory` of the CAs")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := makeCAs(*dir, time.Now())
		if err != nil {
			return err
		}
		table := [][]string{{"CA", "FILE", "MADE"}}
		for _, a := range list {
			table = append(table, []string{a.Name, a.File, fmt.Sprint(a.Made)})
		}
		made := cli.Versioned("DaemonAuthorities", authorities{list})
		if err := out.Print(cmd.OutOrStdout(), made, func(w io.Writer) error { return cli.Rows(w, table...) }); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "copy %s to the other machines\n", cli.Plain(*dir))
		return nil
	}
	return cmd
}

// authorities are what pki prints.
type authorities struct {
	Authorities []authority `json:"authorities"`
}

// An authority is a CA in the PKI directory.
type authority struct {
	Name string `json:"name"`
	File string `json:"file"`
	// Made is false for one that was there.
	Made bool `json:"made"`
}

// makeCAs makes those CAs in dir that are missing. It checks all before it
// makes one.
func makeCAs(dir string, now time.Time) ([]authority, error) {
	var list []authority
	for _, name := range []string{certs.ManagerCA, certs.PeersCA, certs.ClientsCA} {
		a := authority{Name: name, File: filepath.Join(dir, name+".crt")}
		_, noCert := os.Stat(a.File)
		_, noKey := os.Stat(filepath.Join(dir, name+".key"))
		a.Made = os.IsNotExist(noCert) && os.IsNotExist(noKey)
		if !a.Made {
			if _, err := certs.LoadCA(dir, name, now); err != nil {
				return nil, cli.WithHint(err, "fix it, or use another --pki-dir: an existing CA is never replaced")
			}
		}
		list = append(list, a)
	}
	for _, a := range list {
		if !a.Made {
			continue
		}
		// RSA, so that the existing etcd-manager can read it too.
		ca, err := certs.NewCA(certs.CASpec{CommonName: a.Name, Lifetime: caLifetime, RSA: true}, now)
		if err == nil {
			err = ca.Write(dir, a.Name)
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}
