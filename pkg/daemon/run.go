package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/apply"
	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/etcdproc"
	"github.com/etcdadm/etcdadm/pkg/fleet"
	"github.com/etcdadm/etcdadm/pkg/hostfs"
	"github.com/etcdadm/etcdadm/pkg/lease"
	"github.com/etcdadm/etcdadm/pkg/listen"
	"github.com/etcdadm/etcdadm/pkg/nodestate"
	"github.com/etcdadm/etcdadm/pkg/reconcile"
	"github.com/etcdadm/etcdadm/pkg/rpc"
	"github.com/etcdadm/etcdadm/pkg/rpc/election"
	"github.com/etcdadm/etcdadm/pkg/stage"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// stopTimeout bounds how long a daemon takes to end: etcd's own SIGTERM
// timeout and a little more.
const stopTimeout = 15 * time.Second

// A Daemon is one running etcd-manager.
type Daemon struct {
	c    Config
	name cluster.NodeName
	log  *slog.Logger
	now  func() time.Time

	state  *nodestate.File
	keys   *keys
	store  *store.Store
	proc   *etcdproc.Supervisor
	node   *node
	pool   *rpc.Pool
	server *rpc.Server
	crowd  *crowd
	view   *fleet.StoreView
	fleet  *fleet.Fleet
	pub    *publisher
	nums   *metrics
	// keeping is held while something is written that the node remembers of the
	// store.
	keeping sync.Mutex
	// progress says whether the loop turns.
	progress progress

	// closers end what was opened, last first.
	closers []func(ctx context.Context)
}

// Run runs a daemon until ctx ends. It returns nil after an orderly end, and
// the reason where the daemon could not start or its port failed.
func Run(ctx context.Context, c Config, log *slog.Logger) error {
	d := &Daemon{c: c, log: log, now: time.Now}
	defer d.close(context.WithoutCancel(ctx))
	if err := d.open(ctx); err != nil {
		return err
	}
	return d.run(ctx)
}

// open builds the daemon from the disk outwards. The member starts as soon as
// its disk has been read: it needs neither port nor store.
func (d *Daemon) open(ctx context.Context) error {
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"read the data directory", d.openState},
		{"load the certificates", d.openKeys},
		{"open the store", d.openStore},
		{"supervise etcd", d.openProcess},
		{"open the port", d.openPort},
		{"join the other daemons", d.openFleet},
	} {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

func (d *Daemon) onClose(f func(ctx context.Context)) { d.closers = append(d.closers, f) }

func (d *Daemon) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	for i := len(d.closers) - 1; i >= 0; i-- {
		d.closers[i](ctx)
	}
}

func (d *Daemon) openState(context.Context) error {
	d.name = cluster.NodeName(d.c.NodeName)
	if d.name == "" {
		id, err := nodestate.MyID(d.c.DataDir)
		if err != nil {
			return err
		}
		d.name = cluster.NodeName(id)
	}
	urls, err := d.c.URLs(d.name)
	if err != nil {
		return err
	}
	d.state, err = nodestate.Open(d.c.DataDir, nodestate.Self{Name: d.name, URLs: urls, TLS: !d.c.EtcdInsecure})
	if err != nil {
		return err
	}
	d.onClose(func(context.Context) { _ = d.state.Close() })
	return nil
}

func (d *Daemon) openKeys(context.Context) (err error) {
	for _, text := range d.c.Warnings() {
		d.log.Warn(text)
	}
	d.keys, err = newKeys(d.c, d.name, d.now)
	return err
}

func (d *Daemon) openStore(ctx context.Context) (err error) {
	d.store, err = store.Open(ctx, d.c.BackupStore)
	if err != nil {
		return err
	}
	d.c.Backups.Fetch.Cluster = d.c.ClusterName
	d.view = fleet.NewStoreView(d.store, time.Second, d.now)
	d.view.Vet(d.c.Backups.Fetch)
	d.onClose(func(ctx context.Context) {
		d.view.Close()
		// A store that hangs must not keep the daemon from ending.
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = d.store.Close(ctx)
	})
	return nil
}

