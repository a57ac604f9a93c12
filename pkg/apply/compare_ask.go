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

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/nodestate"
)

// A comparison is what was found.
type comparison struct {
	own       cluster.Digest
	voters    int
	agreement cluster.Agreement
	unlike    []cluster.NodeName
}

// collect asks the node's own member who the voters are, and all of them for
// their digests. Nobody is made to read its database before so many answer that
// a majority may be found.
func (l *Local) collect(ctx context.Context, s nodestate.State, at cluster.Revision) (c comparison, err error) {
	p, err := l.peer(s)
	if err != nil {
		return c, err
	}
	defer p.Close()
	own := localURL(l.o.URLs.Peer[0], l.o.ListenAddress)
	members, err := p.Members(ctx, own)
	if err != nil {
		return c, err
	}
	voters, counts, err := l.voters(s, members)
	if err != nil {
		return c, err
	}
	c.voters = len(voters)
	others := slices.DeleteFunc(voters, func(v cluster.Seat) bool { return v.Name == l.o.Name })
	quick, cancel := context.WithTimeout(ctx, lastCompare/2)
	defer cancel()
	others = ask(others, func(v cluster.Seat) (cluster.Seat, error) {
		return v, anyURL(v.PeerURLs, func(u string) error { return p.Serves(quick, u) })
	})
	if len(others)+1 < cluster.Quorum(c.voters) {
		return c, refuse("%d of %d voters serve their peers", len(others)+1, c.voters)
	}
	ctx, done := context.WithTimeout(ctx, digestTimeout)
	defer done()
	if c.own, err = p.HashKV(ctx, own, at); err != nil {
		return c, err
	}
	if at == 0 && c.own.CompactRevision == c.own.Revision {
		// Of this revision members keep the digest that the compaction made, of what
		// there was before it, and tell that one.
		if c.own, err = p.HashKV(ctx, own, c.own.Revision); err != nil {
			return c, err
		}
	}
	// Those that do not have this revision yet are no voices, nor are those that
	// have compacted it: both are asked again.
	voices := digests(ctx, p, others, c.own.Revision)
	c.agreement, c.unlike = cluster.Compare(c.voters, c.own, counts, voices)
	return c, nil
}

// voters returns the voters of which a majority counts, by name, and whether this
// node's member is one: those that the member tells of, and those it told of
// before. Until it has read its log to the end, etcd 3.5 tells of some only, and of
// few a minority may be a majority. One that has left is in the way until the
// node has looked at its member anew.
func (l *Local) voters(s nodestate.State, told []cluster.Member) (voters []cluster.Seat, counts bool, err error) {
	voters, known := slices.Clone(s.Voters), false
	for _, m := range told {
		own := m.Name == l.o.Name || m.ID == s.MemberID
		if own && m.Name != l.o.Name {
			m.Name = l.o.Name
		}
		known = known || own
		if !m.Learner && !slices.ContainsFunc(voters, func(v cluster.Seat) bool { return v.Name == m.Name }) {
			voters = append(voters, cluster.Seat{Name: m.Name, PeerURLs: m.PeerURLs})
		}
	}
	if !known {
		return nil, false, refuse("the member does not know of itself yet")
	}
	slices.SortFunc(voters, func(a, b cluster.Seat) int { return cmp.Compare(a.Name, b.Name) })
	return voters, slices.ContainsFunc(voters, func(v cluster.Seat) bool { return v.Name == l.o.Name }), nil
}

// alignedDigests asks members for their digests at the lowest revision of any.
func alignedDigests(ctx context.Context, p *etcdclient.Peer, members []cluster.Seat) []cluster.Voice {
	voices := digests(ctx, p, members, 0)
	if len(voices) == 0 {
		return nil
	}
	lowest := slices.MinFunc(voices, func(a, b cluster.Voice) int { return cmp.Compare(a.Revision, b.Revision) }).Revision
	if !slices.ContainsFunc(voices, func(v cluster.Voice) bool { return v.Revision != lowest }) {
		return voices
	}
	return digests(ctx, p, members, lowest)
}

func digests(ctx context.Context, p *etcdclient.Peer, members []cluster.Seat, at cluster.Revision) []cluster.Voice {
	return ask(members, func(m cluster.Seat) (v cluster.Voice, err error) {
		v.Name = m.Name
		err = anyURL(m.PeerURLs, func(u string) (err error) {
			v.Digest, err = p.HashKV(ctx, u, at)
			return err
		})
		return v, err
	})
}

// peer returns a client that shows the certificate of the node's member.
func (l *Local) peer(s nodestate.State) (*etcdclient.Peer, error) {
	if l.o.TLS == nil || s.Assigned == nil {
		return etcdclient.OpenPeer(nil), nil
	}
	files, err := l.o.TLS.Ensure(s.Assigned.Token, l.o.URLs)
	if err != nil {
		return nil, err
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
	return etcdclient.OpenPeer(&tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, MinVersion: tls.VersionTLS12}), nil
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

func list(names []cluster.NodeName) string {
	words := make([]string, len(names))
	for i, n := range names {
		words[i] = string(n)
	}
	return strings.Join(words, " and ")
}
