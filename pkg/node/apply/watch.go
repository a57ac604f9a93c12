package apply

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// watchInterval is how often it is tried to find out who runs the member, while etcd's record
// of it and the node differ, and whether there are binaries by now where there were none.
const watchInterval = time.Second

// Watch watches the disk, and whether another machine runs this node's member, until ctx
// ends: with a [*nodeobserve.TwinError], after it has stopped this one. A node that was started while
// it saw nobody finds that out here, by etcd's record of where the member is.
func (l *Local) Watch(ctx context.Context) error {
	done := make(chan struct{})
	defer func() { <-done }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(done)
		l.observer.WatchDisk(ctx)
	}()
	for l.awaitWork(ctx) == nil {
		if err := l.replaced(ctx); err != nil {
			return err
		}
		if err := l.bootLate(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// awaitWork returns a tick after there is something for Watch to do: a daemon at rest does
// not wake up to find that there is nothing.
func (l *Local) awaitWork(ctx context.Context) error {
	for !l.lacking.Load() && l.elsewhere() == nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.work:
		}
	}
	return wait.For(ctx, watchInterval)
}

// wakeWatch has Watch see what has changed.
func (l *Local) wakeWatch() {
	select {
	case l.work <- struct{}{}:
	default:
	}
}

// remember keeps how etcd has the member on record.
func (l *Local) remember(r *cluster.Report) {
	if i := slices.IndexFunc(r.Members, func(m cluster.Member) bool { return m.ID == r.ID }); i >= 0 {
		l.recorded.Store(&r.Members[i])
		if l.elsewhere() != nil {
			l.wakeWatch()
		}
	}
}

// elsewhere returns etcd's record of the member where that is not where this node has it.
func (l *Local) elsewhere() *cluster.Member {
	record := l.recorded.Load()
	serving, started := l.observer.Serving()
	if record == nil || !started || cluster.SharePeerURL(record.PeerURLs, l.o.URLs.Peer) ||
		cluster.SharePeerURL(record.PeerURLs, serving) {
		return nil
	}
	return record
}

// replaced stops the member if etcd looks for it elsewhere, and it answers there.
func (l *Local) replaced(ctx context.Context) error {
	record := l.elsewhere()
	if record == nil {
		return nil
	}
	twin := l.observer.RunsAt(ctx, record.ID, record.PeerURLs)
	if twin == nil {
		return nil
	}
	if err := l.o.Proc.Stop(ctx); err != nil {
		return fmt.Errorf("%w; and its etcd does not stop: %w", twin, err)
	}
	return twin
}
