package apply

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// A comparison is what was found.
type comparison struct {
	own       cluster.MemberDigest
	voters    int
	agreement cluster.Agreement
	unlike    []cluster.NodeName
	// compacted is the last compaction of the member before its digest was made.
	compacted cluster.Revision
	// remade says that members made digests of a compaction again.
	remade bool
	// took is how long members have read their databases.
	took time.Duration
}

// collect asks the node's own member who the voters are, and then one after the
// other for their digests, until a majority is found: a member that makes one
// commits nothing meanwhile. The leader comes last. Nobody is made to read its
// database before so many answer that a majority may be found.
func (l *Local) collect(ctx context.Context, s nodestate.State, at cluster.Revision) (c comparison, err error) {
	p, err := l.peer()
	if err != nil {
		return c, err
	}
	defer p.Close()
	quick, cancel := context.WithTimeout(ctx, lastCompare/2)
	defer cancel()
	self := cluster.InitialMember{Name: l.o.Name, PeerURLs: []string{localURL(l.served(s).Peer[0], l.o.ListenAddress)}}
	members, err := p.Members(quick, self.PeerURLs[0])
	if err != nil {
		return c, err
	}
	voters, counts, err := l.voters(s, members)
	if err != nil {
		return c, err
	}
	if c.voters = len(voters); c.voters == 1 && counts {
		c.agreement = cluster.Agrees // with nobody else
		return c, nil
	}
	own := reachable(quick, p, []cluster.InitialMember{self})
	others := reachable(quick, p, l.others(voters))
	if len(own) == 0 || len(others)+1 < cluster.Quorum(c.voters) {
		return c, refuse("%d of %d voters serve their peers", len(others)+len(own), c.voters)
	}
	began := time.Now()
	defer func() { c.took = time.Since(began) }()
	leader := l.leader(ctx, s, members)
	err = own[0].digest(ctx, p, at)
	others = askOrder(others, l.o.Name, leader())
	if err != nil {
		return c, err
	}
	c.own, c.compacted, c.remade = own[0].MemberDigest, own[0].compacted, own[0].remade(at)
	if c.remade {
		return c, nil
	}
	var digests []cluster.MemberDigest
	for _, o := range others {
		// Those that do not have this revision yet do not count, nor do those that
		// have compacted it: both are asked again.
		if o.digest(ctx, p, c.own.Revision) != nil {
			continue
		}
		c.remade = c.remade || o.remade(at)
		digests = append(digests, o.MemberDigest)
		c.agreement, c.unlike = cluster.Compare(c.voters, c.own, counts, digests)
		if c.agreement == cluster.Agrees || c.agreement == cluster.Differs {
			break
		}
	}
	return c, nil
}

// others returns the voters on other nodes.
func (l *Local) others(voters []cluster.InitialMember) []cluster.InitialMember {
	return slices.DeleteFunc(slices.Clone(voters), func(v cluster.InitialMember) bool { return v.Name == l.o.Name })
}

// leader asks the node's own member whom it follows, and returns a function that
// breaks that off and returns what is known, "" for nothing.
func (l *Local) leader(ctx context.Context, s nodestate.State, members []cluster.Member) func() cluster.NodeName {
	ctx, cancel := context.WithCancel(ctx)
	answer := make(chan cluster.NodeName, 1)
	go func() {
		var name cluster.NodeName
		if c, err := l.etcd(s); err == nil {
			id, err := c.Leader(ctx)
			i := slices.IndexFunc(members, func(m cluster.Member) bool { return m.ID == id })
			if err == nil && i >= 0 {
				name = members[i].Name
			}
		}
		answer <- name
	}()
	return func() cluster.NodeName {
		cancel()
		return <-answer
	}
}

// voters returns the voters of which a majority counts, by name, and whether this
// node's member is one: those that the member reports, and those it reported
// before. Until it has read its log to the end, etcd 3.5 knows some only, and a
// minority may be a majority of few. One that has left is in the way until the
// node has checked its member again.
func (l *Local) voters(s nodestate.State, reported []cluster.Member) (
	voters []cluster.InitialMember, counts bool, err error) {
	voters, known := slices.Clone(s.Voters), false
	for _, m := range reported {
		own := m.Name == l.o.Name || m.ID == s.MemberID
		if own && m.Name != l.o.Name {
			m.Name = l.o.Name
		}
		known = known || own
		if !m.Learner && !slices.ContainsFunc(voters, func(v cluster.InitialMember) bool { return v.Name == m.Name }) {
			voters = append(voters, cluster.InitialMember{Name: m.Name, PeerURLs: m.PeerURLs})
		}
	}
	if !known {
		return nil, false, refuse("the member is not in its own member list yet")
	}
	slices.SortFunc(voters, func(a, b cluster.InitialMember) int { return cmp.Compare(a.Name, b.Name) })
	return voters, slices.ContainsFunc(voters, func(v cluster.InitialMember) bool { return v.Name == l.o.Name }), nil
}

