package ctl

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/internal/top"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A past says which part of a history is meant.
type past struct {
	// last is how many of the newest, or of the first ones after the time after; zero for all.
	last int
	// before leaves out what began then or later, and after what began then or earlier; zero is for
	// nothing.
	before, after time.Time
	// seconds says that times are printed in whole seconds: what began in one stays together, also
	// where that is more than last, so that to page by a printed time leaves out nothing.
	seconds bool
}

// later reports whether a time is after the time after, of which one in whole seconds is that second.
func (p past) later(at time.Time) bool {
	if p.after.Nanosecond() == 0 {
		at = at.Truncate(time.Second)
	}
	return at.After(p.after)
}

// page returns the part of a list that is meant; the list has the newest last.
func page[T any](p past, list []T, at func(T) time.Time) []T {
	list = slices.DeleteFunc(list, func(e T) bool {
		return !p.before.IsZero() && !at(e).Before(p.before) || !p.after.IsZero() && !p.later(at(e))
	})
	if p.last == 0 || len(list) <= p.last {
		return list
	}
	// together reports whether there may be no page's end before the entry i.
	together := func(i int) bool {
		return p.seconds && 0 < i && i < len(list) &&
			at(list[i-1]).Truncate(time.Second).Equal(at(list[i]).Truncate(time.Second))
	}
	if !p.after.IsZero() {
		end := p.last
		for together(end) {
			end++
		}
		return list[:end]
	}
	begin := len(list) - p.last
	for together(begin) {
		begin--
	}
	return list[begin:]
}

func (t *tool) historyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "history", Short: "print the operations of the past", GroupID: "show", Args: cobra.NoArgs,
		Long: `history prints what the coordinators did, what was done by hand, and what users asked for with
etcd-manager-ctl: who set the spec, paused, resumed, or queued a restore. With --orders it prints what the nodes
themselves have written down: who ordered what of which node, and what was refused.

To page back, give the time of the first line as --before; to page on, that of the last one as --after. A time in
whole seconds, as they are printed, is that whole second: nothing that began in it is printed again. So what
began in the same second stays on one page, which then has some lines more than --last. With -o json and -o yaml
times are exact, and pages too.

On a terminal long lines are cut; into a pipe they are whole.`,
		Example: "  etcd-manager-ctl history -n 5\n  etcd-manager-ctl history --before=2026-11-20T10:00:00Z | less -S",
	}
	var p past
	f := cmd.Flags()
	f.IntVarP(&p.last, "last", "n", 20, "how many of the newest operations, or of the first after --after; 0 for all")
	before := f.String("before", "", "only what began before this `time`")
	after := f.String("after", "", "only what began after this `time`, and all of it unless --last is given")
	orders := f.Bool("orders", false, "print the orders that each node has recorded")
	cmd.RunE = t.run(func(ctx context.Context, cmd *cobra.Command, s *store.Store, _ []string) (err error) {
		if p.last < 0 {
			return cli.Usagef("--last is %d, it must not be negative", p.last)
		}
		if p.before, err = parseTime("before", *before); err != nil {
			return err
		}
		if p.after, err = parseTime("after", *after); err != nil {
			return err
		}
		p.seconds = t.out.Text()
		if *after != "" && !f.Changed("last") {
			p.last = 0
		}
		show := func(ctx context.Context, cmd *cobra.Command, s *store.Store, _ []string) error {
			if *orders {
				return t.orders(ctx, cmd, s, p)
			}
			return t.history(ctx, cmd, s, p)
		}
		return t.shows(show)(ctx, cmd, s, nil)
	})
	return cmd
}

// parseTime reads the value of a flag, of which none is no time.
func parseTime(flag, value string) (at time.Time, err error) {
	if value == "" {
		return at, nil
	}
	if at, err = time.Parse(time.RFC3339, value); err != nil {
		return at, cli.Usagef("--%s=%s is not a time such as 2026-11-20T10:00:00Z", flag, value)
	}
	return at, nil
}

