package daemon

import (
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// spec returns the spec: the static one, the store's, or the last one seen
// where the store has none or has not answered. The plan knows that it is
// missing, and bootstraps nothing by memory.
func (d *Daemon) spec() cluster.Spec {
	if d.c.Static != nil {
		return d.withPolicy(*d.c.Static)
	}
	f := d.view.Spec()
	if f == nil {
		if kept := d.state.State().Spec; kept != nil {
			return d.withPolicy(*kept)
		}
		return cluster.Spec{}
	}
	s := f.Over(cluster.Spec{})
	d.remember(s)
	return d.withPolicy(s)
}

// knownSpec is spec for who only shows it: nothing is remembered.
func (d *Daemon) knownSpec() cluster.Spec { return d.specOf(d.view.Spec()) }

// specOf is knownSpec where the store has that spec, nil for none.
func (d *Daemon) specOf(f *store.SpecFile) cluster.Spec {
	if d.c.Static != nil {
		return d.withPolicy(*d.c.Static)
	}
	if f != nil {
		return d.withPolicy(f.Over(cluster.Spec{}))
	}
	if kept := d.state.State().Spec; kept != nil {
		return d.withPolicy(*kept)
	}
	return cluster.Spec{}
}

func (d *Daemon) withPolicy(s cluster.Spec) cluster.Spec {
	s.Policy = d.c.Policy.WithDefaults()
	s.Policy.FixedSpec = d.c.Static != nil
	return s
}

// remember keeps the spec on disk, for a start without the store.
func (d *Daemon) remember(s cluster.Spec) {
	if kept := d.state.State().Spec; kept != nil && kept.MemberCount == s.MemberCount &&
		kept.EtcdVersion == s.EtcdVersion && kept.Risk == s.Risk {
		return
	}
	for _, text := range evenCount(s) {
		d.log.Warn(text)
	}
	d.keep("the spec", nodestate.Wanted(s))
}

// evenCount warns of a spec with an even number of members. Others than etcd-manager-ctl write
// specs, too.
func evenCount(s cluster.Spec) []string {
	if text := cluster.EvenVoters(s.MemberCount); text != "" {
		return []string{"the spec: " + text}
	}
	return nil
}

// rememberPause keeps on disk whether the daemons are paused, as a store that can
// be read says: a pause has to outlast a restart of all daemons without it.
func (d *Daemon) rememberPause(s cluster.Store) {
	r, paused := s.Pause()
	kept := d.state.State().Pause
	switch {
	case paused && (kept == nil || kept.Name != r.Name):
		d.keep("the pause", nodestate.Paused(&r))
	case !paused && kept != nil:
		d.keep("the end of the pause", nodestate.Paused(nil))
	}
}

// keepTimeout is how long the loop waits for the disk to take what is kept. It
// is tried again where it is still different.
const keepTimeout = 300 * time.Millisecond

// keep changes what the node remembers of the store. A disk that hangs does not
// hold up the caller.
func (d *Daemon) keep(what string, change nodestate.Transition) {
	if !d.keeping.TryLock() {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer d.keeping.Unlock()
		if err := d.state.Update(change); err != nil {
			d.log.Warn(what+" cannot be kept on disk", "error", err)
		}
	}()
	timeout := time.NewTimer(keepTimeout)
	defer timeout.Stop()
	select {
	case <-done:
	case <-timeout.C:
	}
}

// rememberNewest keeps the name of the newest backup on disk, and returns it:
// the store itself cannot show that it held a newer one. What lies in the future is
// of a wrong clock.
func (d *Daemon) rememberNewest(obs cluster.Observation) string {
	seen := d.state.State().NewestBackup
	at, _ := retention.ParseName(seen)
	newest := seen
	for _, b := range obs.Store.Own() {
		t, err := retention.ParseName(b.Name)
		if err == nil && t.After(at) && !t.After(obs.At) {
			newest, at = b.Name, t
		}
	}
	if newest != seen {
		d.keep("the name of the newest backup", nodestate.SeenBackup(newest))
	}
	return newest
}
