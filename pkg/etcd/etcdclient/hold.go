package etcdclient

import (
	"context"
	"fmt"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// holdKey is watched by a [Hold]. Nobody writes it.
const holdKey = "etcdadm/hold"

// A Hold is a client that stays connected to a member, and asks nothing. A member that is asked
// to end waits for it.
type Hold struct {
	c      *Client
	cancel context.CancelFunc
	done   chan struct{}
	once   sync.Once
}

// HoldOpen returns a hold that the member knows of. Ctx is for the time until then.
func HoldOpen(ctx context.Context, o Options) (*Hold, error) {
	c, err := Open(o)
	if err != nil {
		return nil, err
	}
	stay, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &Hold{c: c, cancel: cancel, done: make(chan struct{})}
	opened := make(chan error, 1)
	go h.listen(stay, opened)
	select {
	case err = <-opened:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		h.Close()
		return nil, fmt.Errorf("stay connected to %s: %w", c.endpoints[0], plain(err))
	}
	return h, nil
}

// listen opens the stream and reads from it until it ends.
func (h *Hold) listen(ctx context.Context, opened chan<- error) {
	defer close(h.done)
	stream, err := etcdserverpb.NewWatchClient(h.c.c.ActiveConnection()).Watch(ctx)
	if err == nil {
		err = stream.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{
			CreateRequest: &etcdserverpb.WatchCreateRequest{Key: []byte(holdKey)},
		}})
	}
	if err == nil {
		_, err = stream.Recv() // also where the watch is refused, the stream is open
	}
	opened <- err
	for err == nil {
		_, err = stream.Recv()
	}
}

// Done is closed when the member is no longer connected.
func (h *Hold) Done() <-chan struct{} { return h.done }

// Close ends the connection, and may be called again.
func (h *Hold) Close() {
	h.once.Do(func() {
		h.cancel()
		_ = h.c.Close()
	})
}
