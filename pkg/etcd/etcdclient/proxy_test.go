package etcdclient

import (
	"context"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"
)

// ownAddress is an address of this machine that is not loopback: those never
// go through a proxy. What is sent to it stays on the machine.
func ownAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("the machine has only loopback addresses")
	return ""
}

// childEndpoint is the variable by which the test below calls itself.
const childEndpoint = "ETCDCLIENT_TEST_ENDPOINT"

// The environment is read once in a process, so this is one of its own.
func TestNoProxyIsUsed(t *testing.T) {
	if endpoint := os.Getenv(childEndpoint); endpoint != "" {
		c, err := Open(Options{Endpoints: []string{endpoint}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, _ = c.Report(ctx) // no node answers: it is about who is connected to
		return
	}
	etcd, err := net.Listen("tcp", net.JoinHostPort(ownAddress(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	connected := make(chan string, 100)
	for name, l := range map[string]net.Listener{"etcd": etcd, "proxy": proxy} {
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				connected <- name
				c.Close()
			}
		}()
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoProxyIsUsed$")
	url := "http://" + proxy.Addr().String()
	child.Env = append(os.Environ(), "HTTPS_PROXY="+url, "HTTP_PROXY="+url, "NO_PROXY=", "no_proxy=",
		childEndpoint+"=http://"+etcd.Addr().String())
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	select {
	case who := <-connected:
		if who != "etcd" {
			t.Errorf("the client connected to the %s", who)
		}
	default:
		t.Error("the client connected to nobody")
	}
}
