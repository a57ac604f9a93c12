package operate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/etcdadm/etcdadm/pkg/apply"
	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/machine"
	"github.com/etcdadm/etcdadm/pkg/observe"
)

// question is how long one member may take to answer.
const question = 3 * time.Second

// credentials returns how to call etcd: with the machine's own client
// certificate, or, before there is one, with one that is made for this process.
func (m *Machine) credentials() (*tls.Config, error) {
	dir := m.cfg.Paths.Certificates
	file := func(name string) string { return filepath.Join(dir, name) }
	conf, err := certs.ClientTLSFromFiles(file("ca.crt"), file("etcdctl-etcd-client.crt"), file("etcdctl-etcd-client.key"))
	if err == nil {
		return conf, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fallback == nil {
		ca, caErr := certs.LoadCA(dir, "ca", time.Now())
		if caErr != nil {
			return nil, err
		}
		leaf, caErr := ca.Issue(certs.Request{CommonName: string(m.cfg.Name) + "-etcdctl", Organization: []string{"system:masters"}, Client: true, Lifetime: time.Hour}, time.Now())
		if caErr != nil {
			return nil, err
		}
		m.fallback = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.Pool(), Certificates: []tls.Certificate{leaf.TLS()}}
	}
	return m.fallback.Clone(), nil
}

// connect opens a client of etcd.
func (m *Machine) connect(urls []string) (*etcdclient.Client, error) {
	conf, err := m.credentials()
	if err != nil {
		return nil, err
	}
	return etcdclient.Open(etcdclient.Options{Endpoints: urls, TLS: conf})
}

// local asks this machine's etcd how it does.
func (m *Machine) local(ctx context.Context) *cluster.Report {
	r, err := m.report(ctx, machine.URLs(m.cfg).Client)
	if err != nil {
		return nil
	}
	r.Members = nil // the list counts as the quorum has it
	return &r
}

func (m *Machine) report(ctx context.Context, urls []string) (cluster.Report, error) {
	if len(urls) == 0 {
		return cluster.Report{}, errors.New("it has no client URL")
	}
	// The client goes on trying where nobody listens; a look does not.
	if !listening(ctx, urls) {
		return cluster.Report{}, fmt.Errorf("nobody listens at %s", strings.Join(urls, ", "))
	}
	// Of one URL: a read that another member answers says nothing about this one.
	c, err := m.connect(urls[:1])
	if err != nil {
		return cluster.Report{}, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, question)
	defer cancel()
	return c.Report(ctx)
}

// remote asks the cluster: first one endpoint for the list, then every member
// for itself.
func (m *Machine) remote(ctx context.Context, endpoints []string, known cluster.ClusterID) machine.Remote {
	var r machine.Remote
	if len(endpoints) == 0 {
		r.Problem = "no endpoint is known"
		return r
	}
	members, problem := m.list(ctx, endpoints, known)
	if problem != nil {
		r.Problem = problem.Error()
		return r
	}
	var mu sync.Mutex
	lows, ids := []etcdversion.Version{}, map[cluster.ClusterID]bool{}
	deaf := map[string]bool{}
	// The daemon, which looks again all the time, gives a member half a second. Here
	// one look decides, so that only who did not answer the last one gets less.
	probe := func(brief context.Context, urls []string) (cluster.Report, error) {
		ctx := ctx
		if m.deaf[urls[0]] {
			ctx = brief
		}
		report, err := m.report(ctx, urls)
		mu.Lock()
		defer mu.Unlock()
		deaf[urls[0]] = err != nil
		if err == nil {
			ids[report.ClusterID] = true
			if !report.Version.IsZero() {
				lows = append(lows, report.Version)
			}
		}
		return report, err
	}
	obs := observe.Collect(ctx, observe.Sources{
		Now: time.Now, Nonce: newToken, Peers: func() []observe.Peer { return nil },
		Store: func(context.Context) observe.StoreAnswer { return observe.StoreAnswer{} },
		Probe: probe,
	}, cluster.Observation{Members: members})
	m.known, m.deaf = clientURLs(members), deaf
	// A member that has not started, or is silent, is in the list all the same.
	r.Answered, r.Members, r.Leader = true, members, obs.Leader
	for i := range r.Members {
		for _, seen := range obs.Members {
			if seen.ID == r.Members[i].ID {
				r.Members[i] = seen
			}
		}
	}
	for id := range ids {
		r.ClusterID = id
	}
	if len(ids) > 1 {
		r.Answered, r.Problem = false, "the members are of different clusters"
	}
	if len(ids) == 0 {
		r.Answered, r.Problem = false, "the members' client URLs do not answer from here: "+strings.Join(clientURLs(members), ", ")
	}
	if len(lows) > 0 {
		r.Lowest = slices.MinFunc(lows, etcdversion.Version.Compare)
		r.Highest = slices.MaxFunc(lows, etcdversion.Version.Compare)
	}
	return r
}

func clientURLs(members []cluster.Member) []string {
	var urls []string
	for _, m := range members {
		urls = append(urls, m.ClientURLs...)
	}
	return urls
}

