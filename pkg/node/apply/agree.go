package apply

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
)

// A DisagreeError says that the members of a restored cluster do not all have
// the data that was restored. It is not opened to clients then.
type DisagreeError struct{ Text string }

func (e *DisagreeError) Error() string { return "the restored members differ: " + e.Text }

// agree makes sure that all members of a restored cluster have the same data,
// and the revision that they are to begin with, before the first of them is
// opened to clients.
func (c *Coordinator) agree(ctx context.Context, obs cluster.Observation, op plan.Operation) error {
	lift, ok := op.(*plan.QuarantineLift)
	if !ok || lift.ExpectRevision == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, verifyDeadline)
	defer cancel()
	var members []cluster.Member
	for _, m := range obs.Members {
		if !m.Learner && m.Healthy {
			members = append(members, m)
		}
	}
	revisions, err := each(ctx, members, func(ctx context.Context, m cluster.Member) (cluster.Revision, error) {
		var r cluster.Report
		err := c.with(obs, m, func(etcd Etcd, _ string) (err error) {
			r, err = etcd.Report(ctx)
			return err
		})
		return r.Revision, err
	})
	if err != nil {
		return err
	}
	lowest := revisions[0]
	for _, r := range revisions {
		lowest = min(lowest, r)
	}
	if lowest < lift.ExpectRevision {
		return &DisagreeError{fmt.Sprintf("one has revision %d, they begin with %d", lowest, lift.ExpectRevision)}
	}
	hashes, err := each(ctx, members, func(ctx context.Context, m cluster.Member) (etcdclient.Hash, error) {
		var h etcdclient.Hash
		err := c.with(obs, m, func(etcd Etcd, url string) (err error) {
			h, err = etcd.HashKV(ctx, url, lowest)
			return err
		})
		return h, err
	})
	if err != nil {
		return err
	}
	for i, h := range hashes {
		if h != hashes[0] {
			return &DisagreeError{fmt.Sprintf("at revision %d, %s has the hash %d (compacted at %d), %s has %d (%d)", lowest,
				members[0].Name, hashes[0].Hash, hashes[0].CompactRevision, members[i].Name, h.Hash, h.CompactRevision)}
		}
	}
	return nil
}

// with calls f with a connection to one member.
func (c *Coordinator) with(obs cluster.Observation, m cluster.Member, f func(etcd Etcd, url string) error) error {
	urls := servedURLs(obs, m)
	if len(urls) == 0 {
		return fmt.Errorf("no client URL of %s is known", m.Name)
	}
	etcd, err := c.Etcd(urls[:1])
	if err != nil {
		return err
	}
	defer func() { _ = etcd.Close() }()
	return f(etcd, urls[0])
}

// each asks all members at the same time.
func each[T any](ctx context.Context, members []cluster.Member, ask func(context.Context, cluster.Member) (T, error)) (
	[]T, error) {
	if len(members) == 0 {
		return nil, &DisagreeError{"none is healthy"}
	}
	out := make([]T, len(members))
	g, ctx := errgroup.WithContext(ctx)
	for i, m := range members {
		g.Go(func() (err error) {
			out[i], err = ask(ctx, m)
			return err
		})
	}
	return out, g.Wait()
}
