package ctl

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/store"
)

const (
	// askLimit is how long the daemons have to answer, all at the same time.
	askLimit = 3 * time.Second
	// maxAsked bounds how many are asked.
	maxAsked = 64
)

// addPublished gives a command the flag --published.
func (t *tool) addPublished(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&t.publishedOnly, "published", false,
		"show what the coordinator published last, and do not ask whether the daemons are there")
	return cmd
}

// asked finds out whether the daemons of a report are there: a report that is minutes old says
// nothing of machines that have died since. It has no certificate for them, and needs none: it
// greets their ports, and believes nothing of what comes back. It returns at once when the
// coordinator answers, and nil where nobody was to be asked.
func (t *tool) asked(r *reconcile.Report, records []store.NodeRecord) *render.Asked {
	if r == nil || t.publishedOnly || t.now().Sub(r.At) > render.StaleAfter {
		return nil
	}
	addresses := addressesOf(*r, records)
	if len(addresses) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(t.root.Context(), askLimit)
	defer cancel()
	type answer struct {
		name cluster.NodeName
		err  error
	}
	answers := make(chan answer, len(addresses))
	for name, address := range addresses {
		go func() { answers <- answer{name, greet(ctx, address)} }()
	}
	a := &render.Asked{Answered: []cluster.NodeName{}, Silent: map[cluster.NodeName]string{}}
	for range addresses {
		got := <-answers
		if got.err != nil {
			a.Silent[got.name] = fmt.Sprintf("%s: %s", addresses[got.name], silence(got.err))
			continue
		}
		if a.Answered = append(a.Answered, got.name); got.name == r.Coordinator {
			break
		}
	}
	return a
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

// greet begins a connection with TLS. Whatever comes back shows that a program is there; that the
// connection was accepted does not: a kernel, or what forwards the port, does so for one that hangs.
func greet(ctx context.Context, address string) error {
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	c := &heard{Conn: raw}
	defer c.Close()
	// Who it is does not matter here: nothing is told, and nothing believed.
	err = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}).HandshakeContext(ctx)
	if c.any {
		return nil // also one that speaks no TLS
	}
	return err
}

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

// silence says in a few words why a daemon does not answer.
func silence(err error) string {
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
