package operate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// An answer is what one endpoint says.
type answer struct {
	endpoint string
	id       cluster.ClusterID
	members  []cluster.Member
	err      error
}

// How long the other endpoints may take after the first has answered. Those that
// are not in its list of members may be of another cluster, which is to be
// noticed before anything is changed: they get a fair time, once, and a longer one
// where a person has named them. For the others it is enough that a hanging one
// holds nobody up.
const (
	othersTimeout   = 250 * time.Millisecond
	unlistedTimeout = 2 * time.Second
	namedTimeout    = 8 * time.Second
)

// A differError says that the endpoints that were named are not of one cluster.
type differError struct{ endpoints []string }

func (e *differError) Error() string {
	return "the endpoints belong to different clusters: " + strings.Join(e.endpoints, ", ")
}

// list asks the endpoints for the member list, all at once. A learner has none.
// Where the cluster is known by its data, endpoints of other clusters do not
// count; otherwise all must be of one.
func (m *Machine) list(ctx context.Context, endpoints []string, known cluster.ClusterID) (
	[]cluster.Member, []machine.UnreachableEndpoint, error) {
	conf, err := m.credentials()
	if err != nil {
		return nil, nil, err
	}
	h := m.hear(ctx, endpoints, known, func(ctx context.Context, e string) answer { return ask(ctx, e, conf) })
	if differ := m.differ(h, known); differ != nil {
		return nil, nil, differ
	}
	if h.found != nil {
		return h.found.members, unanswered(h, m.o.Endpoints), nil
	}
	return nil, nil, unreachable(h, known, func(a answer) error {
		return etcdclient.Explain(context.WithoutCancel(ctx), a.endpoint, conf, a.err)
	})
}

// unanswered returns which of the endpoints that a person has named do not answer.
func unanswered(h hearing, named []string) (list []machine.UnreachableEndpoint) {
	for _, e := range slices.Compact(slices.Sorted(slices.Values(named))) {
		switch a, asked := h.last[e]; {
		case !asked:
			list = append(list, machine.UnreachableEndpoint{URL: e, Why: "no answer in time"})
		case a.id == 0 && a.err != nil:
			list = append(list, machine.UnreachableEndpoint{URL: e, Why: strings.TrimPrefix(a.err.Error(), e+": ")})
		}
	}
	return list
}

// unreachable says why none of the endpoints has answered. A refusal for certificates counts
// more than an endpoint that is dead: that one may come up, and all are of one cluster,
// which one authority has issued certificates for.
func unreachable(h hearing, known cluster.ClusterID, explain func(answer) error) *unreachableError {
	var refused, others []string
	trusted, clock := false, false
	for _, a := range h.last {
		if known != 0 && a.id != 0 && a.id != known {
			trusted = true
			others = append(others, fmt.Sprintf("%s: it belongs to cluster %s, but the data here to %s", a.endpoint, a.id, known))
			continue
		}
		why := explain(a)
		var seen *etcdclient.EndpointError
		if errors.As(why, &seen) && seen.Refused {
			refused = append(refused, why.Error())
			clock = clock || seen.Clock
			continue
		}
		trusted = trusted || a.id != 0
		others = append(others, why.Error())
	}
	slices.Sort(refused)
	slices.Sort(others)
	texts := append(slices.Compact(refused), slices.Compact(others)...)
	untrusted := len(refused) > 0 && !trusted
	return &unreachableError{text: strings.Join(texts, "; "), untrusted: untrusted, clock: untrusted && clock}
}

// An unreachableError says why no endpoint has sent the member list.
type unreachableError struct {
	text string
	// untrusted says that some refused our certificates, or we theirs, and that none
	// of the others was reached over TLS.
	untrusted bool
	// clock says that a clock may be why.
	clock bool
}

func (e *unreachableError) Error() string { return e.text }

// differ says that two clusters answer. Where a person has named the endpoints,
// it is remembered: nobody can know which one was meant, also when one of the two
// does not answer any more.
func (m *Machine) differ(h hearing, known cluster.ClusterID) error {
	if known != 0 {
		return nil
	}
	ids := maps.Clone(m.clusters)
	if ids == nil {
		ids = map[cluster.ClusterID]string{}
	}
	for _, a := range h.last {
		if a.id == 0 {
			continue
		}
		ids[a.id] = a.endpoint
		if slices.Contains(m.o.Endpoints, a.endpoint) {
			if m.clusters == nil {
				m.clusters = map[cluster.ClusterID]string{}
			}
			m.clusters[a.id] = a.endpoint
		}
	}
	if len(ids) < 2 {
		return nil
	}
	return &differError{slices.Sorted(maps.Values(ids))}
}

