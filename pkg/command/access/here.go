package access

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/daemons"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
)

// personLifetime is how long the certificate lives that a command issues for itself.
const personLifetime = 24 * time.Hour

// A local is the daemon on this machine, by which its etcd is reached.
type local struct {
	daemons.Settings
	own    string
	config *tls.Config
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
	if !missing(filepath.Join(a.Environment, envFile)) {
		return nil, nil
	}
	d, s, ok, err := daemons.One(a.find)
	if err != nil || !ok {
		return nil, err
	}
	l := &local{Settings: s}
	if s.Address == "" {
		if l.own, err = operate.DefaultAddress(false); err != nil {
			return nil, err
		}
	}
	a.local = l
	fmt.Fprintf(a.cmd.ErrOrStderr(), "the etcd of the daemon on this machine is asked (process %d, cluster %s)\n", d.PID,
		cli.Plain(d.ClusterName()))
	return l, nil
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// tls issues a certificate for this command from the daemon's authorities.
func (l *local) tls() (*tls.Config, error) {
	if l.config != nil {
		return l.config, nil
	}
	var renewer certs.Renewer
	r := certs.EtcdClient(certs.EtcdClientName(certs.PersonPrefix + "etcdadm"))
	r.Lifetime = personLifetime
	id, err := renewer.Add(certs.Source{
		Name: certs.ClientsCA, Dir: l.PKIDir, CA: certs.ClientsCA, Pair: certs.Pair{Request: r},
	}, time.Now())
	if err != nil {
		return nil, err
	}
	l.config = id.ClientTLS("")
	return l.config, nil
}
