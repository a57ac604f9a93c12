package ctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/daemon/fleet"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// dryRestore says what a restore would mean, and prints the plan to it, from
// what the coordinator published last.
func (t *tool) dryRestore(ctx context.Context, cmd *cobra.Command, s *store.Store, spec store.SpecFile,
	r cluster.Request) error {
	st, err := t.need(ctx, cmd, s)
	if err != nil {
		return err
	}
	report := *st.Report
	report.Spec = spec.Over(report.Spec)
	r.Name = "dry-run"
	src, err := fleet.Source(ctx, s, r, backup.FetchOptions{})
	if err != nil {
		return fmt.Errorf("describe backup %s: %w", r.Backup, err)
	}
	obs := &report.Observation
	// As if it had been asked for just before that observation.
	r.At = obs.At.Add(-2 * time.Second)
	obs.Store.Source, obs.Store.Requests = &src, append(slices.Clone(obs.Store.Requests), r)
	if obs.Store.Backups, err = s.Backups(ctx); err != nil {
		return fmt.Errorf("list backups: %w", err)
	}
	steps, err := render.NewSteps(report.Spec, *obs)
	if err != nil {
		return err
	}
	d := newDry(t.now(), r, src, *obs)
	d.Plan = steps
	if err := t.print(cmd, d, func(w io.Writer) error { return errors.Join(d.write(w), steps.Write(w)) }); err != nil {
		return err
	}
	if op, _ := plan.Next(report.Spec, *obs); op != nil {
		if c, ok := op.(*plan.RequestClose); ok && c.Name == r.Name && c.Outcome == plan.OutcomeRefused {
			return &cli.RefusedError{
				Text: "the restore would be refused: " + c.Reason, Next: "list the backups: etcd-manager-ctl list-backups -o wide",
			}
		}
	}
	return nil
}

// A dry says what a restore would mean.
type dry struct {
	Source cluster.Source `json:"source"`
	// At is when the backup was taken; what came later is lost.
	At time.Time `json:"at"`
	// HighWater is the highest revision that was seen, Lost how many revisions
	// above the backup's, zero where the backup does not have its own.
	HighWater cluster.Revision `json:"highWater"`
	Lost      cluster.Revision `json:"lostRevisions,omitempty"`
	// Restored is when the present incarnation began by a restore, if the backup is older: that
	// raised the revision by far more than was written, and Lost counts from there.
	Restored time.Time `json:"lostRevisionsSince,omitzero"`
	// Needed is what each node needs of disk, in bytes; Free what they have.
	Needed int64                      `json:"neededBytes,omitempty"`
	Free   map[cluster.NodeName]int64 `json:"freeBytes"`
	Plan   render.Steps               `json:"plan"`

	age time.Duration
	// same says that the restore was of the same backup.
	same bool
}

func newDry(now time.Time, r cluster.Request, src cluster.Source, obs cluster.Observation) dry {
	d := dry{Source: src, HighWater: obs.HighWater(), Needed: 2 * src.Size, Free: map[cluster.NodeName]int64{}}
	for _, b := range obs.Store.Backups {
		if b.Name == r.Backup {
			d.At, d.age = b.At, now.Sub(b.At)
		}
	}
	if src.Revision > 0 {
		from := src.Revision
		for _, inc := range obs.Store.Incarnations {
			if inc.Token == obs.Token && inc.Restored != nil && inc.Restored.Revision > from {
				from, d.Restored, d.same = inc.Restored.Revision, inc.At, inc.Restored.Backup == r.Backup
			}
		}
		d.Lost = max(0, obs.Revision-from)
	}
	for _, n := range obs.Nodes {
		if n.Reachable && n.FreeBytes > 0 {
			d.Free[n.Name] = n.FreeBytes
		}
	}
	return d
}

// lost says what comes after the backup.
func (d dry) lost() string {
	text := fmt.Sprintf("the writes of the last %s", d.age.Round(time.Second))
	since := "since the restore of " + d.Restored.UTC().Format(time.RFC3339)
	switch {
	case d.same:
		return fmt.Sprintf("the writes %s, %d revisions", since, d.Lost)
	case !d.Restored.IsZero():
		return fmt.Sprintf("%s: %d revisions %s, and what that kept of those before", text, d.Lost, since)
	case d.Lost > 0:
		return fmt.Sprintf("%s, %d revisions", text, d.Lost)
	}
	return text
}

func (d dry) write(w io.Writer) error {
	known := func(n int64, text string) string {
		if n == 0 {
			return "unknown"
		}
		return text
	}
	var free []string
	for name, n := range d.Free {
		free = append(free, fmt.Sprintf("%s %s", name, render.Bytes(n)))
	}
	slices.Sort(free)
	return cli.Rows(w,
		[]string{"BACKUP", d.Source.Backup},
		[]string{"TAKEN", d.At.UTC().Format(time.RFC3339) + " of etcd " + d.Source.Version.String()},
		[]string{"REVISION", known(int64(d.Source.Revision), fmt.Sprint(d.Source.Revision))},
		[]string{"SNAPSHOT", known(d.Source.Size, render.Bytes(d.Source.Size))},
		[]string{"LOST", d.lost()},
		[]string{"DISK", known(d.Needed, render.Bytes(d.Needed)+" on each node, besides the old data") + "; free: " + cmp.Or(
			strings.Join(free, ", "), "unknown")},
		[]string{"TOOL", "etcdutl of the version to run, on each node"},
	)
}
