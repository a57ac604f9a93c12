package discovery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/mdns"
)

const (
	// service is the type under which daemons announce themselves.
	service = "_etcd-manager._tcp"
	// clusterField is the field of an announcement that has the cluster's name.
	clusterField = "cluster="
	// answerTime is how long answers to a question are waited for.
	answerTime = time.Second
	// maxAnswers is how many answers are looked at: anybody can send any number.
	maxAnswers = 128
)

// Ask returns the daemons of the cluster that answer a question of multicast DNS,
// which no router passes on: addresses that are in no network of this machine's
// interface are left out.
func (n *Nearby) Ask(ctx context.Context) ([]Seed, error) {
	nic, networks, err := n.nic()
	if err != nil {
		return nil, err
	}
	// The library goes on with answers that it has handed over, until it ends.
	answers := make(chan *mdns.ServiceEntry, maxAnswers)
	err = mdns.QueryContext(ctx, &mdns.QueryParam{
		Service: service, Timeout: answerTime, Interface: nic, Entries: answers, Logger: silent(),
		DisableIPv4: !n.Self.Addr().Is4(), DisableIPv6: n.Self.Addr().Is4(),
	})
	if err != nil {
		return nil, fmt.Errorf("ask by multicast: %w", err)
	}
	close(answers)
	var all []netip.AddrPort
	for e := range answers {
		a, ok := n.address(e)
		near := slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a.Addr()) })
		if ok && near && !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return n.proved(ctx, all), context.Cause(ctx)
}

// address returns the one that an answer has, if it is of a daemon of the cluster.
func (n *Nearby) address(e *mdns.ServiceEntry) (netip.AddrPort, bool) {
	ip := e.AddrV4
	if !n.Self.Addr().Is4() && e.AddrV6IPAddr != nil {
		ip = e.AddrV6IPAddr.IP
	}
	a, ok := netip.AddrFromSlice(ip)
	if !ok || !slices.Contains(e.InfoFields, clusterField+n.Cluster) || e.Port <= 0 || e.Port > 65535 {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(e.Port)), true
}

// Announce answers questions of multicast DNS until ctx ends.
func (n *Nearby) Announce(ctx context.Context) error {
	nic, _, err := n.nic()
	if err != nil {
		return err
	}
	// A label has no more than 63 bytes, and no dots. Who it is is no secret, and
	// nothing to be believed either.
	sum := sha256.Sum256([]byte(n.Cluster + "\x00" + string(n.Node)))
	name := hex.EncodeToString(sum[:8])
	zone, err := mdns.NewMDNSService(name, service, "local.", name+".local.", int(n.Self.Port()),
		[]net.IP{n.Self.Addr().AsSlice()}, []string{clusterField + n.Cluster})
	if err != nil {
		return fmt.Errorf("announce by multicast: %w", err)
	}
	s, err := mdns.NewServer(&mdns.Config{Zone: zone, Iface: nic, Logger: silent()})
	if err != nil {
		return fmt.Errorf("announce by multicast: %w", err)
	}
	<-ctx.Done()
	return s.Shutdown()
}

// nic returns the interface that has the own address, with its networks.
func (n *Nearby) nic() (*net.Interface, []netip.Prefix, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, nil, fmt.Errorf("interfaces of this machine: %w", err)
	}
	for _, nic := range all {
		addrs, err := nic.Addrs()
		if err != nil {
			continue // it has just gone
		}
		var networks []netip.Prefix
		own := false
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err == nil {
				networks = append(networks, p.Masked())
				own = own || p.Addr() == n.Self.Addr()
			}
		}
		if own {
			return &nic, networks, nil
		}
	}
	return nil, nil, fmt.Errorf("no interface of this machine has the address %s", n.Self.Addr())
}

// silent is a log for what anybody in the network can cause.
func silent() *log.Logger { return log.New(io.Discard, "", 0) }
