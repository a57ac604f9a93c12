package backupagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/backup/backupagent/sweep"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// act takes the backup that is due, unless another agent does, or nothing has
// changed: then it returns none. With an empty key it makes no claim.
func (a *Agent) act(ctx context.Context, s Candidate, key string) (cluster.Backup, error) {
	if a.c.SkipUnchanged && a.unchanged(ctx, s) {
		return cluster.Backup{}, nil
	}
	h, needless, err := a.claim(ctx, key)
	if err != nil || needless {
		return cluster.Backup{}, err
	}
	b, err := a.take(ctx, s, h)
	if h != nil {
		h.release(ctx, err == nil, a.state.Listed)
	}
	if err != nil {
		return cluster.Backup{}, err
	}
	if a.before = a.newest; b.At.After(a.newest.At) {
		a.newest, a.state.Newest = b, b.At
	}
	a.metrics.took(b)
	a.satisfy()
	return b, a.after(ctx, b)
}

// claim claims a backup. It is needless if another agent has just taken it.
func (a *Agent) claim(ctx context.Context, key string) (h *held, needless bool, err error) {
	if key == "" {
		return nil, false, nil
	}
	h, err = a.claims.take(ctx, key, a.c.Clock(), a.state.Listed)
	switch {
	case errors.Is(err, store.ErrDenied):
		a.log.Warn("the store denies claims: another agent may take the same backup", "err", err)
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("claim backup: %w", err)
	}
	// What was taken before the claim was free can be seen now.
	listed := a.state.Listed
	a.list(ctx)
	if due := a.rules().due(a.state); a.state.Now.Before(due) {
		h.release(ctx, false, listed)
		return nil, true, nil
	}
	if now := a.rules().key(a.state); now != key {
		// The next one is due already, which is another claim.
		h.release(ctx, false, listed)
		return nil, false, &busyError{
			claim{By: "another agent", Until: a.state.Now.Add(min(minRetryDelay, a.c.Schedule.Period(a.state.Now)/2))},
		}
	}
	return h, false, nil
}

// unchanged reports whether the newest backup has all that the member has.
func (a *Agent) unchanged(ctx context.Context, s Candidate) bool {
	if a.newest.Name == "" {
		return false
	}
	d, err := backup.Describe(ctx, a.c.Store, a.newest.Name)
	if err != nil || d.Revision == 0 || d.Revision != s.Report.Revision || d.ClusterID != s.Report.ClusterID {
		return false
	}
	a.log.Info("nothing has changed since the newest backup", "backup", a.newest.Name, "revision", d.Revision)
	a.state.Confirmed = a.c.Clock()
	a.metrics.skipped.Inc()
	a.satisfy()
	return true
}

// take takes a backup from a member, and breaks it off when it takes too long,
// stands still, or is taken over.
func (a *Agent) take(ctx context.Context, s Candidate, h *held) (cluster.Backup, error) {
	taking, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := time.Now()
	defer time.AfterFunc(a.c.Timeout, func() { cancel(fmt.Errorf("it has taken %s", a.c.Timeout)) }).Stop()
	still := time.AfterFunc(a.c.Stall, func() { cancel(fmt.Errorf("it has made no progress for %s", a.c.Stall)) })
	defer still.Stop()
	if h != nil {
		kept := make(chan struct{})
		go func() {
			defer close(kept)
			if err := h.keep(taking); err != nil {
				cancel(err)
			}
		}()
		defer func() {
			cancel(nil)
			<-kept
		}()
	}
	b, err := a.read(taking, s, func(n int64) {
		still.Reset(a.c.Stall)
		if a.c.Progress != nil {
			a.c.Progress(n, s.Report.DBSize)
		}
	})
	if err != nil {
		if cause := context.Cause(taking); cause != nil && ctx.Err() == nil {
			err = fmt.Errorf("interrupted: %w (%w)", cause, err)
		}
		return b, err
	}
	a.metrics.duration.Set(time.Since(began).Seconds())
	a.metrics.revision.Set(float64(s.Report.Revision))
	a.log.Info("took a backup", "backup", b.Name, "bytes", b.Size, "member", s.Endpoint, "revision", s.Report.Revision,
		"took", time.Since(began).Round(time.Millisecond))
	return b, nil
}

