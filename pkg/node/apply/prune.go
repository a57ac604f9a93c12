package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// prune deletes backups. What was listed may be old by now, and a store may have gone back to an
// earlier state, in which what is to be deleted is the newest: so the backup that is to stay is
// looked for first.
func (c *Coordinator) prune(ctx context.Context, obs cluster.Observation, op *plan.BackupPrune) error {
	if name := staying(obs, op.Remove); name != "" {
		switch there, err := c.Records.HasBackup(ctx, name); {
		case err != nil:
			return fmt.Errorf("look for backup %s, which is to stay: %w", name, err)
		case !there:
			return fmt.Errorf("backup %s, which is to stay, is not in the store any more: nothing was deleted", name)
		}
	}
	var errs []error
	for _, name := range op.Remove {
		if err := c.Records.DeleteBackup(ctx, name); err != nil {
			errs = append(errs, fmt.Errorf("delete backup %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// staying returns the newest backup of this cluster that stays, a good one if there is any, empty for none.
func staying(obs cluster.Observation, remove []string) string {
	var newest, good cluster.Backup
	for _, b := range obs.Store.Own() {
		if slices.Contains(remove, b.Name) {
			continue
		}
		if b.At.After(newest.At) {
			newest = b
		}
		if !b.Damaged && b.At.After(good.At) && !b.At.After(obs.At) {
			good = b
		}
	}
	if good.Name != "" {
		return good.Name
	}
	return newest.Name
}
