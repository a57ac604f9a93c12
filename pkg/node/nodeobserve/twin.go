package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

const (
	// twinTimeout is for how long somebody at the member's old address is waited for. A
	// machine that is off does not answer.
	twinTimeout = 2 * time.Second
	// heartbeat is etcd's default, with which a follower answers its leader.
	heartbeat = 100 * time.Millisecond
	// twinTick is how often it is tried to find out who runs the member, while etcd's record
	// of it and the node differ.
	twinTick = time.Second
)

// A TwinError is returned where the disk of this machine is a copy of another one, whose
// member runs, or has run later than this machine's. Two etcds with one member's id would
// both vote, and an older copy has forgotten what it has acknowledged.
type TwinError struct {
	Name cluster.NodeName
	ID   cluster.MemberID
	// Is says where the member is, as it follows its name.
	Is string
	// Off says that nobody answers there now.
	Off bool
}

func (e *TwinError) Error() string {
	if e.Off {
		return fmt.Sprintf("member %s (%s) %s, and the disk of this machine is an older copy of that member's: turn that "+
			"machine on; or, if it is lost, give this machine an empty data directory, and its member is replaced", e.Name, e.ID, e.Is)
	}
	return fmt.Sprintf("member %s (%s) %s, and the disk of this machine is a copy of that member's: give this machine an "+
		"empty data directory and another name; or, to replace the other one with it, turn that off and keep the name",
		e.Name, e.ID, e.Is)
}

// twin reports that the member on this disk runs on another machine, or has moved to one.
// Whoever answers at the address that the member had is asked, where this machine has
// another one, and so are the other members: whether etcd looks for this one elsewhere,
// and whether they hear from it while it does not run here. If nobody answers, it is
// started, as after an outage of all.
func (l *Local) twin(ctx context.Context, s nodestate.State) error {
	if s.MemberID == 0 || l.o.Proc != nil && l.o.Proc.Status().State == cluster.ProcessRunning {
		return nil
	}
	peer, err := l.peer()
	if err != nil {
		return err
	}
	defer peer.Close()
	if had := s.PeerURLs(l.o.Name); len(had) > 0 && !cluster.SharePeerURL(had, l.o.URLs.Peer) {
		if u := l.answers(ctx, peer, s.MemberID, had); u != "" {
			return &TwinError{Name: l.o.Name, ID: s.MemberID, Is: "runs at " + u}
		}
	}
	voters := s.Voters
	if len(voters) == 0 {
		voters = s.Peers
	}
	lists := l.membersOf(ctx, peer, l.others(voters))
	if err := l.movedAway(ctx, peer, s, len(voters), lists); err != nil {
		return err
	}
	return l.heard(ctx, s.MemberID, lists)
}

// answers returns the first of the URLs at which the member of that id serves, "" for
// none.
func (l *Local) answers(ctx context.Context, peer *etcdclient.Peer, id cluster.MemberID, urls []string) string {
	ctx, cancel := context.WithTimeout(ctx, twinTimeout)
	defer cancel()
	for _, u := range urls {
		members, err := peer.Members(ctx, u)
		// Whoever answers does not say which member it is. etcd gives an address to one member only.
		if err == nil && slices.ContainsFunc(members, func(m cluster.Member) bool {
			return m.ID == id && cluster.SharePeerURL(m.PeerURLs, []string{u})
		}) {
			return u
		}
	}
	return ""
}

// membersOf returns the member lists that members have, each as it has it on its disk.
func (l *Local) membersOf(ctx context.Context, peer *etcdclient.Peer, of []cluster.InitialMember) [][]cluster.Member {
	ctx, cancel := context.WithTimeout(ctx, servesTimeout)
	defer cancel()
	return ask(of, func(m cluster.InitialMember) (list []cluster.Member, err error) {
		err = anyURL(m.PeerURLs, func(u string) error {
			list, err = peer.Members(ctx, u)
			return err
		})
		return list, err
	})
}

// movedAway reports that etcd looks for this node's member where neither the node is nor
// its member ever was: another machine runs on a copy of its disk, and what is here is the
// older one. A single list may itself be old, so where nobody answers at the other
// address, a majority of the voters has to say so.
func (l *Local) movedAway(ctx context.Context, peer *etcdclient.Peer, s nodestate.State, voters int,
	lists [][]cluster.Member) error {
	reported := map[string]int{}
	for _, list := range lists {
		for _, m := range list {
			if m.ID == s.MemberID && len(m.PeerURLs) > 0 && !cluster.SharePeerURL(m.PeerURLs, l.o.URLs.Peer) &&
				!cluster.SharePeerURL(m.PeerURLs, s.PeerURLs(l.o.Name)) {
				reported[strings.Join(m.PeerURLs, ",")]++
			}
		}
	}
	for _, urls := range slices.Sorted(maps.Keys(reported)) {
		if u := l.answers(ctx, peer, s.MemberID, strings.Split(urls, ",")); u != "" {
			return &TwinError{Name: l.o.Name, ID: s.MemberID, Is: "runs at " + u}
		}
		if reported[urls] >= cluster.Quorum(voters) {
			return &TwinError{Name: l.o.Name, ID: s.MemberID, Is: "has moved to " + urls, Off: true}
		}
	}
	return nil
}

