package fleet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// ConnectOptions say how a person reaches a cluster.
type ConnectOptions struct {
	// Cluster is the name of the cluster.
	Cluster string
	// BackupStore is the control store, empty for none.
	BackupStore string
	// OpenStore opens it, by default store.Open.
	OpenStore func(ctx context.Context, location string) (*store.Store, error)
	// Nodes are daemons to ask, host:port or name=host:port, besides those that
	// have a record in the store.
	Nodes []string
	// PKIDir has the CAs, from which a certificate is issued for the one command.
	// Without it, Cert, Key and CACert are the files of one.
	PKIDir            string
	Cert, Key, CACert string
	// EtcdCert, EtcdKey and EtcdCACert are the files of a certificate to call etcd
	// with, where Cert is one for the daemons. Empty means that only daemons are
	// asked.
	EtcdCert, EtcdKey, EtcdCACert string
	// Insecure and EtcdInsecure turn TLS off.
	Insecure, EtcdInsecure bool
	// Answered, if it is set, is called by Do once a daemon has answered.
	Answered func()
	// Undrained hears of members that could not be drained, right before their removal; nil ignores it.
	Undrained func(node cluster.NodeName, why error)
}

// A Client is a cluster as one person's command sees it.
type Client struct {
	o     ConnectOptions
	fleet *Fleet
	pool  *rpc.Pool
	store *store.Store
	view  *StoreView
	seeds []observe.Peer
	// nameless are the addresses that do not say whose they are.
	nameless []cluster.Gap
	prev     cluster.Observation
	heard    heardOf
	// showing says that what daemons know of the store stands in for it, reads that it
	// answers.
	showing bool
	reads   atomic.Bool
	// away says why the store did not answer, empty where it did.
	away string
	// role is what the person's certificate permits.
	role certs.Role
	// base is the command's context without its end, for giving back what the
	// command holds.
	base context.Context
}

// certLifetime is how long a command's own certificate lives.
const certLifetime = 24 * time.Hour

