package hazards

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A member is an entry of one of the lists of members.
type member struct {
	Name     string   `json:"name"`
	PeerURLs []string `json:"peerURLs"`
	Learner  bool     `json:"isLearner"`
}

// A state is a list of members, with those that were removed. voters and learners
// are raft's own list.
type state struct {
	members map[cluster.MemberID]member
	removed map[cluster.MemberID]bool
	raft    map[cluster.MemberID]bool // whether it is a learner
}

func newState() state {
	return state{map[cluster.MemberID]member{}, map[cluster.MemberID]bool{}, map[cluster.MemberID]bool{}}
}

// A change is one of the list of members, in the log.
type change struct {
	index  uint64
	kind   uint64
	id     cluster.MemberID
	member struct {
		member
		Promote bool `json:"isPromote"`
	}
}

// The kinds of change.
const (
	addVoter   = 0
	remove     = 1
	update     = 2
	addLearner = 3
)

// readChange reads a ConfChange: 2 type, 3 member, 4 what etcd says about it.
func readChange(b []byte) (c change, err error) {
	var text []byte
	err = each(b, func(f field) error {
		switch f.num {
		case 2:
			c.kind = f.number
		case 3:
			c.id = cluster.MemberID(f.number)
		case 4:
			text = f.bytes
		}
		return nil
	})
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &c.member)
	}
	return c, err
}

// apply carries out a change. One that does not fit was refused when it was
// carried out: etcd checks each then, and lets no more than some learners in.
func (s state) apply(c change, learners int) {
	old, known := s.members[c.id]
	if c.id == 0 || s.removed[c.id] {
		return
	}
	switch c.kind {
	case addVoter, addLearner:
		m := c.member.member
		switch {
		case c.member.Promote && known && old.Learner:
			m, m.Learner = old, false
		case c.member.Promote || known || s.taken(m):
			return
		case c.kind == addLearner && s.learners() >= learners:
			return
		}
		s.members[c.id], s.raft[c.id] = m, c.kind == addLearner
	case remove:
		if known {
			delete(s.members, c.id)
			delete(s.raft, c.id)
			s.removed[c.id] = true
		}
	case update:
		if known {
			old.PeerURLs = c.member.PeerURLs
			s.members[c.id] = old
		}
	}
}

func (s state) learners() (n int) {
	for _, m := range s.members {
		if m.Learner {
			n++
		}
	}
	return n
}

// taken says whether another member has a peer URL of m.
func (s state) taken(m member) bool {
	for _, o := range s.members {
		if slices.ContainsFunc(o.PeerURLs, func(u string) bool { return slices.Contains(m.PeerURLs, u) }) {
			return true
		}
	}
	return false
}

func (s state) clone() state {
	return state{maps.Clone(s.members), maps.Clone(s.removed), maps.Clone(s.raft)}
}

// compare says how the members of the database differ from those of the raft
// snapshot and the log behind it: both when the database was written, and at the
// end of the log, for a change is not in both at one instant.
//
// How many learners there may be at once is a flag of etcd (--max-learners), 1 by default:
// what is so by one of both ways to read the log is no difference.
func compare(s snapshot, l log, b backend) []string {
	differ := compareWith(s, l, b, 1)
	if len(differ) > 0 && len(compareWith(s, l, b, math.MaxInt)) == 0 {
		return nil
	}
	return differ
}

func compareWith(s snapshot, l log, b backend, learners int) []string {
	then := s.state.clone()
	now := s.state.clone()
	for _, c := range l.changes {
		if c.index <= s.index {
			continue
		}
		if c.index <= b.applied {
			then.apply(c, learners)
		}
		if c.index <= max(l.commit, b.applied) {
			now.apply(c, learners)
		}
	}
	first, second := then.unlike(b.members), now.unlike(b.members)
	return slices.DeleteFunc(first, func(text string) bool { return !slices.Contains(second, text) })
}

// unlike says how the members of the database differ.
func (s state) unlike(database map[cluster.MemberID]member) []string {
	var texts []string
	say := func(format string, args ...any) { texts = append(texts, fmt.Sprintf(format, args...)) }
	for _, id := range slices.Sorted(maps.Keys(database)) {
		d := database[id]
		m, known := s.members[id]
		learner, votes := s.raft[id]
		called := fmt.Sprintf("%s (%s, %s)", id, orNone(d.Name), strings.Join(d.PeerURLs, ","))
		switch {
		case !known && s.removed[id]:
			say("the database still has %s, which was removed", called)
		case !known || !votes:
			say("only the database has %s", called)
		case m.Learner != d.Learner || learner != d.Learner:
			say("%s is a %s, and a %s in the database", called, role(learner), role(d.Learner))
		case !sameURLs(m.PeerURLs, d.PeerURLs):
			say("%s has the peer URLs %s in the log", called, strings.Join(m.PeerURLs, ","))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.members)) {
		if _, ok := database[id]; !ok {
			say("the database lacks %s (%s)", id, strings.Join(s.members[id].PeerURLs, ","))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.raft)) {
		if _, ok := s.members[id]; !ok {
			say("raft has %s, which is in neither list", id)
		}
	}
	return texts
}

func role(learner bool) string {
	if learner {
		return "learner"
	}
	return "voter"
}

func sameURLs(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func orNone(name string) string {
	if name == "" {
		return "without a name"
	}
	return name
}
