package harness

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A watch asks all members, as long as the cluster lives, which cluster they
// belong to.
type watch struct {
	c      *Cluster
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	clusters map[uint64]string // cluster id -> who said so first
}

func newWatch(c *Cluster) *watch {
	ctx, cancel := context.WithCancel(c.ctx)
	w := &watch{c: c, cancel: cancel, done: make(chan struct{}), clusters: map[uint64]string{}}
	go w.run(ctx)
	return w
}

func (w *watch) run(ctx context.Context) {
	defer close(w.done)
	tick := time.NewTicker(5 * pollTime)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var wg sync.WaitGroup
		for _, n := range w.c.Nodes() {
			if n.Running() {
				wg.Go(func() { w.observe(ctx, n) })
			}
		}
		wg.Wait()
	}
}

func (w *watch) observe(ctx context.Context, n *Node) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	s, err := n.EtcdStatus(ctx)
	if err != nil {
		return // nothing was said
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clusters[s.Header.ClusterId] == "" {
		w.clusters[s.Header.ClusterId] = n.Name
	}
}

func (w *watch) stop() {
	w.cancel()
	<-w.done
}

// ClusterIDs returns the ids of all clusters that a member ever belonged to:
// what members said, and what they wrote to their logs.
func (c *Cluster) ClusterIDs() []string {
	ids := map[string]bool{}
	if c.watch != nil {
		c.watch.mu.Lock()
		for id := range c.watch.clusters {
			ids[fmt.Sprintf("%x", id)] = true
		}
		c.watch.mu.Unlock()
	}
	for _, n := range c.Nodes() {
		log, _ := os.ReadFile(n.Log)
		for _, m := range clusterInLog.FindAllSubmatch(log, -1) {
			ids[string(bytes.TrimLeft(m[1], "0"))] = true
		}
	}
	delete(ids, "")
	return slices.Sorted(maps.Keys(ids))
}

// clusterInLog is what an etcd server writes about its own cluster when it
// starts; the quotes may be escaped by the daemon.
var clusterInLog = regexp.MustCompile(`\\?"cluster-id\\?":\\?"([0-9a-f]{6,16})\\?",\\?"local-member-id`)

// coordinations returns what is wrong with the history: in each term there may
// be one coordinator, and later entries are of later terms, until the store has decided
// on an incarnation without a coordinator. A record of an incarnation that the store has
// refused was nobody's act: daemons may try that at the same time, and the store lets one
// of them.
func coordinations(entries []store.HistoryEntry) []string {
	entries = slices.DeleteFunc(slices.Clone(entries), func(e store.HistoryEntry) bool {
		return e.Error != "" && strings.HasPrefix(e.Line, "etcdadm incarnation create ")
	})
	// What a coordinator could not write down at once, it writes later.
	slices.SortStableFunc(entries, func(a, b store.HistoryEntry) int { return a.At.Compare(b.At) })
	var wrong []string
	by, last := map[cluster.Term]cluster.NodeName{}, cluster.Term(0)
	for _, e := range entries {
		if e.Term == 0 { // the store decides
			if e.Error == "" && strings.HasPrefix(e.Line, "etcdadm incarnation create ") {
				// Bootstrap, or a restore after a total loss: who grants leases now has no
				// terms of the incarnation before.
				by, last = map[cluster.Term]cluster.NodeName{}, 0
			}
			continue
		}
		if by[e.Term] != "" && by[e.Term] != e.By {
			wrong = append(wrong, fmt.Sprintf("term %d has the coordinators %s and %s (%s)", e.Term, by[e.Term], e.By, e.Line))
		}
		if e.Term < last && e.Error == "" {
			wrong = append(wrong, fmt.Sprintf("%s acted in term %d after term %d (%s)", e.By, e.Term, last, e.Line))
		}
		by[e.Term], last = e.By, max(last, e.Term)
	}
	return wrong
}

// check reports what must never be. [Cluster.Close] calls it.
func (c *Cluster) check() {
	c.t.Helper()
	for _, w := range c.writers {
		if err := w.check(); err != nil {
			c.t.Errorf("acknowledged writes: %v", err)
		}
	}
	for _, v := range c.watchers {
		if err := v.check(); err != nil {
			c.t.Errorf("watched writes: %v", err)
		}
	}
	if ids := c.ClusterIDs(); len(ids) > 1 && !c.Restored {
		c.t.Errorf("there are %d clusters: %v", len(ids), ids)
	}
	for _, n := range c.Nodes() {
		if line := n.panicked(); line != "" {
			c.t.Errorf("daemon %s: %s", n.Name, line)
		}
	}
	history, err := c.History()
	if err != nil {
		c.t.Errorf("the history cannot be read: %v", err)
	}
	for _, wrong := range coordinations(history) {
		c.t.Errorf("coordinators: %s", wrong)
	}
	var logs [][]byte
	for _, n := range c.Nodes() {
		log, _ := os.ReadFile(n.Log)
		logs = append(logs, log)
	}
	for _, wrong := range elections(logs) {
		c.t.Errorf("leaders: %s", wrong)
	}
}

// elections returns what is wrong with the elections that the members' logs
// report: in each raft term of a cluster, one member may lead. What members say
// when they are asked is no ground: the term in an etcd's status is that of the
// last entry it has applied, and is old while an entry is on its way.
func elections(logs [][]byte) (wrong []string) {
	type raftTerm struct{ cluster, term string }
	leaders := map[raftTerm]string{}
	for _, log := range logs {
		var cluster string
		for _, m := range electionInLog.FindAllSubmatch(log, -1) {
			if len(m[1]) > 0 {
				cluster = string(m[1])
				continue
			}
			t, leader := raftTerm{cluster, string(m[3])}, string(m[2])
			if other := leaders[t]; other != "" && other != leader {
				wrong = append(wrong, fmt.Sprintf("raft term %s of cluster %s has the leaders %s and %s", t.term, t.cluster, other,
					leader))
			}
			leaders[t] = leader
		}
	}
	return wrong
}

// electionInLog is what an etcd writes when it starts, with its cluster, and
// when it has won an election; the quotes may be escaped by the daemon. The end of the log
// may be half a line.
var electionInLog = regexp.MustCompile(
	`start(?:ing)? (?:local )?member\\?",(?:\\?"local-member-id\\?":\\?"[0-9a-f]+\\?",)?\\?"cluster-id\\?":\\?"([0-9a-f]+)|([0-9a-f]+) became leader at term ([0-9]+)[^0-9]`)
