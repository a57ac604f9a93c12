package daemon

import (
	"context"
	"encoding/json"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
)

// A statement is who published a status, when, and in which term.
type statement struct {
	At          time.Time        `json:"at"`
	Coordinator cluster.NodeName `json:"coordinator"`
	Term        cluster.Term     `json:"term"`
}

// present returns whose status the store has.
func (p *publisher) present(ctx context.Context) (s statement, err error) {
	b, err := p.store.Status(ctx)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

// superseded reports whether what another daemon has published stays, and r is
// not written. A report in a term yields to a later one. While its own term is
// held that is so only for a status that is kept up: one of nodes whose disks, and
// terms, were rolled back since is not. A term out of reach, before which nodes
// were reset, is no later one. A daemon without the lease yields to what was said
// after its report was made; it may be cut off from everybody, so it does not speak
// for a cluster that has a coordinator.
func (p *publisher) superseded(r reconcile.Report, there statement) bool {
	if there.Coordinator == r.Coordinator {
		return false
	}
	kept := p.now().Sub(there.At).Abs() < statusInterval+statusInterval/4
	if r.Term == 0 {
		return kept && (there.At.After(r.At) || there.Term > 0 && bootstrapped(r))
	}
	later := there.Term > r.Term && lease.InReach(r.Term, there.Term)
	return later && (kept || !p.holds(r.Term))
}