// An asked member serves its peers, and is asked for its digest.
type asked struct {
	cluster.MemberDigest
	urls []string
	// compacted is the last compaction before its present revision.
	compacted cluster.Revision
}

// reachable returns the members that serve their peers, in their order.
func reachable(ctx context.Context, p *etcdclient.Peer, members []cluster.InitialMember) []asked {
	return ask(members, func(m cluster.InitialMember) (asked, error) {
		a := asked{MemberDigest: cluster.MemberDigest{Name: m.Name}, urls: m.PeerURLs}
		err := anyURL(m.PeerURLs, func(u string) (err error) {
			a.Version, err = p.Version(ctx, u)
			return err
		})
		return a, err
	})
}

// askOrder sorts members by name, beginning behind self, so that not everybody asks
// the same one first. The leader comes last: what it does not commit, nobody does.
func askOrder(members []asked, self, leader cluster.NodeName) []asked {
	rank := func(a asked) int {
		switch {
		case a.Name == leader:
			return 2
		case a.Name < self:
			return 1
		}
		return 0
	}
	return slices.SortedFunc(slices.Values(members), func(a, b asked) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
	})
}

// digest asks a member for its digest at a revision, zero for its present one.
func (a *asked) digest(ctx context.Context, p *etcdclient.Peer, at cluster.Revision) error {
	ctx, cancel := context.WithTimeout(ctx, digestTimeout)
	defer cancel()
	return anyURL(a.urls, func(u string) (err error) {
		if a.Digest, err = p.HashKV(ctx, u, at); err != nil {
			return err
		}
		a.compacted = a.CompactRevision
		if at == 0 && a.CompactRevision == a.Revision {
			// Of this revision members keep the digest that the compaction made, of what
			// there was before it, and return that one.
			a.Digest, err = p.HashKV(ctx, u, a.Revision)
		}
		return err
	})
}

// remade reports whether the digest at a compaction was made again: one that the
// compaction made and the member kept covers what there was before it.
func (a *asked) remade(at cluster.Revision) bool { return at != 0 && a.CompactRevision == at }

// peer returns a client that shows the certificate of the node's member, which
// its start has issued.
func (l *Local) peer() (*etcdclient.Peer, error) {
	if l.o.TLS == nil {
		return etcdclient.OpenPeer(nil), nil
	}
	files := l.files.Load()
	if files == nil {
		return nil, refuse("the member has no certificate yet")
	}
	pair, err := tls.LoadX509KeyPair(files.Peer.Cert, files.Peer.Key)
	if err != nil {
		return nil, fmt.Errorf("peer certificate: %w", err)
	}
	ca, err := os.ReadFile(files.Peer.CA)
	if err != nil {
		return nil, fmt.Errorf("peer certificate authority: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return etcdclient.OpenPeer(&tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: pool, MinVersion: tls.VersionTLS12,
	}), nil
}

// ask calls f for all at the same time, and returns what came without an error,
// in their order.
func ask[T, R any](of []T, f func(T) (R, error)) []R {
	out, good := make([]R, len(of)), make([]bool, len(of))
	var wg sync.WaitGroup
	for i, v := range of {
		wg.Go(func() {
			r, err := f(v)
			out[i], good[i] = r, err == nil
		})
	}
	wg.Wait()
	var answers []R
	for i, ok := range good {
		if ok {
			answers = append(answers, out[i])
		}
	}
	return answers
}

// anyURL calls f for one URL after the other until it succeeds.
func anyURL(urls []string, f func(string) error) error {
	err := refuse("no URL is known")
	for _, u := range urls {
		if err = f(u); err == nil {
			return nil
		}
	}
	return err
}

// list returns names as text, in their order: the same members make the same text,
// whoever answered first.
func list(names []cluster.NodeName) string {
	words := make([]string, len(names))
	for i, n := range slices.Sorted(slices.Values(names)) {
		words[i] = string(n)
	}
	return strings.Join(words, " and ")
}
