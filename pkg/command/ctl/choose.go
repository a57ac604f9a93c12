package ctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// latest stands for the newest backup that counts.
const latest = "latest"

// A wanted is which backup somebody means: one by its name, or the newest that counts, of all
// or of those that were taken up to a time.
type wanted struct {
	name   string
	newest bool
	before time.Time
}

// parseWanted reads the argument and --before of restore-backup.
func parseWanted(args []string, before string) (w wanted, err error) {
	switch {
	case len(args) > 0 && before != "":
		return w, cli.Usagef("name a backup, or give --before")
	case len(args) == 0 && before == "":
		return w, &cli.UsageError{Text: "no backup is named",
			Next: "give its name, latest, or --before=2026-11-20T10:00:00Z; see the names: etcd-manager-ctl list-backups"}
	case before != "":
		if w.before, err = parseTime("before", before); err != nil {
			return w, err
		}
		w.newest = true
		return w, nil
	}
	if w.name = args[0]; w.name == latest {
		w.newest = true
	} else if w.before, err = time.Parse(time.RFC3339, w.name); err == nil {
		w.newest = true
	}
	return w, nil
}

// chooseBackup returns the name of the backup that is meant. One that the store has under the very
// name is meant by it, whatever else that says.
func (t *tool) chooseBackup(ctx context.Context, cmd *cobra.Command, s *store.Store, w wanted) (string, error) {
	if w.name != "" {
		there, err := s.Exists(ctx, w.name+"/"+retention.MarkerFile)
		if err != nil {
			return "", fmt.Errorf("look for backup %s: %w", w.name, err)
		}
		if there || !w.newest {
			return w.name, nil
		}
	}
	report, _, _, err := t.published(ctx, s)
	if err != nil {
		return "", err
	}
	var uncounted []cluster.Uncounted
	name := ""
	if report != nil {
		uncounted, name = report.Observation.Store.Uncounted, report.Observation.Cluster
	}
	all, err := s.Backups(ctx)
	if err != nil {
		return "", fmt.Errorf("list backups: %w", err)
	}
	for _, b := range all {
		switch {
		case !w.before.IsZero() && b.At.After(w.before), b.Damaged:
		case slices.ContainsFunc(uncounted, func(u cluster.Uncounted) bool { return u.Name == b.Name }):
		default:
			err := ours(ctx, s, b.Name, name)
			if errors.Is(err, backup.ErrDamaged) {
				warn(cmd, "%s does not count: %v", b.Name, err)
				continue
			}
			note(cmd, "the backup is %s, taken %s ago", b.Name, t.now().Sub(b.At).Round(time.Second))
			return b.Name, err
		}
	}
	text := "the store has no backup that counts"
	if !w.before.IsZero() {
		text += " and was taken up to " + w.before.UTC().Format(time.RFC3339)
	}
	return "", cli.WithHint(errors.New(text), cli.Ctl(t.location, "list-backups -o wide"))
}

// ours refuses a backup that nobody has named, and that is of another cluster. One that does
// not say is taken: most of the existing tool's do not.
func ours(ctx context.Context, s *store.Store, name, own string) error {
	d, err := backup.Describe(ctx, s, name)
	if err != nil || d.Cluster == "" || own == "" || d.Cluster == own {
		return err
	}
	return &cli.RefusedError{
		Text: fmt.Sprintf("the backup %s belongs to the cluster %q, not to %q", name, d.Cluster, own),
		Next: "a store holds the backups of one cluster; name the backup that you mean",
	}
}
