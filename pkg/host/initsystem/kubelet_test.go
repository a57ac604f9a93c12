package initsystem_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/initsystem"
)

// A node has a kubelet that does what the manifest says, with some delay.
type node struct {
	manifest, logs string
	answers        atomic.Bool
	// observations counts how often somebody asked whether etcd is gone; each of them
	// calls onObserve.
	observations atomic.Int64
	onObserve    func(n int64)
	// busy counts down how often somebody finds the database open.
	busy atomic.Int64
}

func newNode(t *testing.T) (*node, initsystem.System) {
	t.Helper()
	dir := t.TempDir()
	n := &node{manifest: filepath.Join(dir, "manifests", "etcd.manifest"), logs: filepath.Join(dir, "pods"),
		onObserve: func(int64) {}}
	s := newSystem(t, initsystem.Options{
		Kind: "kubelet", Manifest: initfiles.File{Path: n.manifest, Mode: 0o600, Content: "kind: Pod\n"}, PodLogs: n.logs,
		Gone: func(context.Context) bool {
			n.onObserve(n.observations.Add(1))
			return !n.answers.Load()
		},
		Busy: func() bool { return n.busy.Add(-1) >= 0 },
	})
	return n, s
}

func TestStaticPodFromStartToEnd(t *testing.T) {
	t.Parallel()
	n, s := newNode(t)
	if st := status(t, s); st.State != initsystem.Absent || st.Enabled {
		t.Errorf("at first: %+v", st)
	}
	mustDo(t, s.Start)
	before, err := os.Stat(n.manifest)
	if err != nil || before.Mode() != 0o600 {
		t.Fatalf("%v, %v", before, err)
	}
	if st := status(t, s); st.State != initsystem.Starting || !st.Enabled {
		t.Errorf("started: %+v", st)
	}
	n.answers.Store(true)
	if st := status(t, s); st.State != initsystem.Running {
		t.Errorf("answers: %+v", st)
	}
	mustDo(t, s.Start)
	if after, err := os.Stat(n.manifest); err != nil || !os.SameFile(before, after) {
		t.Errorf("a second start has written the manifest again: %v", err)
	}
	n.observations.Store(0)
	n.onObserve = func(observations int64) { n.answers.Store(observations < 4) }
	mustDo(t, s.Stop)
	if observations := n.observations.Load(); observations < 4 {
		t.Errorf("did not wait: %d checks", observations)
	}
	if st := status(t, s); st.State != initsystem.Absent {
		t.Errorf("stopped: %+v", st)
	}
	begin := time.Now()
	mustDo(t, s.Stop)
	if d := time.Since(begin); d > 10*time.Second {
		t.Errorf("stopping what is stopped took %s", d)
	}
}

// TestStaticPodThatComesBack has a kubelet that starts a crashing etcd once more
// before it sees that the manifest is gone.
func TestStaticPodThatComesBack(t *testing.T) {
	t.Parallel()
	n, s := newNode(t)
	initsystem.SetGoneGrace(s, 10*time.Second) // a busy machine may check late
	mustDo(t, s.Start)
	n.observations.Store(0)
	n.onObserve = func(observations int64) { n.answers.Store(observations > 2 && observations < 6) }
	mustDo(t, s.Stop)
	if observations := n.observations.Load(); observations < 6 {
		t.Errorf("it took the pod for gone after %d checks", observations)
	}
}

func TestStaticPodThatStays(t *testing.T) {
	t.Parallel()
	n, s := newNode(t)
	mustDo(t, s.Start)
	n.answers.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "does the kubelet run") {
		t.Error(err)
	}
	if st := status(t, s); st.State != initsystem.Running || st.Enabled {
		t.Errorf("%+v", st)
	}
	if err := s.Stop(ctx); err == nil {
		t.Error("the second stop does not mind that it still answers")
	}
}

// etcd that ends closes its listeners first, and then waits for clients that stay.
func TestStaticPodThatEndsSlowly(t *testing.T) {
	t.Parallel()
	n, s := newNode(t)
	mustDo(t, s.Start)
	n.busy.Store(8)
	mustDo(t, s.Stop)
	if left := n.busy.Load(); left >= 0 {
		t.Errorf("stopped while a process has the database open, which it finds %d times more", left)
	}
	n.busy.Store(1)
	if st := status(t, s); st.State != initsystem.Running || !strings.Contains(st.Detail, "has the database open") {
		t.Errorf("%+v", st)
	}
	if st := status(t, s); st.State != initsystem.Absent {
		t.Errorf("%+v", st)
	}
}

func TestStaticPodThatCrashes(t *testing.T) {
	t.Parallel()
	n, s := newNode(t)
	mustDo(t, s.Start)
	var lines strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&lines, "2026-01-01T00:00:00Z stderr F line %d of etcd\n", i)
	}
	// says has a container of the pod say something, some time after the manifest
	// was written.
	says := func(number, text string, after time.Duration) {
		t.Helper()
		path := filepath.Join(n.logs, "kube-system_etcd-node-1_0123", "etcd", number+".log")
		write(t, path, text, 0o600)
		at := time.Now().Add(after)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	says("0", "an earlier life", -time.Minute)
	if st := status(t, s); st.State != initsystem.Starting {
		t.Errorf("nothing was said since the start: %+v", st)
	}
	says("1", "first start", time.Second)
	if st := status(t, s); st.State != initsystem.Starting {
		t.Errorf("first start: %+v", st)
	}
	says("2", lines.String(), time.Minute)
	st := status(t, s)
	if st.State != initsystem.Crashing || !strings.Contains(st.Detail, "more than once") || len(st.LastLines) != 20 ||
		st.LastLines[19] != "line 1999 of etcd" {
		t.Errorf("second start: %+v", st)
	}
	n.answers.Store(true)
	if st := status(t, s); st.State != initsystem.Running {
		t.Errorf("it answers: %+v", st)
	}
}

func TestStaticPodRestart(t *testing.T) {
	t.Parallel()
	n, s := newNode(t)
	write(t, n.manifest, "an old one", 0o600)
	n.answers.Store(true)
	n.onObserve = func(observations int64) {
		if _, err := os.Stat(n.manifest); err != nil && observations > 3 {
			n.answers.Store(false)
		}
	}
	mustDo(t, s.Restart)
	if b, err := os.ReadFile(n.manifest); string(b) != "kind: Pod\n" {
		t.Errorf("%q, %v", b, err)
	}
	mustDo(t, s.Reload)
}

func TestManifestThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	n, s := newNode(t)
	write(t, filepath.Dir(n.manifest), "a file where the directory should be", 0o600)
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "write the static pod") {
		t.Error(err)
	}
	if _, err := s.Status(t.Context()); err == nil {
		t.Error("a manifest that cannot be checked is not absent")
	}
	if err := s.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "remove the static pod") {
		t.Error(err)
	}
}
