package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A Nearby finds daemons on machines that nobody names: by a scan of a range of
// addresses, and by multicast DNS. Anybody can be at an address or answer a
// question, so what it finds counts only once it has proved to be a daemon.
type Nearby struct {
	// Cluster and Node say whose daemon this one is, Self where it listens.
	Cluster string
	Node    cluster.NodeName
	Self    netip.AddrPort
	// Range is what is scanned, on the port of Self: see [CheckRange].
	Range netip.Prefix
	// Prove makes who is at the other end of a connection prove that it is another
	// daemon of the cluster's authority.
	Prove func(ctx context.Context, c net.Conn) error
}

const (
	// MaxRange is how many addresses a range may have.
	MaxRange = 1024
	// scanAtOnce is how many addresses are tried at the same time. Those at which
	// nobody is take connectTime each: the largest range takes eight seconds.
	scanAtOnce  = 64
	connectTime = 500 * time.Millisecond
	proveTime   = 2 * time.Second
	// ScanLimit is more than the longest scan, in which somebody accepts each
	// connection and says nothing.
	ScanLimit = MaxRange / scanAtOnce * (connectTime + proveTime) * 3 / 2
)

// CheckRange says what is wrong with a range of addresses.
func CheckRange(r netip.Prefix) error {
	switch {
	case !r.IsValid():
		return errors.New("it is not a range of addresses like 10.0.0.0/24")
	case r.Addr().Is4In6():
		return fmt.Errorf("%s is a range of IPv4 addresses in the form of IPv6: write %s", r, r.Addr().Unmap())
	case r.Masked() != r:
		return fmt.Errorf("%s has an address in a network where the network is meant: %s", r, r.Masked())
	case r.Addr().BitLen()-r.Bits() > 10:
		return fmt.Errorf("%s has more than %d addresses", r, MaxRange)
	case r.Addr().IsMulticast() || r.Addr().IsUnspecified():
		return fmt.Errorf("no machine has an address in %s", r)
	}
	return nil
}

// Scan returns the daemons in the range.
func (n *Nearby) Scan(ctx context.Context) ([]Seed, error) {
	var all []netip.AddrPort
	for a := n.Range.Addr(); n.Range.Contains(a); a = a.Next() {
		all = append(all, netip.AddrPortFrom(a, n.Self.Port()))
	}
	if len(all) > 2 && n.Range.Addr().Is4() {
		// The first and the last one mean all.
		all = all[1 : len(all)-1]
	}
	found := n.proved(ctx, all)
	// Half of an answer would look like machines that are gone.
	return found, context.Cause(ctx)
}

// proved returns those of the addresses at which there are other daemons.
func (n *Nearby) proved(ctx context.Context, all []netip.AddrPort) []Seed {
	all = slices.DeleteFunc(all, func(a netip.AddrPort) bool { return a == n.Self })
	good := make([]bool, len(all))
	free := make(chan struct{}, scanAtOnce)
	var trying sync.WaitGroup
	for i, a := range all {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		trying.Go(func() {
			good[i] = n.try(ctx, a)
			<-free
		})
	}
	trying.Wait()
	var found []Seed
	for i, a := range all {
		if good[i] {
			// Its name is its own affair, and comes by the gossip.
			found = append(found, Seed{Address: a.String()})
		}
	}
	return found
}

// try reports whether a daemon is at an address.
func (n *Nearby) try(ctx context.Context, a netip.AddrPort) bool {
	c, err := (&net.Dialer{Timeout: connectTime}).DialContext(ctx, "tcp", a.String())
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, proveTime)
	defer cancel()
	err = n.Prove(ctx, c)
	return errors.Join(err, c.Close()) == nil
}
