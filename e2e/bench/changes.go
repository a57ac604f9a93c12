package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

const changesTitle = "changes under load:"

// A change is something that is done to a cluster of three while clients write.
type change struct {
	what string
	// make makes it, and returns when it is done.
	make func(ctx context.Context, t harness.T, c *harness.Cluster)
}

// changes counts the puts that fail while members come and go.
func (b *bench) changes(ctx context.Context) error {
	if !strings.Contains(changesTitle, b.only) {
		return nil
	}
	fmt.Printf("\n%s 3 members, %d puts a second and one watcher:\n\n", changesTitle, b.changeRate)
	loadHead("begin")
	return harness.Perform(func(string) {}, func(t harness.T) {
		c := b.running(ctx, t)
		for _, change := range []change{
			{"the leader is moved and nothing else: etcd's own part", moved},
			{"shrink from 3 to 2", resize(2)},
			{"shrink from 2 to 1", resize(1)},
			{"grow from 1 to 3", resize(3)},
			{"a follower's daemon stopped and started", restarted(false)},
			{"the leader's daemon stopped and started", restarted(true)},
			{"grow from 3 to 5", func(ctx context.Context, t harness.T, c *harness.Cluster) {
				c.Start("d", "e")
				resize(5)(ctx, t, c)
			}},
			{"shrink from 5 to 3", resize(3)},
			{"a follower's machine replaced, its daemon stopped for good", replaced((*harness.Node).Stop)},
			{"a follower's machine replaced, killed with its disk", replaced((*harness.Node).LoseDisk)},
		} {
			b.changed(ctx, t, c, change)
		}
	})
}

func (b *bench) changed(ctx context.Context, t harness.T, c *harness.Cluster, ch change) {
	l, release := burdenOn(ctx, t, c, b.changeRate)
	defer release()
	began := time.Now()
	l.stops()
	ch.make(ctx, t, c)
	took := time.Since(began)
	wait(ctx, 2*time.Second) // what is stopped ends a second after it was removed
	l.row(ctx, ch.what, took)
}

// resize changes the member count, and waits until the cluster is what the spec says.
func resize(count int) func(context.Context, harness.T, *harness.Cluster) {
	return func(ctx context.Context, t harness.T, c *harness.Cluster) {
		c.SetSpec(count, version)
		c.WaitVoters(harness.Soon, count)
		within(ctx, t, timeout, func(context.Context) error { return done(c, version) })
	}
}

// moved has etcd hand its leadership to another member.
func moved(ctx context.Context, t harness.T, c *harness.Cluster) {
	var leader *harness.Node
	var to uint64
	for _, n := range c.Nodes() {
		s, err := n.EtcdStatus(ctx)
		must(t, err)
		if s.Leader == s.Header.MemberId {
			leader = n
		} else {
			to = s.Header.MemberId
		}
	}
	if leader == nil || to == 0 {
		t.Fatalf("nobody leads, or nobody follows")
	}
	client, err := c.NewClient(leader)
	must(t, err)
	defer client.Close()
	_, err = client.MoveLeader(ctx, to)
	must(t, err)
}

// replaced ends a follower's machine for good, and waits until another one has its place: there
// are more nodes than members.
func replaced(end func(*harness.Node)) func(context.Context, harness.T, *harness.Cluster) {
	return func(ctx context.Context, t harness.T, c *harness.Cluster) {
		voters, err := c.Voters(ctx)
		must(t, err)
		for _, n := range c.Nodes() {
			if !slices.Contains(voters, n.Name) {
				continue
			}
			s, err := n.EtcdStatus(ctx)
			must(t, err)
			if s.Leader == s.Header.MemberId {
				continue
			}
			end(n)
			within(ctx, t, timeout, func(ctx context.Context) error {
				now, err := c.Voters(ctx)
				if err == nil && (len(now) != len(voters) || slices.Contains(now, n.Name)) {
					err = fmt.Errorf("the voters are %v", now)
				}
				return err
			})
			return
		}
		t.Fatalf("nobody follows")
	}
}

// restarted stops and starts the daemon of the leader or of a follower.
func restarted(leader bool) func(context.Context, harness.T, *harness.Cluster) {
	return func(ctx context.Context, t harness.T, c *harness.Cluster) {
		for _, n := range c.Nodes() {
			s, err := n.EtcdStatus(ctx)
			must(t, err)
			if (s.Leader == s.Header.MemberId) != leader {
				continue
			}
			n.Stop()
			n.Start()
			within(ctx, t, timeout, func(ctx context.Context) error {
				_, err := n.EtcdStatus(ctx)
				return err
			})
			within(ctx, t, timeout, func(context.Context) error { return done(c, version) })
			return
		}
		t.Fatalf("there is no such member")
	}
}
