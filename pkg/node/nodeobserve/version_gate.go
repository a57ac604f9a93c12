package nodeobserve

import (
	"context"
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// HasLeader reports whether the node's member knows a leader of etcd, which may be itself. It is
// false where there is no member, or it does not answer before ctx ends.
func (o *Observer) HasLeader(ctx context.Context) bool {
	s := o.opts.State()
	if s.Assigned == nil {
		return false
	}
	c, err := o.Etcd(s)
	if err != nil {
		return false
	}
	id, err := c.Leader(ctx)
	return err == nil && id != 0
}

// Serves reports whether the version that the member is to run answers a read through the quorum, by
// its own word as a member of the cluster.
func (o *Observer) Serves(ctx context.Context, s nodestate.State) bool {
	if o.opts.Status().State != cluster.ProcessRunning {
		return false
	}
	c, err := o.Etcd(s)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, ReportTimeout)
	defer cancel()
	r, err := c.Report(ctx)
	if err != nil || o.Foreign(s, r) != nil {
		return false
	}
	to := s.Assigned.Version
	right := r.Version.Major == to.Major && r.Version.Minor == to.Minor
	return right && r.Leader != 0 && (r.Read == cluster.ReadServed || r.Learner)
}

// LacksMajority reports whether it is no wonder that this member does not serve: those
// that answer, and it, are no majority. Where they would be one, as of two voters
// the other and it, it is the new version that keeps the cluster from serving.
func (o *Observer) LacksMajority(ctx context.Context, s nodestate.State) bool {
	voters := s.Voters
	if len(voters) == 0 {
		voters = s.Peers
	}
	others := o.others(voters)
	p, err := o.peer()
	if err != nil || len(others) == 0 {
		return err != nil
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(ctx, servesTimeout)
	defer cancel()
	answers := ask(others, func(m cluster.InitialMember) (struct{}, error) {
		return struct{}{}, anyURL(m.PeerURLs, func(u string) error {
			_, err := p.Versions(ctx, u)
			return err
		})
	})
	return len(answers)+1 < cluster.Quorum(len(voters))
}

// ServedWithout reports whether a majority of the voters serves its peers, this
// node's member not counted.
func (o *Observer) ServedWithout(ctx context.Context, s nodestate.State) bool {
	voters := s.Voters
	if len(voters) == 0 {
		voters = s.Peers
	}
	p, err := o.peer()
	if err != nil || len(voters) < 2 {
		return false
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(ctx, servesTimeout)
	defer cancel()
	return len(reachable(ctx, p, o.others(voters))) >= cluster.Quorum(len(voters))
}

// OthersServe counts the other voters that the report of the node's own member lists,
// and those of them that serve now. Who does not answer for itself where it has reported
// that it serves clients, as where that is the address of a load balancer, is asked
// where its peers reach it.
func (o *Observer) OthersServe(ctx context.Context, own cluster.Report) (others, serving int) {
	ctx, cancel := context.WithTimeout(ctx, servesTimeout)
	defer cancel()
	voters := slices.DeleteFunc(slices.Clone(own.Members), func(m cluster.Member) bool {
		return m.Learner || m.ID == own.ID
	})
	peer, err := o.peer()
	if err == nil {
		defer peer.Close()
	}
	serve := ask(voters, func(m cluster.Member) (cluster.MemberID, error) {
		r, asked := o.reportOf(ctx, m.ID, cluster.OwnURLs(m, own.Members))
		switch {
		case asked == nil && r.Leader != 0 && r.Leader != own.ID && r.Read == cluster.ReadServed:
			return m.ID, nil
		case asked == nil:
			return m.ID, Refuse("%s does not serve", m.Name)
		case err != nil:
			return m.ID, err
		}
		return m.ID, anyURL(m.PeerURLs, func(u string) error {
			_, err := peer.Versions(ctx, u)
			return err
		})
	})
	return len(voters), len(serve)
}

// reportOf asks another member about itself, at the first of its URLs.
func (o *Observer) reportOf(ctx context.Context, id cluster.MemberID, urls []string) (cluster.Report, error) {
	if len(urls) == 0 {
		return cluster.Report{}, Refuse("member %s has no client URL", id)
	}
	ctx, cancel := context.WithTimeout(ctx, ReportTimeout)
	defer cancel()
	c, err := etcdclient.Open(etcdclient.Options{Endpoints: urls[:1], TLS: o.clientTLS()})
	if err != nil {
		return cluster.Report{}, err
	}
	defer func() { _ = c.Close() }()
	return ReportOf(ctx, c, urls[0], id)
}

// VersionGate asks the node's own etcd and its peers. The error is why the own one does not answer.
func (o *Observer) VersionGate(
	ctx context.Context, c *etcdclient.Client, s nodestate.State,
) (cluster.VersionGate, error) {
	asking, cancel := context.WithTimeout(ctx, ReportTimeout)
	defer cancel()
	seen, lowest := o.VersionsOfOthers(ctx, s)
	now := cluster.VersionGate{Runs: s.Assigned.Version, Seen: seen, Lowest: lowest}
	r, err := o.selfReport(asking, c, s)
	if err != nil {
		return now, err
	}
	now.Answers, now.Runs, now.Storage, now.Downgrade = true, r.Version, r.Storage, r.Downgrade
	now.Cluster = r.Cluster
	now.Others, now.Serving = o.OthersServe(ctx, r)
	now.Leads = r.Leader == r.ID && now.Others > 0
	return now, nil
}

// VersionsOfOthers returns the highest cluster version that is known here or reported by the peers, and
// the oldest version that a peer runs, zero where none says.
func (o *Observer) VersionsOfOthers(ctx context.Context, s nodestate.State) (seen, lowest etcdversion.Version) {
	seen = s.DataVersion()
	p, err := o.peer()
	if err != nil {
		return seen, lowest
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(ctx, ReportTimeout)
	defer cancel()
	voters := s.Voters
	if len(voters) == 0 {
		voters = s.Peers
	}
	for _, v := range ask(o.others(voters), func(m cluster.InitialMember) (v etcdclient.Versions, err error) {
		err = anyURL(m.PeerURLs, func(u string) error {
			v, err = p.Versions(ctx, u)
			return err
		})
		return v, err
	}) {
		if v.Cluster.Compare(seen) > 0 {
			seen = v.Cluster
		}
		if !v.Server.IsZero() && (lowest.IsZero() || v.Server.Compare(lowest) < 0) {
			lowest = v.Server
		}
	}
	return seen, lowest
}

// ReportOf asks the member at a URL about itself, and takes no other's report for its.
func ReportOf(ctx context.Context, etcd interface {
	Report(ctx context.Context) (cluster.Report, error)
}, url string, id cluster.MemberID) (cluster.Report, error) {
	r, err := etcd.Report(ctx)
	if err == nil && r.ID != id {
		err = fmt.Errorf("at %s answers member %s, not %s", url, r.ID, id)
	}
	return r, err
}
