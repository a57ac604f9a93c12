package backups

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/keyspace"
)

const diffLong = `Compare two backups: which keys were added, removed and changed from A to B, by
Kubernetes resource.

A key is changed if its value differs. A key that was only written again, with the
same value, counts as rewritten. With --keys each key is printed, with + (added),
- (removed), ~ (changed) or = (rewritten) before it, and with -o jsonl as an object
with the revisions on both sides.

Backups are named as for dump. Exits with 0 whether they differ or not; with
--exit-code it exits with 1 if they differ.`

type diff struct {
	*reader
	prefix         string
	keys, exitCode bool
	out            *cli.Output
}

// newDiff returns the command diff.
func newDiff(o Options) *cobra.Command {
	d := &diff{reader: newReader(o)}
	cmd := &cobra.Command{
		Use: "diff A B", Short: "compare what is in two backups", Long: diffLong,
		Example: "  diff 2026-11-20T10:39:37Z-000001 2026-11-20T11:39:37Z-000005\n  diff before.db after.db --keys " +
			"--prefix=/registry/secrets/",
		Args: cobra.ExactArgs(2), RunE: d.run, ValidArgsFunction: cli.Complete(2, true, o.names),
	}
	f := cmd.Flags()
	f.StringVar(&d.prefix, "prefix", "", "only keys with this `prefix`")
	f.BoolVar(&d.keys, "keys", false, "print every key that differs")
	f.BoolVar(&d.exitCode, "exit-code", false, "exit with 1 if a key was added, removed or changed")
	d.addFlags(f)
	d.out = cli.AddOutput(cmd, cli.Table, JSONLines, cli.JSON, cli.YAML)
	return cmd
}

// What may have become of a key.
const (
	added     = "added"
	removed   = "removed"
	changed   = "changed"
	rewritten = "rewritten"
)

// marks are those before the keys.
var marks = map[string]string{added: "+", removed: "-", changed: "~", rewritten: "="}

// A change is what became of a key, one of whose sides may be missing.
type change struct {
	Op        string  `json:"op"`
	Key       *string `json:"key,omitempty"`
	KeyBase64 []byte  `json:"keyBase64,omitempty"`
	A         *side   `json:"a,omitempty"`
	B         *side   `json:"b,omitempty"`
}

type side struct {
	ModRevision int64 `json:"modRevision"`
	Version     int64 `json:"version"`
	Lease       int64 `json:"lease,omitempty"`
	Size        int   `json:"size"`
}

func newSide(k *keyspace.Key) *side {
	if k == nil {
		return nil
	}
	return &side{int64(k.ModRevision), k.Version, k.Lease, k.Size}
}

// A tally counts what became of keys.
type tally struct {
	Resource  string `json:"resource,omitempty"`
	Added     int    `json:"added"`
	Removed   int    `json:"removed"`
	Changed   int    `json:"changed"`
	Rewritten int    `json:"rewritten"`
	Same      int    `json:"same"`
}

func (t *tally) add(op string) {
	switch op {
	case added:
		t.Added++
	case removed:
		t.Removed++
	case changed:
		t.Changed++
	case rewritten:
		t.Rewritten++
	default:
		t.Same++
	}
}

func (t tally) differs() bool { return t.Added+t.Removed+t.Changed > 0 }

// A comparison is the result on the whole.
type comparison struct {
	A         keyspace.Summary `json:"a"`
	B         keyspace.Summary `json:"b"`
	Total     tally            `json:"total"`
	Resources []tally          `json:"resources"`
}

