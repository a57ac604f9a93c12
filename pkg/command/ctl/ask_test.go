package ctl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// answering serves a daemon's port, and returns its address.
func answering(t *testing.T, conf *tls.Config) string {
	t.Helper()
	o := rpc.ServerOptions{Name: "a", Cluster: "etcd", TLS: conf}
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

// mutual is the TLS of a port that demands a certificate, which the commands have not.
func mutual(t *testing.T) *tls.Config {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return &tls.Config{
		Certificates: s.TLS.Certificates, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool(),
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
	for name, x := range map[string]struct {
		ctx     context.Context
		address string
		why     string
	}{
		"with TLS":    {t.Context(), answering(t, mutual(t)), ""},
		"without TLS": {t.Context(), answering(t, nil), ""},
		"nobody":      {t.Context(), testport.Address(t), "nothing listens there"},
		"proxy":       {t.Context(), accepting(t, func(c net.Conn) { _ = c.Close() }), "closes the connection"},
		"hangs":       {short, hangs, "no answer within 3s"},
		"no name":     {t.Context(), "no-such-machine.invalid:1", "no-such-machine.invalid"},
	} {
		err := greet(x.ctx, x.address)
		switch {
		case (err == nil) != (x.why == ""):
			t.Errorf("%s: %v", name, err)
		case err != nil && !strings.Contains(silence(err), x.why):
			t.Errorf("%s: %s (%v)", name, silence(err), err)
		}
	}
}

// Who coordinates is asked for; the others are not waited for where it answers.
func TestAsked(t *testing.T) {
	up, down := answering(t, mutual(t)), testport.Address(t)
	hangs := accepting(t, func(c net.Conn) { t.Cleanup(func() { _ = c.Close() }) })
	now := time.Now()
	type at = map[cluster.NodeName]string
	clusters := map[cluster.NodeName]string{"a": "etcd", "z": "another"}
	const nobody = "nobody (last seen: a)"
	for name, x := range map[string]struct {
		nodes, records at
		age            time.Duration
		health         render.Health
		coordinator    string
	}{
		"the coordinator answers":       {at{"a": up, "b": hangs}, nil, 0, render.Degraded, "a (term 4)"},
		"another one answers":           {at{"a": down, "b": up}, nil, 0, render.Degraded, nobody},
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
		st := render.NewPublished(&r, tool.asked(&r, records), now)
		if st.Health != x.health || st.Coordinator(now) != x.coordinator || st.Stale != (x.health == render.Unknown) {
			t.Errorf("%s: %s %q, the coordinator is %s", name, st.Health, st.Because, st.Coordinator(now))
		}
	}
}
