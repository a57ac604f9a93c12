package daemon

import (
	"context"
	"fmt"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// maxReported is how much of a list of the store a person gets: an answer has 4 MiB at most.
const maxReported = 2000

// known returns what this daemon knows of its cluster, for a person.
func (d *Daemon) known(ctx context.Context) *cluster.Known {
	a, spec := d.view.LastAnswer(ctx)
	k := &cluster.Known{Spec: d.specOf(spec), Store: bounded(a.Store)}
	k.Store.Reachable = a.Err == nil
	if a.Err != nil {
		k.StoreProblem = a.Err.Error()
	}
	if _, read := d.view.Heard(); !read.IsZero() {
		k.StoreAge = d.now().Sub(read)
	}
	if d.c.Static != nil {
		k.Store.SpecMissing = false // the flags have it
	}
	for _, r := range a.Records {
		k.Records = append(k.Records, cluster.KnownPeer{Name: r.Name, Address: r.Address, Boot: r.Boot})
	}
	for _, p := range d.peerGroup.peers() {
		if p.Name != d.name {
			k.Peers = append(k.Peers, cluster.KnownPeer{Name: p.Name, Address: p.Address, Unreachable: p.Unreachable})
		}
	}
	return k
}

// bounded leaves out of what the store says what is too long for an answer.
func bounded(s cluster.Store) cluster.Store {
	if n := len(s.Backups); n > maxReported {
		s.Backups, s.BackupsKnown = nil, false
		s.BackupsProblem = fmt.Sprintf("there are %d backups, too many for a daemon to list", n)
	}
	if len(s.Leftovers) > maxReported {
		s.Leftovers = s.Leftovers[:maxReported]
	}
	if len(s.Uncounted) > maxReported {
		s.Uncounted = s.Uncounted[:maxReported]
	}
	return s
}
