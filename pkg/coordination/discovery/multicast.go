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
	// questions is how often is asked, answerTime how long answers are waited for.
	questions  = 2
	answerTime = time.Second
	// maxAnswers is how many answers are looked at: anybody can send any number.
	maxAnswers = 128
)

// Ask returns the daemons of the cluster that answer a question of multicast DNS,
// which no router passes on: addresses that are in no network of this machine's
// interface are left out. Datagrams get lost, so it asks twice.
func (n *Nearby) Ask(ctx context.Context) ([]Seed, error) {
	nic, networks, err := n.nic()
	if err != nil {
		return nil, err
	}
	var all []netip.AddrPort
	for range questions {
		// The library goes on with answers that it has handed over, until it ends.
		answers := make(chan *mdns.ServiceEntry, maxAnswers)
		err = mdns.QueryContext(ctx, &mdns.QueryParam{
			Service: service, Timeout: answerTime, Interface: nic, Entries: answers, Logger: silent(),
			DisableIPv4: !n.Self.Addr().Is4(), DisableIPv6: n.Self.Addr().Is4(),
		})
		if err != nil {
			return nil, n.hint(nic, err)
		}
		close(answers)
		for e := range answers {
			a, ok := n.address(e)
			near := slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a.Addr()) })
			if ok && near && !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return n.proved(ctx, all), context.Cause(ctx)
}

// hint says what may help where a question cannot be asked: the library joins the
// group on the interface that has the route.
func (n *Nearby) hint(nic *net.Interface, err error) error {
	group := "224.0.0.251"
	if !n.Self.Addr().Is4() {
		group = "ff02::fb"
	}
	return fmt.Errorf("ask by multicast on %s: %w; see that there is a route: ip route add %s dev %s", nic.Name, err,
		group, nic.Name)
}

// address returns the one that an answer has, if it is of a daemon of the cluster.
// Of two it is the one of the own family.
func (n *Nearby) address(e *mdns.ServiceEntry) (netip.AddrPort, bool) {
	var six net.IP
	if e.AddrV6IPAddr != nil {
		six = e.AddrV6IPAddr.IP
	}
	first, second := e.AddrV4, six
	if !n.Self.Addr().Is4() {
		first, second = second, first
	}
	a, ok := netip.AddrFromSlice(first)
	if !ok {
		a, ok = netip.AddrFromSlice(second)
	}
	if !ok || !slices.Contains(e.InfoFields, clusterField+n.Cluster) || e.Port <= 0 || e.Port > 65535 {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(e.Port)), true
}

// Announce begins to answer questions of multicast DNS, until stop is called.
func (n *Nearby) Announce() (stop func() error, err error) {
	nic, _, err := n.nic()
	if err != nil {
		return nil, err
	}
	// A label has no more than 63 bytes, and no dots. Who it is is no secret, and
	// nothing to be believed either.
	sum := sha256.Sum256([]byte(n.Cluster + "\x00" + string(n.Node)))
	name := hex.EncodeToString(sum[:8])
	zone, err := mdns.NewMDNSService(name, service, "local.", name+".local.", int(n.Self.Port()),
		[]net.IP{n.Self.Addr().AsSlice()}, []string{clusterField + n.Cluster})
	if err != nil {
		return nil, fmt.Errorf("announce by multicast on %s: %w", nic.Name, err)
	}
	s, err := mdns.NewServer(&mdns.Config{Zone: zone, Iface: nic, Logger: silent()})
	if err != nil {
		return nil, fmt.Errorf("announce by multicast on %s: %w", nic.Name, err)
	}
	return s.Shutdown, nil
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

// silent is a log for what anybody in the network can cause.
func silent() *log.Logger { return log.New(io.Discard, "", 0) }
