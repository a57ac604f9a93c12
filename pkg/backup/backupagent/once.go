package backupagent

import (
	"context"
	"errors"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// An Outcome is what came of one backup.
type Outcome struct {
	// Backup is the backup that was taken, with an empty name if there is none.
	Backup cluster.Backup `json:"backup"`
	// Skipped is why none was taken, and none was needed.
	Skipped string `json:"skipped,omitempty"`
}

// Once takes one backup. With ifDue it takes none unless the schedule asks for
// one, or while another agent takes it; without, it takes one in any case,
// but for what SkipUnchanged and LeaderOnly say.
func (a *Agent) Once(ctx context.Context, ifDue bool) (Outcome, error) {
	a.list(ctx)
	if ifDue {
		if d, wait := Wait(a.rules(), a.state); wait {
			return Outcome{Skipped: d.Why}, nil
		}
	}
	view, err := a.view(ctx)
	if err != nil {
		return Outcome{}, err
	}
	a.state.View = view
	key := a.rules().key(a.state)
	t, err := view.rank(a.c.Prefer, key)
	switch {
	case errors.Is(err, errNotLeader):
		return Outcome{Skipped: err.Error()}, nil
	case err != nil:
		return Outcome{}, err
	}
	if !ifDue {
		key = ""
	}
	b, err := a.act(ctx, t.candidate, key)
	var busy *busyError
	switch {
	case errors.As(err, &busy):
		return Outcome{Skipped: busy.Error()}, nil
	case err != nil:
		return Outcome{Backup: b}, err
	case b.Name == "":
		return Outcome{Skipped: "the newest backup, " + a.newest.Name + ", is current: nothing has changed since"}, nil
	}
	return Outcome{Backup: b}, nil
}