// An answer is what one endpoint tells.
type answer struct {
	endpoint string
	id       cluster.ClusterID
	members  []cluster.Member
	err      error
}

// How long the other endpoints may take after the first has answered. Those that
// are not in its list of members may be of another cluster, which is to be
// noticed before anything is changed: they get a fair time, once. For the others
// it is enough that a hanging one holds nobody up.
const (
	late = 250 * time.Millisecond
	fair = 2 * time.Second
)

// list asks the endpoints for the member list, all at once. A learner has none.
// Where the cluster is known by its data, endpoints of other clusters do not
// count; otherwise all must be of one.
func (m *Machine) list(ctx context.Context, endpoints []string, known cluster.ClusterID) ([]cluster.Member, error) {
	conf, err := m.credentials()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, question)
	defer cancel()
	answers := make(chan answer, len(endpoints))
	for _, e := range endpoints {
		go func() { answers <- ask(ctx, e, conf) }()
	}
	var found *answer
	var failed []answer
	clusters := map[cluster.ClusterID]string{}
	var enough *time.Timer // runs from the first answer that counts
	var over atomic.Bool
	for pending := slices.Clone(endpoints); len(pending) > 0; {
		a := <-answers
		pending = slices.DeleteFunc(pending, func(e string) bool { return e == a.endpoint })
		if a.id != 0 && (known == 0 || a.id == known) {
			clusters[a.id] = a.endpoint
		}
		switch {
		case a.err != nil:
			failed = append(failed, a)
			if a.id == 0 && over.Load() && !slices.Contains(m.silent, a.endpoint) {
				m.silent = append(m.silent, a.endpoint)
			}
		case known != 0 && a.id != known:
			failed = append(failed, answer{endpoint: a.endpoint, err: fmt.Errorf("%s: it is of cluster %s, and the data here of %s", a.endpoint, a.id, known)})
		case found == nil:
			found = &a
			enough = time.AfterFunc(fair, func() {
				over.Store(true)
				cancel()
			})
			defer enough.Stop()
		}
		if found != nil && (known != 0 || !m.mayBeForeign(pending, found.members)) {
			enough.Reset(late)
		}
	}
	if len(clusters) > 1 {
		return nil, fmt.Errorf("the endpoints are of different clusters: %s", strings.Join(slices.Sorted(maps.Values(clusters)), ", "))
	}
	if found != nil {
		return found.members, nil
	}
	texts := make([]string, len(failed))
	for i, a := range failed {
		texts[i] = etcdclient.Explain(context.WithoutCancel(ctx), a.endpoint, conf, a.err).Error()
	}
	slices.Sort(texts)
	return nil, errors.New(strings.Join(slices.Compact(texts), "; "))
}

// mayBeForeign says whether one of the endpoints is no member's that is known,
// and has not been waited for before.
func (m *Machine) mayBeForeign(endpoints []string, members []cluster.Member) bool {
	known := slices.Concat(clientURLs(members), m.silent)
	return slices.ContainsFunc(endpoints, func(e string) bool { return !slices.Contains(known, e) })
}

// ask asks one endpoint which cluster it is of, and for the member list.
func ask(ctx context.Context, endpoint string, conf *tls.Config) answer {
	a := answer{endpoint: endpoint}
	if a.err = etcdclient.Probe(ctx, endpoint, conf); a.err != nil {
		return a
	}
	c, err := etcdclient.Open(etcdclient.Options{Endpoints: []string{endpoint}, TLS: conf})
	if err != nil {
		a.err = err
		return a
	}
	defer c.Close()
	r, err := c.Report(ctx)
	if err != nil {
		a.err = err
		return a
	}
	a.id = r.ClusterID
	a.members, a.err = c.Members(ctx)
	return a
}

// endpoints returns whom to ask about the cluster.
func (m *Machine) endpoints(goal machine.Goal, obs machine.Observation) []string {
	own := machine.URLs(m.cfg).Client
	switch goal.Action {
	case machine.Init:
		return own
	case machine.Join:
		return m.o.Endpoints
	}
	if goal.Action == machine.Remove && len(m.o.Endpoints) > 0 {
		return m.o.Endpoints
	}
	urls := slices.Concat(m.o.Endpoints, own, m.known, machine.Endpoints(obs.Written))
	if obs.Record.Others != "" {
		urls = append(urls, strings.Split(obs.Record.Others, ",")...)
	}
	slices.Sort(urls)
	return slices.Compact(urls)
}

// membership carries out a change of the member list, once.
func (m *Machine) membership(ctx context.Context, obs machine.Observation, op *machine.Membership) error {
	ctx, cancel := context.WithTimeout(ctx, change)
	defer cancel()
	connect := func(urls []string) (apply.Etcd, error) {
		if len(urls) == 0 {
			urls = m.o.Endpoints
		}
		return m.connect(urls)
	}
	return apply.Membership(ctx, connect, obs.Cluster(m.cfg), op.Operation)
}

// change is how long one change of the member list may take: a healthy cluster
// needs milliseconds.
const change = 20 * time.Second
