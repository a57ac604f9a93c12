package daemon

import (
	"context"
	"net"
	"time"

	"github.com/etcdadm/etcdadm/pkg/observe"
	"github.com/etcdadm/etcdadm/pkg/store"
)

type crowd struct {
	d        *Daemon
	listener net.Listener
	wake     chan struct{}
}

func newCrowd(d *Daemon, l net.Listener) (*crowd, error) {
	return &crowd{d: d, listener: l, wake: make(chan struct{}, 1)}, nil
}

func (c *crowd) run(ctx context.Context) {
	_ = c.d.store.PutNode(ctx, store.NodeRecord{Name: c.d.name, Address: c.d.node.address, Boot: c.d.node.boot, At: time.Now()})
	<-ctx.Done()
}

func (c *crowd) close(context.Context) {}

func (c *crowd) peers() []observe.Peer {
	list := []observe.Peer{{Name: c.d.name, Address: c.d.node.address}}
	for _, r := range c.d.view.Answer(context.TODO()).Records {
		if r.Name != c.d.name {
			list = append(list, observe.Peer{Name: r.Name, Address: r.Address})
		}
	}
	return list
}

func (c *crowd) candidate() bool { return true }

func (c *crowd) changed() <-chan struct{} { return c.wake }
