package harness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Options say what a cluster is made of.
type Options struct {
	// Bin is the directory with the programs, see [Build].
	Bin string
	// LogRunner is the program that runs daemons in pods, see [BuildLogRunner].
	LogRunner string
	// EtcdDirs is where etcd is, as in ETCDADM_ETCD_DIR.
	EtcdDirs string
	// Dir is where everything goes; a temporary directory if it is empty.
	Dir string
	// Insecure is a cluster without certificates.
	Insecure bool
	// RSA makes CAs with RSA keys instead of ECDSA.
	RSA bool
	// Flags and Env are given to every daemon, after those of the harness.
	Flags, Env []string
	// Net is the network the nodes live in, nil for loopback addresses.
	Net *Net
	// Keep leaves the processes and the files when the cluster is closed.
	Keep bool
	// OnFailure is called when the cluster is closed after a failure, before its
	// files are deleted; the default prints the ends of the logs.
	OnFailure func(c *Cluster)
	// Restored is a cluster that is restored: it may become another one, and
	// loses what was written last.
	Restored bool
	// Unwatched turns the watch off, which asks each member several times a
	// second.
	Unwatched bool
}

// A Cluster is a control store, its nodes, and who watches them.
type Cluster struct {
	Options
	// Store is the directory of the control store.
	Store string
	PKI   *PKI

	t     T
	ctx   context.Context
	block string // the first three numbers of the nodes' addresses

	mu       sync.Mutex
	nodes    []*Node
	watch    *watch
	writers  []*Writer
	begun    int // how many writers there have been
	watchers []*Watcher
	disks    []*Disk
	machines []*Machine
	clouds   []interface{ close() }
	closed   bool
}

// blocks is where the addresses of the next cluster begin: those of one process never
// meet, and those of two hardly ever.
var blocks = from(rand.Uint32N(250 * 256))

// from returns a counter that begins there.
func from(n uint32) *atomic.Uint32 {
	c := new(atomic.Uint32)
	c.Store(n)
	return c
}

// New returns a cluster without nodes. The end of ctx ends every wait; the
// cluster is closed when t ends, and that does not depend on ctx.
func New(ctx context.Context, t T, o Options) *Cluster {
	t.Helper()
	c := &Cluster{Options: o, t: t, ctx: ctx}
	if c.Dir == "" {
		dir, err := os.MkdirTemp("", "etcdadm-e2e-")
		c.must(err, "make a directory")
		c.Dir = dir
	}
	c.Store = filepath.Join(c.Dir, "store")
	for _, dir := range []string{c.Store, c.Logs()} {
		c.must(os.MkdirAll(dir, 0o755), "make a directory")
	}
	block := blocks.Add(1)
	c.block = fmt.Sprintf("127.%d.%d.", 1+block/256%250, block%256)
	if !o.Insecure {
		pki, err := NewPKI(filepath.Join(c.Dir, "pki"), o.RSA)
		c.must(err, "make certificates")
		c.PKI = pki
	}
	if !o.Unwatched {
		c.watch = newWatch(c)
	}
	t.Cleanup(c.Close)
	return c
}

// Logs returns the directory of the daemons' logs.
func (c *Cluster) Logs() string { return filepath.Join(c.Dir, "logs") }

// StoreURL returns the flag value for the store.
func (c *Cluster) StoreURL() string { return "file://" + c.Store }

func (c *Cluster) must(err error, what string) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

// Node returns the node with that name, and makes it if there is none. It does
// not start it.
func (c *Cluster) Node(name string) *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if n.Name == name {
			return n
		}
	}
	n := &Node{
		Name: name, Dir: filepath.Join(c.Dir, "nodes", name), Store: c.StoreURL(),
		Cluster: "test", Bin: c.Bin, EtcdDirs: c.EtcdDirs, Log: filepath.Join(c.Logs(), name+".log"), c: c,
	}
	if c.Net != nil {
		n.space = c.Net.add()
		n.Address = n.space.address
	} else {
		n.Address = fmt.Sprintf("%s%d", c.block, 2+len(c.nodes))
	}
	c.nodes = append(c.nodes, n)
	return n
}

// Nodes returns all nodes.
func (c *Cluster) Nodes() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Node(nil), c.nodes...)
}

