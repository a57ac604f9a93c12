package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/render"
)

func newDefrag() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "defrag",
		Short: "release the free space in the members' databases",
		Long: `defrag rewrites the databases of the members at --endpoints, or of all voters with --cluster, without the free
space in them. A member serves nothing meanwhile. So members are defragmented one after the other, the leader
last, and the next one only when the last one is healthy again.`,
		Args: cobra.NoArgs,
	}
	d := defrag{tool: newTool(cmd)}
	cmd.Flags().BoolVar(&d.all, "cluster", false, "all voting members of the cluster")
	cmd.Flags().BoolVar(&d.force, "force", false, "defragment even if a member is unhealthy")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) }
	return cmd
}

type defrag struct {
	*tool
	all, force bool
}

// A defragmented member is one line of the result.
type defragmented struct {
	Name     cluster.NodeName `json:"name"`
	ID       cluster.MemberID `json:"id"`
	Endpoint string           `json:"endpoint"`
	// Before and After are the sizes of its database in bytes.
	Before  int64   `json:"before"`
	After   int64   `json:"after"`
	Seconds float64 `json:"seconds"`
}

// A defragmentation is the result.
type defragmentation struct {
	Members []defragmented `json:"members"`
}

func (d *defrag) run(ctx context.Context) error {
	v, err := d.view(ctx)
	if err != nil {
		return err
	}
	todo, err := d.chosen(ctx, v)
	if err != nil {
		return err
	}
	v.leaderLast(todo)
	var done []defragmented
	for i, m := range todo {
		if i > 0 {
			v, err = d.view(ctx) // what was may have changed meanwhile
		}
		var result defragmented
		if err == nil {
			result, err = d.one(ctx, v, m.ID)
		}
		if err != nil {
			break
		}
		done = append(done, result)
	}
	if err != nil && len(done) == 0 {
		return err
	}
	table := [][]string{{"MEMBER", "ID", "ENDPOINT", "BEFORE", "AFTER", "TOOK"}}
	for _, r := range done {
		took := time.Duration(r.Seconds * float64(time.Second)).Round(time.Millisecond)
		table = append(table, []string{
			string(r.Name), r.ID.String(), r.Endpoint, render.Bytes(r.Before), render.Bytes(r.After), took.String(),
		})
	}
	return errors.Join(err, d.print("Defragmentation", defragmentation{append([]defragmented{}, done...)}, rows(table...)))
}

// chosen returns the members to defragment.
func (d *defrag) chosen(ctx context.Context, v view) ([]member, error) {
	if d.all {
		return slices.DeleteFunc(slices.Clone(v.members), func(m member) bool {
			if m.Learner {
				d.access.Warn("%s is a learner, which etcd does not defragment: skipped", m)
			}
			return m.Learner
		}), nil
	}
	endpoints, err := d.access.Reach(ctx)
	if err != nil {
		return nil, err
	}
	var list []member
	for _, e := range endpoints {
		limited, cancel := d.access.Limit(ctx)
		answered := d.access.Asked(e)
		r, err := report(limited, d.access, e)
		answered()
		cancel()
		if err != nil {
			return nil, err
		}
		m, err := v.find(r.ID.String())
		if err != nil {
			return nil, fmt.Errorf("%s is not of this cluster: %w", e, err)
		}
		if !slices.ContainsFunc(list, func(o member) bool { return o.ID == m.ID }) {
			list = append(list, m)
		}
	}
	return list, nil
}

// slowest is the number of bytes that are written in a second at least.
const slowest = 5 << 20

// one defragments a member, if the others can do without, and waits until it
// is healthy again.
func (d *defrag) one(ctx context.Context, v view, id cluster.MemberID) (defragmented, error) {
	m, err := v.find(id.String())
	if err != nil {
		return defragmented{}, err
	}
	if err := d.safe(v, m); err != nil {
		return defragmented{}, err
	}
	result := defragmented{Name: m.Name, ID: m.ID, Endpoint: m.endpoint, Before: m.report.DBSize}
	d.say("defragmenting %s (%s, %s) ...", m, m.endpoint, render.Bytes(result.Before))
	began := time.Now()
	if err := d.do(ctx, m); err != nil {
		return defragmented{}, err
	}
	result.Seconds = time.Since(began).Seconds()
	err = d.wait(ctx, m, func(r cluster.Report) error {
		result.After = r.DBSize
		return view{}.unhealthy(member{Member: m.Member, endpoint: m.endpoint, report: r})
	})
	return result, err
}

func (d *defrag) do(ctx context.Context, m member) error {
	c, err := d.access.At(m.endpoint)
	if err != nil {
		return err
	}
	defer c.Close()
	limit := d.access.Timeout + time.Duration(m.report.DBSize/slowest)*time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer cli.Waiting(d.cmd.ErrOrStderr(), func() string {
		return fmt.Sprintf("%s has not answered yet whether it is done; it is waited for %s at most (--timeout, and a second for "+
			"each %s of its database)", m, limit, render.Bytes(slowest))
	})()
	err = c.Defragment(ctx, m.endpoint)
	if errors.Is(err, context.DeadlineExceeded) {
		err = cli.WithHint(fmt.Errorf("not done within %s: %w", limit, err),
			"it may still be running there; allow more time with --timeout")
	}
	return err
}

// safe reports why the member must not be kept busy now.
func (d *defrag) safe(v view, m member) error {
	switch {
	case m.Learner:
		return &cli.RefusedError{
			Text: fmt.Sprintf("%s is a learner, which etcd does not defragment", m),
			Next: "promote it first, or remove it from --endpoints",
		}
	case m.endpoint == "":
		return &cli.RefusedError{Text: m.err.Error(), Next: "name the others with --endpoints, without --cluster"}
	}
	voters, healthy := v.voters(m.ID)
	if voters < 3 {
		d.access.Warn("the cluster has %d voting member(s): it serves nothing while %s is defragmented", voters, m)
	}
	if d.force {
		return nil
	}
	for _, o := range v.members {
		why := v.unhealthy(o)
		if why == nil {
			continue
		}
		text := "a member is unhealthy: " + why.Error()
		if voters > 2 && healthy < cluster.Quorum(voters) {
			return &quorumError{fmt.Sprintf("%s; without %s only %d of %d voters are healthy, and %d are needed", text, m,
				healthy, voters, cluster.Quorum(voters)),
				"fix it first; --force defragments anyway, and the cluster takes no writes meanwhile"}
		}
		return &cli.RefusedError{Text: text, Next: "fix it first; --force defragments the others anyway"}
	}
	return nil
}
