package testport

import (
	"net"
	"testing"
)

func TestAPortIsFreeForWhoNamesItAndForNobodyElse(t *testing.T) {
	held := map[string]bool{}
	for range 50 {
		held[Address(t)] = true
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
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if held[l.Addr().String()] {
			t.Errorf("the kernel gives %s away", l.Addr())
		}
		defer l.Close()
	}
}
