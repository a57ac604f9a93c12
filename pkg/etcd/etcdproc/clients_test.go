package etcdproc

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// serve takes a connection at each of two addresses, a client's and a peer's. On SIGTERM
// it waits, as etcd does, until the client has gone, and for longer. It complains if the
// peer has.
func serve(addresses string) {
	stopping := make(chan os.Signal, 1)
	signal.Notify(stopping, syscall.SIGTERM)
	var taken []net.Conn
	for address := range strings.SplitSeq(addresses, ",") {
		l, err := net.Listen("tcp", address)
		if err != nil {
			fmt.Println("complaint", err)
			return
		}
		fmt.Println("listens", address)
		c, err := l.Accept()
		if err != nil {
			fmt.Println("complaint", err)
			return
		}
		taken = append(taken, c)
	}
	fmt.Println("serves")
	<-stopping
	_, err := taken[0].Read(make([]byte, 1))
	fmt.Println("the client has gone:", err)
	_ = taken[1].SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := taken[1].Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		fmt.Println("complaint", err)
	}
}

// A process that ends when its clients have gone ends although they stay. Its peers'
// connections are not ended for it, nor those of others at the same port.
func TestClientsKeepNoProcess(t *testing.T) {
	for listens, client := range map[string]string{"127.0.0.1": "127.0.0.1", "::1": "::1", "::": "127.0.0.1"} {
		t.Run(listens, func(t *testing.T) {
			port := testport.FreeOf(t, listens)
			addresses := []string{net.JoinHostPort(listens, fmt.Sprint(port)), testport.Address(t)}
			s, out := supervise(t, Options{StopTimeout: testwait.Limit})
			cfg := does("serve:" + strings.Join(addresses, ","))
			cfg.ClientPorts = []uint16{uint16(port)}
			start(t, s, cfg)
			var others net.Conn
			if listens == "127.0.0.1" {
				l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.2:%d", port))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = l.Close() })
				connect(t, l.Addr().String())
				if others, err = l.Accept(); err != nil {
					t.Fatal(err)
				}
			}
			for i, to := range []string{net.JoinHostPort(client, fmt.Sprint(port)), addresses[1]} {
				testwait.Until(t, "it listens", func() bool { return out.has("listens " + addresses[i]) })
				connect(t, to)
			}
			testwait.Until(t, "it serves", func() bool { return out.has("serves") })
			if err := s.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if how := s.Status().LastExit; !strings.HasPrefix(how, "exit status 0") {
				t.Errorf("it ended with %q", how)
			}
			if slices.ContainsFunc(out.all(), func(line string) bool { return strings.HasPrefix(line, "complaint") }) {
				t.Errorf("it said %q", out.all())
			}
			if others != nil {
				if _, err := others.Write([]byte{0}); err != nil {
					t.Errorf("a connection of another process: %v", err)
				}
			}
		})
	}
}

// connect opens a connection that stays until the test ends.
func connect(t *testing.T, address string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
}
