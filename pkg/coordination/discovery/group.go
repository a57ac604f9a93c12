package discovery

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

const (
	multicastDNSPort = 5353
	// maxDatagram is more than an answer has. What is longer is cut off, and so not
	// understood.
	maxDatagram = 1500
)

// The groups of multicast DNS (RFC 6762).
var (
	group4 = net.IPv4(224, 0, 0, 251)
	group6 = net.ParseIP("ff02::fb")
)

// A group is the group of multicast DNS on one interface. The socket gets what comes to its
// port by whatever way; what did not come to the group on this interface, from one of its
// networks, is left out.
type group struct {
	nic      *net.Interface
	networks []netip.Prefix
	conn     *net.UDPConn
	at       *net.UDPAddr
	four     *ipv4.PacketConn // one of the two is nil
	six      *ipv6.PacketConn
	closed   chan struct{}
}

// join joins the group of the own address's family on its interface.
func (n *Nearby) join() (*group, error) {
	nic, networks, err := n.nic()
	if err != nil {
		return nil, err
	}
	g := &group{nic: nic, networks: networks, at: &net.UDPAddr{IP: group4, Port: multicastDNSPort},
		closed: make(chan struct{})}
	family := "udp4"
	if !n.Self.Addr().Is4() {
		family, g.at.IP, g.at.Zone = "udp6", group6, nic.Name
	}
	if g.conn, err = net.ListenMulticastUDP(family, nic, g.at); err != nil {
		return nil, fmt.Errorf("join the group of multicast DNS on %s: %w", nic.Name, err)
	}
	// Other daemons may be on this machine. 255 is what RFC 6762 asks for.
	if n.Self.Addr().Is4() {
		g.four = ipv4.NewPacketConn(g.conn)
		err = errors.Join(g.four.SetControlMessage(ipv4.FlagDst|ipv4.FlagInterface, true), g.four.SetMulticastInterface(nic),
			g.four.SetMulticastLoopback(true), g.four.SetMulticastTTL(255))
	} else {
		g.six = ipv6.NewPacketConn(g.conn)
		err = errors.Join(g.six.SetControlMessage(ipv6.FlagDst|ipv6.FlagInterface, true), g.six.SetMulticastInterface(nic),
			g.six.SetMulticastLoopback(true), g.six.SetMulticastHopLimit(255))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("use multicast on %s: %w", nic.Name, err), g.close())
	}
	return g, nil
}

// close leaves the group. It is called once.
func (g *group) close() error {
	close(g.closed)
	return g.conn.Close()
}

// send sends a datagram to all of the group on the interface.
func (g *group) send(b []byte) (err error) {
	if g.four != nil {
		_, err = g.four.WriteTo(b, nil, g.at)
	} else {
		_, err = g.six.WriteTo(b, nil, g.at)
	}
	return err
}

// receive returns the next datagram that came to the group.
func (g *group) receive(buffer []byte) ([]byte, error) {
	for {
		var (
			n, index int
			to       net.IP
			from     net.Addr
			err      error
		)
		if g.four != nil {
			var how *ipv4.ControlMessage
			if n, how, from, err = g.four.ReadFrom(buffer); how != nil {
				to, index = how.Dst, how.IfIndex
			}
		} else {
			var how *ipv6.ControlMessage
			if n, how, from, err = g.six.ReadFrom(buffer); how != nil {
				to, index = how.Dst, how.IfIndex
			}
		}
		if err != nil {
			return nil, err
		}
		sender, ok := from.(*net.UDPAddr)
		if !ok || index != g.nic.Index || !to.Equal(g.at.IP) {
			continue
		}
		// An address of the link, which this machine may not have yet, is on the link.
		if a := sender.AddrPort().Addr(); g.near(a) || a.Is6() && a.IsLinkLocalUnicast() {
			return buffer[:n], nil
		}
	}
}

// near reports whether an address is in a network of the interface.
func (g *group) near(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(g.networks, func(p netip.Prefix) bool { return p.Contains(a) })
}

// nic returns the interface that has the own address, with its networks. It is one
// with multicast.
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
		switch {
		case own && nic.Flags&net.FlagUp == 0:
			return nil, nil, fmt.Errorf("the interface %s with the address %s is down", nic.Name, n.Self.Addr())
		case own && nic.Flags&net.FlagMulticast == 0:
			return nil, nil, fmt.Errorf("the interface %s with the address %s has no multicast", nic.Name, n.Self.Addr())
		case own:
			return &nic, networks, nil
		}
	}
	return nil, nil, fmt.Errorf("no interface of this machine has the address %s", n.Self.Addr())
}