// Start starts the nodes with these names.
func (c *Cluster) Start(names ...string) []*Node {
	c.t.Helper()
	var nodes []*Node
	for _, name := range names {
		n := c.Node(name)
		n.Start()
		nodes = append(nodes, n)
	}
	return nodes
}

// Bootstrap writes the spec, starts the nodes, and waits until they are a cluster
// of that many voters.
func (c *Cluster) Bootstrap(count int, version string, names ...string) {
	c.t.Helper()
	c.SetSpec(count, version)
	c.Start(names...)
	c.WaitVoters(Soon, count)
}

// Eventually asks cond again and again until it returns nil. If it does not
// in time, or a daemon ends by itself, the test ends with what cond said last.
func (c *Cluster) Eventually(within time.Duration, what string, cond func(ctx context.Context) error) {
	c.t.Helper()
	if err := c.Await(within, cond); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

// Await asks cond again and again until it returns nil, for at most that time,
// and returns what it said last. A daemon that ends by itself ends the wait.
func (c *Cluster) Await(within time.Duration, cond func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(c.ctx, within)
	defer cancel()
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	last := fmt.Errorf("nothing was seen")
	for {
		err := cond(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil { // what an observation says that was cut off is no news
			last = err
		}
		for _, n := range c.Nodes() {
			if exit, ended := n.Ended(); ended && !n.MayEnd {
				return fmt.Errorf("daemon %s ended by itself (%v) while: %w", n.Name, exit, last)
			}
		}
		select {
		case <-ctx.Done():
			if c.ctx.Err() != nil {
				return fmt.Errorf("interrupted: %w", last)
			}
			return fmt.Errorf("not within %s: %w", within, last)
		case <-tick.C:
		}
	}
}

// Close checks what must always hold, stops everything and deletes the files.
func (c *Cluster) Close() {
	c.t.Helper()
	if c.closed {
		return
	}
	c.closed = true
	for _, d := range c.disks {
		d.Thaw()
	}
	for _, w := range c.writers {
		w.stop()
	}
	if c.watch != nil {
		c.watch.stop()
	}
	defer func() {
		for _, v := range c.watchers {
			v.stop()
		}
	}()
	if c.Keep && !c.t.Failed() {
		return
	}
	c.ctx = context.WithoutCancel(c.ctx)
	if !c.t.Failed() {
		c.check()
	}
	c.stopAll()
	for _, d := range c.disks {
		d.unmount()
	}
	if c.t.Failed() {
		if c.OnFailure != nil {
			c.OnFailure(c)
		} else {
			c.printLogs()
		}
		if os.Getenv("ETCDADM_E2E_KEEP") != "" {
			c.t.Logf("everything is kept in %s", c.Dir)
			return
		}
	}
	c.must(c.deleteAll(c.Dir), "delete files")
}

// deleteAll deletes a directory that killed processes have used. The kernel shows a
// process as ended, with neither command line nor environment, while threads of it still
// finish what they do to files.
func (c *Cluster) deleteAll(dir string) error {
	return c.Await(Soon, func(context.Context) error { return os.RemoveAll(dir) })
}

// stopAll stops one daemon in order and kills the others, and looks for what
// they left. Stopping all in order takes etcd 7 s: its leader tries that long to
// hand over to somebody.
func (c *Cluster) stopAll() {
	c.t.Helper()
	orderly := !c.t.Failed()
	for _, n := range c.Nodes() {
		_, ended := n.Ended()
		switch {
		case n.Running() && orderly:
			n.Stop()
			orderly = false
		case ended && !n.MayEnd:
			n.Stop() // reports it
		case n.Running() || ended:
			n.Kill()
		}
	}
	for _, e := range c.clouds {
		e.close()
	}
	for _, m := range c.machines {
		m.close()
	}
	err := c.Await(Soon, func(context.Context) error {
		if left := using(c.Dir); len(left) > 0 {
			return fmt.Errorf("%d processes are left behind, among them %q", len(left), left[0].argv)
		}
		return nil
	})
	if err != nil {
		c.t.Errorf("after all daemons have ended: %v", err)
	}
	for _, n := range c.Nodes() {
		n.closeClient()
	}
}