// heard reports that another member hears from this one, which does not run here: what it
// has had from it grows, and grows again.
func (l *Local) heard(ctx context.Context, id cluster.MemberID, lists [][]cluster.Member) error {
	var others []cluster.Member
	for _, list := range lists {
		for _, m := range list {
			same := func(o cluster.Member) bool { return o.ID == m.ID }
			if m.ID != id && len(m.ClientURLs) > 0 && !slices.ContainsFunc(others, same) {
				m.ClientURLs = cluster.OwnURLs(m, list) // what another one counts says nothing
				others = append(others, m)
			}
		}
	}
	before := map[cluster.MemberID]int64{}
	for reading := range 3 {
		if reading > 0 && wait.For(ctx, l.hears()) != nil {
			return nil
		}
		timeout := servesTimeout
		if reading > 0 {
			timeout = twinTimeout // who is asked has answered a moment ago
		}
		asking, cancel := context.WithTimeout(ctx, timeout)
		now := l.received(asking, id, others)
		cancel()
		others = slices.DeleteFunc(others, func(m cluster.Member) bool {
			n, ok := now[m.ID]
			return !ok || reading > 0 && n <= before[m.ID]
		})
		if len(others) == 0 {
			return nil
		}
		before = now
	}
	return &TwinError{Name: l.o.Name, ID: id, Is: fmt.Sprintf("runs on another machine, %s hears from it", others[0].Name)}
}

// hears is a time in which a leader has an answer to a heartbeat from each member that
// runs.
func (l *Local) hears() time.Duration {
	every := heartbeat
	if ms, err := strconv.Atoi(l.o.UserEnv["ETCD_HEARTBEAT_INTERVAL"]); err == nil && ms > 0 {
		every = time.Duration(ms) * time.Millisecond
	}
	return min(5*every/2, twinTimeout)
}

// received asks members how much they have had from the one of that id.
func (l *Local) received(ctx context.Context, id cluster.MemberID, of []cluster.Member) map[cluster.MemberID]int64 {
	type count struct {
		by cluster.MemberID
		n  int64
	}
	got := map[cluster.MemberID]int64{}
	for _, c := range ask(of, func(m cluster.Member) (c count, err error) {
		c.by = m.ID
		err = anyURL(m.ClientURLs, func(u string) error {
			c.n, err = etcdclient.Received(ctx, u, l.clientTLS(), id)
			return err
		})
		return c, err
	}) {
		got[c.by] = c.n
	}
	return got
}

// Watch watches the disk, and whether another machine runs this node's member, until ctx
// ends: with a [*TwinError], after it has stopped this one. A node that was started while
// it saw nobody finds that out here, by etcd's record of where the member is.
func (l *Local) Watch(ctx context.Context) error {
	done := make(chan struct{})
	defer func() { <-done }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(done)
		l.watch.Run(ctx)
	}()
	for l.awaitWork(ctx) == nil {
		if err := l.replaced(ctx); err != nil {
			return err
		}
		if err := l.bootLate(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// awaitWork returns a tick after there is something for Watch to do: a daemon at rest does
// not wake up to find that there is nothing.
func (l *Local) awaitWork(ctx context.Context) error {
	for !l.lacking.Load() && l.elsewhere() == nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.work:
		}
	}
	return wait.For(ctx, twinTick)
}

// wakeWatch has Watch see what has changed.
func (l *Local) wakeWatch() {
	select {
	case l.work <- struct{}{}:
	default:
	}
}

// remember keeps how etcd has the member on record.
func (l *Local) remember(r *cluster.Report) {
	if i := slices.IndexFunc(r.Members, func(m cluster.Member) bool { return m.ID == r.ID }); i >= 0 {
		l.recorded.Store(&r.Members[i])
		if l.elsewhere() != nil {
			l.wakeWatch()
		}
	}
}

// elsewhere returns etcd's record of the member where that is not where this node has it.
func (l *Local) elsewhere() *cluster.Member {
	record, serving := l.recorded.Load(), l.serving.Load()
	if record == nil || serving == nil || cluster.SharePeerURL(record.PeerURLs, l.o.URLs.Peer) ||
		cluster.SharePeerURL(record.PeerURLs, *serving) {
		return nil
	}
	return record
}

// replaced stops the member if etcd looks for it elsewhere, and it answers there.
func (l *Local) replaced(ctx context.Context) error {
	record := l.elsewhere()
	if record == nil {
		return nil
	}
	peer, err := l.peer()
	if err != nil {
		return nil
	}
	defer peer.Close()
	u := l.answers(ctx, peer, record.ID, record.PeerURLs)
	if u == "" {
		return nil
	}
	twin := &TwinError{Name: l.o.Name, ID: record.ID, Is: "runs at " + u}
	if err := l.o.Proc.Stop(ctx); err != nil {
		return fmt.Errorf("%w; and its etcd does not stop: %w", twin, err)
	}
	return twin
}
