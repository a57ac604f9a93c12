package plan

import (
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func (c checker) prune(op *BackupPrune) error {
	for _, b := range c.obs.Store.Backups {
		if b.Foreign != "" && slices.Contains(op.Remove, b.Name) {
			return unsafe("foreign", "%s is a backup of the cluster %q", b.Name, b.Foreign)
		}
	}
	var newest, good cluster.Backup
	for _, b := range c.obs.Store.Own() {
		if b.At.After(newest.At) {
			newest = b
		}
		if !b.Damaged && b.At.After(good.At) && !b.At.After(c.obs.At) {
			good = b
		}
	}
	for _, last := range []cluster.Backup{newest, good} {
		if last.Name != "" && slices.Contains(op.Remove, last.Name) {
			return unsafe("newest", "%s is the newest backup", last.Name)
		}
	}
	for _, b := range c.obs.Store.Own() {
		if !slices.Contains(op.Remove, b.Name) || b.Damaged || c.goodOfDay(b.At, op.Remove) || c.overLimits(b.At, op.Remove) {
			continue
		}
		if days := c.daysOfBackups(b.At); days < c.policy.DailyRetention-24*time.Hour {
			return unsafe("aged", "%s is %s old, counted along the backups, and %s is kept", b.Name, days,
				c.policy.DailyRetention)
		}
	}
	return nil
}

// overLimits reports whether there are more backups than the policy allows, with
// those that stay and, of those that go, the ones since the beginning of a time's
// day: then that day has to go, whatever its age.
func (c checker) overLimits(at time.Time, remove []string) bool {
	begin := at.UTC().Truncate(24 * time.Hour)
	count, bytes := 0, int64(0)
	for _, b := range c.obs.Store.Own() {
		if b.At.After(c.obs.At) || b.At.Before(begin) && slices.Contains(remove, b.Name) {
			continue
		}
		count++
		bytes += b.Size
	}
	return c.policy.MaxBackups > 0 && count > c.policy.MaxBackups || c.policy.MaxBackupBytes > 0 &&
		bytes > c.policy.MaxBackupBytes
}

// goodOfDay reports whether a good backup of the day of a time stays.
func (c checker) goodOfDay(at time.Time, remove []string) bool {
	begin := at.UTC().Truncate(24 * time.Hour)
	end := begin.Add(24 * time.Hour)
	return slices.ContainsFunc(c.obs.Store.Own(), func(b cluster.Backup) bool {
		return !b.At.Before(begin) && b.At.Before(end) && !b.Damaged && !slices.Contains(remove, b.Name)
	})
}

// daysOfBackups returns the time from one time until now, as far as there are good
// backups to show it: it goes back from each to the next, by eight days at
// most.
func (c checker) daysOfBackups(since time.Time) time.Duration {
	var times []time.Time
	for _, b := range c.obs.Store.Own() {
		if !b.Damaged && b.At.After(since) && b.At.Before(c.obs.At) {
			times = append(times, b.At)
		}
	}
	slices.SortFunc(times, func(a, b time.Time) int { return b.Compare(a) })
	total, last := time.Duration(0), c.obs.At
	for _, at := range append(times, since) {
		// Days of the calendar: from the first hour of one to the last of another.
		total += min(last.Sub(at), 9*24*time.Hour)
		last = at
	}
	return total
}

func (c checker) discard(op *DataDiscard) error {
	n, err := c.node(op.Node)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(n.SetAside, func(s cluster.SetAside) bool { return s.Name == op.Name })
	if i < 0 {
		return nil // nothing to do
	}
	at := n.SetAside[i].At
	if got := MomentOf(at); got != op.ExpectAt {
		return &StaleError{Want: op.Name + " set aside at " + string(op.ExpectAt), Got: string(got)} // the name is used again
	}
	age := c.obs.At.Sub(at)
	if age > c.policy.SetAsideKeep {
		return nil
	}
	earlier, later := false, false
	for _, o := range n.SetAside {
		if o.Name == op.Name {
			continue
		}
		if gap := at.Sub(o.At); gap >= 0 && gap <= 24*time.Hour {
			earlier = true
		}
		if !o.At.Before(at) {
			later = true
		}
	}
	from := at.Add(c.policy.SetAsideKeep)
	if earlier && later {
		from = at.Add(time.Hour)
	}
	allowed := "it may be deleted from " + string(MomentOf(from))
	switch {
	case age <= time.Hour:
		return unsafe("aside", "%s was set aside %s ago; %s", op.Name, age, allowed)
	case !earlier || !later:
		return unsafe("aside", "%s is what %s held before what came after it; %s", op.Name, op.Node, allowed)
	}
	return nil
}
