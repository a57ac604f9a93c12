package ctl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// answering serves a daemon's port, and returns its address.
func answering(t *testing.T, conf *tls.Config, marks ...string) string {
	t.Helper()
	o := rpc.ServerOptions{Name: "a", Cluster: "etcd", TLS: conf}
	if marks != nil {
		o.Marks = func() []string { return marks }
	}
	if conf != nil {
		o.Identify = func(tls.ConnectionState) (rpc.Caller, error) { return rpc.Caller{}, nil }
	}
	s, err := rpc.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop(context.Background())
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// mutual is the TLS of the port of a node's daemon, which demands a certificate that the commands
// have not.
func mutual(t *testing.T, name string) *tls.Config {
	t.Helper()
	ca, err := certs.NewCA(certs.CASpec{CommonName: "ca", Lifetime: time.Hour}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	request := certs.Request{CommonName: name, DNSNames: []string{name}, Server: true, Lifetime: time.Hour}
	server, err := ca.Issue(request, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := server.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(server.CertPEM(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool(),
		NextProtos: []string{"h2"},
	}
}

// accepting accepts connections, does what is said with each, and returns its address.
func accepting(t *testing.T, with func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			with(c)
		}
	}()
	return l.Addr().String()
}

// A port answers if a program does, whatever it wants to know first; a kernel or a proxy that
// accepts for a program which hangs, or is gone, is none.
func TestGreet(t *testing.T) {
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	hangs := accepting(t, func(c net.Conn) { t.Cleanup(func() { _ = c.Close() }) })
	web := httptest.NewServer(nil)
	defer web.Close()
	old := mutual(t, "etcd-manager-server-a")
	old.MaxVersion = tls.VersionTLS12
	for name, x := range map[string]struct {
		ctx     context.Context
		address string
		why     string
	}{
		"with TLS":           {t.Context(), answering(t, mutual(t, "etcd-manager-server-a")), ""},
		"with TLS 1.2":       {t.Context(), answering(t, old), ""},
		"without TLS":        {t.Context(), answering(t, nil), ""},
		"of another node":    {t.Context(), answering(t, mutual(t, "etcd-manager-server-z")), "of node z listens there"},
		"of another program": {t.Context(), answering(t, mutual(t, "kubelet")), "is not an etcd-manager"},
		"web server":         {t.Context(), web.Listener.Addr().String(), "is not an etcd-manager"},
		"nobody":             {t.Context(), testport.Address(t), "nothing listens there"},
		"proxy":              {t.Context(), accepting(t, func(c net.Conn) { _ = c.Close() }), "closes the connection"},
		"hangs":              {short, hangs, "no answer within 3s"},
		"no name":            {t.Context(), "no-such-machine.invalid:1", "no-such-machine.invalid"},
	} {
		err := greet(x.ctx, x.address, identity{Identity: rpc.Identity{Name: "a", Cluster: "etcd"}})
		switch {
		case (err == nil) != (x.why == ""):
			t.Errorf("%s: %v", name, err)
		case err != nil && !strings.Contains(noAnswer(err), x.why):
			t.Errorf("%s: %s (%v)", name, noAnswer(err), err)
		}
	}
}

// Another cluster may have a node of the same name, or another node the address, by now: that says
// nothing of who was there.
func TestGreetStrangers(t *testing.T) {
	plain := answering(t, nil)
	for want, who := range map[string]rpc.Identity{
		"":                            {Name: "a"},
		"etcd-manager of node a":      {Name: "b", Cluster: "etcd"},
		"manager of the cluster etcd": {Name: "a", Cluster: "other"},
	} {
		err := greet(t.Context(), plain, identity{Identity: who, Authorities: []string{"00"}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(noAnswer(err), want) {
			t.Errorf("%v: %v, want %q", who, err, want)
		}
	}
}

// Two clusters with TLS whose nodes have the same names are distinguished by the authorities of their
// certificates. Where one of both does not say its own, the name decides.
func TestGreetAnotherCluster(t *testing.T) {
	own := mutual(t, "etcd-manager-server-a")
	leaf, err := x509.ParseCertificate(own.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	id, address := hex.EncodeToString(leaf.AuthorityKeyId), answering(t, own)
	for name, x := range map[string]struct {
		authorities []string
		why         string
	}{
		"its own authority":         {[]string{id}, ""},
		"while that is exchanged":   {[]string{"00", id}, ""},
		"nobody knows":              {nil, ""},
		"that of another authority": {[]string{"00"}, "manager of another cluster listens there"},
	} {
		who := identity{Identity: rpc.Identity{Name: "a", Cluster: "etcd"}, Authorities: x.authorities}
		err := greet(t.Context(), address, who)
		if (err == nil) != (x.why == "") || err != nil && !strings.Contains(noAnswer(err), x.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Two clusters that share an authority, and the names of their nodes, are distinguished by their
// incarnations. A daemon of before, or one that has no part in any yet, says nothing of that.
func TestGreetAnotherClusterOfTheSameAuthority(t *testing.T) {
	conf := mutual(t, "etcd-manager-server-a")
	old := mutual(t, "etcd-manager-server-a")
	old.MaxVersion = tls.VersionTLS12
	now, before := rpc.Mark("etcd", "tok-2"), rpc.Mark("etcd", "tok-1")
	const other = "another cluster listens there: it knows no incarnation of this one"
	for name, x := range map[string]struct {
		address string
		marks   []string
		why     string
	}{
		"its incarnation":               {answering(t, conf, now), []string{now, before}, ""},
		"the one before":                {answering(t, conf, before), []string{now, before}, ""},
		"one that it prepares":          {answering(t, conf, before, now), []string{now}, ""},
		"another one":                   {answering(t, conf, rpc.Mark("etcd", "tok-3")), []string{now, before}, other},
		"another one, with TLS 1.2":     {answering(t, old, rpc.Mark("etcd", "tok-3")), []string{now, before}, other},
		"another name, the same token":  {answering(t, conf, rpc.Mark("events", "tok-2")), []string{now, before}, other},
		"a daemon without any":          {answering(t, conf), []string{now, before}, ""},
		"where none is known":           {answering(t, conf, now), nil, ""},
		"its incarnation, with TLS 1.2": {answering(t, old, now), []string{now, before}, ""},
	} {
		err := greet(t.Context(), x.address, identity{Identity: rpc.Identity{Name: "a", Cluster: "etcd"}, Marks: x.marks})
		if (err == nil) != (x.why == "") || err != nil && !strings.Contains(noAnswer(err), x.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := reconcile.Report{}
	r.Observation.Cluster, r.Observation.Token = "etcd", "tok-2"
	records := []cluster.Incarnation{{Number: 1, Token: "tok-1"}, {Number: 2, Token: "tok-2"}}
	if got := marksOf(r, records); !slices.Equal(got, []string{now, now, before}) {
		t.Errorf("marks of a report and records are %v", got)
	}
	if got := marksOf(reconcile.Report{}, nil); got != nil {
		t.Errorf("marks of nothing are %v", got)
	}
}

// Who was interrupted has heard of nobody that they are unreachable.
func TestAskedIsInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	at := accepting(t, func(c net.Conn) { t.Cleanup(func() { _ = c.Close() }); stop() })
	r := reconcile.Report{At: time.Now(), Coordinator: "a"}
	r.Observation.Nodes = []cluster.Node{{Name: "a", Address: at}}
	tool := &tool{root: &cobra.Command{}, now: time.Now}
	tool.root.SetContext(ctx)
	if a, err := tool.asked(&r, store.View{}); a != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", a, err)
	}
}

// Who coordinates is asked for; the others are not waited for where it answers.
func TestAsked(t *testing.T) {
	up, down := answering(t, mutual(t, "etcd-manager-server-a")), testport.Address(t)
	other := answering(t, mutual(t, "etcd-manager-server-b"))
	hangs := accepting(t, func(c net.Conn) { t.Cleanup(func() { _ = c.Close() }) })
	now := time.Now()
	type at = map[cluster.NodeName]string
	clusters := map[cluster.NodeName]string{"a": "etcd", "z": "another"}
	const nobody = "none (last seen: a)"
	for name, x := range map[string]struct {
		nodes, records at
		age            time.Duration
		health         render.Health
		coordinator    string
	}{
		"the coordinator answers":       {at{"a": up, "b": hangs}, nil, 0, render.Degraded, "a (term 4)"},
		"another one answers":           {at{"a": down, "b": other}, nil, 0, render.Degraded, nobody},
		"another one has its address":   {at{"a": other, "b": down}, nil, 0, render.Unknown, nobody},
		"nobody answers":                {at{"a": down, "b": down}, nil, 0, render.Unknown, nobody},
		"a record is newer":             {at{"a": down}, at{"a": up}, 0, render.Degraded, "a (term 4)"},
		"one of another cluster":        {at{"a": down}, at{"z": up}, 0, render.Unknown, nobody},
		"no address":                    {nil, nil, 0, render.Degraded, "a (term 4)"},
		"too old, whoever is there now": {at{"a": up}, nil, time.Hour, render.Unknown, nobody},
	} {
		r := reconcile.Report{At: now.Add(-x.age), Coordinator: "a", Term: 4}
		r.Observation.Cluster = "etcd"
		r.Observation.Members = []cluster.Member{{ID: 1, Name: "a", Healthy: true, Alarms: []string{"NOSPACE"}}}
		for name, at := range x.nodes {
			r.Observation.Nodes = append(r.Observation.Nodes, cluster.Node{Name: name, Address: at})
		}
		var records []store.NodeRecord
		for name, at := range x.records {
			records = append(records, store.NodeRecord{Name: name, Address: at, Cluster: clusters[name]})
		}
		tool := &tool{root: &cobra.Command{}, now: func() time.Time { return now }}
		tool.root.SetContext(t.Context())
		asked, err := tool.asked(&r, store.View{Nodes: records})
		if err != nil {
			t.Fatal(err)
		}
		st := render.NewPublished(&r, asked, now)
		if st.Health != x.health || st.Coordinator(now) != x.coordinator || st.Stale != (x.health == render.Unknown) {
			t.Errorf("%s: %s %q, the coordinator is %s", name, st.Health, st.Because, st.Coordinator(now))
		}
	}
}
