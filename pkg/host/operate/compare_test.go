package operate

import (
	"fmt"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// Who is alone is unlike; digests of another part of the history prove nothing.
func TestVerdict(t *testing.T) {
	type digests = []cluster.MemberDigest
	digestOf := func(name cluster.NodeName, hash uint32, compacted cluster.Revision) cluster.MemberDigest {
		return cluster.MemberDigest{Name: name, Version: etcdversion.Must("3.5.35"),
			Digest: cluster.Digest{Hash: hash, Revision: 9, CompactRevision: compacted}}
	}
	for name, s := range map[string]struct {
		digests digests
		want    string
	}{
		"equal":          {digests{digestOf("a", 1, 3), digestOf("b", 1, 3), digestOf("c", 1, 3)}, "[a b c] [] "},
		"the first":      {digests{digestOf("a", 2, 3), digestOf("b", 1, 3), digestOf("c", 1, 3)}, "[b c] [a] "},
		"the last":       {digests{digestOf("c", 1, 3), digestOf("b", 1, 3), digestOf("a", 2, 3)}, "[b c] [a] "},
		"two":            {digests{digestOf("a", 2, 3), digestOf("b", 1, 3)}, "[a] [b] "},
		"another extent": {digests{digestOf("a", 2, 3), digestOf("b", 1, 4)}, "[] [] a has been compacted at revision 3, and b at 4"},
	} {
		if c := verdict(s.digests); fmt.Sprintf("%v %v %s", c.Like, c.Unlike, c.Problem) != s.want {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
