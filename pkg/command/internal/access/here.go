package access

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/contexts"
	"github.com/etcdadm/etcdadm/pkg/command/internal/daemons"
	"github.com/etcdadm/etcdadm/pkg/internal/hostaddr"
	"github.com/etcdadm/etcdadm/pkg/internal/shell"
)

// personLifetime is how long the certificate lives that a command issues for itself.
const personLifetime = 24 * time.Hour

// A local is the daemon on this machine, by which its etcd is reached.
type local struct {
	daemons.Settings
	own  string
	ca   *certs.CA
	leaf certs.Leaf
}

// here returns the daemon on this machine where nothing else says which etcd is meant:
// no flag, and no etcd.env of a member by hand; nil for none.
func (a *Access) here() (*local, error) {
	if a.local != nil || a.find == nil {
		return a.local, nil
	}
	fs := a.cmd.PersistentFlags()
	for _, flag := range []string{"endpoints", "certs-dir", "cacert", "cert", "key", "insecure", "environment-dir"} {
		if fs.Changed(flag) {
			return nil, nil
		}
	}
	if name := os.Getenv(contexts.Variable); name != "" {
		return nil, &cli.UsageError{
			Text: fmt.Sprintf("%s is %s, and this command, which asks etcd itself, takes no context", contexts.Variable, name),
			Next: "name the etcd of that cluster with --endpoints; for that of this machine unset " + contexts.Variable,
		}
	}
	if !missing(filepath.Join(a.Environment, envFile)) {
		return nil, nil
	}
	d, s, ok, err := daemons.One(a.find, func(_ daemons.Daemon, s daemons.Settings) string {
		endpoints := "--endpoints=" + strings.Join(s.Endpoints("ADDRESS"), ",")
		if s.EtcdInsecure {
			return endpoints
		}
		return endpoints + ", with what this makes: etcdadm certs client NAME --pki-dir=" + shell.Quote(s.PKIDir)
	})
	if err != nil || !ok {
		return nil, err
	}
	l := &local{Settings: s}
	if s.Address == "" {
		if l.own, err = hostaddr.Default(false); err != nil {
			return nil, err
		}
	}
	a.local = l
	fmt.Fprintf(a.cmd.ErrOrStderr(), "the etcd of the daemon on this machine is asked (%s, cluster %s)\n", d.Where(),
		cli.Plain(d.ClusterName()))
	return l, nil
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// issue issues a certificate for this command from the daemon's authorities, once.
func (l *local) issue() error {
	if l.ca != nil {
		return nil
	}
	ca, err := certs.LoadCA(l.PKIDir, certs.ClientsCA, time.Now())
	if err != nil {
		return fmt.Errorf("certificate %s: %w", certs.ClientsCA, err)
	}
	r := certs.EtcdClient(certs.EtcdClientName(certs.PersonPrefix + "etcdadm"))
	r.Lifetime = personLifetime
	if l.leaf, err = ca.Issue(r, time.Now()); err != nil {
		return err
	}
	l.ca = ca
	return nil
}

func (l *local) tls() (*tls.Config, error) {
	if err := l.issue(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: l.ca.Pool(), Certificates: []tls.Certificate{l.leaf.TLS()},
	}, nil
}
