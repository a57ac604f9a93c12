package machine

import (
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// voterURL is a client URL of a voter, of one that is healthy if there is one.
func (p *planner) voterURL() string {
	url := ""
	for _, m := range p.obs.Remote.Members {
		if !m.Learner && len(m.ClientURLs) > 0 && (url == "" || m.Healthy) {
			if url = m.ClientURLs[0]; m.Healthy {
				return url
			}
		}
	}
	return url
}

// Helps says whether op ends what another machine has begun. Where it does not go
// through, there is nothing wrong with this one.
func Helps(cfg Config, op *Membership) bool {
	promote, ok := op.Operation.(*plan.Promote)
	return ok && promote.Name != cfg.Name
}

// knowsItsVote waits until a member serves as a voter. The list is read through
// the quorum; the member itself learns of its vote a little later.
func (p *planner) knowsItsVote() *Hold {
	if !p.obs.Local.Learner {
		return nil
	}
	h := hold(MemberStarting, "check etcd's log", "the member does not know yet that it is a voter")
	h.Wait = true
	return h
}

// healthAndVote ends a join: when the member serves, it gets its vote.
func (p *planner) healthAndVote() (Operation, *Hold) {
	if op, why := p.health(); op != nil || why != nil {
		return op, why
	}
	if !p.obs.Remote.Answered {
		return nil, p.unreachable()
	}
	if self, ok := p.self(); !ok || self.Name != p.cfg.Name || !self.Healthy {
		h := hold(MemberStarting, "check etcd's log", "the cluster does not know yet that the member has started")
		h.Wait = true
		return nil, h
	} else if !self.Learner {
		if why := p.knowsItsVote(); why != nil {
			return nil, why
		}
		return nil, p.settled()
	}
	if why := p.mayVote(); why != nil {
		return nil, why
	}
	voters, _ := p.obs.Remote.voters()
	return p.change(&plan.Promote{Name: p.cfg.Name, ExpectVoters: voters})
}
