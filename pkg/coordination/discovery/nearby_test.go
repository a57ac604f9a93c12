package discovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func TestCheckRange(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/24":       "",
		"10.0.0.0/22":       "",
		"10.0.0.7/32":       "",
		"fd00::/118":        "",
		"10.0.0.0/21":       "more than 1024 addresses",
		"0.0.0.0/0":         "more than 1024 addresses",
		"fd00::/64":         "more than 1024 addresses",
		"10.0.0.7/24":       "10.0.0.0/24",
		"224.0.0.0/24":      "no machine",
		"ff02::/120":        "no machine",
		"0.0.0.0/24":        "no machine",
		"::ffff:a00:0/120":  "write 10.0.0.0",
		"::ffff:10.0.0.0/8": "write 10.0.0.0",
	} {
		err := CheckRange(netip.MustParsePrefix(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if CheckRange(netip.Prefix{}) == nil {
		t.Error("no range is one")
	}
}

// listenAt listens at a port of several addresses. What is connected there gets
// the greeting of the address, and none where that is empty.
func listenAt(t *testing.T, greetings map[string]string) uint16 {
	t.Helper()
	for {
		port := uint16(20000 + rand.N(20000))
		if listenAll(t, port, greetings) {
			return port
		}
	}
}

func listenAll(t *testing.T, port uint16, greetings map[string]string) bool {
	t.Helper()
	var all []net.Listener
	for address := range greetings {
		l, err := net.Listen("tcp", netip.AddrPortFrom(netip.MustParseAddr(address), port).String())
		if err != nil {
			for _, l := range all {
				_ = l.Close()
			}
			return false
		}
		all = append(all, l)
	}
	for _, l := range all {
		host, _, _ := net.SplitHostPort(l.Addr().String())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				if g := greetings[host]; g != "" {
					_, _ = io.WriteString(c, g)
				}
				t.Cleanup(func() { _ = c.Close() })
			}
		}()
		t.Cleanup(func() { _ = l.Close(); <-ended })
	}
	return true
}

const daemonGreeting = "daemon"

// proveByGreeting believes who greets as a daemon.
func proveByGreeting(ctx context.Context, c net.Conn) error {
	end, _ := ctx.Deadline()
	if err := c.SetReadDeadline(end); err != nil {
		return err
	}
	b := make([]byte, len(daemonGreeting))
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	if string(b) != daemonGreeting {
		return fmt.Errorf("it said %q", b)
	}
	return nil
}

// finds scans until what is found is wanted: on a busy machine one may be late to prove
// what it is.
func (n *Nearby) finds(t *testing.T, want ...string) {
	t.Helper()
	testwait.For(t, "what is in "+n.Range.String(), func(context.Context) error {
		ctx, cancel := context.WithTimeout(t.Context(), ScanLimit)
		defer cancel()
		found, err := n.Scan(ctx)
		if got := addresses(found); err != nil || !slices.Equal(got, want) {
			return fmt.Errorf("found %q, %w, want %q", got, err, want)
		}
		return nil
	})
}

func addresses(found []Seed) (all []string) {
	for _, s := range found {
		if s.Name != "" {
			all = append(all, "named "+string(s.Name))
		}
		all = append(all, netip.MustParseAddrPort(s.Address).Addr().String())
	}
	return all
}

// A scan finds those that prove to be daemons, in the whole range, and not this
// one.
func TestScan(t *testing.T) {
	t.Parallel()
	port := listenAt(t, map[string]string{
		"127.9.8.1": daemonGreeting, "127.9.8.2": daemonGreeting, "127.9.8.3": "stranger", "127.9.8.4": "",
		"127.9.11.254": daemonGreeting, "127.9.12.1": daemonGreeting,
	})
	n := &Nearby{
		Self: netip.MustParseAddrPort(fmt.Sprint("127.9.8.1:", port)), Range: netip.MustParsePrefix("127.9.8.0/22"),
		Prove: proveByGreeting,
	}
	if err := CheckRange(n.Range); err != nil {
		t.Fatal(err)
	}
	n.finds(t, "127.9.8.2", "127.9.11.254")
	// Half of an answer would be taken for the whole.
	ctx, cancel := context.WithCancel(t.Context())
	n.Prove = func(ctx context.Context, c net.Conn) error { cancel(); return nil }
	if found, err := n.Scan(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a scan that was ended says %v, %v", found, err)
	}
}

// The smallest ranges have no address that means all.
func TestScanOfFew(t *testing.T) {
	t.Parallel()
	port := listenAt(t, map[string]string{"127.9.20.0": daemonGreeting, "127.9.20.1": daemonGreeting})
	for text, want := range map[string]string{
		"127.9.20.0/31": "127.9.20.0 127.9.20.1", "127.9.20.1/32": "127.9.20.1", "127.9.20.0/30": "127.9.20.1",
	} {
		n := &Nearby{
			Self: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), port), Range: netip.MustParsePrefix(text),
			Prove: proveByGreeting,
		}
		n.finds(t, strings.Fields(want)...)
	}
}

// Where everybody accepts and says nothing, a scan ends all the same, at once with
// its context.
func TestScanOfWhatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	port := listenAt(t, map[string]string{"127.9.30.1": "", "127.9.30.2": ""})
	n := &Nearby{
		Self: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), port), Range: netip.MustParsePrefix("127.9.30.0/29"),
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n.Prove = func(proving context.Context, _ net.Conn) error {
		cancel()
		<-proving.Done()
		return proving.Err()
	}
	if found, err := n.Scan(ctx); !errors.Is(err, context.Canceled) || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}
