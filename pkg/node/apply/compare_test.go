package apply

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// The key that the tests of comparisons write, and what it is changed to on a disk.
const (
	spoiledKey = "spoiled"
	rightValue = "the-right-value"
	wrongValue = "THE-WRONG-VALUE"
)

// recheck is how long a difference must last in the tests.
const recheck = 500 * time.Millisecond

// A trio is a cluster of three hosts with a real etcd each.
type trio struct {
	t *testing.T
	h []*host
}

func newTrio(t *testing.T, bin etcdbin.Binaries) *trio {
	t.Helper()
	return newMixedTrio(t, bin.Version, bin.Version, bin.Version)
}

func newMixedTrio(t *testing.T, versions ...etcdversion.Version) *trio {
	t.Helper()
	c := &trio{t: t}
	var voters []cluster.InitialMember
	for i, name := range []cluster.NodeName{"a", "b", "c"} {
		h := realHost(t, versions[i], func(o *LocalOptions) { o.Name, o.recheck = name, recheck })
		c.h = append(c.h, h)
		voters = append(voters, cluster.InitialMember{Name: name, PeerURLs: h.o.URLs.Peer})
	}
	for i, h := range c.h {
		h.must(&plan.MemberPrepare{Node: h.o.Name, Token: "t1", Version: versions[i], Voters: voters})
	}
	c.each(func(h *host) {
		h.must(&plan.MemberStart{
			Node: h.o.Name, Token: "t1", Mode: plan.StartNew, Version: h.disk().Prepared.Version, Peers: voters,
		})
	})
	c.each(func(h *host) { h.reports() })
	c.put(spoiledKey, rightValue)
	// Each has applied what was written, and remembers who the voters are.
	c.each(func(h *host) {
		testwait.Until(h.t, "the key and the voters", func() bool {
			_, r := h.Observe(t.Context())
			return r != nil && r.Revision >= 2 && len(h.disk().Voters) == 3
		})
	})
	return c
}

func (c *trio) each(f func(*host)) {
	var wg sync.WaitGroup
	for _, h := range c.h {
		wg.Go(func() { f(h) })
	}
	wg.Wait()
}

// put writes through any member.
func (c *trio) put(key, value string) int64 {
	c.t.Helper()
	client := c.client(c.h...)
	var revision int64
	testwait.For(c.t, "a write", func(ctx context.Context) error {
		r, err := client.Put(ctx, key, value)
		if err == nil {
			revision = r.Header.Revision
		}
		return err
	})
	return revision
}

func (c *trio) client(hosts ...*host) *clientv3.Client {
	c.t.Helper()
	var urls []string
	for _, h := range hosts {
		urls = append(urls, h.o.URLs.Client...)
	}
	cl, err := clientv3.New(clientv3.Config{Endpoints: urls, Logger: zap.NewNop()})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = cl.Close() })
	return cl
}

// down is a host whose power fails: etcd gets no time to end.
func (h *host) down() {
	h.t.Helper()
	if pid := h.pid(); pid != 0 {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			h.t.Error(err)
		}
	}
	h.close()
}

// up starts the daemon and its member again.
func (h *host) up() {
	h.t.Helper()
	h.start()
	// A member that must not start is an error here, and reported by Look as well.
	if err := h.Boot(h.t.Context()); err != nil && !errors.As(err, new(*DiffersError)) {
		h.t.Errorf("boot: %v", err)
	}
}

// spoil changes the value on the disk of a host that is down.
func (h *host) spoil() {
	h.t.Helper()
	db, err := bolt.Open(h.database(), 0o600, &bolt.Options{Timeout: 10 * time.Second})
	if err != nil {
		h.t.Fatal(err)
	}
	found := false
	err = db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("key"))
		return b.ForEach(func(k, v []byte) error {
			if !bytes.Contains(v, []byte(rightValue)) {
				return nil
			}
			found = true
			return b.Put(bytes.Clone(k), bytes.Replace(v, []byte(rightValue), []byte(wrongValue), 1))
		})
	})
	if err = errors.Join(err, db.Close()); err != nil || !found {
		h.t.Fatalf("the value is on the disk: %t; %v", found, err)
	}
}

// flushed waits until each database has the key: after a loss of power, etcd
// would otherwise write it there once more, from its log.
func (c *trio) flushed() {
	c.t.Helper()
	for _, h := range c.h {
		testwait.Until(h.t, "the key in the database", func() bool {
			b, err := os.ReadFile(h.database())
			if err != nil {
				c.t.Fatal(err)
			}
			copied := filepath.Join(c.t.TempDir(), "db")
			if err := os.WriteFile(copied, b, 0o600); err != nil {
				c.t.Fatal(err)
			}
			found := false
			// Copied while it was written, it may be unreadable.
			if db, err := bolt.Open(copied, 0o600, &bolt.Options{ReadOnly: true}); err == nil {
				_ = db.View(func(tx *bolt.Tx) error {
					return tx.Bucket([]byte("key")).ForEach(func(_, v []byte) error {
						found = found || bytes.Contains(v, []byte(rightValue))
						return nil
					})
				})
				_ = db.Close()
			}
			return found
		})
	}
}

func (h *host) database() string {
	return filepath.Join(nodestate.DataDir(h.o.DataDir, "t1"), "member", "snap", "db")
}

// fenced waits until h has found that its member's data is wrong, and has
// stopped it.
func (h *host) fenced(by string) {
	h.t.Helper()
	testwait.Until(h.t, "the member to be fenced", func() bool {
		n := h.observe()
		return n.Differs != "" && n.Process.State == cluster.ProcessCrashing &&
			strings.Contains(n.Process.LastExit, n.Differs)
	})
	if n := h.observe(); !strings.Contains(n.Differs, by) || h.disk().Differs == nil {
		h.t.Errorf("it says %q, want %q; on the disk is %v", n.Differs, by, h.disk().Differs)
	}
}

