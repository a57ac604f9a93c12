package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
)

func newAlarm() *cobra.Command {
	group := cli.Group("alarm", "list and disarm alarms")
	list := &cobra.Command{Use: "list", Short: "print the alarms", Args: cobra.NoArgs}
	t := newTool(list)
	list.RunE = func(cmd *cobra.Command, _ []string) error { return t.listAlarms(cmd.Context()) }
	group.AddCommand(list, newDisarm())
	return group
}

func newDisarm() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "disarm",
		Short: "clear alarms whose cause is gone",
		Long: `disarm clears alarms whose cause is gone. It checks that first: NOSPACE is disarmed when a tenth of the quota
of the member's database is free again, CORRUPT when all members hold the same data.`,
		Args: cobra.NoArgs,
	}
	t := newTool(cmd)
	d := disarm{tool: t}
	cmd.Flags().StringVar(&d.member, "member", "", "`name` or ID of the member (default: all members)")
	cmd.Flags().BoolVar(&d.force, "force", false, "disarm without checking that the cause is gone")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) }
	return cmd
}

// A raised alarm is one with the name of its member.
type raised struct {
	Name cluster.NodeName `json:"name"`
	etcdclient.Alarm
	// Disarmed says what became of it.
	Disarmed bool `json:"disarmed,omitempty"`
}

// alarms are what the commands print.
type alarms struct {
	Alarms []raised `json:"alarms"`
}

// alarms returns the alarms and the members.
func (t *tool) alarms(ctx context.Context) ([]raised, view, error) {
	var list []raised
	var v view
	err := t.access.Run(ctx, func(ctx context.Context, c *etcdclient.Client) error {
		members, err := c.Members(ctx)
		if err != nil {
			return err
		}
		alarms, err := c.Alarms(ctx)
		if err != nil {
			return err
		}
		v = observe(ctx, t.access, members)
		for _, a := range alarms {
			m, _ := v.find(a.Member.String()) // one that was removed has no name
			list = append(list, raised{Name: m.Name, Alarm: a})
		}
		return nil
	})
	return list, v, err
}

func (t *tool) listAlarms(ctx context.Context) error {
	list, _, err := t.alarms(ctx)
	if err != nil {
		return err
	}
	return t.printAlarms(list, "there are no alarms")
}

func (t *tool) printAlarms(list []raised, none string) error {
	if len(list) == 0 && t.out.Text() {
		t.say("%s", none)
		return nil
	}
	table := [][]string{{"MEMBER", "ID", "ALARM"}}
	for _, a := range list {
		table = append(table, []string{string(a.Name), a.Member.String(), a.Kind})
	}
	return t.print("Alarms", alarms{append([]raised{}, list...)}, rows(table...))
}

// disarm is the command "alarm disarm".
type disarm struct {
	*tool
	member string
	force  bool
}

func (d *disarm) run(ctx context.Context) error {
	list, v, err := d.alarms(ctx)
	if err != nil {
		return err
	}
	if d.member != "" {
		m, err := v.find(d.member)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(a raised) bool { return a.Member != m.ID })
	}
	for i, a := range list {
		if !d.force {
			if err := d.gone(ctx, v, a); err != nil {
				return err
			}
		}
		err := d.access.Run(ctx, func(ctx context.Context, c *etcdclient.Client) error { return c.Disarm(ctx, a.Alarm) })
		if err != nil {
			return err
		}
		list[i].Disarmed = true
		d.say("disarmed %s of %s", a.Kind, v.name(a.Member))
	}
	return d.printAlarms(list, "there are no alarms: nothing to do")
}

// gone reports why the reason of an alarm is not gone.
func (d *disarm) gone(ctx context.Context, v view, a raised) error {
	m, err := v.find(a.Member.String())
	if err != nil {
		return nil // the member was removed, and its alarm means nothing
	}
	if m.endpoint == "" {
		return &cli.RefusedError{
			Text: m.err.Error(), Next: "only that member can determine whether the cause of the alarm is gone; --force disarms " +
				"without this check",
		}
	}
	ctx, cancel := d.access.Limit(ctx)
	defer cancel()
	switch a.Kind {
	case etcdclient.NoSpace:
		return d.room(ctx, m)
	case etcdclient.Corrupt:
		return d.equal(ctx, v)
	}
	return &cli.RefusedError{
		Text: fmt.Sprintf("%s is not an alarm that etcdadm knows", a.Kind), Next: "--force disarms without this check",
	}
}

// room reports whether a member's database has room below its quota: a tenth,
// because etcd refuses what would reach the quota before the database does.
func (d *disarm) room(ctx context.Context, m member) error {
	s, err := d.space(ctx, m)
	if err != nil {
		return &cli.RefusedError{
			Text: err.Error(), Next: "--force disarms without this check; etcd raises the alarm again at the next write if " +
				"there is no space",
		}
	}
	if s.Size <= s.Quota/10*9 {
		return nil
	}
	return &cli.RefusedError{
		Text: fmt.Sprintf("the database of %s takes %s of its quota of %s", m, render.Bytes(s.Size), render.Bytes(s.Quota)),
		Next: fmt.Sprintf("delete unneeded keys and compact the history (etcdctl compact %d), then etcdadm defrag "+
			"--cluster, then disarm; "+
			"or run etcd with a larger --quota-backend-bytes", m.report.Revision),
	}
}

// space returns the size of a member's database with its quota.
func (d *disarm) space(ctx context.Context, m member) (etcdclient.Space, error) {
	c, err := d.access.At(m.endpoint)
	if err != nil {
		return etcdclient.Space{}, err
	}
	defer c.Close()
	s, err := c.Space(ctx, m.endpoint)
	if err != nil || s.Quota > 0 {
		return s, err
	}
	config, err := d.access.TLS()
	if err != nil {
		return s, err
	}
	s.Quota, err = etcdclient.Quota(ctx, m.endpoint, config)
	return s, err
}

// equal reports whether all members hold the same data.
func (d *disarm) equal(ctx context.Context, v view) error {
	const next = "remove the member whose data differs (etcdadm remove) and join it again; --force disarms " +
		"without this check"
	rev := cluster.Revision(0)
	for _, m := range v.members {
		if m.endpoint == "" {
			return &cli.RefusedError{Text: "cannot determine whether all members hold the same data: " + m.err.Error(), Next: next}
		}
		if rev == 0 || m.report.Revision < rev {
			rev = m.report.Revision
		}
	}
	var first etcdclient.Hash
	for i, m := range v.members {
		h, err := d.hash(ctx, m, rev)
		if err != nil {
			return err
		}
		if i == 0 {
			first = h
		}
		if h != first {
			return &cli.RefusedError{
				Text: fmt.Sprintf("%s and %s hold different data at revision %d", v.members[0], m, rev), Next: next,
			}
		}
	}
	return nil
}

func (d *disarm) hash(ctx context.Context, m member, rev cluster.Revision) (etcdclient.Hash, error) {
	c, err := d.access.At(m.endpoint)
	if err != nil {
		return etcdclient.Hash{}, err
	}
	defer c.Close()
	h, err := c.HashKV(ctx, m.endpoint, rev)
	if errors.Is(err, context.DeadlineExceeded) {
		err = cli.WithHint(err, "the whole database has to be read; allow more time with --timeout")
	}
	return h, err
}
