package fleet

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
	"github.com/etcdadm/etcdadm/pkg/internal/netreason"
)

// A NoAnswerError says that no daemon answers at the addresses that a person gave.
type NoAnswerError struct{ Text string }

func (e *NoAnswerError) Error() string { return e.Text }

// Hint says what to look at.
func (e *NoAnswerError) Hint() string {
	switch {
	case strings.Contains(e.Text, netreason.Plaintext):
		return "the daemon may run without TLS: then give --insecure; or the port is that of another program"
	case strings.Contains(e.Text, netreason.Closed):
		return "the daemon may expect TLS: then leave out --insecure, and give --pki-dir, or --cert, --key and --cacert; " +
			"or the port is that of another program"
	case strings.Contains(e.Text, netreason.Foreign):
		return "give the address and the port of etcd-manager: its --address and --grpc-port"
	case strings.Contains(e.Text, netreason.NoAnswer):
		return "the machine or its etcd-manager hangs: look at its log there, and restart it; its etcd may serve all the same"
	}
	return "check whether etcd-manager runs there, and listens at that address and port (--address, --grpc-port); " +
		"its etcd may serve all the same"
}

// Kind names the error's exit code.
func (e *NoAnswerError) Kind() string { return "unknown" }

// findSeeds learns the names of the nodes that are given by address only. One
// that does not answer is left out: the others may be enough.
func (c *Client) findSeeds(ctx context.Context) error {
	found := make([]observe.Peer, len(c.o.Nodes))
	problems := make([]error, len(c.o.Nodes))
	for i, s := range c.o.Nodes {
		name, address, named := strings.Cut(s, "=")
		if !named {
			name, address = "", s
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("--nodes: %q is not of the form host:port or name=host:port", s)
		}
		found[i] = observe.Peer{Name: cluster.NodeName(name), Address: address}
	}
	var asking sync.WaitGroup
	for i := range found {
		if p := &found[i]; p.Name == "" {
			asking.Go(func() {
				r, err := c.pool.Hello(ctx, p.Address)
				p.Name, problems[i] = r.Name, err
			})
		}
	}
	asking.Wait()
	for i, p := range found {
		if problems[i] == nil {
			c.seeds = append(c.seeds, p)
			continue
		}
		text := strings.TrimPrefix(problems[i].Error(), "Hello "+p.Address+": ")
		c.nameless = append(c.nameless, cluster.Gap{Source: p.Address, Text: text})
	}
	if len(c.o.Nodes) > 0 && len(c.seeds) == 0 && c.store == nil {
		return c.nobody(nil)
	}
	return nil
}

// nobody is why nobody is known who could be asked; err says why the store names nobody.
func (c *Client) nobody(err error) error {
	var texts, addresses []string
	denied := false
	for _, g := range c.nameless {
		// What was dialled is in the text already, where that is the reason.
		text := g.Source + ": " + strings.TrimPrefix(g.Text, g.Source+": ")
		texts, addresses = append(texts, text), append(addresses, g.Source)
		denied = denied || handshake(g.Text)
	}
	text := fmt.Sprintf("none of %s answers: %s", strings.Join(addresses, ", "), strings.Join(texts, "; "))
	switch {
	case len(c.nameless) == 0:
		return err
	case err != nil:
		return fmt.Errorf("%w; %s", err, text)
	case denied:
		return notAccepted(strings.Join(texts, "; "))
	}
	return &NoAnswerError{text}
}

// unnamed are the addresses that do not say whose they are, without those that are known by
// now to be of a node.
func (c *Client) unnamed(obs cluster.Observation) []cluster.Gap {
	return slices.DeleteFunc(slices.Clone(c.nameless), func(g cluster.Gap) bool {
		return slices.ContainsFunc(obs.Nodes, func(n cluster.Node) bool { return n.Address == g.Source })
	})
}