// right reads the key through the quorum, from each of hosts.
func (c *trio) right(hosts ...*host) {
	c.t.Helper()
	for _, h := range hosts {
		ctx, cancel := context.WithTimeout(c.t.Context(), etcdtest.Timeout)
		r, err := c.client(h).Get(ctx, spoiledKey)
		cancel()
		if err != nil || len(r.Kvs) != 1 || string(r.Kvs[0].Value) != rightValue {
			c.t.Errorf("%s: %v, %v", h.o.Name, r, err)
		}
		// As long as it had been compared with the bad one alone, there was a dispute.
		testwait.Until(h.t, "agreement", func() bool { return h.observe().Differs == "" })
	}
}

// TestMembersThatRestartTogetherAreCompared: etcd's own comparison waits seven
// seconds for each peer that compares itself too, and then compares nothing.
func TestMembersThatRestartTogetherAreCompared(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		c := newTrio(t, bin)
		c.flushed()
		c.each((*host).down)
		c.h[2].spoil()
		c.each((*host).up)
		c.h[2].fenced("a and b")
		c.right(c.h[0], c.h[1])

		// It is not forgotten, also where nobody is there to ask.
		c.each((*host).down)
		c.h[2].up()
		c.h[2].fenced("a and b")
		if c.h[2].pid() != 0 {
			t.Error("a member whose data is wrong was started")
		}
	})
}

func TestAMemberThatTheClusterDoesWithoutIsComparedBeforeItServes(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		c := newTrio(t, bin)
		c.flushed()
		late := c.h[2]
		late.down()
		late.spoil()
		cl, ctx := c.client(late), t.Context()
		watched, served := make(chan struct{}), make(chan *clientv3.GetResponse, 1)
		go func() {
			defer close(watched)
			// It waits for the member to serve, and is served if it ever does.
			if r, err := cl.Get(ctx, spoiledKey, clientv3.WithSerializable()); err == nil {
				served <- r
			}
		}()
		late.up()
		late.fenced("a and b")
		if err := cl.Close(); err != nil {
			t.Error(err)
		}
		<-watched
		select {
		case r := <-served:
			// etcd 3.5 compares with nobody before its first raft snapshot.
			if bin.Version.AtLeast(3, 6) {
				t.Errorf("a client was served %v", r)
			}
		default:
		}
		c.right(c.h[0], c.h[1])
	})
}

// TestAGoodMemberIsNotKeptDownByABadOne: etcd's own comparison does not ask which
// of the two is wrong.
func TestAGoodMemberIsNotKeptDownByABadOne(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		c := newTrio(t, bin)
		c.flushed()
		c.each((*host).down)
		bad := c.h[2]
		bad.spoil()
		bad.up()
		// Nobody is there to compare it with, and nobody does so later: it stands
		// for one that went bad while it ran.
		bad.comparer.end(t.Context())
		c.h[0].up()
		testwait.Until(c.h[0].t, "a leader", func() bool {
			_, r := c.h[0].Observe(t.Context())
			return r != nil && r.Leader != 0
		})
		c.h[1].up()
		c.right(c.h[1])

		// A compaction brings it out.
		revision := c.put("other", "x")
		ctx, cancel := context.WithTimeout(t.Context(), etcdtest.Timeout)
		defer cancel()
		client := c.client(c.h[0])
		testwait.For(t, "a compaction", func(ctx context.Context) error {
			_, err := client.Compact(ctx, revision, clientv3.WithCompactPhysical())
			if errors.Is(err, rpctypes.ErrCompacted) { // by an attempt that nobody waited for
				err = nil
			}
			return err
		})
		var k compaction
		testwait.Until(bad.t, "a comparison at the compaction", func() bool {
			bad.compareCompacted(ctx, &k)
			return k.done == cluster.Revision(revision)
		})
		bad.fenced("a and b")
		c.right(c.h[0], c.h[1])
	})
}

// TestTheFirstMemberOfAnUpgradeIsNotCondemned: its version may digest the same data
// differently.
func TestTheFirstMemberOfAnUpgradeIsNotCondemned(t *testing.T) {
	t.Parallel()
	older, newer := etcdversion.Must("3.5.35"), etcdversion.Must("3.6.16")
	c := newMixedTrio(t, older, older, newer)
	c.flushed()
	first := c.h[2]
	first.comparer.end(t.Context())
	testwait.Until(first.t, "its data to count as that of the others", func() bool {
		_, settled := first.compareAt(t.Context(), 0)
		return settled
	})
	first.down()
	first.spoil()
	first.up()
	testwait.Until(first.t, "a dispute", func() bool {
		return strings.Contains(first.observe().Differs, "with the same etcd version")
	})
	if first.disk().Differs != nil || first.pid() == 0 {
		t.Errorf("it was condemned: %+v", first.disk().Differs)
	}
	c.right(c.h[0], c.h[1])
}

// Until a majority has been compared, nobody reads that the data is right.
func TestComparingIsReported(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		c := newTrio(t, bin)
		compared := func(h *host) {
			t.Helper()
			testwait.Until(t, string(h.o.Name)+" to be compared", func() bool { return !h.observe().Comparing })
		}
		for _, h := range c.h {
			compared(h)
			h.down()
		}
		alone := c.h[0]
		alone.up()
		testwait.Until(t, "etcd to run alone, uncompared", func() bool {
			n := alone.observe()
			return n.Process.State == cluster.ProcessRunning && n.Comparing
		})
		c.h[1].up()
		compared(alone)
		compared(c.h[1])
	})
}
