package nodeobserve

import (
	"context"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

const (
	// rightsInterval is how often etcd is asked what the daemon may do there. Each question
	// is an entry of raft's log.
	rightsInterval = time.Minute
	// deniedInterval is the same while the daemon lacks rights: somebody may be giving them.
	deniedInterval = 10 * time.Second
	rightsTimeout  = 5 * time.Second
)

// A rightsWatch asks in the background what the daemon may do in etcd: reading may be
// allowed, and a backup or a change of the members not.
type rightsWatch struct {
	mu    sync.Mutex
	token cluster.Token
	busy  bool
	at    time.Time
	got   *cluster.NoRoot
}

// due reports whether it is time to ask again.
func (w *rightsWatch) due(now time.Time) bool {
	if w.got != nil {
		return now.Sub(w.at) >= deniedInterval
	}
	return now.Sub(w.at) >= rightsInterval
}

// noRoot returns what is known of the daemon's rights, and has it asked where that is due.
func (o *Observer) noRoot(ctx context.Context, s nodestate.State) *cluster.NoRoot {
	w := &o.rights
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.token != s.Assigned.Token {
		w.token, w.got, w.at = s.Assigned.Token, nil, time.Time{}
	}
	if w.busy || !w.due(time.Now()) {
		return w.got
	}
	w.busy = true
	go func() {
		got, err := o.askRights(context.WithoutCancel(ctx), s)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.busy, w.at = false, time.Now()
		if err == nil && w.token == s.Assigned.Token {
			w.got = got
		}
	}()
	return w.got
}

func (o *Observer) askRights(ctx context.Context, s nodestate.State) (*cluster.NoRoot, error) {
	ctx, cancel := context.WithTimeout(ctx, rightsTimeout)
	defer cancel()
	c, err := o.Etcd(s)
	if err != nil {
		return nil, err
	}
	user := clientName(o.ownTLS(s))
	r, err := c.Rights(ctx, user)
	if err != nil || r.Root || !r.On && !r.Ahead {
		return nil, err
	}
	return &cluster.NoRoot{User: user, On: r.On}, nil
}
