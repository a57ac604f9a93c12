package gossip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/memberlist"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/etcdadm/etcdadm/pkg/coordination/internal/nodepb"
)

const (
	// linkQueue is how many packets wait for a slow node. More are lost.
	linkQueue = 32
	// linkIdleTimeout is after how much time without a packet a link ends.
	linkIdleTimeout = time.Minute
	// linkLimit bounds the opening of a stream, and each sending on it.
	linkLimit = 3 * time.Second
	// linkPause is how long packets are lost after a failure before the next
	// try.
	linkPause = 200 * time.Millisecond
)

// A link sends packets to one node, over one stream that is opened when it is
// needed.
type link struct {
	t  *transport
	to memberlist.Address
	// queue is filled by the transport.
	queue chan []byte
	// last is closed when no more packets follow; done when the link has ended.
	last, done chan struct{}

	// The rest belongs to run.
	stream frames
	cancel context.CancelFunc
	retry  time.Time
	failed bool
}

func newLink(t *transport, to memberlist.Address) *link {
	return &link{
		t: t, to: to,
		queue: make(chan []byte, linkQueue),
		last:  make(chan struct{}),
		done:  make(chan struct{}),
	}
}

func (l *link) run() {
	defer close(l.done)
	defer l.shut()
	idle := time.NewTimer(linkIdleTimeout)
	defer idle.Stop()
	for {
		select {
		case <-l.t.ctx.Done():
			return
		case b := <-l.queue:
			l.deliver(b)
			idle.Reset(linkIdleTimeout)
		case <-l.last:
			l.finish()
			return
		case <-idle.C:
			if l.t.forget(l) {
				return
			}
			idle.Reset(linkIdleTimeout)
		}
	}
}

// deliver sends a packet or loses it. It tries twice where the stream is an
// old one that broke, as it does when the node restarts. A node that refuses
// the stream would refuse the next.
func (l *link) deliver(b []byte) {
	if time.Now().Before(l.retry) {
		return
	}
	old := l.stream != nil
	err := l.send(b)
	if old && status.Code(err) == codes.Unavailable {
		err = l.send(b)
	}
	if err == nil {
		l.failed = false
		return
	}
	l.retry = time.Now().Add(linkPause)
	if !l.failed && l.t.ctx.Err() == nil {
		l.failed = true
		l.t.o.Log("gossip to %s: %v", l.to.String(), err)
	}
}

func (l *link) send(b []byte) error {
	if l.stream == nil {
		if err := l.open(); err != nil {
			return err
		}
	}
	limit := time.AfterFunc(linkLimit, l.cancel)
	defer limit.Stop()
	err := transmit(l.stream, b)
	if errors.Is(err, io.EOF) {
		// The stream has ended, and only receiving shows why.
		_, err = receive(l.stream)
	}
	if err != nil {
		l.shut()
	}
	return err
}

func (l *link) open() error {
	ctx, cancel := context.WithCancel(l.t.ctx)
	limit := time.AfterFunc(linkLimit, cancel)
	stream, err := l.t.open(ctx, l.to, nodepb.GossipClient.Packets)
	if !limit.Stop() && l.t.ctx.Err() == nil {
		err = fmt.Errorf("no connection within %v", linkLimit)
	}
	if err != nil {
		cancel()
		return err
	}
	l.stream, l.cancel = stream, cancel
	return nil
}

// finish sends what is left and waits until the node has it all.
func (l *link) finish() {
	for len(l.queue) > 0 {
		l.deliver(<-l.queue)
	}
	if l.stream == nil || l.stream.CloseSend() != nil {
		return
	}
	limit := time.AfterFunc(linkLimit, l.cancel)
	defer limit.Stop()
	// The node sends nothing: this waits for the end of its stream.
	_, _ = receive(l.stream)
}

func (l *link) shut() {
	if l.stream != nil {
		l.cancel()
		l.stream, l.cancel = nil, nil
	}
}
