// Package prune is the command that deletes old backups and says why each stays
// or goes. It is a part of several programs.
package prune

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/backup/backupagent/sweep"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/store"
)

const long = `Delete the backups that the retention rules do not keep, and say for each backup
why it stays or goes.

  * younger than an hour: all stay
  * up to --hourly-retention: the earliest of each hour (UTC) stays
  * up to --daily-retention: the earliest of each day (UTC) stays
  * over --max-count or --max-size: of the rest the damaged go first, then the
    oldest

Whatever the rules say, the newest backup stays, the newest one that is not known to
be damaged stays, and so does every backup that is dated in the future or has no
time in its name. Leftovers of backups that were interrupted more than a day ago are
deleted, too.

If the daemons trust signers, give their --backup-trusted-signers here, too: a backup
without a trusted signature is then neither counted nor deleted.`

// Options say where the command gets what it needs.
type Options struct {
	// Open opens the store; its error is the program's. The command closes it.
	Open func(ctx context.Context) (*store.Store, error)
	// Out is the flag -o of the program.
	Out *cli.Output
	// Now and Env default to time.Now and os.Getenv.
	Now func() time.Time
	Env func(string) string
}

type command struct {
	Options
	flags  Flags
	trust  trust
	dryRun bool
	// byClock is retention.Policy.ByClock.
	byClock bool
}

// New returns the command.
func New(o Options) *cobra.Command {
	c := &command{Options: o}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Env == nil {
		c.Env = os.Getenv
	}
	cmd := &cobra.Command{
		Use:     "prune",
		Short:   "delete the backups that the retention rules do not keep",
		Long:    long,
		Example: "  prune --dry-run\n  prune --hourly-retention=7d --daily-retention=90d --max-size=200GiB",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	fs := cmd.Flags()
	fs.BoolVar(&c.dryRun, "dry-run", false, "print what would be deleted, and delete nothing")
	fs.BoolVar(&c.byClock, "by-clock", false,
		"compute ages from this machine's clock alone, even if the backups are too few to confirm it")
	c.flags.Add(fs)
	c.trust.add(fs)
	return cmd
}

// What becomes of a backup.
const (
	stays   = "stays"
	goes    = "goes"
	deleted = "deleted"
	failed  = "failed"
	untried = "not tried"
)

// An entry is what the command says of one backup.
type entry struct {
	cluster.Backup
	// Result is one of the words above.
	Result string `json:"result"`
	Reason string `json:"reason"`
	// Leftover says that it never was a whole backup.
	Leftover bool   `json:"leftover,omitempty"`
	Error    string `json:"error,omitempty"`
}

// A total is a number of backups and the bytes that they take.
type total struct {
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
}

// A report is the output of the command.
type report struct {
	DryRun  bool    `json:"dryRun,omitempty"`
	Backups []entry `json:"backups"`
	// Totals are by the words of the entries.
	Totals map[string]total `json:"totals"`
}

func (c *command) run(cmd *cobra.Command) error {
	policy, err := c.flags.Policy(c.Env)
	if err != nil {
		return err
	}
	policy.ByClock = c.byClock
	counts, err := c.trust.options()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	s, err := c.Open(ctx)
	if err != nil {
		return err
	}
	err = c.prune(ctx, cmd, sweep.Vetted{Store: s, Vet: (&backup.Vetter{Store: s, Fetch: counts}).Vet}, policy)
	// Also where ctx has ended: what is left to do is little.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if closing := s.Close(ctx); err == nil && closing != nil {
		err = closing
	}
	return err
}

func (c *command) prune(ctx context.Context, cmd *cobra.Command, s sweep.Store, policy retention.Policy) error {
	plan, err := sweep.Observe(ctx, s, policy, c.Now())
	if err != nil {
		return err
	}
	var result sweep.Result
	if !c.dryRun {
		result = plan.Run(ctx, s)
	}
	r := c.report(plan, result)
	if err := c.Out.Print(cmd.OutOrStdout(), r, r.write(c.Now())); err != nil {
		return err
	}
	for _, e := range r.Backups {
		if e.Error != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", cli.Plain(e.Error))
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := result.Err(); err != nil {
		return cli.WithHint(fmt.Errorf("prune: %w", err),
			"nothing else is lost; allow these credentials to delete, or have a rule of the store (lifecycle, object "+
				"lock) delete the backups")
	}
	return nil
}

func (c *command) report(plan sweep.Plan, done sweep.Result) report {
	became := map[string]string{}
	for _, name := range done.Deleted {
		became[name] = deleted
	}
	for _, name := range done.Untried {
		became[name] = untried
	}
	for name := range done.Failed {
		became[name] = failed
	}
	r := report{DryRun: c.dryRun, Backups: []entry{}, Totals: map[string]total{}}
	add := func(e entry) {
		if word := became[e.Name]; word != "" {
			e.Result = word
		}
		if err := done.Failed[e.Name]; err != nil {
			e.Error = err.Error()
		}
		t := r.Totals[e.Result]
		r.Totals[e.Result] = total{t.Count + 1, t.Bytes + e.Size}
		r.Backups = append(r.Backups, e)
	}
	for _, v := range plan.Verdicts {
		e := entry{Backup: v.Backup, Result: goes, Reason: v.Reason}
		if v.Keep {
			e.Result = stays
		}
		add(e)
	}
	for _, name := range plan.Leftovers {
		at, _ := retention.ParseName(name)
		add(entry{Backup: cluster.Backup{Name: name, At: at}, Result: goes, Reason: "interrupted, never a whole backup",
			Leftover: true})
	}
	return r
}

// write returns the function that writes the report for people.
func (r report) write(now time.Time) func(w io.Writer) error {
	return func(w io.Writer) error {
		rows := [][]string{{"BACKUP", "AGE", "SIZE", "RESULT", "WHY"}}
		for _, e := range r.Backups {
			size := "-"
			if e.Size > 0 {
				size = render.Bytes(e.Size)
			}
			rows = append(rows, []string{e.Name, render.Age(now.Sub(e.At)), size, e.Result, e.Reason})
		}
		if len(r.Backups) > 0 {
			if err := cli.Rows(w, rows...); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintln(w, r.summary())
		return err
	}
}

// summary is the last line.
func (r report) summary() string {
	text := fmt.Sprintf("%d stay (%s)", r.Totals[stays].Count, render.Bytes(r.Totals[stays].Bytes))
	for _, word := range []string{goes, deleted, failed, untried} {
		t, ok := r.Totals[word]
		if !ok {
			continue
		}
		verb := map[string]string{
			goes: "would go", deleted: "are deleted", failed: "could not be deleted", untried: "were not tried",
		}[word]
		text += fmt.Sprintf(", %d %s (%s)", t.Count, verb, render.Bytes(t.Bytes))
	}
	return text
}
