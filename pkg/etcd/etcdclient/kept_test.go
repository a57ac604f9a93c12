package etcdclient

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

// counted forwards connections to an address, and counts them.
func counted(t *testing.T, to string) (url string, n *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	n = new(atomic.Int32)
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			go forward(in, to)
		}
	}()
	return "http://" + l.Addr().String(), n
}

func forward(in net.Conn, to string) {
	defer in.Close()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer out.Close()
	go func() {
		_, _ = io.Copy(out, in)
		_ = out.Close()
	}()
	_, _ = io.Copy(in, out)
}

// A daemon asks every few seconds, for its whole life: a connection for each question would be
// most of what it costs.
func TestReportsShareTheirConnections(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		a, _ := initialMember(t, bin)
		url, n := counted(t, strings.TrimPrefix(a.ClientURL, "http://"))
		c, err := Open(Options{Endpoints: []string{url}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		serving(t, c)
		first := n.Load()
		for range 5 {
			if _, err := c.Report(short(t)); err != nil {
				t.Fatal(err)
			}
		}
		if more := n.Load() - first; more != 0 {
			t.Errorf("five more reports made %d more connections, the first one %d", more, first)
		}
	})
}
