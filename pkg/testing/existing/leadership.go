package existing

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
)

// notified accepts a leader, whoever it is, unless it does not know of somebody who is
// healthy: then it gets who is.
func (d *Daemon) notified(view []byte) []byte {
	theirs := d.merge(view)
	healthy := d.healthy()
	for _, name := range healthy {
		if !slices.Contains(theirs, name) {
			return message(nil, 2, d.view(healthy, ""))
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.token = string(field(view, 2))
	return message([]byte{1 << 3, 1}, 2, view)
}

// merge learns of those in a view, and returns their names.
func (d *Daemon) merge(view []byte) (names []string) {
	for _, p := range fields(view, 3) {
		names = append(names, string(field(p, 1)))
		d.learn(p)
	}
	return names
}

// view is the message View, with this daemon as the leader.
func (d *Daemon) view(healthy []string, token string) []byte {
	peers := d.peers()
	b := text(message(nil, 1, d.self()), 2, token)
	for _, name := range healthy {
		b = message(b, 3, peerInfo(name, peers[name]))
	}
	return b
}

// round is one round of the leader, if this daemon is the lowest of the healthy.
func (d *Daemon) round(ctx context.Context) {
	healthy := d.healthy()
	if healthy[0] != d.o.Name {
		return // the leadership, if it has one, is not given up
	}
	token, begins := d.leadership(healthy)
	if token == "" {
		return
	}
	err := d.assert(ctx, healthy, token, begins)
	d.mu.Lock()
	if err != nil {
		d.failed++
	} else {
		d.rounds++
		if begins {
			d.own, d.acked = token, healthy
		}
	}
	leader := Leader{Acknowledged: healthy, Token: token, d: d}
	d.mu.Unlock()
	if err == nil && !begins && d.o.Act != nil {
		d.o.Act(ctx, leader)
	}
}

// leadership returns the token with which this daemon leads, or a new one to begin with. It
// is empty where the daemon resigns, since somebody is healthy who had not accepted it.
func (d *Daemon) leadership(healthy []string) (token string, begins bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.own == "" {
		var b [16]byte
		_, _ = rand.Read(b[:])
		return base64.RawURLEncoding.EncodeToString(b[:]), true
	}
	for _, name := range healthy {
		if !slices.Contains(d.acked, name) {
			d.own, d.acked = "", nil
		}
	}
	return d.own, false
}

// assert has all of them accept the leader. Who begins to lead waits for them without a
// limit.
func (d *Daemon) assert(ctx context.Context, healthy []string, token string, begins bool) error {
	within := min(d.o.Healthy, memberTime)
	if begins {
		within = 0
	}
	view := message(nil, 1, d.view(healthy, token))
	var errs []error
	for _, name := range healthy {
		answer, err := d.call(ctx, name, notification, within, view)
		if err == nil && field(answer, 1) == nil {
			d.merge(field(answer, 2))
			err = fmt.Errorf("%s does not accept", name)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
