package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

func TestNodesGivenByAddressReportTheirNames(t *testing.T) {
	w := newTestCluster(t, nil)
	spec, obs, err := w.connect().Observe(t.Context())
	must(t, err)
	if !slices.Equal(nodeNames(obs), abc) || len(obs.Members) != 3 || obs.Leader != 1 || obs.Token != "t1" {
		t.Errorf("nodes %v, members %+v, leader %s, token %s", nodeNames(obs), obs.Members, obs.Leader, obs.Token)
	}
	// Without a store there is no spec, and a gap says so.
	if spec.MemberCount != 0 || gaps(obs) != "store" || spec.Policy.Grace == 0 {
		t.Errorf("spec %+v, gaps %s", spec, gaps(obs))
	}
}

func TestANodeThatDoesNotAnswerIsLeftOut(t *testing.T) {
	w := newTestCluster(t, nil)
	c := w.connect(func(o *ConnectOptions) { o.Nodes = []string{"127.0.0.1:1", w.nodes["b"].address} })
	_, obs, err := c.Observe(t.Context())
	must(t, err)
	if !slices.Equal(nodeNames(obs), names{"b"}) {
		t.Errorf("nodes %v", nodeNames(obs))
	}
}

func TestANodeGivenByNameIsNotAskedForIt(t *testing.T) {
	w := newTestCluster(t, nil)
	c := w.connect(func(o *ConnectOptions) { o.Nodes = []string{"b=" + w.nodes["b"].address, "z=127.0.0.1:1"} })
	_, obs, err := c.Observe(t.Context())
	must(t, err)
	if !isReachable(obs, "b") || isReachable(obs, "z") || gaps(obs) != "node z, store" {
		t.Errorf("nodes %v, gaps %s", nodeNames(obs), gaps(obs))
	}
}

func TestNodesAreFoundInTheStore(t *testing.T) {
	w := newTestCluster(t, nil)
	dir := t.TempDir()
	s, err := store.Open(t.Context(), dir)
	must(t, err)
	w.publish(s)
	must(t, s.PutSpec(t.Context(), store.SpecFile{MemberCount: 3, EtcdVersion: etcdversion.Must("3.6.16")}))
	at := time.Now().Add(-time.Minute)
	must(t, s.PutStatus(t.Context(), []byte(asJSON(t, published{
		Term: 3,
		Spec: cluster.Spec{Policy: cluster.Policy{Grace: 7 * time.Minute}},
		Observation: cluster.Observation{
			At: at.Add(time.Minute), Token: "t1", Members: []cluster.Member{{ID: 3, Name: "c", UnhealthySince: at}},
		},
	}))))
	w.change("c", func(d *daemon) { d.report = nil })

	c := w.connect(func(o *ConnectOptions) { o.Nodes, o.BackupStore = []string{"a=" + w.nodes["a"].address}, dir })
	spec, obs, err := c.Observe(t.Context())
	must(t, err)
	if !slices.Equal(nodeNames(obs), abc) || gaps(obs) != "" || !obs.Nodes[1].Published {
		t.Errorf("nodes %v, gaps %s, b published: %t", nodeNames(obs), gaps(obs), obs.Nodes[1].Published)
	}
	if spec.MemberCount != 3 || spec.Policy.Grace != 7*time.Minute || spec.Policy.LearnerTimeout == 0 {
		t.Errorf("the spec is %+v", spec)
	}
	if d := obs.At.Sub(obs.Members[2].UnhealthySince); d < time.Minute || d > 2*time.Minute {
		t.Errorf("c is unhealthy for %s, the coordinator had found it so for a minute", d)
	}
}

func TestAStoreOutOfReachIsAnErrorOnlyWhereNobodyElseIsKnown(t *testing.T) {
	w := newTestCluster(t, nil)
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o644))
	c := w.connect(func(o *ConnectOptions) { o.Nodes, o.BackupStore = nil, file })
	if _, _, err := c.Observe(t.Context()); !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("error %v", err)
	}
	c = w.connect(func(o *ConnectOptions) { o.BackupStore = file })
	_, obs, err := c.Observe(t.Context())
	must(t, err)
	if gaps(obs) != "store" || !isReachable(obs, "a") {
		t.Errorf("gaps %s", gaps(obs))
	}
}

