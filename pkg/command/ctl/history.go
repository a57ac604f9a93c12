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
	// last is how many of the newest, zero for all.
	last int
	// before leaves out what began then or later, zero for nothing.
	before time.Time
}

// page returns the part of a list that is meant; the list has the newest last.
func page[T any](p past, list []T, at func(T) time.Time) []T {
	if !p.before.IsZero() {
		list = slices.DeleteFunc(list, func(e T) bool { return !at(e).Before(p.before) })
	}
	if p.last > 0 {
		list = list[max(0, len(list)-p.last):]
	}
	return list
}

func (t *tool) historyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "history", Short: "print the operations of the past", GroupID: "show", Args: cobra.NoArgs,
		Long: `history prints what the coordinators did, and what was done by hand. With --orders it prints what the nodes
themselves have written down: who ordered what of which node, and what was refused. To page back, give the time of
the first line as --before. On a terminal long lines are cut; into a pipe they are whole.`,
		Example: "  etcd-manager-ctl history -n 5\n  etcd-manager-ctl history --before=2026-11-20T10:00:00Z | less -S",
	}
	var p past
	f := cmd.Flags()
	f.IntVarP(&p.last, "last", "n", 20, "how many of the newest operations; 0 for all")
	before := f.String("before", "", "only what began before this `time`")
	orders := f.Bool("orders", false, "print the orders that each node has recorded")
	cmd.RunE = t.run(func(ctx context.Context, cmd *cobra.Command, s *store.Store, _ []string) (err error) {
		if p.last < 0 {
			return cli.Usagef("--last is %d, it must not be negative", p.last)
		}
		if *before != "" {
			if p.before, err = time.Parse(time.RFC3339, *before); err != nil {
				return cli.Usagef("--before=%s is not a time such as 2026-11-20T10:00:00Z", *before)
			}
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
	list, err := s.History(ctx)
	if err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	list = page(p, list, func(e store.HistoryEntry) time.Time { return e.At })
	return t.print(cmd, list, func(w io.Writer) error {
		if len(list) == 0 {
			note(cmd, "the history is empty")
			return nil
		}
		rows := [][]string{{"AT", "TERM", "BY", "TOOK", "OPERATION", "RESULT"}}
		for _, e := range list {
			result := "done"
			if e.Error != "" {
				result = "failed: " + e.Error
			}
			line := e.Line
			if e.Why != "" {
				line += "  # " + e.Why
			}
			rows = append(rows, []string{
				e.At.UTC().Format(time.RFC3339), fmt.Sprint(e.Term), string(e.By),
				e.Took.Round(time.Millisecond).String(), line, result,
			})
		}
		return cli.Rows(w, narrow(rows, top.Width(cmd.OutOrStdout()))...)
	})
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
