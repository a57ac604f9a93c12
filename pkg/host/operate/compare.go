package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// digestTimeout bounds one digest. etcd reads about 0.7 GB in a second.
const digestTimeout = time.Minute

// An equality is the last comparison that found all members alike, and of which members
// it is: within one command it counts as long as they run the same versions.
type equality struct {
	of    string
	found *machine.Comparison
}

// compare asks the voters for the digests of their data at one revision, one after the
// other, the leader last: a member that makes one commits nothing meanwhile. They serve,
// and run one version.
func (m *Machine) compare(ctx context.Context, r machine.Remote) *machine.Comparison {
	var voters []cluster.Member
	var of strings.Builder
	for _, v := range r.Members {
		if !v.Learner {
			voters = append(voters, v)
			fmt.Fprintf(&of, "%s %s ", v.ID, v.Version)
		}
	}
	if m.equal.of == of.String() {
		return m.equal.found
	}
	slices.SortStableFunc(voters, func(a, b cluster.Member) int {
		leads := func(v cluster.Member) int {
			if v.ID == r.Leader {
				return 1
			}
			return 0
		}
		return leads(a) - leads(b)
	})
	c := m.digests(ctx, voters)
	if c.Problem == "" && len(c.Unlike) == 0 {
		m.equal = equality{of.String(), c}
	}
	return c
}

// digests compares the voters at a revision that all of them have, or, where a compaction
// was of just that one, of which some may have kept a digest and others not, at their
// present one.
func (m *Machine) digests(ctx context.Context, voters []cluster.Member) *machine.Comparison {
	at, err := m.lowest(ctx, voters)
	if err != nil {
		return &machine.Comparison{Problem: err.Error()}
	}
	var c *machine.Comparison
	for _, rev := range []cluster.Revision{at, 0} {
		digests, err := m.digestsAt(ctx, voters, rev)
		if err != nil {
			return &machine.Comparison{Problem: err.Error()}
		}
		if c = verdict(digests); c.Problem == "" {
			return c
		}
	}
	return c
}

// verdict says what digests of one version say. All have to be of the same history.
func verdict(digests []cluster.MemberDigest) *machine.Comparison {
	first := digests[0]
	for _, v := range digests[1:] {
		if v.Revision != first.Revision || v.CompactRevision != first.CompactRevision {
			return &machine.Comparison{Problem: fmt.Sprintf("%s has been compacted at revision %d, and %s at %d", first.Name,
				first.CompactRevision, v.Name, v.CompactRevision)}
		}
	}
	// The largest group first: whom it does not hold is unlike.
	like := first
	for _, v := range digests {
		_, unlike := cluster.Compare(len(digests), v, true, digests)
		if _, fewest := cluster.Compare(len(digests), like, true, digests); len(unlike) < len(fewest) {
			like = v
		}
	}
	c := &machine.Comparison{Revision: like.Revision}
	_, c.Unlike = cluster.Compare(len(digests), like, true, digests)
	for _, v := range digests {
		if !slices.Contains(c.Unlike, v.Name) {
			c.Like = append(c.Like, v.Name)
		}
	}
	slices.Sort(c.Like)
	slices.Sort(c.Unlike)
	return c
}

// lowest returns the lowest revision that a voter has.
func (m *Machine) lowest(ctx context.Context, voters []cluster.Member) (low cluster.Revision, err error) {
	for _, v := range voters {
		r, err := m.report(ctx, v.ClientURLs)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", v.Name, err)
		}
		if low == 0 || r.Revision < low {
			low = r.Revision
		}
	}
	return low, nil
}

// digestsAt asks the voters for their digests.
func (m *Machine) digestsAt(ctx context.Context, voters []cluster.Member,
	at cluster.Revision) ([]cluster.MemberDigest, error) {
	var digests []cluster.MemberDigest
	for _, v := range voters {
		d, err := m.digest(ctx, v.ClientURLs[0], at)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.Name, err)
		}
		digests = append(digests, cluster.MemberDigest{Name: v.Name, Version: v.Version, Digest: d})
	}
	return digests, nil
}

func (m *Machine) digest(ctx context.Context, url string, at cluster.Revision) (cluster.Digest, error) {
	c, err := m.connect([]string{url})
	if err != nil {
		return cluster.Digest{}, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, digestTimeout)
	defer cancel()
	return c.HashKV(ctx, url, at)
}
