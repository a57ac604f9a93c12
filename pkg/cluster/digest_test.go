package cluster

import (
	"slices"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

func TestCompare(t *testing.T) {
	type digests = []MemberDigest
	v := etcdversion.Must("3.6.16")
	of := func(name NodeName, hash uint32) MemberDigest {
		return MemberDigest{Name: name, Version: v, Digest: Digest{Hash: hash, Revision: 9, CompactRevision: 4}}
	}
	own := of("a", 1)
	patch := func(v MemberDigest) MemberDigest { v.Version.Patch--; return v }
	later, compacted := of("b", 2), of("b", 2)
	later.Revision, compacted.CompactRevision = 10, 5
	for _, c := range []struct {
		name    string
		voters  int
		learner bool
		others  digests
		want    Agreement
		unlike  []NodeName
	}{
		{name: "alone", voters: 1, want: Agrees},
		{name: "nobody else answers", voters: 3, want: Unsettled},
		{name: "two of three agree", voters: 3, others: digests{of("b", 1)}, want: Agrees},
		{name: "a majority agrees, one is unlike", voters: 3, others: digests{of("b", 2), of("c", 1)}, want: Agrees,
			unlike: []NodeName{"b"}},
		{name: "a majority is unlike", voters: 3, others: digests{of("b", 2), of("c", 2)}, want: Differs,
			unlike: []NodeName{"b", "c"}},
		{name: "all are unlike each other", voters: 3, others: digests{of("b", 2), of("c", 3)}, want: Disputed,
			unlike: []NodeName{"b", "c"}},
		{name: "one of three is unlike", voters: 3, others: digests{of("b", 2)}, want: Disputed, unlike: []NodeName{"b"}},
		{name: "two voters", voters: 2, others: digests{of("b", 2)}, want: Disputed, unlike: []NodeName{"b"}},
		{name: "half of four is no majority", voters: 4, others: digests{of("b", 2), of("c", 2)}, want: Disputed,
			unlike: []NodeName{"b", "c"}},
		{name: "another revision", voters: 3, others: digests{later}, want: Unsettled},
		{name: "another compaction", voters: 3, others: digests{compacted}, want: Unsettled},
		{name: "a majority of another patch release is unlike", voters: 3, others: digests{
			patch(of("b", 2)), patch(of("c", 2)),
		}, want: Disputed, unlike: []NodeName{"b", "c"}},
		{name: "half a majority is of another patch release", voters: 3, others: digests{of("b", 2), patch(of("c", 2))},
			want: Disputed, unlike: []NodeName{"b", "c"}},
		{name: "a majority of two patch releases is alike", voters: 3, others: digests{patch(of("b", 1))}, want: Agrees},
		{name: "a learner has no vote", voters: 3, learner: true, others: digests{of("b", 1)}, want: Unsettled},
		{name: "a learner like a majority", voters: 3, learner: true, others: digests{of("b", 1), of("c", 1)},
			want: Agrees},
		{name: "a learner unlike a majority", voters: 3, learner: true, others: digests{of("b", 2), of("c", 2)},
			want: Differs, unlike: []NodeName{"b", "c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, unlike := Compare(c.voters, own, !c.learner, c.others)
			if got != c.want || !slices.Equal(unlike, c.unlike) {
				t.Errorf("%d, unlike %v; want %d, %v", got, unlike, c.want, c.unlike)
			}
		})
	}
}