// read takes a backup from a member.
func (a *Agent) read(ctx context.Context, s Candidate, progress func(int64)) (cluster.Backup, error) {
	m, err := a.c.Dial(s.Endpoint)
	if err != nil {
		return cluster.Backup{}, err
	}
	defer func() { _ = m.Close() }() // nothing was written
	voters, r := len(a.state.View.voters()), s.Report
	return backup.Take(ctx, backup.TakeOptions{
		Source: m, Store: a.c.Store,
		Info: backup.Info{EtcdVersion: r.Version, MemberCount: voters, SpecVersion: r.Version, At: a.c.Clock()},
		Facts: backup.Facts{
			StorageVersion: r.Storage, Revision: r.Revision, RaftTerm: r.RaftTerm, RaftIndex: r.Applied,
			Cluster: a.c.ClusterName, ClusterID: r.ClusterID, MemberID: r.ID, MemberName: s.Name,
		},
		Compression: a.c.Compression, Recipients: a.c.Recipients, Signer: a.c.Signer, Tool: a.c.Tool,
		Progress: progress,
	})
}

// after does what follows a backup. Only that it is damaged is a failure of the
// backup; what else fails is reported.
func (a *Agent) after(ctx context.Context, b cluster.Backup) error {
	if a.c.Verify {
		if err := a.verify(ctx, b); err != nil {
			return err
		}
	}
	if a.c.Retention != nil && ctx.Err() == nil {
		a.prune(ctx)
	}
	return nil
}

// verify reads a backup back, and notes in the store what came of it. The error
// is ErrDamaged; the backup then does not count.
func (a *Agent) verify(ctx context.Context, b cluster.Backup) error {
	began := time.Now()
	verify := backup.Verify
	if b.Encrypted {
		// The keys are not here; that what is stored is what was sent can be seen.
		verify = backup.VerifyObject
	}
	reading, cancel := context.WithTimeout(ctx, a.c.Timeout)
	defer cancel()
	_, err := verify(reading, a.c.Store, b.Name, backup.FetchOptions{})
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, backup.ErrDamaged):
		a.bad[b.Name] = true
		a.newest, a.state.Newest = a.before, a.before.At
		a.satisfy()
		a.metrics.failed(verifying)
		a.note(ctx, b, retention.DamagedFile, err)
		return err
	case err != nil:
		a.metrics.failed(verifying)
		a.log.Warn("the backup cannot be read back", "backup", b.Name, "err", err)
		return nil
	}
	a.log.Info("verified the backup", "backup", b.Name, "took", time.Since(began).Round(time.Millisecond))
	if !b.Encrypted { // else what is inside was not seen
		a.note(ctx, b, retention.VerifiedFile, nil)
	}
	return nil
}

// note stores the result of verifying.
func (a *Agent) note(ctx context.Context, b cluster.Backup, file string, found error) {
	result := struct {
		At    time.Time `json:"at"`
		By    string    `json:"by,omitempty"`
		Error string    `json:"error,omitempty"`
	}{At: a.c.Clock().UTC().Truncate(time.Second), By: a.c.Tool}
	if found != nil {
		result.Error = found.Error()
	}
	text, err := json.Marshal(result)
	if err == nil {
		err = a.c.Store.Put(ctx, b.Name+"/"+file, text)
	}
	if err != nil && !a.warned {
		a.warned = true
		a.log.Warn("the result of verifying cannot be stored", "backup", b.Name, "err", err)
	}
}

// pruneInterval is the time between two deletions of what has become too old. What
// is over a limit goes at once.
const pruneInterval = time.Hour

// prune deletes old backups.
func (a *Agent) prune(ctx context.Context) {
	p := *a.c.Retention
	if foreign := a.foreign.Load(); foreign != nil && *foreign != "" {
		return
	}
	if limits := p.MaxCount > 0 || p.MaxBytes > 0; !limits && time.Since(a.pruned) < pruneInterval {
		return
	}
	a.pruned = time.Now()
	plan, err := sweep.Observe(ctx, a.store(), p, a.c.Clock())
	if err != nil {
		if ctx.Err() == nil {
			a.metrics.failed(pruning)
			a.log.Warn("old backups cannot be listed", "err", err)
		}
		return
	}
	result := plan.Run(ctx, a.c.Store)
	a.metrics.deleted.Add(float64(len(result.Deleted)))
	if len(result.Deleted) > 0 {
		a.log.Info("deleted old backups", "number", len(result.Deleted), "first", result.Deleted[0])
	}
	if err := result.Err(); err != nil && ctx.Err() == nil {
		a.metrics.failed(pruning)
		a.log.Warn("old backups cannot be deleted", "err", err)
	}
}
