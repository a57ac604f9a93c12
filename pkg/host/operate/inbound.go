package operate

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// connected says of each member whether it is connected to the peer port of this machine, whose etcd
// runs, as the kernel of this machine shows. The metrics of a member's etcd count a connection that
// this machine has opened, too.
//
// Where somebody is connected from an address that is no member's, members may come through another
// address than that of their peer URL, and of those that are not seen nothing is known.
func (m *Machine) connected(ctx context.Context, members []cluster.Member) map[cluster.MemberID]machine.Reach {
	seen := map[cluster.MemberID]machine.Reach{}
	port, ok := portOf(machine.URLs(m.cfg).Peer)
	if !ok {
		return seen
	}
	from, listens, err := inbound("/proc/self/net", port)
	if err != nil || !listens {
		return seen // etcd has a network of its own
	}
	strangers := len(from)
	for _, member := range members {
		seen[member.ID] = machine.NotReached
		found := false
		for _, a := range peerAddresses(ctx, member.PeerURLs) {
			if from[a] {
				found = true
				strangers--
			}
		}
		if found {
			seen[member.ID] = machine.Reached
		}
	}
	for id, r := range seen {
		if r == machine.NotReached && strangers > 0 {
			seen[id] = machine.ReachUnknown
		}
	}
	return seen
}

// portOf returns the port of the first URL.
func portOf(urls []string) (uint16, bool) {
	if len(urls) == 0 {
		return 0, false
	}
	u, err := url.Parse(urls[0])
	if err != nil {
		return 0, false
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return uint16(port), err == nil
}

// peerAddresses returns the addresses of the hosts of URLs, each once. A name that is not resolved has none.
func peerAddresses(ctx context.Context, urls []string) (list []netip.Addr) {
	known := map[netip.Addr]bool{}
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			continue
		}
		found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
		if err != nil {
			continue
		}
		for _, a := range found {
			if a = a.Unmap().WithZone(""); !known[a] {
				known[a] = true
				list = append(list, a)
			}
		}
	}
	return list
}

// The states of sockets in the kernel's tables (include/net/tcp_states.h).
const (
	stateEstablished = "01"
	stateListen      = "0A"
)

// inbound returns from where there are connections to a local port, and whether somebody listens
// there, by the tables tcp and tcp6 in a directory (proc(5)). A machine without IPv6 has only the first.
func inbound(dir string, port uint16) (from map[netip.Addr]bool, listens bool, err error) {
	from = map[netip.Addr]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(dir + "/" + table)
		if err != nil {
			if table == "tcp6" && os.IsNotExist(err) {
				break
			}
			return nil, false, err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			w := strings.Fields(lines.Text())
			if len(w) < 4 {
				continue
			}
			_, local, ok := tableAddress(w[1])
			remote, _, valid := tableAddress(w[2])
			switch {
			case !ok || !valid || local != port:
			case w[3] == stateEstablished:
				from[remote] = true
			case w[3] == stateListen:
				listens = true
			}
		}
		err = lines.Err()
		_ = f.Close()
		if err != nil {
			return nil, false, err
		}
	}
	return from, listens, nil
}

// littleEndian says in which order this machine has the bytes of a number.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// tableAddress reads an address and port of a table: groups of four bytes in the order of this machine,
// which is little-endian on all that etcd supports but s390x, and a port.
func tableAddress(text string) (netip.Addr, uint16, bool) {
	host, last, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	port, err2 := strconv.ParseUint(last, 16, 16)
	if err != nil || err2 != nil || len(raw)%4 != 0 {
		return netip.Addr{}, 0, false
	}
	if littleEndian {
		for i := 0; i+3 < len(raw); i += 4 {
			raw[i], raw[i+1], raw[i+2], raw[i+3] = raw[i+3], raw[i+2], raw[i+1], raw[i]
		}
	}
	a, ok := netip.AddrFromSlice(raw)
	return a.Unmap(), uint16(port), ok
}