// Connect prepares to reach a cluster. It fails where the options contradict
// themselves or a certificate is missing; that no node answers shows in the
// first observation.
func Connect(ctx context.Context, o ConnectOptions) (*Client, error) {
	c := &Client{o: o, role: certs.Operator, base: context.WithoutCancel(ctx)}
	name := operatorName(os.Getenv)
	identity, etcd, err := c.credentials(&name)
	if err != nil {
		return nil, err
	}
	c.pool = rpc.NewPool(rpc.PoolOptions{
		Self: name, Role: rpc.RoleOperator, ClientTLS: identity, NameOf: certs.ServerNode,
	})
	if o.OpenStore == nil {
		o.OpenStore = store.Open
	}
	if o.BackupStore != "" {
		if c.store, err = o.OpenStore(ctx, o.BackupStore); err != nil {
			return nil, errors.Join(err, c.pool.Close())
		}
	}
	c.view = NewStoreView(c.store, 200*time.Millisecond, time.Now)
	fo := Options{
		Cluster: o.Cluster, Name: name, Boot: observe.NewToken(), Pool: c.pool, View: c.view,
		EtcdTLS: etcd, Peers: c.peers, Store: c.answer, Heard: c.heard.note, Now: time.Now,
		Undrained: o.Undrained,
	}
	if c.store != nil {
		fo.Records = c.store
	}
	c.fleet = New(fo)
	if err := c.findSeeds(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// operatorName is under what name a person holds the lease who has no
// certificate of their own: user, machine and process.
func operatorName(env func(string) string) cluster.NodeName {
	host, _ := os.Hostname()
	user := env("SUDO_USER")
	if user == "" {
		user = env("USER")
	}
	if user != "" {
		user += "-"
	}
	name := fmt.Sprintf("%s%s-%d", user, host, os.Getpid())
	clean := strings.Map(func(r rune) rune {
		if cluster.NodeName(r).Validate() != nil {
			return '-'
		}
		return r
	}, name)
	return cluster.NodeName(certs.PersonPrefix + clean[max(0, len(clean)-90):])
}

// credentials returns how to call daemons and etcd. With certificate files,
// name becomes the one in the certificate.
func (c *Client) credentials(name *cluster.NodeName) (
	daemons func(cluster.NodeName) *tls.Config, etcd func() *tls.Config, err error) {
	var renewer certs.Renewer
	issue := func(ca string, r certs.Request) (*certs.Identity, error) {
		r.Lifetime = certLifetime
		return renewer.Add(certs.Source{Name: ca, Dir: c.o.PKIDir, CA: ca, Pair: certs.Pair{Request: r}}, time.Now())
	}
	switch {
	case c.o.Insecure:
	case c.o.Cert != "":
		var owner certs.Owner
		if daemons, owner, err = fileCredentials(c.o); err != nil {
			return nil, nil, err
		}
		*name, c.role = owner.Name, owner.Role
	case c.o.PKIDir != "":
		// Whoever has the CA's key issues an operator's certificate for the one command.
		request, err := certs.Person(strings.TrimPrefix(string(*name), certs.PersonPrefix), certs.Operator)
		if err != nil {
			return nil, nil, err
		}
		id, err := issue(certs.ManagerCA, request)
		if err != nil {
			return nil, nil, err
		}
		daemons = func(n cluster.NodeName) *tls.Config {
			if n == "" {
				return id.AnyNodeTLS()
			}
			return id.ClientTLS(certs.ManagerServerName(n))
		}
	default:
		return nil, nil, errNoCertificate
	}
	if c.o.EtcdCert != "" && !c.o.EtcdInsecure {
		conf, err := certs.ClientTLSFromFiles(c.o.EtcdCACert, c.o.EtcdCert, c.o.EtcdKey)
		if err != nil {
			return nil, nil, err
		}
		return daemons, func() *tls.Config { return conf.Clone() }, nil
	}
	if c.o.EtcdInsecure || c.o.PKIDir == "" {
		return daemons, nil, nil
	}
	id, err := issue(certs.ClientsCA, certs.EtcdClient(certs.EtcdClientName(*name)))
	if err != nil {
		return nil, nil, err
	}
	return daemons, func() *tls.Config { return id.ClientTLS("") }, nil
}

// ReaderTLS returns how a person who only reads reaches the daemons of nodes, nil for plain
// text: with the certificate of o.Cert, or one for readers that is issued from o.PKIDir.
func ReaderTLS(o ConnectOptions) (func(cluster.NodeName) *tls.Config, error) {
	switch {
	case o.Insecure:
		return nil, nil
	case o.Cert != "":
		daemons, _, err := fileCredentials(o)
		return daemons, err
	case o.PKIDir == "":
		return nil, errNoCertificate
	}
	name := strings.TrimPrefix(string(operatorName(os.Getenv)), certs.PersonPrefix)
	request, err := certs.Person(name, certs.ReadOnly)
	if err != nil {
		return nil, err
	}
	request.Lifetime = certLifetime
	var renewer certs.Renewer
	id, err := renewer.Add(certs.Source{
		Name: certs.ManagerCA, Dir: o.PKIDir, CA: certs.ManagerCA, Pair: certs.Pair{Request: request},
	}, time.Now())
	if err != nil {
		return nil, err
	}
	return func(n cluster.NodeName) *tls.Config {
		if n == "" {
			return id.AnyNodeTLS()
		}
		return id.ClientTLS(certs.ManagerServerName(n))
	}, nil
}

var errNoCertificate = &noCertificateError{}

// A noCertificateError says that nothing was given to call the daemons with.
type noCertificateError struct{}

func (*noCertificateError) Error() string {
	return "a client certificate is missing: give --pki-dir, or --cert, --key and --cacert, or --insecure"
}

// Hint says where one comes from.
func (*noCertificateError) Hint() string {
	return "on a machine that has the daemons' CAs: --pki-dir=" + cluster.AutoPKI + " for etcdadm auto, --pki-dir=" +
		cluster.ManagerPKI + " for etcd-manager; elsewhere --cert, --key and --cacert, of the files that this makes there: " +
		"etcdadm certs user NAME"
}

// fileCredentials uses a certificate that somebody else has issued.
func fileCredentials(o ConnectOptions) (func(cluster.NodeName) *tls.Config, certs.Owner, error) {
	pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		return nil, certs.Owner{}, fmt.Errorf("load --cert and --key: %w", err)
	}
	bundle, err := os.ReadFile(o.CACert)
	if err != nil {
		return nil, certs.Owner{}, fmt.Errorf("load --cacert: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		return nil, certs.Owner{}, fmt.Errorf("--cacert %s has no certificate", o.CACert)
	}
	owner, err := certs.OwnerOf(pair.Leaf)
	if err != nil {
		return nil, certs.Owner{}, fmt.Errorf("--cert %s: %w", o.Cert, err)
	}
	if err := valid(pair.Leaf, time.Now()); err != nil {
		return nil, certs.Owner{}, fmt.Errorf("--cert %s: %w", o.Cert, err)
	}
	return func(n cluster.NodeName) *tls.Config {
		conf := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, RootCAs: pool,
			ServerName: certs.ManagerServerName(n)}
		if n == "" {
			// Whose address it is, is not known before its certificate says so.
			conf.ServerName, conf.InsecureSkipVerify = "", true
			conf.VerifyConnection = func(s tls.ConnectionState) error { return verifyAnyNode(s, pool) }
		}
		return conf
	}, owner, nil
}

// verifyAnyNode accepts the daemon of every node, and nothing else.
func verifyAnyNode(s tls.ConnectionState, pool *x509.CertPool) error {
	node, err := certs.ServerNode(s)
	if err != nil {
		return err
	}
	o := x509.VerifyOptions{Roots: pool, DNSName: certs.ManagerServerName(node), Intermediates: x509.NewCertPool()}
	for _, c := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err = s.PeerCertificates[0].Verify(o)
	return err
}

// Close gives the lease back, if the client has it, and ends all connections.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(c.base, time.Second)
	defer cancel()
	c.fleet.Lease().Release(ctx)
	c.fleet.Lease().Close()
	c.view.Close()
	err := c.pool.Close()
	if c.store != nil {
		err = errors.Join(err, c.store.Close(ctx))
	}
	return err
}
