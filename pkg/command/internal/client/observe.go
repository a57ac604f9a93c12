package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/internal/access"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
)

// memberTime is how long one member may take to report on itself.
const memberTime = 3 * time.Second

// A member is one of the list, with what it says of itself.
type member struct {
	cluster.Member
	// endpoint is the client URL at which it answered, empty if it did not; err
	// says why.
	endpoint string
	report   cluster.Report
	err      error
}

// String is how a person knows the member.
func (m member) String() string {
	if m.Name == "" {
		return m.ID.String()
	}
	return string(m.Name)
}

// A view is one observation of a cluster.
type view struct {
	members []member
	leader  cluster.MemberID
}

// observe asks every member of the list about itself, at the same time.
func observe(ctx context.Context, a *access.Access, list []cluster.Member) view {
	v := view{members: make([]member, len(list))}
	var all sync.WaitGroup
	for i, m := range list {
		all.Go(func() { v.members[i] = ask(ctx, a, m) })
	}
	all.Wait()
	// That of the best informed member: one that was cut off may believe in another.
	var best cluster.Report
	for _, r := range v.reports() {
		if r.BetterInformed(best) {
			best = r
		}
	}
	v.leader = best.Leader
	return v
}

// reports are those of the members that answered.
func (v view) reports() []cluster.Report {
	var list []cluster.Report
	for _, m := range v.members {
		if m.endpoint != "" {
			list = append(list, m.report)
		}
	}
	return list
}

// unhealthy says why m cannot be counted on beside the others of the view, nil if it can. A full
// database is no reason: it serves reads, and defragmenting is what it needs.
func (v view) unhealthy(m member) error {
	if m.endpoint == "" {
		return m.err
	}
	if why := m.report.Fault(v.reports()); why != "" {
		return fmt.Errorf("%s: %s", m, why)
	}
	return nil
}

// ask asks one member, at its client URLs in turn.
func ask(ctx context.Context, a *access.Access, m cluster.Member) member {
	out := member{Member: m}
	if len(m.ClientURLs) == 0 {
		out.err = fmt.Errorf("%s has not started yet: it has no client URL", out)
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, memberTime)
	defer cancel()
	for _, u := range m.ClientURLs {
		r, err := report(ctx, a, u)
		if err == nil && r.ID != m.ID {
			err = fmt.Errorf("at %s another member answers, %s", u, r.ID)
		}
		if err == nil {
			out.endpoint, out.report, out.err = u, r, nil
			return out
		}
		out.err = errors.Join(out.err, fmt.Errorf("%s does not answer: %w", out, err))
	}
	return out
}

func report(ctx context.Context, a *access.Access, endpoint string) (cluster.Report, error) {
	config, err := a.TLS()
	if err != nil {
		return cluster.Report{}, err
	}
	if err := etcdclient.Probe(ctx, endpoint, config); err != nil {
		return cluster.Report{}, err
	}
	c, err := a.At(endpoint)
	if err != nil {
		return cluster.Report{}, err
	}
	defer c.Close()
	r, err := c.Report(ctx)
	return r, etcdclient.Explain(ctx, endpoint, config, err)
}

// find returns the member of a name or an id.
func (v view) find(word string) (member, error) {
	id, err := cluster.ParseMemberID(word)
	var names []string
	for _, m := range v.members {
		if string(m.Name) == word || err == nil && m.ID == id {
			return m, nil
		}
		names = append(names, fmt.Sprintf("%s (%s)", m, m.ID))
	}
	return member{}, &cli.UsageError{
		Text: fmt.Sprintf("there is no member %q", word), Next: "the members are " + strings.Join(names, ", "),
	}
}

// name returns how a person knows the member of an id.
func (v view) name(id cluster.MemberID) string {
	for _, m := range v.members {
		if m.ID == id {
			return m.String()
		}
	}
	return id.String()
}

// voters counts the voters and those of them that are healthy, other than one.
func (v view) voters(other cluster.MemberID) (all, healthy int) {
	for _, m := range v.members {
		if m.Learner {
			continue
		}
		all++
		if m.ID != other && v.unhealthy(m) == nil {
			healthy++
		}
	}
	return all, healthy
}

// leaderLast puts the leader behind its followers: its failure does most.
func (v view) leaderLast(list []member) {
	slices.SortStableFunc(list, func(a, b member) int {
		switch v.leader {
		case a.ID:
			return 1
		case b.ID:
			return -1
		}
		return 0
	})
}
