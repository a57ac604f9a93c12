package rpc

import (
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/internal/nodepb"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// The functions of this file turn what the other packages know into messages, and back. The getters of messages
// take nil for an empty message, so what a caller leaves out is empty.

func leaseVotersMessage(v cluster.LeaseVoters) *nodepb.LeaseVoters {
	m := &nodepb.LeaseVoters{Token: string(v.Token), Term: uint64(v.Term), Seq: v.Seq}
	for _, name := range v.Names {
		m.Names = append(m.Names, string(name))
	}
	return m
}

func leaseVoters(m *nodepb.LeaseVoters) cluster.LeaseVoters {
	v := cluster.LeaseVoters{Token: cluster.Token(m.GetToken()), Term: cluster.Term(m.GetTerm()), Seq: m.GetSeq()}
	for _, name := range m.GetNames() {
		v.Names = append(v.Names, cluster.NodeName(name))
	}
	return v
}

func leaseRequestMessage(r lease.Request) *nodepb.LeaseRequest {
	return &nodepb.LeaseRequest{
		Cluster: r.Cluster, Token: string(r.Token), Term: uint64(r.Term), Holder: string(r.Holder), Boot: string(r.Boot),
		Ttl: durationpb.New(r.TTL), LeaseVoters: leaseVotersMessage(r.LeaseVoters), Release: r.Release,
	}
}

// leaseRequest leaves Entitled false: it is never read from a message.
func leaseRequest(m *nodepb.LeaseRequest) lease.Request {
	return lease.Request{
		Cluster: m.GetCluster(), Token: cluster.Token(m.GetToken()), Term: cluster.Term(m.GetTerm()),
		Holder: cluster.NodeName(m.GetHolder()), Boot: cluster.Token(m.GetBoot()), TTL: m.GetTtl().AsDuration(),
		LeaseVoters: leaseVoters(m.GetLeaseVoters()), Release: m.GetRelease(),
	}
}

func leaseResponse(r lease.Reply) *nodepb.LeaseResponse {
	return &nodepb.LeaseResponse{
		Granted: r.Granted, Term: uint64(r.Term), Holder: string(r.Holder), Remaining: durationpb.New(r.Remaining),
		LeaseVoters: leaseVotersMessage(r.LeaseVoters), Reason: r.Reason,
	}
}

func leaseReply(m *nodepb.LeaseResponse) lease.Reply {
	return lease.Reply{
		Granted: m.GetGranted(), Term: cluster.Term(m.GetTerm()), Holder: cluster.NodeName(m.GetHolder()),
		Remaining: m.GetRemaining().AsDuration(), LeaseVoters: leaseVoters(m.GetLeaseVoters()), Reason: m.GetReason(),
	}
}

func standingResponse(s lease.Standing) *nodepb.StandingResponse {
	return &nodepb.StandingResponse{
		Term: uint64(s.Term), Holder: string(s.Holder), Remaining: durationpb.New(s.Remaining), Seen: uint64(s.Seen),
		LeaseVoters: leaseVotersMessage(s.LeaseVoters),
	}
}

func standing(m *nodepb.StandingResponse) lease.Standing {
	return lease.Standing{
		Term: cluster.Term(m.GetTerm()), Holder: cluster.NodeName(m.GetHolder()), Remaining: m.GetRemaining().AsDuration(),
		Seen: cluster.Term(m.GetSeen()), LeaseVoters: leaseVoters(m.GetLeaseVoters()),
	}
}
