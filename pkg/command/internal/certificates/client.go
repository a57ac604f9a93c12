package certificates

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// A client is what certs client has issued.
type client struct {
	Name     string    `json:"name"`
	NotAfter time.Time `json:"notAfter"`
	Cert     string    `json:"cert"`
	Key      string    `json:"key"`
	CACert   string    `json:"cacert"`
	// Env is a file for a shell, with the variables of etcdctl.
	Env string `json:"env"`
	// Endpoints are the client URLs in it.
	Endpoints []string `json:"endpoints"`
}

type clientFlags struct {
	*homeFlags
	outDir    string
	lifetime  days
	endpoints []string
	timeout   time.Duration
}

func clientCommand(out *cli.Output, find finder) *cobra.Command {
	f := clientFlags{lifetime: days(personLifetime)}
	cmd := &cobra.Command{
		Use: "client NAME", Short: "issue a client certificate for etcd",
		Long: `client issues a certificate with which NAME, a person or a program, may call etcd, and writes it and its key to
--out-dir, with a file for a shell that has the variables of etcdctl. NAME is the common name: etcd's user, where
etcd asks for users.

The authority is that of the daemon on this machine, of --pki-dir, or of the member by hand. Who calls etcd may
read and change all keys, unless etcd asks for users. etcdctl on this machine itself needs no certificate of its
own: "etcdadm etcdctl" runs it.`,
		Example: "  etcdadm certs client alice --out-dir=alice\n  . alice/alice-etcdctl.env && etcdctl member list",
		Args:    cobra.ExactArgs(1),
	}
	f.homeFlags = addHome(cmd, find)
	fs := cmd.Flags()
	fs.StringVar(&f.outDir, "out-dir", ".", "`directory` to write the files to")
	fs.Var(&f.lifetime, "lifetime", "`time` for which the certificate is valid, such as 720h or 30d")
	fs.StringSliceVar(&f.endpoints, "endpoints", nil, "client `URLs` of etcd (default: those of all members)")
	fs.DurationVar(&f.timeout, "timeout", 5*time.Second, "how long to wait for the member list")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := f.issue(cmd, args[0], time.Now())
		if err != nil {
			return err
		}
		return out.Print(cmd.OutOrStdout(), cli.Versioned("ClientCertificate", c), func(w io.Writer) error {
			return printClient(w, c)
		})
	}
	return cmd
}

func (f clientFlags) issue(cmd *cobra.Command, name string, now time.Time) (client, error) {
	if err := cluster.NodeName(name).Validate(); err != nil {
		return client{}, cli.Usagef("the name of a client is that of its files: %v",
			strings.TrimPrefix(err.Error(), "node "))
	}
	if f.lifetime <= 0 {
		return client{}, cli.Usagef("--lifetime is %s, it must be positive", f.lifetime.String())
	}
	h, err := f.home(cmd)
	if err != nil {
		return client{}, err
	}
	r := certs.EtcdClient(name)
	r.Lifetime = time.Duration(f.lifetime)
	i, err := h.issue(r, now)
	if err != nil {
		return client{}, err
	}
	c := client{Name: name, NotAfter: i.leaf.Cert.NotAfter, Endpoints: f.endpoints}
	if len(c.Endpoints) == 0 {
		if c.Endpoints, err = h.found(cmd, f.timeout); err != nil && !errors.Is(err, errNoEndpoint) {
			return client{}, err
		}
	}
	dir, err := filepath.Abs(f.outDir)
	if err != nil {
		return client{}, fmt.Errorf("--out-dir: %w", err)
	}
	base := filepath.Join(dir, name)
	c.Cert, c.Key, c.CACert, c.Env = base+".crt", base+".key", base+"-ca.crt", base+"-etcdctl.env"
	// Those of 3.6 are understood by every etcdctl since 3.4.
	env, err := initfiles.ControlEnv(initfiles.ControlOptions{
		Version: etcdversion.Must("3.6.0"), CA: c.CACert, Cert: c.Cert, Key: c.Key, Endpoints: c.Endpoints,
	})
	if err != nil {
		return client{}, cli.Usagef("--out-dir: %v", err)
	}
	if err := makeOutDir(dir, h.dir); err != nil {
		return client{}, err
	}
	if err := i.write(c.Cert, c.Key, c.CACert); err != nil {
		return client{}, err
	}
	return c, hostfs.WriteFile(c.Env, []byte(env), os.FileMode(initfiles.ControlEnvMode))
}

// makeOutDir makes the directory of --out-dir. Among the authorities a file of that name
// could be one of theirs.
func makeOutDir(dir, authorities string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("--out-dir: %w", err)
	}
	out, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("--out-dir: %w", err)
	}
	if info, err := os.Stat(authorities); err == nil && os.SameFile(out, info) {
		return &cli.UsageError{Text: fmt.Sprintf("--out-dir is %s, the directory of the authorities", dir),
			Next: "write the files elsewhere: --out-dir=DIR"}
	}
	return nil
}

// etcdctl returns what runs etcdctl on this machine: its name where it is in the PATH, or else
// the file of the member by hand, or of the newest version of etcd that is there.
func etcdctl(look func(string) (string, error), f etcdbin.Finder) string {
	const name = "etcdctl"
	if _, err := look(name); err == nil {
		return name
	}
	if path, err := look(machine.Defaults().Paths.Binary(name)); err == nil {
		return path
	}
	for _, v := range slices.Backward(f.Versions()) {
		if b, err := f.Find(v); err == nil && b.Etcdctl != "" {
			return b.Etcdctl
		}
	}
	return name
}

func printClient(w io.Writer, c client) error {
	f := etcdbin.Finder{Dirs: filepath.SplitList(os.Getenv(etcdbin.DirVariable))}
	text := fmt.Sprintf("issued to %s, valid until %s; the variables of etcdctl are in %s\n. %s && %s member list\n",
		c.Name, stamp(c.NotAfter), c.Env, c.Env, etcdctl(exec.LookPath, f))
	if len(c.Endpoints) == 0 {
		text += "It is not known where etcd answers: give etcdctl --endpoints=https://HOST:2379.\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