// openProcess starts the member that the disk tells of.
func (d *Daemon) openProcess(ctx context.Context) (err error) {
	d.proc, err = etcdproc.New(ctx, etcdproc.Options{Dir: d.c.DataDir, Log: d.etcdLine})
	if err != nil {
		return err
	}
	urls, err := d.c.URLs(d.name)
	if err != nil {
		return err
	}
	metricsURLs, err := etcdconf.Expand(d.c.MetricsURLs, d.c.Address, string(d.name))
	if err != nil {
		return err
	}
	voter := election.NewVoter(election.VoterOptions{
		Cluster: d.c.ClusterName, Self: d.name, Durable: durable(d.state), Persist: persist(d.state), Now: d.now,
	})
	o := apply.LocalOptions{
		Name: d.name, DataDir: d.c.DataDir, URLs: urls, ListenAddress: d.c.EtcdAddress, MetricsURLs: metricsURLs,
		UserEnv: d.c.UserEnv, HostsFile: d.c.HostsFile, HostsKey: hostfs.HostsKey(d.c.ClusterName),
		Bounds: apply.Bounds{DNSSuffix: d.c.Policy.DNSSuffix},
		State:  d.state, Elector: voter, Proc: d.proc, Bin: etcdbin.Finder{Dirs: d.c.EtcdDirs},
		Backups:   taker{store: d.store, cluster: d.c.ClusterName, how: d.c.Backups, spec: d.spec},
		Inspector: inspector{d.store, d.c.Backups, string(d.name), d.c.EtcdDirs, d.c.Backups.TempDir, d.log},
		Restorer:  stage.Stager{Store: d.store, Fetch: d.c.Backups.Fetch}, Now: d.now,
	}
	if !d.c.EtcdInsecure {
		o.TLS = d.keys
	}
	d.node = &node{boot: fleet.NewToken(), local: apply.NewLocal(o), voter: voter, state: d.state, keys: d.keys, now: d.now}
	d.onClose(func(ctx context.Context) {
		if err := d.node.local.Close(ctx); err != nil {
			d.log.Error("etcd did not stop", "error", err)
		}
	})
	if bad := (&lease.BadTermError{Term: durable(d.state).Term}); bad.Term > lease.MaxTerm {
		d.log.Error("this node cannot vote or obey", "error", bad, "hint", bad.Hint())
	}
	if len(durable(d.state).Electors.Names) > 0 {
		// An elector knows of no vote since it started, and counts from now.
		d.node.voted.Store(&vote{at: d.now()})
	}
	if err := d.node.local.Boot(ctx); err != nil {
		// The daemon is of use without its etcd: it tells the others why.
		d.log.Error("etcd cannot be started from this disk", "error", err)
	}
	return nil
}

func (d *Daemon) etcdLine(line string) {
	if d.c.EtcdLog != nil {
		fmt.Fprintf(d.c.EtcdLog, "etcd: %s\n", line)
	}
}

