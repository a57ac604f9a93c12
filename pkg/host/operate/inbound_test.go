package operate

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// The kernel's tables show connections to a port, and from where.
func TestInboundOfThisMachine(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := netip.MustParseAddrPort(listener.Addr().String()).Port()
	if from, listens, err := inbound("/proc/self/net", port); err != nil || len(from) != 0 || !listens {
		t.Errorf("nobody is connected, and %v, %v", from, err)
	}
	out, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}).Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	from, _, err := inbound("/proc/self/net", port)
	if err != nil || !from[netip.MustParseAddr("127.0.0.9")] || len(from) != 1 {
		t.Errorf("connected is 127.0.0.9, and not %v, %v", from, err)
	}
}

func TestInboundTables(t *testing.T) {
	if !littleEndian {
		t.Skip("the tables are of a machine with little-endian numbers")
	}
	dir := t.TempDir()
	const head = "  sl  local_address rem_address   st tx_queue rx_queue\n"
	write := func(name, lines string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(head+lines), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := inbound(dir, 2380); err == nil {
		t.Error("without tables nothing is known")
	}
	write("tcp", "   0: 0100007F:094C 020200C0:C350 01 00000000:00000000\n"+ // 127.0.0.1:2380 from 192.0.2.2
		"   1: 0100007F:094C 030200C0:C350 06 00000000:00000000\n"+ // it has ended
		"   2: 00000000:094C 00000000:0000 0A 00000000:00000000\n"+ // it listens
		"   3: 0100007F:C350 040200C0:094C 01 00000000:00000000\n"+ // it goes out
		"   4: broken\n   5: xx:094C 050200C0:1 01\n")
	want := func(addresses ...string) {
		t.Helper()
		from, listens, err := inbound(dir, 2380)
		for _, a := range addresses {
			if !from[netip.MustParseAddr(a)] {
				t.Errorf("no %s in %v", a, from)
			}
		}
		if err != nil || len(from) != len(addresses) || !listens {
			t.Errorf("from %v, %v, want %v", from, err, addresses)
		}
	}
	want("192.0.2.2")
	// An IPv4 address in the table of IPv6, and 2001:db8::7.
	write("tcp6", "   0: 00000000000000000000000000000000:094C 0000000000000000FFFF0000080200C0:C350 01 0\n"+
		"   1: 00000000000000000000000000000000:094C B80D0120000000000000000007000000:C350 01 0\n")
	want("192.0.2.2", "192.0.2.8", "2001:db8::7")
}

// Members that are not seen are known not to be connected only where nobody else is.
func TestConnectedMembers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	cfg := machine.Defaults()
	cfg.Name, cfg.Listen.Address = "c", "127.0.0.1"
	cfg.Listen.PeerPort = int(netip.MustParseAddrPort(listener.Addr().String()).Port())
	m := &Machine{cfg: cfg}
	members := []cluster.Member{
		{ID: 1, Name: "a", PeerURLs: []string{"https://127.0.0.8:2380"}},
		{ID: 2, Name: "b", PeerURLs: []string{"https://127.0.0.9:2380"}},
	}
	connect := func(ip byte) {
		t.Helper()
		out, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, ip)}}).Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { out.Close() })
		in, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close() })
	}
	want := func(a, b machine.Reach) {
		t.Helper()
		if seen := m.connected(t.Context(), members); seen[1] != a || seen[2] != b {
			t.Errorf("a is %q and b %q, want %q and %q", seen[1], seen[2], a, b)
		}
	}
	want(machine.NotReached, machine.NotReached)
	connect(8)
	want(machine.Reached, machine.NotReached)
	connect(7) // b, through another address, or somebody else
	want(machine.Reached, machine.ReachUnknown)
	connect(9)
	want(machine.Reached, machine.Reached)
	listener.Close()
	want(machine.ReachUnknown, machine.ReachUnknown) // its etcd is elsewhere
}
