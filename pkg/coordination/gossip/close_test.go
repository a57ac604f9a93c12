package gossip

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func TestCloseEndsEverything(t *testing.T) {
	nodes := peerGroup(t, "a", "b", "c")
	for _, n := range nodes {
		n.crash()
	}
	eventually(t, leftovers)
	if n, err := nodes[0].Join(t.Context(), []string{nodes[1].address}); n != 0 || err == nil ||
		!strings.Contains(err.Error(), "closed") {
		t.Errorf("join after close: %d, %v", n, err)
	}
	if err := nodes[0].Leave(t.Context()); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("leave after close: %v", err)
	}
	if err := nodes[0].Close(t.Context()); err != nil {
		t.Errorf("a second close: %v", err)
	}
	if got := len(nodes[0].Peers()); got != 3 {
		t.Errorf("%d peers after close", got)
	}
}

func TestTheServerStopsGracefullyAfterClose(t *testing.T) {
	t.Parallel()
	nodes := peerGroup(t, "a", "b")
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	if err := nodes[0].Close(ctx); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		nodes[0].server.GracefulStop()
	}()
	select {
	case <-stopped:
	case <-time.After(testwait.Limit):
		t.Error("streams are left open")
	}
	await(t, "-a b", nodes[1])
}

func TestCloseDoesNotWaitLongerThanItsContext(t *testing.T) {
	t.Parallel()
	a := start(t, "a", setup{})
	hold := make(chan struct{})
	a.transport.start(func() { <-hold })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := a.Close(ctx); err == nil {
		t.Error("no error")
	}
	close(hold)
}
