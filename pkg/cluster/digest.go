package cluster

import "github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"

// A Digest stands for the keys of one member at one revision.
type Digest struct {
	// Hash covers the keys from CompactRevision to Revision. Members with the same
	// three values hold the same data.
	Hash            uint32   `json:"hash"`
	Revision        Revision `json:"revision"`
	CompactRevision Revision `json:"compactRevision"`
}

// comparable reports whether two digests cover the same history, so that
// members with the same data have the same digest.
func (d Digest) comparable(e Digest) bool {
	return d.Revision == e.Revision && d.CompactRevision == e.CompactRevision
}

// An Agreement says how a member's data compares with that of the others.
type Agreement int

// The agreements.
const (
	// Unsettled: too few members have been compared to say anything.
	Unsettled Agreement = iota
	// Agrees: the member holds what a majority of the voters holds.
	Agrees
	// Differs: a majority of the voters, which run the member's version of etcd,
	// agrees on other data than the member's.
	Differs
	// Disputed: the member's data differs from that of another one, and no majority
	// says which is right, or it runs another version.
	Disputed
)

// A MemberDigest is the digest of one member.
type MemberDigest struct {
	Name NodeName
	// Version is that of the etcd which made the digest.
	Version etcdversion.Version
	Digest
}

// Compare holds the digest of a member against those of the other voters that
// answered. voters is the number of voters in the cluster; counts says whether the
// member is one of them. It names those whose data is unlike the member's, in
// the order of others.
//
// Digests of different versions of etcd that are equal are of equal data. Those
// that are not prove nothing: what a digest covers has changed between patch
// releases (etcd-io/etcd#18274).
func Compare(voters int, own MemberDigest, counts bool, others []MemberDigest) (Agreement, []NodeName) {
	alike := 0
	if counts {
		alike = 1
	}
	unlike := map[uint32]int{} // of the member's version
	var names []NodeName
	for _, o := range others {
		switch {
		case !own.comparable(o.Digest):
		case own.Hash == o.Hash:
			alike++
		default:
			if own.Version == o.Version {
				unlike[o.Hash]++
			}
			names = append(names, o.Name)
		}
	}
	if alike >= Quorum(voters) {
		return Agrees, names
	}
	for _, n := range unlike {
		if n >= Quorum(voters) {
			return Differs, names
		}
	}
	if len(names) > 0 {
		return Disputed, names
	}
	return Unsettled, nil
}
