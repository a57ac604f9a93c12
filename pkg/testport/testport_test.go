package testport

import (
	"net"
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

// A connection takes a port of its own, which is none that is held.
func TestAConnectionTakesNoHeldPort(t *testing.T) {
	held := map[int]bool{}
	for range 200 {
		held[Free(t)] = true
	}
	l, err := net.Listen("tcp", Address(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 300 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if held[c.LocalAddr().(*net.TCPAddr).Port] {
			t.Errorf("a connection takes %s", c.LocalAddr())
		}
	}
}
