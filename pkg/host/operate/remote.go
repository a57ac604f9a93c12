package operate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/node/apply"
)

// askTimeout is how long one member may take to answer.
const askTimeout = 3 * time.Second

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
		leaf, caErr := ca.Issue(certs.Request{
			CommonName: string(m.cfg.Name) + "-etcdctl", Organization: []string{"system:masters"}, Client: true,
			Lifetime: time.Hour,
		}, time.Now())
		if caErr != nil {
			return nil, err
		}
		m.fallback = &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: ca.Pool(), Certificates: []tls.Certificate{leaf.TLS()},
		}
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
	defer m.pending.ask("etcd at " + urls[0])()
	// The client goes on trying where nobody listens; an observation does not.
	if !listening(ctx, urls) {
		return cluster.Report{}, fmt.Errorf("nothing listens at %s", strings.Join(urls, ", "))
	}
	// Of one URL: a read that another member answers says nothing about this one.
	c, err := m.connect(urls[:1])
	if err != nil {
		return cluster.Report{}, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
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
	members, unreached, problem := m.list(ctx, endpoints, known)
	if problem != nil {
		var differ *differError
		var unreachable *unreachableError
		r.Problem, r.Differ = problem.Error(), errors.As(problem, &differ)
		if errors.As(problem, &unreachable) {
			r.Untrusted, r.Clock = unreachable.untrusted, unreachable.clock
		}
		return r
	}
	said := answers{ids: map[cluster.ClusterID]bool{}, unanswered: map[string]bool{}}
	// The daemon, which observes again all the time, gives a member half a second. Here
	// one observation decides, so that only who did not answer the last one gets less.
	probe := func(retryGrace context.Context, urls []string, _ string) (cluster.Report, error) {
		ctx := ctx
		if m.unanswered[urls[0]] {
			ctx = retryGrace
		}
		report, err := m.report(ctx, urls)
		said.note(urls[0], report, err)
		return report, err
	}
	obs := observe.Collect(ctx, observe.Sources{
		Now: time.Now, Nonce: observe.NewToken, Peers: func() []observe.Peer { return nil },
		Store: func(context.Context) observe.StoreAnswer { return observe.StoreAnswer{} },
		Probe: probe,
	}, cluster.Observation{Members: members})
	m.known, m.unanswered = clientURLs(members), said.unanswered
	// A member that has not started, or is unreachable, is in the list all the same.
	r.Answered, r.Members, r.Leader, r.Unreachable = true, members, obs.Leader, unreached
	r.ClusterVersion, r.Downgrade = obs.ClusterVersion, obs.Downgrade
	for i := range r.Members {
		for _, seen := range obs.Members {
			if seen.ID == r.Members[i].ID {
				r.Members[i] = seen
			}
		}
	}
	said.report(&r)
	return r
}

// answers are what the members have said that were asked one by one.
type answers struct {
	mu         sync.Mutex
	versions   []etcdversion.Version
	ids        map[cluster.ClusterID]bool
	unanswered map[string]bool // the first URL of each member, and whether it did not answer
}

func (a *answers) note(url string, r cluster.Report, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unanswered[url] = err != nil; err != nil {
		return
	}
	a.ids[r.ClusterID] = true
	if !r.Version.IsZero() {
		a.versions = append(a.versions, r.Version)
	}
}

// report completes r, which has the member list.
func (a *answers) report(r *machine.Remote) {
	for id := range a.ids {
		r.ClusterID = id
	}
	if len(a.ids) > 1 {
		r.Answered, r.Problem = false, "the members belong to different clusters"
	}
	if len(a.ids) == 0 {
		r.Answered, r.Problem = false,
			"the members' client URLs cannot be reached from here: "+strings.Join(clientURLs(r.Members), ", ")
	}
	if len(a.versions) > 0 {
		r.Lowest = slices.MinFunc(a.versions, etcdversion.Version.Compare)
		r.Highest = slices.MaxFunc(a.versions, etcdversion.Version.Compare)
	}
}

func clientURLs(members []cluster.Member) []string {
	var urls []string
	for _, m := range members {
		urls = append(urls, m.ClientURLs...)
	}
	return urls
}

// endpoints returns whom to ask about the cluster.
func (m *Machine) endpoints(goal machine.Goal, obs machine.Observation) []string {
	own := machine.URLs(m.cfg).Client
	switch goal.Action {
	case machine.Init:
		return own
	case machine.Join:
		// Who was named may be removed while this machine joins.
		all := slices.Concat(m.o.Endpoints, m.known)
		if goal.Phase == "health" { // the phases before it were other processes
			all = append(all, machine.Endpoints(obs.Written)...)
		}
		slices.Sort(all)
		return slices.Compact(all)
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
	ctx, cancel := context.WithTimeout(ctx, memberChangeTimeout)
	defer cancel()
	connect := func(urls []string) (apply.Etcd, error) {
		if len(urls) == 0 {
			urls = slices.Concat(m.o.Endpoints, m.known)
		}
		return m.connect(urls)
	}
	return apply.Membership(ctx, connect, obs.Cluster(m.cfg), op.Operation)
}

// memberChangeTimeout is how long one change of the member list may take: a healthy cluster needs
// milliseconds. One that is lost, as where the leader leaves meanwhile, is not answered at all,
// and has to leave time for another try.
const memberChangeTimeout = 8 * time.Second
