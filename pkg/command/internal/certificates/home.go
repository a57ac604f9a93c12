package certificates

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/daemons"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machineflags"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
	"github.com/etcdadm/etcdadm/pkg/internal/hostaddr"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// A finder finds the daemons on this machine.
type finder func() ([]daemons.Daemon, error)

// A home is the etcd of this machine as those who call it see it: who issues their
// certificates, and where it answers.
type home struct {
	// dir and authority are where the authority of etcd's clients is, and its name.
	dir, authority string
	// cfg is the configuration of a member by hand.
	cfg machine.Config
	// daemon is set where a daemon runs the member, which answers at own where its
	// command line names no address.
	daemon *daemons.Settings
	own    string
}

// handHome is that of a member by hand.
func handHome(cfg machine.Config) home {
	return home{dir: cfg.Paths.Certificates, authority: certs.MachineCA, cfg: cfg}
}

// byHand reports whether it is the etcd of a member by hand.
func (h home) byHand() bool { return h.authority == certs.MachineCA }

// homeFlags say which etcd is meant.
type homeFlags struct {
	machine *machineflags.Flags
	pkiDir  string
	find    finder
}

func addHome(cmd *cobra.Command, find finder) *homeFlags {
	f := &homeFlags{machine: machineflags.Add(cmd, machineflags.Paths), find: find}
	cmd.Flags().StringVar(&f.pkiDir, "pki-dir", "",
		"`directory` with the authorities of a cluster's daemons (default: those of the daemon on this machine)")
	return f
}

// home returns the etcd that is meant: that of --pki-dir; where a flag or a file names a
// member by hand, that one; else that of the daemon on this machine, which is then printed.
func (f *homeFlags) home(cmd *cobra.Command) (home, error) {
	cfg, err := f.machine.Config()
	if err != nil {
		return home{}, err
	}
	h := handHome(cfg)
	if f.pkiDir != "" {
		h.dir, h.authority = f.pkiDir, certs.ClientsCA
		return f.answering(h), nil
	}
	if _, err := operate.Variables(cfg); f.machine.Named() || !errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	d, s, ok, err := theDaemon(cmd, f.find)
	if err != nil || !ok {
		return h, err
	}
	if s.EtcdInsecure {
		return h, cli.WithHint(fmt.Errorf("the etcd of the daemon on this machine (%s) has no TLS", d.Where()),
			"no certificate is needed: etcdctl --endpoints="+strings.Join(s.Endpoints("HOST"), ","))
	}
	if s.Address == "" {
		if h.own, err = hostaddr.Default(false); err != nil {
			return h, err
		}
	}
	h.dir, h.authority, h.daemon = s.PKIDir, certs.ClientsCA, &s
	reportDaemon(cmd, d)
	return h, nil
}

// answering returns h with the daemon on this machine whose authorities it has, if there is
// one, and no other: its command line says where its etcd answers.
func (f *homeFlags) answering(h home) home {
	found, err := f.find()
	if err != nil {
		return h // it is of use without
	}
	dir, err := os.Stat(h.dir)
	if err != nil {
		return h
	}
	var theirs []daemons.Settings
	for _, d := range found {
		s, err := d.Settings()
		if err != nil || s.EtcdInsecure {
			continue
		}
		if its, err := os.Stat(s.PKIDir); err == nil && os.SameFile(dir, its) {
			theirs = append(theirs, s)
		}
	}
	if len(theirs) != 1 {
		return h
	}
	if theirs[0].Address == "" {
		if h.own, err = hostaddr.Default(false); err != nil {
			return h
		}
	}
	h.daemon = &theirs[0]
	return h
}

// theDaemon is [daemons.One] for commands that have --pki-dir to distinguish two clusters.
func theDaemon(cmd *cobra.Command, find finder) (daemons.Daemon, daemons.Settings, bool, error) {
	return daemons.One(find, func(_ daemons.Daemon, s daemons.Settings) string {
		return daemons.Again(cmd, "--pki-dir="+s.PKIDir)
	})
}

func reportDaemon(cmd *cobra.Command, d daemons.Daemon) {
	fmt.Fprintf(cmd.ErrOrStderr(), "the authorities are those of the daemon on this machine (%s, cluster %s)\n",
		d.Where(), cli.Plain(d.ClusterName()))
}

// known returns the client URLs that nobody has to be asked for.
func (h home) known() ([]string, error) {
	switch {
	case h.daemon != nil:
		return h.daemon.Endpoints(h.own), nil
	case h.byHand():
		return known(h.cfg)
	}
	return nil, errNoEndpoint
}

// tls is how a command reaches etcd itself.
func (h home) tls(now time.Time) (*tls.Config, error) {
	if h.byHand() {
		at := func(name string) string { return filepath.Join(h.dir, name) }
		return certs.ClientTLSFromFiles(
			at(certs.MachineCA+".crt"), at(certs.EtcdctlPair+".crt"), at(certs.EtcdctlPair+".key"))
	}
	r := certs.EtcdClient(certs.EtcdClientName(certs.PersonPrefix + "etcdadm"))
	r.Lifetime = 24 * time.Hour
	i, err := h.issue(r, now)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: i.ca.Pool(), Certificates: []tls.Certificate{i.leaf.TLS()},
	}, nil
}

// An issued is a new certificate with the authority that it is from.
type issued struct {
	leaf certs.Leaf
	ca   *certs.CA
}

func (h home) issue(r certs.Request, now time.Time) (issued, error) {
	ca, err := certs.LoadCA(h.dir, h.authority, now)
	if err != nil {
		next := "run it on a machine of the cluster, or name the directory with " + h.authority + ".crt and " +
			h.authority + ".key: --pki-dir=DIR"
		if h.byHand() {
			next = fmt.Sprintf("run it where %s is, or name the directory of a cluster's daemons: --pki-dir=DIR",
				filepath.Join(h.dir, h.authority+".key"))
		}
		return issued{}, cli.WithHint(err, next)
	}
	leaf, err := ca.Issue(r, now)
	return issued{leaf, ca}, err
}

// write writes the certificate, its key and its authority. It is an error where files of
// that name are of another authority.
func (i issued) write(cert, key, caCert string) error {
	if old, err := os.ReadFile(caCert); err == nil && !bytes.Equal(old, i.ca.PEM()) {
		return &cli.UsageError{
			Text: fmt.Sprintf("%s is the certificate of another authority: files of that name already exist", caCert),
			Next: "write these into another directory, with --out-dir; or move the others away",
		}
	}
	text, err := i.leaf.KeyPEM()
	if err != nil {
		return err
	}
	for _, file := range []struct {
		path string
		text []byte
		mode os.FileMode
	}{{key, text, 0o600}, {cert, i.leaf.CertPEM(), 0o644}, {caCert, i.ca.PEM(), 0o644}} {
		if err := hostfs.WriteFile(file.path, file.text, file.mode); err != nil {
			return err
		}
	}
	return nil
}