// A hearing is what the endpoints have answered so far.
type hearing struct {
	// last is the last answer of each endpoint.
	last map[string]answer
	// found is the first answer that has the list.
	found *answer
}

// hear asks the endpoints until it is known which cluster they are of, or until
// each has failed to answer.
func (m *Machine) hear(ctx context.Context, endpoints []string, known cluster.ClusterID,
	ask func(context.Context, string) answer) hearing {
	h := hearing{last: map[string]answer{}}
	endpoints = slices.Compact(slices.Sorted(slices.Values(endpoints)))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer)
	for _, e := range endpoints {
		go repeat(ctx, e, func(ctx context.Context, e string) answer {
			defer m.pending.ask("etcd at " + e)()
			return ask(ctx, e)
		}, answers)
	}
	var since time.Time // when the first answer came that counts
	for len(h.last) < len(endpoints) || h.found != nil {
		var enough <-chan time.Time
		var open []string
		if h.found != nil {
			var wait time.Duration
			if open, wait = m.open(h, endpoints, known); wait == 0 {
				break
			}
			enough = time.After(time.Until(since.Add(wait)))
		}
		select {
		case a := <-answers:
			h.last[a.endpoint] = a
			if h.found == nil && a.err == nil && (known == 0 || a.id == known) {
				h.found, since = &a, time.Now()
			}
		case <-enough:
			m.giveUp(open, h.found.id)
			return h
		case <-ctx.Done():
			return h
		}
	}
	return h
}

// repeat asks an endpoint until it has said which cluster it is of.
func repeat(ctx context.Context, endpoint string, ask func(context.Context, string) answer, answers chan<- answer) {
	// Who is slow to answer is given more time from the second question on.
	for limit := askTimeout; ; limit = namedTimeout {
		qctx, cancel := context.WithTimeout(ctx, limit)
		a := ask(qctx, endpoint)
		cancel()
		select {
		case answers <- a:
		case <-ctx.Done():
			return
		}
		if a.id != 0 || wait.For(ctx, pause) != nil {
			return
		}
	}
}

// open returns the endpoints that may be of another cluster and have not answered, and
// how long to wait for more answers after the first one, 0 for no longer.
func (m *Machine) open(h hearing, endpoints []string, known cluster.ClusterID) ([]string, time.Duration) {
	members := clientURLs(h.found.members)
	wait := time.Duration(0)
	var open []string
	for _, e := range endpoints {
		a, asked := h.last[e]
		switch {
		case a.id != 0:
		case known == 0 && !slices.Contains(members, e) && !slices.Contains(m.unreachable, e):
			open = append(open, e)
			wait = max(wait, unlistedTimeout)
			if slices.Contains(m.o.Endpoints, e) {
				wait = namedTimeout
			}
		case !asked:
			wait = max(wait, othersTimeout)
		}
	}
	return open, wait
}

// giveUp notes the endpoints that were waited for in vain, and reports those that
// a person has named.
func (m *Machine) giveUp(open []string, id cluster.ClusterID) {
	m.unreachable = append(m.unreachable, open...)
	for _, e := range open {
		if slices.Contains(m.o.Endpoints, e) && m.o.Warned != nil && !m.inspecting {
			m.o.Warned("Endpoint", fmt.Sprintf("%s does not say which cluster it belongs to; the others belong to cluster %s and are used",
				e, id))
		}
	}
}

// ask asks one endpoint which cluster it is of, and for the member list.
func ask(ctx context.Context, endpoint string, conf *tls.Config) answer {
	a := answer{endpoint: endpoint}
	if a.err = etcdclient.Probe(ctx, endpoint, conf); a.err != nil {
		return a
	}
	c, err := etcdclient.Open(etcdclient.Options{Endpoints: []string{endpoint}, TLS: conf, ConnectTimeout: namedTimeout})
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