func TestOptionsThatCannotWork(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	ca := newPKI(t, filepath.Join(dir, "pki"))
	node := issueFiles(t, ca, dir, "node", certs.ManagerClient("op"))
	stranger := issueFiles(t, ca, dir, "stranger", certs.Request{CommonName: "stranger", Client: true})
	for _, tc := range []struct {
		name string
		o    ConnectOptions
		want string
	}{
		{"no certificate", ConnectOptions{}, "--pki-dir, or --cert"},
		{"no CA there", ConnectOptions{PKIDir: dir}, "etcd-manager-ca"},
		{"no such certificate", ConnectOptions{Cert: "none.crt", Key: "none.key"}, "load --cert and --key"},
		{"no such bundle", ConnectOptions{Cert: node.Cert, Key: node.Key, CACert: "none.crt"}, "load --cacert"},
		{"an empty bundle", ConnectOptions{Cert: node.Cert, Key: node.Key, CACert: file("empty", "\n")},
			"has no certificate"},
		{"a certificate of nobody", ConnectOptions{Cert: stranger.Cert, Key: stranger.Key, CACert: node.CACert},
			"--cert " + stranger.Cert},
		{"a node without a port", ConnectOptions{Insecure: true, EtcdInsecure: true, Nodes: []string{"10.0.0.1"}},
			"host:port"},
		{"no node answers", ConnectOptions{Insecure: true, EtcdInsecure: true, Nodes: []string{"127.0.0.1:1", "127.0.0.1:2"}},
			"none of 127.0.0.1:1, 127.0.0.1:2 answers"},
		{"no such store", ConnectOptions{Insecure: true, EtcdInsecure: true, BackupStore: "ftp://x"}, "ftp"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.o.Cluster = "main"
			c, err := Connect(within(t, time.Minute), tc.o)
			if c != nil {
				_ = c.Close()
			}
			wantError(t, err, tc.want)
		})
	}
}

// newPKI writes the two CAs that a person needs, and returns that of the daemons.
func newPKI(t *testing.T, dir string) *certs.CA {
	t.Helper()
	var manager *certs.CA
	for _, name := range []string{certs.ManagerCA, certs.ClientsCA} {
		ca, err := certs.NewCA(certs.CASpec{CommonName: name, Lifetime: time.Hour}, time.Now())
		must(t, err)
		must(t, ca.Write(dir, name))
		if name == certs.ManagerCA {
			manager = ca
		}
	}
	return manager
}

// issueFiles writes a certificate, its key and the CA.
func issueFiles(t *testing.T, ca *certs.CA, dir, name string, r certs.Request) ConnectOptions {
	t.Helper()
	leaf, err := ca.Issue(r, time.Now())
	must(t, err)
	key, err := leaf.KeyPEM()
	must(t, err)
	o := ConnectOptions{Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key"),
		CACert: filepath.Join(dir, name+"-ca.crt")}
	for path, content := range map[string][]byte{o.Cert: leaf.CertPEM(), o.Key: key, o.CACert: ca.PEM()} {
		must(t, os.WriteFile(path, content, 0o600))
	}
	return o
}

func TestAPersonIsKnownByTheirCertificate(t *testing.T) {
	dir := t.TempDir()
	ca := newPKI(t, dir)
	var renewer certs.Renewer
	w := newTestCluster(t, func(n cluster.NodeName) *tls.Config {
		id, err := renewer.Add(certs.Source{
			Name: string(n), Dir: dir, CA: certs.ManagerCA, Pair: certs.Pair{Request: certs.ManagerServer(n)},
		}, time.Now())
		must(t, err)
		return id.ServerTLS()
	})
	secure := func(o *ConnectOptions) { o.Insecure, o.EtcdInsecure = false, false }
	lift := func(c *Client) {
		t.Helper()
		w.change("b", func(d *daemon) { d.node.Assigned.Quarantined = true })
		must(t, c.Do(within(t, time.Minute), liftB))
	}

	// With the CA at hand, a certificate is issued for the one command.
	lift(w.connect(secure, func(o *ConnectOptions) { o.PKIDir = dir }))
	if g := w.holder(); !strings.HasPrefix(string(g.Holder), "operator-") || !g.Released {
		t.Errorf("the lease was %+v", g)
	}
	// With a certificate from elsewhere, the person has the name in it.
	person := func(role certs.Role) func(o *ConnectOptions) {
		r, err := certs.Person("alice", role)
		must(t, err)
		files := issueFiles(t, ca, t.TempDir(), "alice", r)
		return func(o *ConnectOptions) { o.Cert, o.Key, o.CACert = files.Cert, files.Key, files.CACert }
	}
	lift(w.connect(secure, person(certs.Operator)))
	if g := w.holder(); g.Holder != "operator-alice" || !g.Released {
		t.Errorf("the lease was %+v", g)
	}
	// One who may only look sees everything, and gets no lease.
	ran := w.ran()
	observer := w.connect(secure, person(certs.ReadOnly))
	if _, obs, err := observer.Observe(within(t, time.Minute)); err != nil || !isReachable(obs, "b") {
		t.Errorf("it sees %+v, %v", obs.Nodes, err)
	}
	w.change("b", func(d *daemon) { d.node.Assigned.Quarantined = true })
	isRefused(t, observer.Do(t.Context(), liftB), "may not give orders")
	if w.ran() != ran || w.holder().Holder != "operator-alice" {
		t.Errorf("it was carried out: %s", w.ran())
	}
	// A node that is no lease voter does not either.
	files := issueFiles(t, ca, t.TempDir(), "op", certs.ManagerClient("op"))
	stray := w.connect(secure, func(o *ConnectOptions) { o.Cert, o.Key, o.CACert = files.Cert, files.Key, files.CACert })
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	wantError(t, stray.Do(ctx, liftB), "op is not one of the lease voters")

	// A certificate of another CA opens nothing, also where nothing is to be done.
	other := newPKI(t, filepath.Join(t.TempDir(), "other"))
	files = issueFiles(t, other, t.TempDir(), "op", certs.ManagerClient("op"))
	_, err := Connect(within(t, time.Minute), ConnectOptions{
		Cluster: "main", Nodes: w.addresses(), Cert: files.Cert, Key: files.Key, CACert: files.CACert,
	})
	isRefused(t, err, "no daemon accepts")
	var named []string
	for _, n := range abc {
		named = append(named, string(n)+"="+w.nodes[n].address)
	}
	trusting := issueFiles(t, ca, t.TempDir(), "op", certs.ManagerClient("op")).CACert
	for _, bundle := range []string{files.CACert, trusting} {
		foreign := w.connect(secure, func(o *ConnectOptions) {
			o.Nodes, o.Cert, o.Key, o.CACert = named, files.Cert, files.Key, bundle
		})
		isRefused(t, foreign.Do(t.Context(), liftB), "no daemon accepts")
		isRefused(t, foreign.Do(t.Context(), &plan.QuarantineSet{Node: "b"}), "no daemon accepts")
	}
	// Nor does one that has ended, or has not begun.
	for age, want := range map[time.Duration]string{-time.Hour: "valid from", 48 * time.Hour: "expired at"} {
		files = agedFiles(t, age)
		_, err = Connect(t.Context(), ConnectOptions{
			Cluster: "main", Nodes: w.addresses(), Cert: files.Cert, Key: files.Key, CACert: files.CACert,
		})
		isRefused(t, err, want)
	}
}

