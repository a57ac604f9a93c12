package nodeobserve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// probeInterval is how often a binary that cannot run is tried again: what it lacks may
// have been put right beside it.
const probeInterval = time.Minute

// A binaryWatch asks the node's binaries what they are, each once, in the background:
// a file of the right name may be half copied, or of another architecture.
type binaryWatch struct {
	mu    sync.Mutex
	known map[binaryID]probed
	busy  bool
}

// A binaryID distinguishes a file from another, and from what it was before: several
// directories may lead to one.
type binaryID struct {
	device, inode  uint64
	size, modified int64
}

// probed is what a binary has said.
type probed struct {
	version etcdversion.Version
	err     error
	at      time.Time
}

// of returns the versions that can be run, and those whose binaries have turned out to
// be broken. Those that have not been asked yet are taken for right.
func (w *binaryWatch) of(ctx context.Context, f etcdbin.Finder, now time.Time) (
	good []etcdversion.Version, broken []cluster.BrokenBinary) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ask := map[binaryID]string{}
	for _, bin := range f.All() {
		v := bin.Version
		id, ok := identify(bin.Etcd)
		p, asked := w.known[id]
		if ok && (!asked || p.err != nil && now.Sub(p.at) >= probeInterval) {
			ask[id] = bin.Etcd
		}
		if why := p.wrong(v); asked && why != "" {
			broken = append(broken, cluster.BrokenBinary{Version: v, Why: fmt.Sprintf("%s %s", bin.Etcd, why)})
		} else {
			good = append(good, v)
		}
	}
	if len(ask) > 0 && !w.busy {
		w.busy = true
		go w.ask(ctx, ask, now)
	}
	return good, broken
}

// ask probes binaries, one after the other.
func (w *binaryWatch) ask(ctx context.Context, list map[binaryID]string, now time.Time) {
	for id, path := range list {
		v, err := etcdbin.Probe(ctx, path)
		if errors.Is(err, context.DeadlineExceeded) {
			err = nil // a slow disk says nothing about what is on it
		}
		w.mu.Lock()
		if w.known == nil {
			w.known = map[binaryID]probed{}
		}
		w.known[id] = probed{v, err, now}
		w.mu.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
}

// wrong says why a binary is not one of v, empty where it is, or has not said. Another
// patch is right: kops mounts later ones so.
func (p probed) wrong(v etcdversion.Version) string {
	switch {
	case p.err != nil:
		return "cannot run: " + p.err.Error()
	case !p.version.IsZero() && (p.version.Major != v.Major || p.version.Minor != v.Minor):
		return "is etcd " + p.version.String()
	}
	return ""
}

func identify(path string) (id binaryID, ok bool) {
	fi, err := os.Stat(path)
	if err != nil {
		return id, false
	}
	s, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return id, false
	}
	return binaryID{uint64(s.Dev), s.Ino, fi.Size(), fi.ModTime().UnixNano()}, true
}

// lostSettings returns which of the operator's ETCD_* variables the member would lose with
// each other minor version that the node has.
func (o *Observer) lostSettings(s nodestate.State, has []etcdversion.Version) (list []cluster.LostSettings) {
	if s.Assigned == nil || len(o.opts.UserEnv) == 0 {
		return nil
	}
	runs := s.Assigned.Version
	for _, v := range has {
		minor := etcdversion.Version{Major: v.Major, Minor: v.Minor}
		known := slices.ContainsFunc(list, func(o cluster.LostSettings) bool { return o.Version == minor })
		if v.Minor == runs.Minor || known {
			continue
		}
		if lost := etcdconf.Lost(o.opts.UserEnv, runs, minor); len(lost) > 0 {
			list = append(list, cluster.LostSettings{Version: minor, What: lost})
		}
	}
	return list
}
