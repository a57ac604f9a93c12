package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/etcdadm/etcdadm/pkg/backup/stage"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/listen"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc/election"
	"github.com/etcdadm/etcdadm/pkg/daemon/fleet"
	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdproc"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/apply"
	"github.com/etcdadm/etcdadm/pkg/node/nodeobserve"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
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

	state     *nodestate.File
	keys      *keys
	hosts     hostsFile
	store     *store.Store
	proc      *etcdproc.Supervisor
	node      *node
	pool      *rpc.Pool
	server    *rpc.Server
	peerGroup *peerGroup
	view      *fleet.StoreView
	fleet     *fleet.Fleet
	pub       *publisher
	nums      *metrics
	// keeping is held while something is written that the node remembers of the
	// store.
	keeping sync.Mutex
	// reported is when this daemon last reported an observation, in nanoseconds since 1970.
	reported atomic.Int64
	// strangers are the names of nodes of other clusters that were logged.
	strangers sync.Map
	// reports wakes watchStore.
	reports chan struct{}
	// news wakes the loop.
	news chan struct{}
	// progress says whether the loop runs.
	progress progress

	// closers end what was opened, last first.
	closers []func(ctx context.Context)
}

// Run runs a daemon until ctx ends. It returns nil after an orderly end, and
// the reason where the daemon could not start or its port failed.
func Run(ctx context.Context, c Config, log *slog.Logger) error {
	d := &Daemon{c: c, log: log, now: time.Now, news: make(chan struct{}, 1), reports: make(chan struct{}, 1)}
	d.c.EtcdDirs = append(slices.Clone(c.EtcdDirs), c.releases())
	d.hosts.d = d
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
	d.warnNewPlaces(os.Stat)
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
	d.state, err = nodestate.Open(d.c.DataDir, nodestate.Self{Name: d.name, URLs: urls})
	if err != nil {
		return err
	}
	d.onClose(func(context.Context) { _ = d.state.Close() })
	return nil
}

// newPlacesTime is how long the directories may take to be looked at.
const newPlacesTime = time.Second

// warnNewPlaces warns of directories that will be made. The member needs no store, so a store
// whose file system hangs is not waited for.
func (d *Daemon) warnNewPlaces(stat func(string) (fs.FileInfo, error)) {
	places := make(chan []string, 1)
	go func() { places <- d.c.newPlaces(stat) }()
	select {
	case list := <-places:
		for _, text := range list {
			d.log.Warn(text)
		}
	case <-time.After(newPlacesTime):
	}
}

