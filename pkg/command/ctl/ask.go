package ctl

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/store"
)

const (
	// askLimit is how long the daemons have to answer, all at the same time.
	askLimit = 3 * time.Second
	// maxAsked bounds how many are asked.
	maxAsked = 64
	// maxMarks bounds how many incarnations a daemon is asked for.
	maxMarks = 16
)

// asked finds out whether the daemons of a report are there: a report that is minutes old says
// nothing of machines that have died since. It has no certificate for them, and needs none: it
// greets their ports, and believes nothing of what comes back but who that is. It returns at once
// when the coordinator answers, and nil where nobody was to be asked. Its error is that the command
// was interrupted: who was not heard then is not unreachable.
func (t *tool) asked(r *reconcile.Report, control store.View) (*render.Asked, error) {
	if r == nil || t.publishedOnly || t.now().Sub(r.At) > render.StaleAge {
		return nil, nil
	}
	addresses := addressesOf(*r, control.Nodes)
	if len(addresses) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(t.root.Context(), askLimit)
	defer cancel()
	type answer struct {
		name cluster.NodeName
		err  error
	}
	answers, marks := make(chan answer, len(addresses)), marksOf(*r, control.Incarnations)
	for name, address := range addresses {
		go func() {
			who := identity{rpc.Identity{Name: name, Cluster: r.Observation.Cluster}, r.Authorities, marks}
			answers <- answer{name, greet(ctx, address, who)}
		}()
	}
	a := &render.Asked{Answered: []cluster.NodeName{}, Unreachable: map[cluster.NodeName]string{}}
	for range addresses {
		got := <-answers
		if err := t.root.Context().Err(); err != nil {
			return nil, err
		}
		if got.err != nil {
			a.Unreachable[got.name] = fmt.Sprintf("%s: %s", addresses[got.name], noAnswer(got.err))
			continue
		}
		if a.Answered = append(a.Answered, got.name); got.name == r.Coordinator {
			break
		}
	}
	return a, nil
}

// addressesOf are where the daemons listen: by the report, and by their records, which are newer.
func addressesOf(r reconcile.Report, records []store.NodeRecord) map[cluster.NodeName]string {
	list := map[cluster.NodeName]string{}
	add := func(name cluster.NodeName, address string) {
		if _, known := list[name]; name != "" && address != "" && (known || len(list) < maxAsked) {
			list[name] = address
		}
	}
	for _, n := range r.Observation.Nodes {
		add(n.Name, n.Address)
	}
	for _, n := range records {
		// A store that two clusters share by mistake has records of the other one, too.
		if n.Cluster == "" || n.Cluster == r.Observation.Cluster {
			add(n.Name, n.Address)
		}
	}
	return list
}

// marksOf are those of the incarnations that the report and the records in the store name, none
// where they name none.
func marksOf(r reconcile.Report, records []cluster.Incarnation) (marks []string) {
	tokens := []cluster.Token{r.Observation.Token}
	for _, i := range slices.Backward(records) {
		if len(tokens) < maxMarks {
			tokens = append(tokens, i.Token)
		}
	}
	for _, t := range tokens {
		if t != "" {
			marks = append(marks, rpc.Mark(r.Observation.Cluster, t))
		}
	}
	return marks
}

// An identity is what is known of a daemon. Authorities are those of its cluster and Marks those of its
// incarnations, each none where that is not known: the certificate has no name of a cluster in it.
type identity struct {
	rpc.Identity
	Authorities, Marks []string
}

// greet finds out whether that daemon listens at an address, by its certificate and the protocol that
// it chooses or, where it has none, by what it says. That the connection was accepted does not show
// it: a kernel, or what forwards the port, does so for one that hangs.
func greet(ctx context.Context, address string, want identity) error {
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	c := &heard{Conn: raw}
	defer c.Close()
	shown := false
	var stranger error
	// Nothing is reported, and nothing believed that matters: who has no certificate for the daemons
	// has no authority either to check theirs with.
	protocols := []string{"h2"}
	if len(want.Marks) > 0 {
		protocols = slices.Concat(want.Marks, []string{rpc.Marked}, protocols)
	}
	err = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols,
		VerifyConnection: func(s tls.ConnectionState) error {
			shown, stranger = true, proved(s, want)
			return stranger
		},
	}).HandshakeContext(ctx)
	var plain tls.RecordHeaderError
	switch {
	case stranger != nil:
		return stranger
	case shown, err == nil:
		return nil
	case errors.As(err, &plain):
		return hello(ctx, address, want.Identity)
	case c.any:
		return nil // it has TLS, and wants another
	}
	return err
}

// proved returns nil where a certificate is that of the daemon of a node, and of one of the
// authorities where both say. It is not verified. Where two clusters share an authority the daemon of
// the other one chooses none of the marks.
func proved(s tls.ConnectionState, want identity) error {
	name, err := certs.ServerNode(s)
	by := certs.Authority(s)
	switch {
	case err != nil:
		return strangerError("what listens there is not an etcd-manager")
	case name != want.Name:
		return strangerError("the etcd-manager of node " + string(name) + " listens there")
	case by != "" && len(want.Authorities) > 0 && !slices.Contains(want.Authorities, by):
		return strangerError("the etcd-manager of another cluster listens there, by the authority of its certificate")
	case s.NegotiatedProtocol == rpc.Marked:
		return strangerError("the etcd-manager of another cluster listens there: it knows no incarnation of this one")
	}
	return nil
}

// hello asks a daemon without TLS who it is.
func hello(ctx context.Context, address string, want rpc.Identity) error {
	pool := rpc.NewPool(rpc.PoolOptions{Self: "etcd-manager-ctl", Role: rpc.RoleReadOnly})
	defer pool.Close()
	got, err := pool.Hello(ctx, address)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return strangerError("what listens there is not an etcd-manager")
	case got.Name != want.Name:
		return strangerError("the etcd-manager of node " + string(got.Name) + " listens there")
	case want.Cluster != "" && got.Cluster != want.Cluster:
		return strangerError("an etcd-manager of the cluster " + got.Cluster + " listens there")
	}
	return nil
}

// A strangerError says who listens where a daemon did.
type strangerError string

func (e strangerError) Error() string { return string(e) }

// A heard connection notes whether anything came.
type heard struct {
	net.Conn
	any bool
}

func (h *heard) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	h.any = h.any || n > 0
	return n, err
}

// noAnswer says in a few words why a daemon does not answer.
func noAnswer(err error) string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Sprintf("no answer within %s", askLimit)
	case errors.As(err, &dns):
		return dns.Error()
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "the machine is not reachable from here"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "what listens there closes the connection"
	}
	return err.Error()
}
