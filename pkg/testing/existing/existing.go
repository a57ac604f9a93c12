// Package existing is a stand-in for the daemons of the existing etcd-manager, for tests of
// what this one does beside them and after them. It speaks their protocol, as far as that
// decides who leads: they ping all that discovery shows, count who answered within a time
// as healthy, and the lowest name of those leads, once all of them have acknowledged it; in
// each round the leader has it acknowledged again, and a round in which anybody fails is
// over. What a leader then does, and what a daemon does to its machine, is given to it:
// nothing, or what e2e/standin does.
//
// It is written from a description of the protocol. It runs no etcd and issues no
// certificates. Its tests hold it to that description. What it does not model:
//
//   - A daemon pings itself over the network too. Here it is always healthy to itself.
//   - A learned address without a port is useless there, until the daemon is started again.
//   - For a spec of one member a new leader acts at once. Here it waits a round, as for more.
//   - The leader's assertion may take 10 s at each peer. Here it may take as long as an
//     answer counts, where tests have made that shorter.
package existing

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// Options describe a [Daemon].
type Options struct {
	Name, Cluster string
	// Address is where it listens, host:port.
	Address string
	// Discovery returns where daemons are, by name.
	Discovery func() map[string]string
	// Server and Client are its credentials, nil for none.
	Server credentials.TransportCredentials
	Client func(name string) credentials.TransportCredentials
	// PingEvery is the time between two pings of one peer, Healthy for how long an answer
	// counts, Round the time between two rounds of a leader.
	PingEvery, Healthy, Round time.Duration
	// Machine is what the daemon does to its machine, nil for a daemon that only says its name.
	Machine Machine
	// Act is called by a leader in each round that all healthy peers have acknowledged, but
	// not in the first one of a leadership.
	Act func(ctx context.Context, l Leader)
}

// A Daemon is one stand-in that runs.
type Daemon struct {
	o      Options
	server *grpc.Server
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	seen    map[string]time.Time
	learned map[string]string // addresses that pings and views have brought, by name
	pinging map[string]bool
	conns   map[string]*grpc.ClientConn // by name
	// token is that of the leader that was accepted last; own is the one with which this
	// daemon leads, which those in acked have accepted when it began.
	token, own     string
	acked          []string
	rounds, failed int
}

// Start starts a daemon.
func Start(ctx context.Context, o Options) (*Daemon, error) {
	l, err := net.Listen("tcp", o.Address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	d := &Daemon{
		o: o, cancel: cancel, seen: map[string]time.Time{o.Name: time.Now()}, conns: map[string]*grpc.ClientConn{},
		pinging: map[string]bool{}, learned: map[string]string{},
	}
	options := []grpc.ServerOption{grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(d.serve)}
	if o.Server != nil {
		options = append(options, grpc.Creds(o.Server))
	}
	d.server = grpc.NewServer(options...)
	d.wg.Go(func() { _ = d.server.Serve(l) }) // until it is stopped
	d.wg.Go(func() { d.every(ctx, o.PingEvery, d.pingAll) })
	d.wg.Go(func() { d.every(ctx, o.Round, d.round) })
	return d, nil
}

// Stop ends the daemon at once, as the existing one ends.
func (d *Daemon) Stop() {
	d.cancel()
	d.server.Stop()
	d.wg.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		_ = c.Close()
	}
}

// Rounds returns how many rounds it has led that all healthy peers have acknowledged, and
// how many failed.
func (d *Daemon) Rounds() (done, failed int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rounds, d.failed
}

func (d *Daemon) every(ctx context.Context, pause time.Duration, f func(context.Context)) {
	for {
		f(ctx)
		if wait.For(ctx, pause) != nil {
			return
		}
	}
}

func (d *Daemon) self() []byte { return peerInfo(d.o.Name, d.o.Address) }

// healthy returns the names of those that have answered, or called, lately.
func (d *Daemon) healthy() (list []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[d.o.Name] = time.Now()
	for name, at := range d.seen {
		if time.Since(at) <= d.o.Healthy {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

func (d *Daemon) serve(_ any, ss grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(ss)
	var in, out []byte
	if err := ss.RecvMsg(&in); err != nil {
		return err
	}
	switch method {
	case ping:
		d.learn(field(in, 1))
		d.see(string(field(field(in, 1), 1)))
		out = message(nil, 1, d.self())
	case notification:
		out = d.notified(field(in, 1))
	default:
		var err error
		if out, err = d.answer(ss.Context(), method, in); err != nil {
			return err
		}
	}
	return ss.SendMsg(&out)
}

func (d *Daemon) see(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[name] = time.Now()
}

// learn remembers where a peer says that it is.
func (d *Daemon) learn(info []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.learned[string(field(info, 1))] = string(field(info, 2))
}

// peers returns where the daemons are: what discovery says first. None is ever forgotten.
func (d *Daemon) peers() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := maps.Clone(d.learned)
	maps.Copy(all, d.o.Discovery())
	return all
}

// pingAll pings each peer that does not owe an answer: one that hangs delays no other.
func (d *Daemon) pingAll(ctx context.Context) {
	for name := range d.peers() {
		_, _ = d.conn(name) // another address ends a ping that hangs
		d.mu.Lock()
		waits := d.pinging[name] || name == d.o.Name
		d.pinging[name] = true
		d.mu.Unlock()
		if waits {
			continue
		}
		d.wg.Go(func() {
			if _, err := d.call(ctx, name, ping, 0, message(nil, 1, d.self())); err == nil {
				d.see(name)
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			d.pinging[name] = false
		})
	}
}

// call calls a method of a daemon, and waits for at most that time, for 0 without a limit.
func (d *Daemon) call(ctx context.Context, name, method string, within time.Duration, in []byte) ([]byte, error) {
	if name == d.o.Name && method == notification {
		return d.notified(field(in, 1)), nil
	}
	c, err := d.conn(name)
	if err != nil {
		return nil, err
	}
	if within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	var out []byte
	if err := c.Invoke(ctx, method, &in, &out, grpc.ForceCodec(raw{})); err != nil {
		return nil, fmt.Errorf("call %s of %s: %w", method, name, err)
	}
	return out, nil
}

func (d *Daemon) conn(name string) (*grpc.ClientConn, error) {
	address, known := d.peers()[name]
	if !known {
		return nil, fmt.Errorf("the address of %s is not known", name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	target := "passthrough:///" + address
	if c := d.conns[name]; c != nil {
		if c.Target() == target {
			return c, nil
		}
		_ = c.Close() // what waits for an answer from there is over
		delete(d.conns, name)
	}
	creds := insecure.NewCredentials()
	if d.o.Client != nil {
		creds = d.o.Client(name)
	}
	c, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds))
	if err == nil {
		d.conns[name] = c
	}
	return c, err
}
