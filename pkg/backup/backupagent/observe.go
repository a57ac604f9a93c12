package backupagent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
)

// observeTimeout bounds what one member is asked for its status.
const observeTimeout = 5 * time.Second

// A Member is a connection to one member. It has no call that changes anything.
type Member interface {
	Report(ctx context.Context) (cluster.Report, error)
	Snapshot(ctx context.Context) (io.ReadCloser, error)
	Close() error
}

// A Dial connects to the member at a client URL.
type Dial func(endpoint string) (Member, error)

// DialEtcd returns how to connect to etcd, with what config returns each time:
// certificates that were renewed are used from the next observation on. Config, or
// what it returns, is nil for plain http.
func DialEtcd(config func() (*tls.Config, error)) Dial {
	return func(endpoint string) (Member, error) {
		var c *tls.Config
		if config != nil {
			var err error
			if c, err = config(); err != nil {
				return nil, err
			}
		}
		client, err := etcdclient.Open(etcdclient.Options{Endpoints: []string{endpoint}, TLS: c})
		if err != nil {
			return nil, err
		}
		return member{client, endpoint, c}, nil
	}
}

// A member says why it does not answer.
type member struct {
	*etcdclient.Client
	endpoint string
	tls      *tls.Config
}

func (m member) Report(ctx context.Context) (cluster.Report, error) {
	// The client tries until the time is over; that nobody listens shows at once.
	if err := etcdclient.Probe(ctx, m.endpoint, m.tls); err != nil {
		return cluster.Report{}, err
	}
	r, err := m.Client.Report(ctx)
	return r, etcdclient.Explain(ctx, m.endpoint, m.tls, err)
}

// Snapshot waits until the member has all that the cluster has acknowledged.
func (m member) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	short, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	if err := m.ReadThrough(short); err != nil {
		return nil, fmt.Errorf("no backup is taken from a member that serves no linearizable read: %w",
			etcdclient.Explain(ctx, m.endpoint, m.tls, err))
	}
	r, err := m.Client.Snapshot(ctx)
	return r, etcdclient.Explain(ctx, m.endpoint, m.tls, err)
}

// An answer is what a member at an endpoint says of itself.
type answer struct {
	endpoint string
	report   cluster.Report
	err      error
}

// ask asks the members at endpoints at the same time.
func (d Dial) ask(ctx context.Context, endpoints []string) []answer {
	answers := make([]answer, len(endpoints))
	var asking sync.WaitGroup
	for i, e := range endpoints {
		asking.Go(func() {
			answers[i].endpoint = e
			answers[i].report, answers[i].err = d.report(ctx, e)
		})
	}
	asking.Wait()
	return answers
}

func (d Dial) report(ctx context.Context, endpoint string) (cluster.Report, error) {
	m, err := d(endpoint)
	if err != nil {
		return cluster.Report{}, err
	}
	defer func() { _ = m.Close() }() // nothing was written
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	return m.Report(ctx)
}

// view checks the cluster: at the agent's own endpoints, and, where others is
// set, at the other members through the client URLs that they advertise. The
// error says why none of its own answers.
func (d Dial) view(ctx context.Context, mine []string, others bool) (View, error) {
	var v View
	var failed []error
	own := d.ask(ctx, mine)
	for _, a := range own {
		if a.err != nil {
			failed = append(failed, a.err)
			continue
		}
		for _, m := range a.report.Members {
			v.add(m)
		}
	}
	for _, a := range own {
		v.answered(a, true)
	}
	if len(failed) == len(mine) {
		return View{}, errors.Join(failed...)
	}
	if !others {
		return v, nil
	}
	// Of a member with several URLs the first is asked: this is about order only.
	var urls []string
	for _, s := range v.Candidates {
		if s.Report == nil && len(s.ClientURLs) > 0 && !slices.Contains(mine, s.ClientURLs[0]) {
			urls = append(urls, s.ClientURLs[0])
		}
	}
	for _, a := range d.ask(ctx, urls) {
		v.answered(a, false)
	}
	return v, nil
}

// add adds a member, unless it is there.
func (v *View) add(m cluster.Member) {
	if !slices.ContainsFunc(v.Candidates, func(s Candidate) bool { return s.ID == m.ID }) {
		v.Candidates = append(v.Candidates, Candidate{Member: m})
	}
}

// answered takes in what a member says. Who it is it says itself: what another
// advertises may lead anywhere.
func (v *View) answered(a answer, mine bool) {
	if a.err != nil {
		return
	}
	// A learner reports no members.
	v.add(cluster.Member{ID: a.report.ID, Learner: a.report.Learner})
	for i := range v.Candidates {
		s := &v.Candidates[i]
		if s.ID == a.report.ID && s.Report == nil && (mine || v.sameCluster(a.report)) {
			s.Endpoint, s.Report, s.Mine = a.endpoint, &a.report, mine
		}
	}
}

// sameCluster reports whether another member is of the cluster of the agent's
// own.
func (v *View) sameCluster(r cluster.Report) bool {
	for _, s := range v.Candidates {
		if s.Mine && s.Report != nil {
			return s.Report.ClusterID == r.ClusterID
		}
	}
	return false
}

// oneCluster reports an error if the agent's own endpoints lead to more than one
// cluster.
func (v *View) oneCluster() error {
	for _, s := range v.Candidates {
		if s.Mine && !v.sameCluster(*s.Report) {
			return fmt.Errorf("%s is a member of another cluster, %s: an agent serves one cluster", s.Endpoint,
				s.Report.ClusterID)
		}
	}
	return nil
}
