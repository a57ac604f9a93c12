package testport

import (
	"net"
	"syscall"
	"testing"
)

func TestAPortIsFreeForWhoNamesItAndForNobodyElse(t *testing.T) {
	for _, address := range []string{Local, "127.3.2.1", "::1"} {
		t.Run(address, func(t *testing.T) {
			l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
			if err != nil {
				t.Skip(err)
			}
			l.Close()
			holds(t, address)
		})
	}
}

func holds(t *testing.T, at string) {
	t.Helper()
	held := map[string]bool{}
	for range 50 {
		held[AddressOf(t, at)] = true
	}
	if len(held) != 50 {
		t.Errorf("%d ports of 50 are different", len(held))
	}
	for address := range held {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Errorf("who names it cannot have it: %v", err)
			continue
		}
		l.Close()
	}
	for range 500 {
		l, err := net.Listen("tcp", net.JoinHostPort(at, "0"))
		if err != nil {
			t.Fatal(err)
		}
		if held[l.Addr().String()] {
			t.Errorf("the kernel gives %s away", l.Addr())
		}
		defer l.Close()
	}
}

func TestWhatIsNoAddressOfThisMachine(t *testing.T) {
	for _, address := range []string{"", "localhost", "192.0.2.1", "2001:db8::1"} {
		if _, _, err := hold(address); err == nil {
			t.Errorf("a port of %q is held", address)
		}
	}
}

// A connection does not get a held port either, even where it may have no other
// (IP_LOCAL_PORT_RANGE of ip(7), Linux 6.3).
func TestAConnectionTakesNoHeldPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fd, port, err := hold(Local)
	if err != nil {
		t.Fatal(err)
	}
	const ipLocalPortRange = 51
	var unknown error
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			unknown = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, ipLocalPortRange, port<<16|port)
		})
	}}
	c, err := dialer.DialContext(t.Context(), "tcp", l.Addr().String())
	if unknown != nil {
		t.Skipf("this kernel gives connections any port: %v", unknown)
	}
	if err == nil {
		t.Errorf("a connection takes %s", c.LocalAddr())
		c.Close()
	}
	if err := syscall.Close(fd); err != nil {
		t.Fatal(err)
	}
	if c, err = dialer.DialContext(t.Context(), "tcp", l.Addr().String()); err != nil {
		t.Fatalf("nor the one that is held no more: %v", err)
	}
	c.Close()
}
