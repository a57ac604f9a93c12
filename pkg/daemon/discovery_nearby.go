package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/coordination/discovery"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// checkNearby says what is wrong with the flags that have other daemons looked for
// nearby.
func (c Config) checkNearby() error {
	scan := c.ScanRange != (netip.Prefix{})
	if scan {
		if err := discovery.CheckRange(c.ScanRange); err != nil {
			return fmt.Errorf("--discovery-scan: %w", err)
		}
	}
	switch {
	case c.Insecure && scan:
		return errors.New("--discovery-scan needs TLS between daemons: with --insecure none can prove that it is one; use --seeds")
	case c.Insecure && c.Multicast:
		return errors.New("--discovery-multicast needs TLS between daemons: with --insecure none can prove that it is one; " +
			"use --seeds")
	case c.Multicast && net.ParseIP(c.Address).IsLoopback():
		return fmt.Errorf("--discovery-multicast cannot work at --address %s, which no other machine reaches", c.Address)
	}
	return nil
}

// newNearby finds daemons whose certificate proves that they are other nodes of the
// same authority.
func newNearby(d *Daemon) (*discovery.Nearby, error) {
	self, err := netip.ParseAddrPort(d.node.address)
	if err != nil {
		return nil, fmt.Errorf("own address: %w", err)
	}
	return &discovery.Nearby{
		Cluster: d.c.ClusterName, Node: d.name, Self: netip.AddrPortFrom(self.Addr().Unmap(), self.Port()),
		Range: d.c.ScanRange, Prove: d.prove,
	}, nil
}

// Who is nearby, and no other node of the cluster.
var (
	errSelf    = errors.New("it is this daemon")
	errForeign = errors.New("it is of another cluster")
)

// prove makes who is at the other end of a connection prove that it is another node, and
// asks it of which cluster: several may have one authority. The existing tool does not answer that.
func (d *Daemon) prove(ctx context.Context, c net.Conn) error {
	if err := d.proveNode(ctx, c); err != nil {
		return err
	}
	id, err := d.pool.Hello(ctx, c.RemoteAddr().String())
	switch {
	case errors.Is(err, rpc.ErrUnimplemented):
		return nil
	case err == nil && id.Cluster != d.c.ClusterName:
		return errForeign
	}
	return err
}

// proveNode makes who is at the other end of a connection prove that it is another node.
func (d *Daemon) proveNode(ctx context.Context, c net.Conn) error {
	client := tls.Client(c, d.clientTLS(""))
	if err := client.HandshakeContext(ctx); err != nil {
		return err
	}
	name, err := certs.ServerNode(client.ConnectionState())
	if err == nil && name == d.name {
		err = errSelf
	}
	return err
}

// sources are who knows where other machines are.
func (c *peerGroup) sources() []discovery.Source {
	var all []discovery.Source
	if c.d.c.Lookup != nil {
		all = append(all, discovery.Source{What: "machines of the cloud", Ask: c.d.c.Lookup})
	}
	if r := c.d.c.ScanRange; r.IsValid() {
		all = append(all, discovery.Source{What: "scan of " + r.String(), Ask: c.nearby.Scan, Limit: discovery.ScanLimit})
	}
	if c.d.c.Multicast {
		all = append(all, discovery.Source{What: "multicast DNS", Ask: c.nearby.Ask, Limit: discovery.AskLimit})
	}
	return all
}

// announcePause is the time between two tries to answer questions of multicast DNS.
const announcePause = 30 * time.Second

// announce answers questions of multicast DNS in the background until ctx ends. It
// begins before it returns: of two daemons that start together, the one that asks
// later finds the other.
func (c *peerGroup) announce(ctx context.Context) (ended func()) {
	stop := c.tryAnnounce(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for stop == nil {
			if wait.For(ctx, announcePause) != nil {
				return
			}
			stop = c.tryAnnounce(false)
		}
		<-ctx.Done()
		if err := stop(); err != nil {
			c.d.log.Debug("answering questions of multicast DNS did not end", "error", err)
		}
	}()
	return func() { <-done }
}

// tryAnnounce returns nil where it failed, which is logged the first time.
func (c *peerGroup) tryAnnounce(first bool) (stop func() error) {
	stop, err := c.nearby.Announce()
	switch {
	case err != nil && first:
		c.d.log.Warn("this node does not answer questions of multicast DNS; it is tried again", "error", err)
	case err == nil && !first:
		c.d.log.Info("this node answers questions of multicast DNS")
	}
	return stop
}
