package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

const movesTitle = "leadership moved in bare etcd:"

// movesOf is how often the leadership is moved for one row.
const movesOf = 5

// moves counts the puts that fail in three bare etcds when their leadership is moved, by
// the member that the client asks: what no manager can do better.
func (b *bench) moves(ctx context.Context) error {
	if !strings.Contains(movesTitle, b.only) {
		return nil
	}
	fmt.Printf("\n%s 3 members, %d puts a second, %d moves each:\n\n", movesTitle, b.changeRate, movesOf)
	fmt.Println("| puts through | failed | in a move | of them tried again after 0.1 s, failed | what etcd answers |")
	fmt.Println("| --- | --- | --- | --- | --- |")
	return harness.Perform(func(string) {}, func(t harness.T) {
		f := b.bare(t)
		f.startAll(t)
		within(ctx, t, timeout, func(ctx context.Context) error { return write(ctx, f.client) })
		for _, through := range []string{"the leader", "the member that is to lead", "the third member", "all of them"} {
			f.movedUnder(ctx, t, through, b.changeRate)
		}
	})
}

// An askers counts what becomes of puts.
type askers struct {
	mu                 sync.Mutex
	sent, failed, lost int
	said               map[string]int
}

// movedUnder moves the leadership under puts through some of the members, and prints a row.
func (f *bare) movedUnder(ctx context.Context, t harness.T, through string, rate int) {
	a := &askers{said: map[string]int{}}
	for range movesOf {
		leader, to, third := f.roles(ctx, t)
		endpoints := map[string][]string{
			"the leader": {leader}, "the member that is to lead": {to}, "the third member": {third},
		}[through]
		if endpoints == nil {
			endpoints = f.names
		}
		client := f.clientOf(t, endpoints...)
		load, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			a.ask(load, client, rate)
		}()
		wait(ctx, 2*time.Second)
		s, err := f.status(to)(ctx)
		must(t, err)
		mover := f.clientOf(t, leader)
		_, err = mover.MoveLeader(ctx, s.Header.MemberId)
		must(t, err)
		wait(ctx, time.Second)
		stop()
		<-done
		_, _ = mover.Close(), client.Close()
	}
	var said []string
	for _, what := range slices.Sorted(maps.Keys(a.said)) {
		said = append(said, fmt.Sprintf("%d times %s", a.said[what], what))
	}
	fmt.Printf("| %s | %d of %d | %.1f | %d | %s |\n", through, a.failed, a.sent, float64(a.failed)/movesOf, a.lost,
		strings.Join(said, ", "))
}

// roles returns who leads, who is to, and who is left.
func (f *bare) roles(ctx context.Context, t harness.T) (leader, to, third string) {
	leader = f.leader(ctx, t)
	others := slices.DeleteFunc(slices.Clone(f.names), func(n string) bool { return n == leader })
	return leader, others[0], others[1]
}

// clientOf returns a client with etcd's own policy of retries.
func (f *bare) clientOf(t harness.T, names ...string) *clientv3.Client {
	t.Helper()
	var endpoints []string
	for _, name := range names {
		endpoints = append(endpoints, f.clientURL(name))
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: f.pki.ClientTLS(), Logger: zap.NewNop()})
	must(t, err)
	return c
}

// ask puts at a steady rate until ctx ends, and waits for all answers.
func (a *askers) ask(ctx context.Context, client *clientv3.Client, rate int) {
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		all.Go(func() { a.put(context.WithoutCancel(ctx), client, fmt.Sprintf("moves/%06d", i)) })
	}
}

// put writes once, and where that fails once more after a moment, as a client may that sets
// a value.
func (a *askers) put(ctx context.Context, client *clientv3.Client, key string) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	value := strings.Repeat("x", 256)
	_, err := client.Put(ctx, key, value)
	var again error
	if err != nil {
		wait(ctx, 100*time.Millisecond)
		_, again = client.Put(ctx, key, value)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent++
	if err == nil {
		return
	}
	a.failed++
	a.said[fmt.Sprintf("%q (%s)", err, codeOf(err))]++
	if again != nil {
		a.lost++
	}
}

// codeOf names the gRPC code of an answer of etcd.
func codeOf(err error) string {
	if e, ok := err.(interface{ Code() codes.Code }); ok {
		return e.Code().String()
	}
	return status.Code(err).String()
}
