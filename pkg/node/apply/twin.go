package apply

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// twinTimeout is for how long somebody at the member's old address is waited for. A
// machine that is off does not answer.
const twinTimeout = 2 * time.Second

// A TwinError is returned where the member on this disk runs on another machine.
type TwinError struct {
	Name    cluster.NodeName
	ID      cluster.MemberID
	PeerURL string
}

func (e *TwinError) Error() string {
	return fmt.Sprintf("member %s (%s) runs at %s, and the disk of this machine is a copy of its: give this machine another "+
		"name and an empty data directory; or, if it is to take the place of the other one, turn that off and start this "+
		"daemon again", e.Name, e.ID, e.PeerURL)
}

// twin reports that the member on this disk runs on another machine: this one is a copy
// of it, with its disk. Two etcds with one member's id would both vote, and each would
// acknowledge what the other has not written. It is asked only where the machine has
// another address than its member had, as a disk has that was moved.
func (l *Local) twin(ctx context.Context, s nodestate.State) error {
	i := slices.IndexFunc(s.Voters, func(v cluster.InitialMember) bool { return v.Name == l.o.Name })
	if i < 0 || s.MemberID == 0 || cluster.SharePeerURL(s.Voters[i].PeerURLs, l.o.URLs.Peer) {
		return nil
	}
	peer, err := l.peer()
	if err != nil {
		return err
	}
	defer peer.Close()
	ctx, cancel := context.WithTimeout(ctx, twinTimeout)
	defer cancel()
	for _, u := range s.Voters[i].PeerURLs {
		members, err := peer.Members(ctx, u)
		// Whoever answers does not say which member it is. etcd gives an address to one member only.
		if err == nil && slices.ContainsFunc(members, func(m cluster.Member) bool {
			return m.ID == s.MemberID && cluster.SharePeerURL(m.PeerURLs, []string{u})
		}) {
			return &TwinError{l.o.Name, s.MemberID, u}
		}
	}
	return nil
}
