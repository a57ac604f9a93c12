package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

func newMoveLeader() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "move-leader [MEMBER]",
		Short: "make another member the leader",
		Long: `move-leader makes another member the leader: the one that is named, by its name or ID, or else the healthy
voter that is most up to date. It changes nothing if that member already is the leader.`,
		Args: cobra.MaximumNArgs(1),
	}
	t := newTool(cmd)
	cmd.ValidArgsFunction = cli.Complete(1, false, t.memberNames)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return t.moveLeader(cmd.Context(), strings.Join(args, ""))
	}
	return cmd
}

// memberNames are the names of the members, and the IDs of those that have none.
func (t *tool) memberNames(ctx context.Context, _ *cobra.Command) (names []string, err error) {
	c, err := t.access.Open(ctx)
	if err != nil {
		return nil, err
	}
	// Nothing is written over it.
	defer c.Close()
	list, err := c.Members(ctx)
	for _, m := range list {
		names = append(names, cmp.Or(string(m.Name), m.ID.String()))
	}
	slices.Sort(names)
	return names, err
}

// A leadership is the result of move-leader.
type leadership struct {
	From     cluster.NodeName `json:"from"`
	To       cluster.NodeName `json:"to"`
	FromID   cluster.MemberID `json:"fromID"`
	ToID     cluster.MemberID `json:"toID"`
	Moved    bool             `json:"moved"`
	RaftTerm uint64           `json:"raftTerm"`
}

func (t *tool) moveLeader(ctx context.Context, word string) error {
	v, err := t.view(ctx)
	if err != nil {
		return err
	}
	to, err := v.successor(word)
	if err != nil {
		return err
	}
	from, err := v.find(v.leader.String())
	if err != nil {
		return fmt.Errorf("the leader %s is not in the member list", v.leader)
	}
	result := leadership{From: from.Name, FromID: from.ID, To: to.Name, ToID: to.ID, RaftTerm: to.report.RaftTerm}
	if from.ID == to.ID {
		return t.print("LeaderMove", result, text(fmt.Sprintf("%s is the leader: nothing to do", to)))
	}
	if from.endpoint == "" {
		return cli.WithHint(fmt.Errorf("the leader has to be asked to step down: %w", from.err),
			"if the leader is down, the others elect a new one by themselves")
	}
	if err := t.transfer(ctx, from, to); err != nil {
		return err
	}
	if result.RaftTerm, err = t.led(ctx, to); err != nil {
		return err
	}
	result.Moved = true
	return t.print("LeaderMove", result, text(fmt.Sprintf("the leader was %s and is %s", from, to)))
}

// successor returns the member that is to lead.
func (v view) successor(word string) (member, error) {
	if v.leader == 0 {
		return member{}, &quorumError{"the cluster has no leader", "bring the other members back first"}
	}
	if word == "" {
		return v.nearest()
	}
	m, err := v.find(word)
	if err != nil {
		return m, err
	}
	switch unwell := v.cannotLead(m); {
	case m.Learner:
		return m, &cli.RefusedError{
			Text: fmt.Sprintf("%s is a learner, and has no vote", m), Next: "promote it first: etcdadm member promote",
		}
	case unwell != nil:
		return m, &cli.RefusedError{Text: unwell.Error(), Next: "name another member, or none to have the best one chosen"}
	}
	return m, nil
}

// cannotLead says why m must not lead, nil if it may. Where the leader serves no reads, no other
// member can, and that one does not is no reason: moving the leader may end it.
func (v view) cannotLead(m member) error {
	if leader, err := v.find(v.leader.String()); err == nil && leader.report.Read == cluster.ReadLate {
		m.report.Read = ""
	}
	return v.unhealthy(m)
}

// nearest returns the voter that is to lead where nobody says which.
func (v view) nearest() (member, error) {
	list := make([]cluster.Member, len(v.members))
	for i, m := range v.members {
		list[i] = m.Member
		list[i].Healthy, list[i].Applied = v.cannotLead(m) == nil, m.report.Applied
	}
	next, ok := cluster.NextLeader(list, v.leader)
	if !ok {
		return member{}, &cli.RefusedError{
			Text: "there is no other healthy voter that could lead", Next: "list the members: etcdadm info",
		}
	}
	return v.members[slices.IndexFunc(v.members, func(m member) bool { return m.ID == next.ID })], nil
}

// transfer asks the leader to hand over.
func (t *tool) transfer(ctx context.Context, from, to member) error {
	c, err := t.access.At(from.endpoint)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := t.access.Limit(ctx)
	defer cancel()
	defer t.access.Asked(from.endpoint)()
	if err := c.MoveLeader(ctx, to.ID); err != nil {
		return cli.WithHint(err, "observe again: the leader may have changed meanwhile")
	}
	return nil
}

// pause is the time between two checks of a member that is waited for.
const pause = 100 * time.Millisecond

// led waits until a member says that it leads, and returns the term.
func (t *tool) led(ctx context.Context, m member) (term uint64, err error) {
	err = t.wait(ctx, m, func(r cluster.Report) error {
		term = r.RaftTerm
		if r.Leader != m.ID {
			return fmt.Errorf("%s says that %s leads", m, r.Leader)
		}
		return nil
	})
	return term, err
}

// wait asks a member about itself until that is what ok wants, within
// --timeout.
func (t *tool) wait(ctx context.Context, m member, ok func(r cluster.Report) error) error {
	limited, cancel := t.access.Limit(ctx)
	defer cancel()
	var last error
	var known sync.Mutex
	defer cli.Waiting(t.cmd.ErrOrStderr(), func() string {
		known.Lock()
		defer known.Unlock()
		if last == nil {
			return fmt.Sprintf("%s has not answered yet; it is waited for %s at most (--timeout)", m, t.access.Timeout)
		}
		return fmt.Sprintf("waiting for %s: %v", m, last)
	})()
	end, _ := limited.Deadline()
	for range wait.Every(limited, pause) {
		r, err := report(limited, t.access, m.endpoint)
		if err == nil {
			err = ok(r)
		}
		if err == nil {
			return nil
		}
		known.Lock()
		if last == nil || time.Until(end) > pause {
			last = err // and not that the time was over
		}
		known.Unlock()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return cli.WithHint(fmt.Errorf("waited %s for %s: %w", t.access.Timeout, m, last),
		"see the present state: etcdadm info")
}