func (d *Daemon) openPort(ctx context.Context) error {
	listener, err := net.Listen("tcp", d.c.Listen())
	if err != nil && d.state.State().Assigned == nil {
		return fmt.Errorf("%w (is another daemon running here, or --grpc-port taken?)", err)
	}
	if err != nil {
		if listener, err = d.listen(ctx, "grpc", d.c.Listen()); err != nil {
			return err
		}
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	d.node.address = net.JoinHostPort(d.c.Address, port)
	o := rpc.ServerOptions{Name: d.name, Cluster: d.c.ClusterName, Handler: handler{d.node}, Panicked: d.panicked}
	p := rpc.PoolOptions{Self: d.name}
	if !d.c.Insecure {
		o.TLS, o.Identify = d.keys.server.ServerTLS(), identify
		p.ClientTLS, p.NameOf = d.clientTLS, certs.ServerNode
	}
	d.server, err = rpc.NewServer(o)
	if err != nil {
		_ = listener.Close()
		return err
	}
	d.pool = rpc.NewPool(p)
	d.onClose(func(context.Context) { _ = d.pool.Close() })
	d.crowd, err = newCrowd(ctx, d, listener)
	return err
}

func (d *Daemon) clientTLS(node cluster.NodeName) *tls.Config {
	if node == "" {
		return d.keys.client.AnyNodeTLS()
	}
	return d.keys.client.ClientTLS(certs.ManagerServerName(node))
}

// callerRoles are the roles of certificates as the port knows them.
var callerRoles = map[certs.Role]rpc.Role{
	certs.Node: rpc.RoleNode, certs.Operator: rpc.RoleOperator, certs.ReadOnly: rpc.RoleReadOnly,
}

func identify(s tls.ConnectionState) (rpc.Caller, error) {
	o, err := certs.PeerOwner(s)
	return rpc.Caller{Name: o.Name, Role: callerRoles[o.Role], Authenticated: true}, err
}

// askStanding asks another node to whom it has given its vote. The node must
// prove its name, so it does not matter who said where it listens.
func (d *Daemon) askStanding(ctx context.Context, name cluster.NodeName) (lease.Standing, error) {
	for _, p := range d.crowd.peers() {
		if p.Name == name {
			return d.pool.Standing(ctx, rpc.Node{Name: name, Address: p.Address}, rpc.StandingRequest{Cluster: d.c.ClusterName})
		}
	}
	return lease.Standing{}, fmt.Errorf("no address of node %s is known", name)
}

func (d *Daemon) panicked(method string, value any, stack []byte) {
	d.log.Error("a request ended in a panic", "method", method, "value", value, "stack", string(stack))
}

func (d *Daemon) openFleet(context.Context) error {
	o := fleet.Options{
		Cluster: d.c.ClusterName, Name: d.name, Boot: d.node.boot, Self: d.node, Pool: d.pool, View: d.view,
		Records: d.store, Peers: d.crowd.peers, Now: d.now, Fit: d.fit, Progress: d.turns,
	}
	if !d.c.EtcdInsecure {
		o.EtcdTLS = d.keys.Client
	}
	d.fleet = fleet.New(o)
	d.onClose(func(context.Context) { d.fleet.Lease().Close() })
	d.pub = newPublisher(d.name, d.store, d.log, d.now)
	d.node.orders = &orderBook{log: d.log, now: d.now, keep: d.pub.order}
	records := recordsCache{read: d.store.Poll, now: d.now}
	d.node.authority = &authority{
		self: d.name, voter: d.node.voter, ask: d.askStanding, others: d.crowd.alive, records: records.get,
	}
	status := d.proc.Status
	d.nums = newMetrics(d.store.Requests,
		func() cluster.ProcessState { return status().State },
		func() int { return status().Restarts })
	d.progress.within(d.now(), stuckAfter)
	return nil
}

// run runs everything that goes on at the same time, until ctx ends or the
// port fails.
func (d *Daemon) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	// In this order, also when the loop panics: nothing is waited for that has not
	// been told to end.
	defer wg.Wait()
	defer cancel(nil)
	fatal := func(what string, err error) {
		if err != nil {
			cancel(fmt.Errorf("%s: %w", what, err))
		}
	}
	wg.Go(func() { fatal("serve the port", d.server.Serve(listen.New(d.crowd.listener, d.portLimits()))) })
	wg.Go(func() { d.keys.run(ctx, d.log) })
	wg.Go(func() { d.node.local.Watch(ctx) })
	wg.Go(func() { d.crowd.run(ctx) })
	wg.Go(func() { d.pub.run(ctx) })
	if d.c.MetricsPort > 0 {
		for _, address := range d.c.ListenMetrics() {
			wg.Go(func() { d.serveMetrics(ctx, address) })
		}
	}
	d.log.Info("running", "node", d.name, "address", d.node.address, "cluster", d.c.ClusterName)
	if ctx.Err() == nil {
		d.loop().Run(ctx)
	}
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer done()
	d.crowd.close(stop)
	d.server.Stop(stop)
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// portPause is the time between two tries to open a port that is taken.
const portPause = 2 * time.Second

// portLimits are the bounds of the port. Without TLS nobody proves anything, and
// every connection stays fresh.
func (d *Daemon) portLimits() listen.Limits {
	l := rpc.PortLimits
	if d.c.Insecure {
		l.Fresh, l.FreshPerSource = 0, 0
	}
	l.Dropped = func(source string) {
		d.nums.dropped("grpc")
		d.log.Debug("connection dropped", "port", "grpc", "source", source)
	}
	return l
}

// listen opens a port, and keeps trying while it is taken: etcd runs meanwhile,
// and a member is worth more than this daemon's port.
func (d *Daemon) listen(ctx context.Context, what, address string) (net.Listener, error) {
	for said := false; ; said = true {
		l, err := net.Listen("tcp", address)
		if err == nil {
			return l, nil
		}
		if !said {
			d.log.Error("a port cannot be opened; etcd goes on, and it is tried again", "port", what, "error", err)
		}
		timer := time.NewTimer(portPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// serveMetrics serves the metrics port at one address until ctx ends.
func (d *Daemon) serveMetrics(ctx context.Context, address string) {
	l, err := d.listen(ctx, "metrics", address)
	if err != nil {
		return
	}
	if err := d.nums.serve(ctx, l, d.alive, d.ready); err != nil {
		d.log.Error("metrics are no longer served", "error", err)
	}
}

// ready says why this node does not do its part, nil where there is nothing to run,
// or etcd runs.
func (d *Daemon) ready() error {
	s := d.state.State()
	if s.Assigned == nil || s.Assigned.Stopped || d.proc.Status().State == cluster.ProcessRunning {
		return nil
	}
	return errors.New("etcd is not running")
}

func (d *Daemon) loop() *reconcile.Loop {
	return reconcile.New(reconcile.Options{
		Self: d.name, Candidate: d.crowd.candidate, Lease: d.fleet.Lease(), Look: d.look, Spec: d.spec,
		Do:       d.fleet.Coordinator().Do,
		NotYet:   apply.NotYet,
		Previous: func(ctx context.Context) cluster.Observation { return previous(ctx, d.store, d.now()) },
		Fit:      d.fit,
		Turns:    func(within time.Duration) { d.progress.within(d.now(), within) },
		Deadline: apply.Deadline,
		Report:   d.report, Wake: d.crowd.changed(), Log: d.log, Now: d.now,
	})
}

func (d *Daemon) look(ctx context.Context, prev cluster.Observation) cluster.Observation {
	obs := d.fleet.Look(ctx, prev)
	if obs.Store.Reachable {
		d.rememberPause(obs.Store)
	}
	if d.c.Static != nil {
		obs.Store.SpecMissing = false // the flags have it
	}
	return obs
}

func (d *Daemon) report(_ context.Context, r reconcile.Report) {
	d.nums.note(r)
	d.pub.note(r)
	d.view.Every(pollEvery(r))
	if r.Done != nil {
		changed(d.view, *r.Done)
	}
}