func (d *diff) run(cmd *cobra.Command, args []string) (err error) {
	a, err := d.open(cmd.Context(), cmd, args[0], 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	b, err := d.open(cmd.Context(), cmd, args[1], 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()

	w := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
	c, err := d.compare(cmd.Context(), a.Space, b.Space, d.printer(w, isTerminal(cmd.OutOrStdout())))
	if err == nil && !d.keys && d.out.String() != string(JSONLines) {
		err = d.out.Print(w, c, c.write)
	}
	if err == nil {
		err = w.Flush()
	}
	if err == nil && d.exitCode && c.Total.differs() {
		err = fmt.Errorf("the backups differ: %d keys added, %d removed, %d changed", c.Total.Added, c.Total.Removed,
			c.Total.Changed)
	}
	return err
}

// printer returns the function that prints a key that differs.
func (d *diff) printer(w io.Writer, terminal bool) func(op string, a, b *keyspace.Key) error {
	switch {
	case d.out.String() == string(JSONLines):
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return func(op string, a, b *keyspace.Key) error {
			c := change{Op: op, A: newSide(a), B: newSide(b)}
			c.Key, c.KeyBase64 = text([]byte(cmp.Or(a, b).Key))
			return e.Encode(c)
		}
	case d.keys:
		return func(op string, a, b *keyspace.Key) error {
			key := cmp.Or(a, b).Key
			if terminal {
				key = cli.Plain(strings.ToValidUTF8(key, "\uFFFD"))
			}
			_, err := fmt.Fprintf(w, "%s %s\n", marks[op], key)
			return err
		}
	}
	return func(string, *keyspace.Key, *keyspace.Key) error { return nil }
}

// compare goes through the keys of both in order, and reports each that differs.
func (d *diff) compare(ctx context.Context, a, b *keyspace.Space, report func(op string, a, b *keyspace.Key) error) (
	comparison, error) {
	c := comparison{A: a.Summary(), B: b.Summary()}
	r := newRegistry(a, b)
	tallies := map[string]*tally{}
	p := &pairs{a: a, b: b}
	left, right := a.Keys(d.prefix), b.Keys(d.prefix)
	for n := 0; len(left)+len(right) > 0; n++ {
		if n%1000 == 0 && ctx.Err() != nil {
			return c, ctx.Err()
		}
		var x, y *keyspace.Key
		order := -1
		switch {
		case len(left) == 0:
			order = 1
		case len(right) > 0:
			order = strings.Compare(left[0].Key, right[0].Key)
		}
		if order <= 0 {
			x, left = &left[0], left[1:]
		}
		if order >= 0 {
			y, right = &right[0], right[1:]
		}
		op, err := p.op(x, y)
		if err != nil {
			return c, explained(err)
		}
		resource := r.place(cmp.Or(x, y).Key).Resource
		if tallies[resource] == nil {
			tallies[resource] = &tally{Resource: resource}
		}
		tallies[resource].add(op)
		c.Total.add(op)
		if op == "" {
			continue
		}
		if err := report(op, x, y); err != nil {
			return c, fmt.Errorf("print: %w", err)
		}
	}
	c.Resources = sorted(tallies)
	return c, nil
}

// sorted returns the tallies, those with the most differences first.
func sorted(tallies map[string]*tally) []tally {
	list := []tally{}
	for _, t := range tallies {
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b tally) int {
		return cmp.Or(cmp.Compare(b.Added+b.Removed+b.Changed, a.Added+a.Removed+a.Changed),
			cmp.Compare(a.Resource, b.Resource))
	})
	return list
}

// pairs compares keys of two spaces.
type pairs struct {
	a, b *keyspace.Space
	x, y []byte
}

// op says what became of a key, "" for nothing. The values are compared, not
// only the revisions: after a restore the same revision may be another change.
func (p *pairs) op(x, y *keyspace.Key) (string, error) {
	switch {
	case x == nil:
		return added, nil
	case y == nil:
		return removed, nil
	case x.Size != y.Size:
		return changed, nil
	}
	var err error
	if p.x, err = p.a.Value(*x, p.x); err != nil {
		return "", err
	}
	if p.y, err = p.b.Value(*y, p.y); err != nil {
		return "", err
	}
	switch {
	case !bytes.Equal(p.x, p.y):
		return changed, nil
	case x.ModRevision != y.ModRevision:
		return rewritten, nil
	}
	return "", nil
}

func (c comparison) write(w io.Writer) error {
	table := [][]string{{"RESOURCE", "ADDED", "REMOVED", "CHANGED", "REWRITTEN", "SAME"}}
	total := c.Total
	total.Resource = "total"
	for _, t := range append(slices.Clone(c.Resources), total) {
		table = append(table, []string{
			t.Resource, fmt.Sprint(t.Added), fmt.Sprint(t.Removed), fmt.Sprint(t.Changed), fmt.Sprint(t.Rewritten),
			fmt.Sprint(t.Same),
		})
	}
	if err := cli.Rows(w, table...); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nA is at revision %d with %d keys, B at %d with %d\n", c.A.Revision, c.A.Keys, c.B.Revision,
		c.B.Keys)
	return err
}