// narrow cuts the last two columns, of which the last gets a third at least, so that rows
// have the width of a terminal. Zero is for no terminal.
func narrow(rows [][]string, width int) [][]string {
	if width == 0 {
		return rows
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	const gap = 2
	end := len(widths) - 1
	room := width - gap*end
	for _, n := range widths[:end-1] {
		room -= n
	}
	room = max(room, 30)
	last := min(widths[end], max(room/3, room-widths[end-1]))
	for _, row := range rows {
		row[end-1], row[end] = cut(row[end-1], room-last), cut(row[end], last)
	}
	return rows
}

// cut returns the first part of a text that is too long.
func cut(text string, room int) string {
	if utf8.RuneCountInString(text) <= room {
		return text
	}
	return string([]rune(text)[:room-1]) + "…"
}

func (t *tool) history(ctx context.Context, cmd *cobra.Command, s *store.Store, p past) error {
	all, err := s.Past(ctx)
	if err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	if all.Note != "" {
		note(cmd, "%s", all.Note)
	}
	list := page(p, all.Entries, func(e store.HistoryEntry) time.Time { return e.At })
	return t.print(cmd, list, func(w io.Writer) error {
		if len(list) == 0 {
			note(cmd, "the history is empty")
			return nil
		}
		width := top.Width(cmd.OutOrStdout())
		rows := [][]string{{"AT", "TERM", "BY", "TOOK", "OPERATION", "RESULT"}}
		for _, e := range list {
			rows = append(rows, historyRow(e, width))
		}
		return cli.Rows(w, narrow(rows, width)...)
	})
}

// historyRow is an entry for a terminal of a width. What a user asked for has neither a term nor a
// duration, and stands without the name of this program.
func historyRow(e store.HistoryEntry, width int) []string {
	term, by, took, result := fmt.Sprint(e.Term), string(e.By), e.Took.Round(time.Millisecond).String(), "done"
	line := strings.TrimPrefix(e.Line, program)
	if e.Requested {
		term, took, result = "-", "-", "asked"
	}
	if e.Requested && width > 0 {
		// The name of the machine is cut before that of the user.
		by = cut(by, max(12, width/7, min(40, strings.Index(by, "@")+1)))
	}
	if e.Error != "" {
		result = "failed: " + e.Error
	}
	if e.Why != "" {
		line += "  # " + e.Why
	}
	return []string{e.At.UTC().Format(time.RFC3339), term, by, took, line, result}
}

// An order is what was ordered of a node.
type order struct {
	Node cluster.NodeName `json:"node"`
	store.HistoryEntry
}

// orders prints what the nodes have written down of the orders that they got.
func (t *tool) orders(ctx context.Context, cmd *cobra.Command, s *store.Store, p past) error {
	all, err := s.Orders(ctx)
	if err != nil {
		return err
	}
	list := []order{}
	for node, entries := range all {
		for _, e := range entries {
			list = append(list, order{node, e})
		}
	}
	slices.SortFunc(list, func(a, b order) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(string(a.Node), string(b.Node)))
	})
	list = page(p, list, func(o order) time.Time { return o.At })
	return t.print(cmd, list, func(w io.Writer) error {
		if len(list) == 0 {
			note(cmd, "no node has recorded an order")
			return nil
		}
		rows := [][]string{{"AT", "NODE", "TERM", "BY", "OPERATION", "RESULT"}}
		for _, o := range list {
			result := "done"
			if o.Error != "" {
				result = "failed: " + o.Error
			}
			rows = append(rows, []string{
				o.At.UTC().Format(time.RFC3339), string(o.Node), fmt.Sprint(o.Term), string(o.By), o.Line, result,
			})
		}
		return cli.Rows(w, narrow(rows, top.Width(cmd.OutOrStdout()))...)
	})
}