// Who gives nothing to call the daemons with is shown where that comes from.
func TestAMissingCertificateHasAHint(t *testing.T) {
	_, err := Connect(t.Context(), ConnectOptions{Cluster: "main", Nodes: []string{"127.0.0.1:1"}})
	_, readerErr := ReaderTLS(ConnectOptions{})
	for _, err := range []error{err, readerErr} {
		wantError(t, err, "a client certificate is missing")
		for _, want := range []string{"--pki-dir=/etc/etcd-manager/pki for etcdadm auto", "etcdadm certs user NAME"} {
			if got := rpc.HintOf(err); !strings.Contains(got, want) {
				t.Errorf("%v has the hint %q, want %q in it", err, got, want)
			}
		}
	}
}

// agedFiles writes a node's certificate that was issued so long ago, for an hour.
func agedFiles(t *testing.T, age time.Duration) ConnectOptions {
	t.Helper()
	then := time.Now().Add(-age)
	ca, err := certs.NewCA(certs.CASpec{CommonName: certs.ManagerCA, Lifetime: 24 * time.Hour}, then)
	must(t, err)
	request := certs.ManagerClient("op")
	request.Lifetime = time.Hour
	leaf, err := ca.Issue(request, then)
	must(t, err)
	key, err := leaf.KeyPEM()
	must(t, err)
	dir := t.TempDir()
	o := ConnectOptions{Cert: filepath.Join(dir, "op.crt"), Key: filepath.Join(dir, "op.key"),
		CACert: filepath.Join(dir, "ca.crt")}
	for path, content := range map[string][]byte{o.Cert: leaf.CertPEM(), o.Key: key, o.CACert: ca.PEM()} {
		must(t, os.WriteFile(path, content, 0o600))
	}
	return o
}

func isRefused(t *testing.T, err error, want string) {
	t.Helper()
	var refused *CertificateError
	if !errors.As(err, &refused) || refused.Kind() != "refused" || refused.Hint() == "" ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want a refusal that says %q", err, want)
	}
}

func TestAnOperatorsNameIsAValidNodeName(t *testing.T) {
	for _, env := range []map[string]string{
		nil, {"USER": "root", "SUDO_USER": "Jörg Müller"}, {"USER": strings.Repeat("x", 300)},
	} {
		name := operatorName(func(key string) string { return env[key] })
		if err := name.Validate(); err != nil {
			t.Error(err)
		}
		if _, err := certs.Person(strings.TrimPrefix(string(name), certs.PersonPrefix), certs.Operator); err != nil {
			t.Error(err)
		}
	}
	if name := operatorName(func(string) string { return "alice" }); !strings.HasPrefix(string(name), "operator-alice-") {
		t.Errorf("alice is called %s", name)
	}
}
