package operate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// closedPeers tries the peer ports of the other members, all at the same time, and
// returns those that this machine does not reach. Only members that answer their clients
// are tried: of the others it is known that they are down. Without certificates nothing
// is tried.
func (m *Machine) closedPeers(ctx context.Context, members []cluster.Member) []machine.ClosedPeer {
	conf, err := m.credentials()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return triedPeers(ctx, conf, members, m.cfg.Name)
}

func triedPeers(ctx context.Context, conf *tls.Config, members []cluster.Member,
	self cluster.NodeName) []machine.ClosedPeer {
	whys := make([]string, len(members))
	var all sync.WaitGroup
	for i, member := range members {
		if !member.Healthy || member.Name == self || len(member.PeerURLs) == 0 {
			continue
		}
		all.Go(func() {
			if err := anyPeer(ctx, conf, member.PeerURLs); err != nil {
				whys[i] = err.Error()
			}
		})
	}
	all.Wait()
	var closed []machine.ClosedPeer
	for i, why := range whys {
		if why != "" {
			closed = append(closed, machine.ClosedPeer{Name: members[i].Name, ID: members[i].ID,
				URLs: members[i].PeerURLs, Why: why})
		}
	}
	return closed
}

// anyPeer returns nil if one of the URLs of a member takes a connection.
func anyPeer(ctx context.Context, conf *tls.Config, urls []string) error {
	var errs []error
	for _, u := range urls {
		err := tryPeer(ctx, conf, u)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// tryPeer makes a connection, and for https a TLS handshake.
func tryPeer(ctx context.Context, conf *tls.Config, peer string) error {
	u, err := url.Parse(peer)
	if err != nil {
		return fmt.Errorf("read the peer URL %s: %w", peer, err)
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if u.Scheme != "https" {
		return nil
	}
	conf = conf.Clone()
	conf.ServerName = u.Hostname()
	return tls.Client(c, conf).HandshakeContext(ctx)
}
