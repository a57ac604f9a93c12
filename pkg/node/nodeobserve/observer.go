// Package nodeobserve observes one node from within: its disks, its etcd, its binaries, and
// what its member's peers say of it.
//
// An [Observer] only reads. What follows from an observation is written down, and orders are
// carried out, by package apply, which asks an Observer again right before it acts. The state
// of the whole cluster is put together from such observations by package observe of the daemon.
package nodeobserve

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdproc"
	"github.com/etcdadm/etcdadm/pkg/etcd/hazards"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// ErrPrecondition is wrapped by errors that say that the node's present state does not
// allow what was asked.
var ErrPrecondition = errors.New("precondition does not hold")

// Refuse returns an error that wraps [ErrPrecondition].
func Refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrPrecondition, fmt.Sprintf(format, args...))
}

// Options say what a node is, where its things are, and how they are read.
type Options struct {
	Name    cluster.NodeName
	DataDir string
	URLs    cluster.URLs
	// ListenAddress replaces the host of the URLs that etcd listens on.
	ListenAddress string
	// UserEnv holds the operator's ETCD_* variables.
	UserEnv map[string]string
	// State returns what the node remembers, Status how its etcd process does. Status may be
	// nil where no process can run.
	State  func() nodestate.State
	Status func() etcdproc.Status
	Bin    etcdbin.Finder
	// TLS gives the configuration of a client of etcd, and is nil for one that speaks plain text.
	TLS interface{ Client() *tls.Config }
	Now func() time.Time
	// Progress reports what the node has under way.
	Progress Progress

	// DiskTimeout is how long an answer waits for the node's disks, 0 for [DefaultDiskTimeout].
	DiskTimeout time.Duration
	// Examine checks a member's data: [hazards.Examine] if it is nil.
	Examine Examiner
}

// Progress reports what a node has under way, as only those who do it know.
type Progress interface {
	// Fetches lists the releases of etcd that are fetched, or could not be.
	Fetches() []cluster.BrokenBinary
	// Staging adds to what is staged on the disk how far that is.
	Staging(staged *cluster.Staged) *cluster.Staged
	// Disputes says with whom the member disagrees, "" for nobody.
	Disputes() string
	// Compares reports whether the data of an etcd process is still to be compared.
	Compares(pid int) bool
	// Forced is how many entries have been proposed for the raft snapshot under way.
	Forced() int64
}

// An Observer observes its own node. It changes nothing there.
type Observer struct {
	opts Options

	clientMu sync.Mutex
	client   *etcdclient.Client
	clientTo string

	hazards  dataWatch
	sizes    sizes
	logs     logWatch
	rights   rightsWatch
	binaries binaryWatch
	links    linkWatch
	// serving are the peer URLs that the member was started for.
	serving atomic.Pointer[[]string]
	// files is the key material of the member that was started last.
	files  atomic.Pointer[etcdconf.TLS]
	reader diskReader
	watch  *hostfs.DiskWatch
}

// New returns the observer of a node.
func New(opts Options) *Observer {
	opts.DiskTimeout = cmp.Or(opts.DiskTimeout, DefaultDiskTimeout)
	if opts.Examine == nil {
		opts.Examine = hazards.Examine
	}
	o := &Observer{opts: opts, sizes: sizes{of: map[string]int64{}, ahead: map[aheadOfTime]time.Time{}}}
	o.reader.timeout = opts.DiskTimeout
	o.watch = hostfs.NewDiskWatch(o.logDir, opts.Now)
	return o
}

// Close waits for the checks under way, until ctx ends, and ends the connection to etcd.
func (o *Observer) Close(ctx context.Context) {
	o.hazards.wait(ctx)
	o.clientMu.Lock()
	defer o.clientMu.Unlock()
	if o.client != nil {
		_ = o.client.Close()
		o.client = nil
	}
}

// Started notes for which peer URLs the member is started, and with what key material: nil
// for an etcd that speaks plain text.
func (o *Observer) Started(peerURLs []string, files *etcdconf.TLS) {
	if files != nil {
		o.files.Store(files)
	}
	o.serving.Store(&peerURLs)
}

// Serving returns the peer URLs that the member was started for, and whether it was.
func (o *Observer) Serving() (urls []string, started bool) {
	if urls := o.serving.Load(); urls != nil {
		return *urls, true
	}
	return nil, false
}

// SetAsideSince returns from when on the age of what was set aside counts: that of a time in the
// future is of a clock that was wrong, and counts from when the observer first saw it.
func (o *Observer) SetAsideSince(a cluster.SetAside, now time.Time) time.Time {
	return o.sizes.since(a, now)
}

// ForgetData has the member's data checked again: what was found has turned out to be old.
func (o *Observer) ForgetData() {
	o.hazards.forget()
	o.logs.forget()
}

// TakeHazards takes over what a check of the member's data has found meanwhile.
func (o *Observer) TakeHazards(s nodestate.State, found []cluster.Hazard) {
	if settledBefore(s) {
		o.logs.take(s.Assigned.Token, found)
	}
	o.hazards.take(found)
}

// WatchDisk watches how the member's disk takes writes until ctx ends.
func (o *Observer) WatchDisk(ctx context.Context) { o.watch.Run(ctx) }
