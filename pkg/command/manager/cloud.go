package manager

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/discovery"
	"github.com/etcdadm/etcdadm/pkg/daemon"
	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/external"
)

// cloudVolume waits for the volume that a cloud has for this node, and mounts
// it. The volume says who the node is.
func (f *flags) cloudVolume(ctx context.Context, c *daemon.Config, factory volumes.Factory, log *slog.Logger) error {
	if err := checkEarly(*c); err != nil {
		return err
	}
	host := volumes.Host{Root: "/"}
	if f.containerized {
		host.Root = "/rootfs"
	}
	p, err := factory(ctx, volumes.Options{
		ClusterName: f.clusterName, Tags: f.volumeTags, NameTag: f.volumeNameTag, NetworkCIDR: f.networkCIDR,
		Root: host.Root, Log: log,
	})
	if err != nil {
		return fmt.Errorf("--volume-provider=%s: %w", f.volumeProvider, err)
	}
	var why atomic.Value
	why.Store("")
	stop, err := f.serveWaiting(c, &why)
	if err != nil {
		return err
	}
	defer stop()
	waiting := func(s string) { why.Store(s) }
	if c.Address == "" {
		if c.Address, err = volumes.Retry(ctx, log, waiting, p.Address); err != nil {
			return fmt.Errorf("--volume-provider=%s: %w", f.volumeProvider, err)
		}
	}
	v, err := volumes.Acquire(ctx, p, log, waiting)
	if err != nil {
		return fmt.Errorf("--volume-provider=%s: %w", f.volumeProvider, err)
	}
	// Somebody may put right what keeps it from being mounted. A container that exits
	// instead stops a rolling update.
	c.DataDir, err = volumes.Again(ctx, log, "the volume cannot be mounted yet", mountPause, waiting,
		func(ctx context.Context) (string, error) {
			dir, err := f.mount(ctx, host, v, log, waiting)
			if err != nil {
				err = fmt.Errorf("volume %s: %w", v.ID, err)
			}
			return dir, err
		})
	if err != nil {
		return err
	}
	if c.NodeName == "" {
		c.NodeName = v.Node
	}
	c.Lookup = lookupNodes(p, f.grpcPort)
	return nil
}

// mount mounts a volume, or does what a test has put in its place.
func (f *flags) mount(ctx context.Context, host volumes.Host, v volumes.Volume, log *slog.Logger,
	waiting func(string)) (string, error) {
	if f.mounting != nil {
		return f.mounting(host, v)
	}
	return host.Mount(ctx, v, log, waiting)
}

// mountPause is the longest time between two tries to mount a volume, externalPause that
// between two checks for one that somebody else mounts.
const (
	mountPause    = 20 * time.Second
	externalPause = 2 * time.Second
)

// checkEarly says at once what is wrong with the flags, not when there is a volume.
func checkEarly(c daemon.Config) error {
	c.DataDir = "/"
	if c.Address == "" {
		c.Address, c.Multicast = "127.0.0.1", false
	}
	return c.Validate()
}

// externalVolume waits for the volume that somebody else mounts.
func (f *flags) externalVolume(ctx context.Context, c *daemon.Config, root string, log *slog.Logger) error {
	early := *c
	if err := f.static(&early); err != nil {
		return err
	}
	if err := checkEarly(early); err != nil {
		return err
	}
	var why atomic.Value
	why.Store("")
	stop, err := f.serveWaiting(c, &why)
	if err != nil {
		return err
	}
	defer stop()
	waiting := func(s string) { why.Store(s) }
	limit := externalLimit
	if !f.containerized {
		limit = 0
	}
	v, err := findExternal(ctx, root, f.volumeTags[0], limit, log, waiting)
	if err != nil {
		return err
	}
	c.DataDir = v.DataDir
	c.SeedsDir = filepath.Join(root, "etc", "kubernetes", "etcd-manager", "seeds")
	if c.NodeName == "" {
		c.NodeName = v.Name
	}
	if c.Address == "" {
		c.Address, err = volumes.Again(ctx, log, "the machine has no address yet", externalPause, waiting,
			func(context.Context) (string, error) { return external.Address() })
	}
	return err
}

// externalLimit is how long a container waits for a volume that somebody else mounts.
const externalLimit = 30 * time.Second

// findExternal waits for the volume. What is mounted on the machine after a container has
// started is not seen in there, as nobody mounts /rootfs with mountPropagation: so it waits
// for no longer than a limit, unless that is zero, and ends, to be started again.
func findExternal(ctx context.Context, root, tag string, limit time.Duration, log *slog.Logger,
	waiting func(string)) (external.Volume, error) {
	var last error
	looking := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		looking, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	v, err := volumes.Again(looking, log, "the volume is not there yet", externalPause, waiting,
		func(context.Context) (external.Volume, error) {
			var v external.Volume
			v, last = external.Find(root, tag)
			return v, last
		})
	if err != nil && ctx.Err() == nil {
		return v, fmt.Errorf("waited %s: %w; a new container sees what has been mounted meanwhile", limit, last)
	}
	return v, err
}

// lookupNodes asks a cloud for nodes, which are at this daemon's port.
func lookupNodes(p volumes.Provider, port int) func(context.Context) ([]discovery.Seed, error) {
	return func(ctx context.Context) ([]discovery.Seed, error) {
		nodes, err := p.Nodes(ctx)
		var seeds []discovery.Seed
		for _, n := range nodes {
			for _, a := range n.Addresses {
				seeds = append(seeds, discovery.Seed{
					Name: cluster.NodeName(n.Name), Address: net.JoinHostPort(a, strconv.Itoa(port)),
				})
			}
		}
		return seeds, err
	}
}

// serveWaiting answers on the daemon's port for metrics before the daemon does.
func (f *flags) serveWaiting(c *daemon.Config, why *atomic.Value) (stop func(), err error) {
	if c.MetricsPort == 0 {
		return func() {}, nil
	}
	// Without either it is every address: the cloud has not said yet which is
	// this machine's.
	host := cmp.Or(c.MetricsAddress, c.Address)
	if host == "" && !f.metricsGiven() {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(c.MetricsPort)))
	switch {
	case err != nil && !f.metricsGiven():
		return func() {}, nil // nobody has asked for it
	case err != nil:
		return nil, fmt.Errorf("--etcd-manager-metrics-port: %w", err)
	}
	s := &http.Server{
		Handler: waitingPages(why), ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
		MaxHeaderBytes: 16 << 10,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // it ends with Close
	}()
	return func() { _ = s.Close(); <-done }, nil
}

func waitingPages(why *atomic.Value) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		text := why.Load().(string)
		if text == "" {
			text = "the volume is being mounted"
		}
		http.Error(w, text, http.StatusServiceUnavailable)
	})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		waits := 0
		if why.Load().(string) != "" {
			waits = 1
		}
		fmt.Fprintf(w, "# HELP etcd_manager_volume_waiting Whether the daemon waits for its volume.\n"+
			"# TYPE etcd_manager_volume_waiting gauge\netcd_manager_volume_waiting %d\n", waits)
	})
	return mux
}
