package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/etcdadm/etcdadm/pkg/coordination/discovery"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// newNearby finds daemons whose certificate proves that they are nodes of the same
// authority. Without TLS nobody proves anything.
func newNearby(d *Daemon) (*discovery.Nearby, error) {
	self, err := netip.ParseAddrPort(d.node.address)
	if err != nil {
		return nil, fmt.Errorf("own address: %w", err)
	}
	return &discovery.Nearby{
		Cluster: d.c.ClusterName, Node: d.name, Self: netip.AddrPortFrom(self.Addr().Unmap(), self.Port()),
		Range: d.c.ScanRange,
		Prove: func(ctx context.Context, c net.Conn) error {
			if d.c.Insecure {
				return nil
			}
			return tls.Client(c, d.clientTLS("")).HandshakeContext(ctx)
		},
	}, nil
}

// sources are who knows where other machines are.
func (c *peerGroup) sources() []discovery.Source {
	var all []discovery.Source
	if c.d.c.Lookup != nil {
		all = append(all, discovery.Source{What: "machines of the cloud", Ask: c.d.c.Lookup})
	}
	if r := c.d.c.ScanRange; r.IsValid() {
		all = append(all, discovery.Source{What: "scan of " + r.String(), Ask: c.nearby.Scan})
	}
	if c.d.c.Multicast {
		all = append(all, discovery.Source{What: "multicast DNS", Ask: c.nearby.Ask})
	}
	return all
}

// announcePause is the time between two tries to answer questions of multicast DNS.
const announcePause = 30 * time.Second

// announce answers questions of multicast DNS until ctx ends.
func (c *peerGroup) announce(ctx context.Context) {
	for said := false; ; said = true {
		err := c.nearby.Announce(ctx)
		if ctx.Err() != nil {
			return
		}
		if !said {
			c.d.log.Warn("this node does not answer questions of multicast DNS; it is tried again", "error", err)
		}
		if wait.For(ctx, announcePause) != nil {
			return
		}
	}
}
