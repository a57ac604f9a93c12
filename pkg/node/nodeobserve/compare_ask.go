package nodeobserve

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

const (
	// servesTimeout bounds the question whether peers serve, which a start waits
	// for.
	servesTimeout = 300 * time.Millisecond
	// membersTimeout bounds the questions who the members are, and who of them serves.
	membersTimeout = 2500 * time.Millisecond
	// digestTimeout bounds one digest. etcd reads about 0.7 GB in a second.
	digestTimeout = time.Minute
)

// A Comparison is what was found of the member's data and that of the others.
type Comparison struct {
	Own       cluster.MemberDigest
	Voters    int
	Agreement cluster.Agreement
	Unlike    []cluster.NodeName
	// Compacted is the last compaction of the member before its digest was made.
	Compacted cluster.Revision
	// Remade says that members made digests of a compaction again.
	Remade bool
	// Took is how long members have read their databases.
	Took time.Duration
}

// UnlikeText names the members whose data differs.
func (c Comparison) UnlikeText() string { return list(c.Unlike) }

// Compare compares the member's data with that of the others at a revision, zero for its own
// present one. It asks the node's own member who the voters are, and then one after the
// other for their digests, until a majority is found: a member that makes one
// commits nothing meanwhile. The leader comes last. Nobody is made to read its
// database before so many answer that a majority may be found.
func (o *Observer) Compare(ctx context.Context, s nodestate.State, at cluster.Revision) (c Comparison, err error) {
	p, err := o.peer()
	if err != nil {
		return c, err
	}
	defer p.Close()
	quick, cancel := context.WithTimeout(ctx, membersTimeout)
	defer cancel()
	url := localURL(o.Served(s).Peer[0], o.opts.ListenAddress)
	self := cluster.InitialMember{Name: o.opts.Name, PeerURLs: []string{url}}
	members, err := p.Members(quick, url)
	if err != nil {
		return c, err
	}
	voters, counts, err := o.voters(s, members)
	if err != nil {
		return c, err
	}
	if c.Voters = len(voters); c.Voters == 1 && counts {
		c.Agreement = cluster.Agrees // with nobody else
		return c, nil
	}
	own := reachable(quick, p, []cluster.InitialMember{self})
	others := reachable(quick, p, o.others(voters))
	if len(own) == 0 || len(others)+1 < cluster.Quorum(c.Voters) {
		return c, Refuse("%d of %d voters serve their peers", len(others)+len(own), c.Voters)
	}
	began := time.Now()
	defer func() { c.Took = time.Since(began) }()
	leader := o.leader(ctx, s, members)
	err = own[0].digest(ctx, p, at)
	others = askOrder(others, o.opts.Name, leader())
	if err != nil {
		return c, err
	}
	c.Own, c.Compacted, c.Remade = own[0].MemberDigest, own[0].compacted, own[0].remade(at)
	if c.Remade {
		return c, nil
	}
	var digests []cluster.MemberDigest
	for i := range others {
		other := &others[i]
		// Those that do not have this revision yet do not count, nor do those that
		// have compacted it: both are asked again.
		if other.digest(ctx, p, c.Own.Revision) != nil {
			continue
		}
		c.Remade = c.Remade || other.remade(at)
		digests = append(digests, other.MemberDigest)
		c.Agreement, c.Unlike = cluster.Compare(c.Voters, c.Own, counts, digests)
		if c.Agreement == cluster.Agrees || c.Agreement == cluster.Differs {
			break
		}
	}
	return c, nil
}

// others returns the voters on other nodes.
func (o *Observer) others(voters []cluster.InitialMember) []cluster.InitialMember {
	return slices.DeleteFunc(slices.Clone(voters), func(v cluster.InitialMember) bool { return v.Name == o.opts.Name })
}

// leader asks the node's own member whom it follows, and returns a function that
// breaks that off and returns what is known, "" for nothing.
func (o *Observer) leader(ctx context.Context, s nodestate.State, members []cluster.Member) func() cluster.NodeName {
	ctx, cancel := context.WithCancel(ctx)
	answer := make(chan cluster.NodeName, 1)
	go func() {
		var name cluster.NodeName
		if c, err := o.Etcd(s); err == nil {
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
func (o *Observer) voters(s nodestate.State, reported []cluster.Member) (
	voters []cluster.InitialMember, counts bool, err error) {
	voters, known := slices.Clone(s.Voters), false
	for _, m := range reported {
		own := m.Name == o.opts.Name || m.ID == s.MemberID
		if own && m.Name != o.opts.Name {
			m.Name = o.opts.Name
		}
		known = known || own
		if !m.Learner && !slices.ContainsFunc(voters, func(v cluster.InitialMember) bool { return v.Name == m.Name }) {
			voters = append(voters, cluster.InitialMember{Name: m.Name, PeerURLs: m.PeerURLs})
		}
	}
	if !known {
		return nil, false, Refuse("the member is not in its own member list yet")
	}
	slices.SortFunc(voters, func(a, b cluster.InitialMember) int { return cmp.Compare(a.Name, b.Name) })
	return voters, slices.ContainsFunc(voters, func(v cluster.InitialMember) bool { return v.Name == o.opts.Name }), nil
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
func (o *Observer) peer() (*etcdclient.Peer, error) {
	if o.opts.TLS == nil {
		return etcdclient.OpenPeer(nil), nil
	}
	files := o.files.Load()
	if files == nil {
		return nil, Refuse("the member has no certificate yet")
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
	err := Refuse("no URL is known")
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

// Differs returns what is known against the data of the assigned member, "" for
// nothing.
func Differs(s nodestate.State) string {
	if d := s.Differs; d != nil && s.Assigned != nil && d.Token == s.Assigned.Token && d.MemberID == s.MemberID {
		return d.Text
	}
	return ""
}

// OthersAgree returns what is to be said against the member where etcd has found that its data
// is not that of some other one: if a majority of the voters serves, and all that serve agree
// and run the same version, this member is wrong. Otherwise it returns "".
func (o *Observer) OthersAgree(ctx context.Context, s nodestate.State) string {
	p, err := o.peer()
	if err != nil {
		return ""
	}
	defer p.Close()
	var digests []cluster.MemberDigest
	at, version := cluster.Revision(0), s.Assigned.Version
	for _, v := range askOrder(reachable(ctx, p, o.others(s.Voters)), o.opts.Name, "") {
		if v.digest(ctx, p, at) == nil {
			digests, at = append(digests, v.MemberDigest), v.Revision
		}
	}
	other := func(v cluster.MemberDigest) bool { return v.Version != version }
	if len(digests) == 0 || slices.ContainsFunc(digests, other) {
		return ""
	}
	agreement, unlike := cluster.Compare(len(s.Voters), digests[0], true, digests[1:])
	if agreement != cluster.Agrees || len(unlike) > 0 {
		return ""
	}
	var names []cluster.NodeName
	for _, v := range digests {
		names = append(names, v.Name)
	}
	return fmt.Sprintf("etcd found that its data differs from its peers', and %s agree at revision %d", list(names), at)
}
