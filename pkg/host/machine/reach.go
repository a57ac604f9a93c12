package machine

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A Reach is what is known of whether a member reaches the peer port of a learner.
type Reach string

// What may be known of it.
const (
	ReachUnknown Reach = ""
	Reached      Reach = "reached"
	NotReached   Reach = "not-reached"
)

// Connecting returns this machine's learner, and the voters that have to connect to its peer port
// before it gets its vote, if they answer. There are none where it is no learner, where nobody can
// be asked, and where a person goes on without them.
func Connecting(goal Goal, cfg Config, obs Observation) (self cluster.Member, voters []cluster.Member) {
	self, ok := (&planner{goal: goal, cfg: cfg, obs: obs}).self()
	if goal.Action != Join || goal.AnyPeerPorts || !obs.Remote.Answered || !ok || !self.Learner {
		return self, nil
	}
	known := obs.Record.reachedBy(self.ID)
	for _, m := range obs.Remote.Members {
		if !m.Learner && m.ID != self.ID && !slices.Contains(known, m.ID.String()) {
			voters = append(voters, m)
		}
	}
	return self, voters
}

// WithReached is the record of a machine of whose learner it was seen that voters reach it.
// Phases are processes of their own, and the next one need not ask again.
func (r Record) WithReached(self cluster.MemberID, voters []cluster.Member) Record {
	ids := append([]string{self.String()}, r.reachedBy(self)...)
	for _, m := range voters {
		ids = append(ids, m.ID.String())
	}
	r.Reached = strings.Join(ids, ",")
	return r
}

// reachedBy are the IDs of the voters that were seen to reach a learner.
func (r Record) reachedBy(self cluster.MemberID) []string {
	ids := strings.Split(r.Reached, ",")
	if ids[0] != self.String() {
		return nil
	}
	return ids[1:]
}

// StillNotReached returns those of the members that are known not to reach a learner.
func StillNotReached(voters []cluster.Member, seen map[cluster.MemberID]Reach) []cluster.Member {
	return slices.DeleteFunc(slices.Clone(voters), func(m cluster.Member) bool { return seen[m.ID] != NotReached })
}

// ReachNotKnown returns those of which nobody can say whether they do.
func ReachNotKnown(voters []cluster.Member, seen map[cluster.MemberID]Reach) []cluster.Member {
	return slices.DeleteFunc(slices.Clone(voters), func(m cluster.Member) bool { return seen[m.ID] != ReachUnknown })
}

// Unreached holds the vote of this machine's learner, whose peer port those members do not
// reach: as a voter it would count for a quorum whose members may not reach each other. seen says
// how that was found. Without any it is nil.
func Unreached(cfg Config, from []cluster.Member, seen string) *Hold {
	if len(from) == 0 {
		return nil
	}
	names, hosts := make([]string, len(from)), []string(nil)
	for i, m := range from {
		if names[i] = named(m); m.Name != "" {
			names[i] += " (" + strings.Join(m.PeerURLs, ",") + ")"
		}
		for _, u := range m.PeerURLs {
			if at, err := url.Parse(u); err == nil && !slices.Contains(hosts, at.Hostname()) {
				hosts = append(hosts, at.Hostname())
			}
		}
	}
	who, does := "member ", " does"
	if len(from) > 1 {
		who, does = "members ", " do"
	}
	return hold(PeerPortClosed, "open TCP port "+strconv.Itoa(cfg.Listen.PeerPort)+" of this machine for "+
		strings.Join(hosts, ", ")+", here and on the way, then run the same command again; to go on without: "+
		"--ignore-preflight-errors=PeerPorts",
		"%s%s not reach the peer port of this machine (%s): %s", who+strings.Join(names, ", "), does,
		strings.Join(URLs(cfg).Peer, ","), seen)
}

// OthersUnreached holds the vote of another machine's learner, whose peer port those members do
// not reach.
func OthersUnreached(learner cluster.Member, from []cluster.Member) *Hold {
	if len(from) == 0 {
		return nil
	}
	names := make([]string, len(from))
	for i, m := range from {
		names[i] = named(m)
	}
	h := hold(LearnerPending, OpenPeerPorts+"; or remove the learner: etcdadm remove "+learner.ID.String(),
		"another member is joining: %s, whose peer port (%s) is not reached by %s", named(learner),
		strings.Join(learner.PeerURLs, ","), strings.Join(names, ", "))
	h.Wait, h.Others = true, true
	return h
}

// A PeerEnd is where etcd will take its peers, and with which files.
type PeerEnd struct {
	URLs          []string
	CA, Cert, Key string
}

// Peers returns where this machine's etcd will take its peers, as its settings say.
func Peers(cfg Config) PeerEnd {
	at, user := cfg.Paths.Certificate, userVariables(cfg)
	e := PeerEnd{URLs: cfg.Listen.PeerURLs, CA: at("ca.crt"), Cert: at("peer.crt"), Key: at("peer.key")}
	if len(e.URLs) == 0 {
		e.URLs = URLs(cfg).Peer
	}
	for key, field := range map[string]*string{
		"ETCD_PEER_TRUSTED_CA_FILE": &e.CA, "ETCD_PEER_CERT_FILE": &e.Cert, "ETCD_PEER_KEY_FILE": &e.Key,
	} {
		if user[key] != "" {
			*field = user[key]
		}
	}
	if urls := user["ETCD_LISTEN_PEER_URLS"]; urls != "" {
		e.URLs = strings.Split(urls, ",")
	}
	return e
}