func (d *Daemon) openKeys(context.Context) (err error) {
	for _, text := range d.c.Warnings() {
		d.log.Warn(text)
	}
	d.keys, err = newKeys(d.c, d.name, d.now)
	if errors.Is(err, fs.ErrNotExist) {
		err = &noCAError{error: err, dir: d.c.PKIDir}
	}
	if err == nil && d.keys.keyless != nil {
		d.log.Info("etcd has no keys: its members cannot be given TLS without a stop", "reason", d.keys.keyless)
	}
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

// openProcess starts the member that the disk names.
func (d *Daemon) openProcess(ctx context.Context) (err error) {
	lines := d.openEtcdLog()
	d.proc, err = etcdproc.New(ctx, etcdproc.Options{Dir: d.c.DataDir, Log: lines.line, Died: d.etcdDied})
	if err != nil {
		return err
	}
	urls, err := d.c.URLs(d.name)
	if err != nil {
		return err
	}
	metricsURLs, err := etcdconf.Expand(d.c.MetricsURLs, d.c.Address, d.c.host(d.name))
	if err != nil {
		return err
	}
	voter := election.NewVoter(election.VoterOptions{
		Cluster: d.c.ClusterName, Self: d.name, Durable: durable(d.state), Persist: persist(d.state), Reload: reload(d.state),
		Now: d.now,
	})
	o := apply.LocalOptions{
		Name: d.name, DataDir: d.c.DataDir, URLs: urls, ListenAddress: d.c.EtcdAddress, MetricsURLs: metricsURLs,
		UserEnv: d.c.UserEnv, Names: d.hosts.write, OtherPatch: d.otherPatch,
		State: d.state, LeaseVoter: voter, Proc: d.proc, Bin: etcdbin.Finder{Dirs: d.c.EtcdDirs},
		Backups:   backupTaker{store: d.store, cluster: d.c.ClusterName, how: d.c.Backups, spec: d.spec},
		Inspector: inspector{d.store, d.c.Backups, string(d.name), d.c.EtcdDirs, d.c.Backups.TempDir, d.log},
		Restorer:  stage.Stager{Store: d.store, Fetch: d.c.Backups.Fetch}, Now: d.now,
	}
	if d.keys.keyless == nil {
		o.TLS = d.keys
	}
	if d.c.Release != "" {
		o.Fetch, o.From = d.fetchRelease, shownRelease(d.c.Release)
	}
	d.node = &node{boot: observe.NewToken(), local: apply.NewLocal(o), voter: voter, state: d.state, keys: d.keys,
		now: d.now, released: d.wake, neighbours: newNeighbours(d.listenFor(), d.now)}
	d.onClose(func(ctx context.Context) {
		if err := d.node.local.Close(ctx); err != nil {
			d.log.Error("etcd did not stop", "error", err)
		}
	})
	if bad := (&lease.BadTermError{Term: durable(d.state).Term, Dir: d.c.DataDir}); bad.Term > lease.MaxTerm {
		d.log.Error("this node cannot vote or obey", "error", bad, "hint", bad.Hint())
	}
	d.node.voted.Store(lease.StartVote(d.now(), durable(d.state).LeaseVoters))
	d.hosts.ask(ctx)
	err = d.node.local.Boot(ctx)
	if twin := new(nodeobserve.TwinError); errors.As(err, &twin) {
		// Nor are there two lease voters of one name. Whoever starts the daemon again finds out
		// whether the other machine is gone.
		return err
	} else if err != nil {
		// The daemon is of use without its etcd: it reports to the others why.
		d.log.Error("etcd cannot be started from this disk", "error", err)
	}
	return nil
}

func (d *Daemon) otherPatch(v etcdversion.Version, path string) {
	d.log.Warn("there is no etcd of the member's version here; another patch of it is started", "version", v, "path", path)
}

func (d *Daemon) openFleet(ctx context.Context) error {
	o := fleet.Options{
		Cluster: d.c.ClusterName, Name: d.name, Boot: d.node.boot, Self: d.node, Pool: d.pool, View: d.view,
		Records: d.store, Peers: d.peerGroup.peers, Now: d.now, Fit: d.fit, Progress: d.runs,
		Undrained: func(node cluster.NodeName, why error) {
			d.log.Warn("the member could not be drained, its removal is next: what clients ask of it now may fail", "node", node, "error", why)
		},
	}
	if d.keys.keyless == nil {
		o.EtcdTLS = d.keys.Client
	}
	d.fleet = fleet.New(o)
	d.onClose(func(context.Context) { d.fleet.Lease().Close() })
	d.pub = newPublisher(d.name, d.store, d.log, d.holds, d.now)
	if !d.c.Insecure {
		d.pub.authorities = d.keys.authorities
	}
	d.node.known = d.known
	d.node.orders = &orderBook{log: d.log, now: d.now, keep: d.pub.order}
	published := cached[cluster.LeaseVoters]{read: d.publishedLeaseVoters, now: d.now}
	d.node.authority = &authority{
		self: d.name, voter: d.node.voter, ask: d.askStanding, others: d.peerGroup.alive,
		records: d.records, published: published.get,
		hasData: func() bool { return nodestate.Disk(d.c.DataDir, d.state.State()).State != cluster.DiskEmpty },
	}
	status := d.proc.Status
	d.nums = newMetrics(sources{
		Cluster: d.c.ClusterName, Requests: d.store.Requests, Storage: d.node.local.Observer().Storage,
		Quota:        etcdconf.Quota(d.c.UserEnv),
		HasLeader:    seldom(ctx, d.now, d.node.local.Observer().HasLeader),
		Process:      func() cluster.ProcessState { return status().State },
		Restarts:     func() int { return status().Restarts },
		Paused:       func() bool { return d.state.State().Pause != nil },
		CertNotAfter: d.keys.renewer.NotAfter,
	})
	d.progress.within(d.now(), stuckLimit)
	return nil
}

// run runs everything that goes on at the same time, until ctx ends or the
// port fails.
func (d *Daemon) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	// In this order, also when the loop panics: nothing is waited for that has not
	// been asked to end.
	defer wg.Wait()
	defer cancel(nil)
	fatal := func(what string, err error) {
		if err != nil {
			cancel(fmt.Errorf("%s: %w", what, err))
		}
	}
	wg.Go(func() { fatal("serve the port", d.server.Serve(listen.New(d.peerGroup.listener, d.portLimits()))) })
	wg.Go(func() { d.keys.run(ctx, d.log) })
	wg.Go(func() { d.hosts.run(ctx) })
	wg.Go(func() { fatal("run etcd", d.node.local.Watch(ctx)) })
	wg.Go(func() { d.keepLock(ctx) })
	wg.Go(func() { d.watchStore(ctx) })
	if d.c.Release != "" {
		wg.Go(func() { d.fetchReleases(ctx) })
	}
	wg.Go(func() { d.peerGroup.run(ctx) })
	wg.Go(func() { d.meet(ctx) })
	// What is ordered and done while the others stop is published too.
	published, publish := context.WithCancel(context.WithoutCancel(ctx))
	defer publish()
	wg.Go(func() { d.pub.run(published) })
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
	d.peerGroup.close(stop)
	d.server.Stop(stop)
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
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
		Self: d.name, Candidate: d.peerGroup.candidate, Quiet: d.quiet, Lease: d.fleet.Lease(),
		Observe: d.observe, Spec: d.spec,
		Do:     d.fleet.Coordinator().Do,
		NotYet: apply.NotYet, StoreFlag: store.Flag(d.c.BackupStore),
		Previous: func(ctx context.Context) (cluster.Observation, cluster.Term) {
			return previous(ctx, d.store, d.now())
		},
		Early:    d.early,
		Won:      d.view.Relist,
		Fit:      d.fit,
		Progress: func(within time.Duration) { d.progress.within(d.now(), within) },
		Deadline: apply.Timeout,
		Late:     d.late,
		Report:   d.report, Wake: d.peerGroup.changed(), News: d.news, Log: d.log, Now: d.now,
	})
}

func (d *Daemon) observe(ctx context.Context, prev cluster.Observation) cluster.Observation {
	obs := d.fleet.Observe(ctx, prev)
	view, _ := d.view.Heard()
	for _, n := range view.Nodes {
		d.stranger(n)
	}
	if obs.Store.Reachable {
		d.rememberPause(obs.Store)
		obs.Store.NewestSeen = d.rememberNewest(obs)
	}
	if d.c.Static != nil {
		obs.Store.SpecMissing = false // the flags have it
	}
	return obs
}

// holds reports whether this daemon has the lease of a term now.
func (d *Daemon) holds(term cluster.Term) bool {
	now, held := d.fleet.Lease().Held()
	return held && now == term
}

func (d *Daemon) report(_ context.Context, r reconcile.Report) {
	d.observes()
	d.nums.note(r)
	d.pub.note(r)
	d.view.Every(pollEvery(r))
	if r.Done != nil {
		changed(d.view, *r.Done)
	}
}
