package backupagent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// fake is an etcd cluster. Its member N is at the endpoint http://mN.
type fake struct {
	mu     sync.Mutex
	n      int
	leader cluster.MemberID
	// down members do not answer.
	down map[cluster.MemberID]bool
	// revision is that of all members.
	revision cluster.Revision
	// slow is how long a snapshot takes.
	slow time.Duration
	// broken snapshots end before their end.
	broken bool
	// snapshots counts those that were asked for, by member; running is how many
	// are under way, and most how many were at a time.
	snapshots     map[cluster.MemberID]int
	running, most int
}

func newFake(n int) *fake {
	return &fake{n: n, leader: 1, down: map[cluster.MemberID]bool{}, revision: 7, snapshots: map[cluster.MemberID]int{}}
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// asked returns how many snapshots a member was asked for.
func (f *fake) asked(id cluster.MemberID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshots[id]
}

func (f *fake) underWay() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running
}

func (f *fake) dial(endpoint string) (Member, error) {
	var id cluster.MemberID
	if _, err := fmt.Sscanf(endpoint, "http://m%d", &id); err != nil {
		return nil, err
	}
	return fakeMember{f, id}, nil
}

type fakeMember struct {
	f  *fake
	id cluster.MemberID
}

func (fakeMember) Close() error { return nil }

func (m fakeMember) Report(context.Context) (cluster.Report, error) {
	f := m.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down[m.id] || int(m.id) > f.n {
		return cluster.Report{}, fmt.Errorf("http://m%d: nothing listens there", m.id)
	}
	r := cluster.Report{ID: m.id, ClusterID: 99, Version: version, Leader: f.leader, Revision: f.revision, Applied: 10,
		RaftTerm: 2}
	for i := range f.n {
		id := cluster.MemberID(i + 1)
		r.Members = append(r.Members, cluster.Member{
			ID: id, Name: cluster.NodeName(fmt.Sprintf("m%d", id)), ClientURLs: []string{fmt.Sprintf("http://m%d", id)},
		})
	}
	return r, nil
}

// Snapshot streams a whole snapshot in pieces.
func (m fakeMember) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	f := m.f
	f.mu.Lock()
	defer f.mu.Unlock()
	f.snapshots[m.id]++
	f.running++
	f.most = max(f.most, f.running)
	data := bytes.Repeat([]byte(fmt.Sprintf("%016d", f.revision)), 512)
	sum := sha256.Sum256(data)
	data = append(data, sum[:]...)
	if f.broken {
		data = data[:4000]
	}
	return &fakeStream{f: f, ctx: ctx, r: bytes.NewReader(data), pause: f.slow / 20}, nil
}

type fakeStream struct {
	f      *fake
	ctx    context.Context
	r      io.Reader
	pause  time.Duration
	closed sync.Once
}

func (s *fakeStream) Read(p []byte) (int, error) {
	if s.pause > 0 {
		select {
		case <-time.After(s.pause):
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		}
	}
	return s.r.Read(p[:min(len(p), 512)])
}

func (s *fakeStream) Close() error {
	s.closed.Do(func() { s.f.set(func() { s.f.running-- }) })
	return nil
}

// A crew is agents that run beside the members of a fake, in a bubble.
type crew struct {
	t      *testing.T
	f      *fake
	log    *log
	agents map[int]*Agent
	stops  map[int]func()
}

func newCrew(t *testing.T, f *fake) *crew {
	return &crew{t: t, f: f, log: &log{}, agents: map[int]*Agent{}, stops: map[int]func(){}}
}

// start starts an agent beside member i; change may change its configuration.
func (c *crew) start(i int, s Store, change func(*Config)) {
	config := Config{
		ClusterName: "main", Store: s, Endpoints: []string{fmt.Sprintf("http://m%d", i)}, Dial: c.f.dial,
		Schedule: Schedule{Interval: 15 * time.Minute}, Name: fmt.Sprintf("agent-%d", i), Tool: "test",
		Log: slog.New(slog.NewTextHandler(c.log, nil)).With("agent", i),
	}
	if change != nil {
		change(&config)
	}
	a := New(config)
	ctx, cancel := context.WithCancel(c.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Run(ctx)
	}()
	c.agents[i] = a
	c.stops[i] = func() {
		cancel()
		<-done
	}
	c.t.Cleanup(cancel)
}

func (c *crew) stop() {
	for _, stop := range c.stops {
		stop()
	}
	synctest.Wait()
}

// log is a buffer for many goroutines.
type log struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// blind is a store that does not list.
type blind struct{ Store }

func (blind) Backups(context.Context) ([]cluster.Backup, error) {
	return nil, errors.New("list: denied")
}

var version = etcdversion.Must("3.6.16")
