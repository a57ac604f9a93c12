package daemon

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/internal/shell"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// keys are the node's certificates. Parts of it are nil where TLS is off.
type keys struct {
	c    Config
	name cluster.NodeName
	now  func() time.Time

	renewer        certs.Renewer
	server, client *certs.Identity // between daemons
	etcd           *certs.Identity // of this daemon, as a client of etcd
	// keyless says why there are no keys of etcd, nil where there are: without TLS it needs none.
	keyless error
	wake    chan struct{}
}

func newKeys(c Config, name cluster.NodeName, now func() time.Time) (*keys, error) {
	k := &keys{c: c, name: name, now: now, wake: make(chan struct{}, 1)}
	if !c.Insecure {
		var err error
		if k.server, err = k.manager("server", certs.ManagerServer(name)); err != nil {
			return nil, err
		}
		if k.client, err = k.manager("client", certs.ManagerClient(name)); err != nil {
			return nil, err
		}
	}
	err := k.openEtcd()
	if c.EtcdInsecure {
		k.keyless, err = err, nil
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

// A noCAError says that a file of the CAs is not on the machine.
type noCAError struct {
	error
	dir string
}

func (e *noCAError) Unwrap() error { return e.error }

// Hint says what to do about it. New CAs beside those of a cluster that runs would trust nobody.
func (e *noCAError) Hint() string {
	pki := "etcdadm auto pki"
	if e.dir != cluster.AutoPKI {
		pki += " --pki-dir=" + shell.Quote(e.dir)
	}
	return "on the first machine of a cluster make the CAs, once: " + pki +
		"\non each further machine copy " + e.dir + " from the first one"
}

// authorities are the key identifiers of the authorities of the daemons' certificates, none
// where the files cannot be read now. A CA that was renewed with its key may have another
// identifier than the certificates that it has issued before have for it, which stay.
func (k *keys) authorities() []string {
	ca, err := certs.LoadCA(k.c.PKIDir, certs.ManagerCA, k.now())
	if err != nil {
		return nil
	}
	ids := ca.KeyIDs()
	if own := hex.EncodeToString(k.server.Leaf().Cert.AuthorityKeyId); own != "" && !slices.Contains(ids, own) {
		ids = append(ids, own)
	}
	return ids
}

// openEtcd issues the certificate with which this daemon calls etcd. Without TLS of its own,
// it and its member call those that have TLS already, while that is being switched on.
func (k *keys) openEtcd() (err error) {
	if k.c.PKIDir == "" {
		return errors.New("there is no --pki-dir")
	}
	// Both are needed when etcd starts; that one is missing is said now.
	for _, ca := range []string{certs.PeersCA, certs.ClientsCA} {
		if _, err := certs.LoadCA(k.c.PKIDir, ca, k.now()); err != nil {
			return err
		}
	}
	k.etcd, err = k.add("etcd-client", certs.ClientsCA, certs.Pair{
		Request: certs.EtcdClient(certs.EtcdClientName(k.name)),
	})
	return err
}

func (k *keys) manager(role string, r certs.Request) (*certs.Identity, error) {
	base := filepath.Join(k.c.PKIDir, "etcd-manager-"+role+"-"+string(k.name))
	return k.add("etcd-manager-"+role, certs.ManagerCA, certs.Pair{
		CertFile: base + ".crt", KeyFile: base + ".key", Request: r, KeyOfCA: true,
	})
}

func (k *keys) add(name, ca string, p certs.Pair) (*certs.Identity, error) {
	p.Request.Lifetime = k.c.CertLifetime
	id, err := k.renewer.Add(certs.Source{Name: name, Dir: k.c.PKIDir, CA: ca, Pair: p}, k.now())
	select {
	case k.wake <- struct{}{}:
	default:
	}
	return id, err
}

// Ensure issues the certificates of a member, in the places and with the
// contents of the existing etcd-manager.
func (k *keys) Ensure(token cluster.Token, urls cluster.URLs) (*etcdconf.TLS, error) {
	dir := nodestate.PKIDir(k.c.DataDir, token)
	files := func(sub, name string) etcdconf.Files {
		return etcdconf.Files{
			CA:   filepath.Join(dir, sub, "ca.crt"),
			Cert: filepath.Join(dir, sub, name+".crt"),
			Key:  filepath.Join(dir, sub, name+".key"),
		}
	}
	t := &etcdconf.TLS{Peer: files("peers", "me"), Client: files("clients", "server")}
	peer, err := certs.EtcdPeer(k.name, urls, net.ParseIP(k.c.Address))
	if err != nil {
		return nil, err
	}
	server, err := certs.EtcdServer(k.name, urls)
	if err != nil {
		return nil, err
	}
	// This node reaches its own etcd at the address that etcd listens on, and others
	// reach it at the node's.
	for _, address := range []string{k.c.EtcdAddress, k.c.Address} {
		if ip := net.ParseIP(address); ip != nil && !ip.IsUnspecified() && !slices.ContainsFunc(server.IPs, ip.Equal) {
			server.IPs = append(server.IPs, ip)
		}
	}
	for _, s := range []struct {
		name, ca string
		files    etcdconf.Files
		request  certs.Request
	}{
		{"etcd-peer", certs.PeersCA, t.Peer, peer},
		{"etcd-server", certs.ClientsCA, t.Client, server},
	} {
		if _, err := k.add(s.name, s.ca, certs.Pair{
			CertFile: s.files.Cert, KeyFile: s.files.Key, CAFile: s.files.CA, Request: s.request, KeepNames: true,
			KeyOfCA: true,
		}); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Client returns the configuration with which this daemon calls etcd.
func (k *keys) Client() *tls.Config {
	if k.etcd == nil {
		return nil
	}
	return k.etcd.ClientTLS("")
}

// maxRenewPause is how long a change of the CA files goes unnoticed at most.
const maxRenewPause = time.Minute

// run renews certificates before they end, until ctx does.
func (k *keys) run(ctx context.Context, log *slog.Logger) {
	failing := ""
	for {
		renewed, next, err := k.renewer.Renew(k.now())
		for _, name := range renewed {
			log.Info("certificate renewed", "certificate", name)
		}
		if err != nil && err.Error() != failing {
			log.Error("certificates cannot be renewed; the present ones stay in use", "error", err)
		}
		failing = ""
		if err != nil {
			failing = err.Error()
		}
		pause := maxRenewPause
		if !next.IsZero() {
			pause = max(min(pause, next.Sub(k.now())), 100*time.Millisecond)
		}
		if wait.Until(ctx, pause, k.wake) != nil {
			return
		}
	}
}
