package cluster

import (
	"fmt"
	"strconv"
	"strings"
)

// A NodeName is the name of a machine that runs the daemon, and of the etcd
// member on it.
type NodeName string

// Validate reports why n cannot be a node name. Names go into file names,
// certificates and etcd's initial-cluster syntax, which set the limits.
func (n NodeName) Validate() error {
	if n == "" {
		return fmt.Errorf("node name is empty")
	}
	if len(n) > 128 {
		return fmt.Errorf("node name %.20q... has %d characters, at most 128 are allowed", string(n), len(n))
	}
	if n == "." || n == ".." {
		return fmt.Errorf("node name %q is a directory, not a name", string(n))
	}
	for _, r := range n {
		if !nameRune(r) {
			return fmt.Errorf("node name %q has the character %q; letters, digits, '-', '_' and '.' are allowed", string(n), r)
		}
	}
	return nil
}

func nameRune(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return true
	}
	return r == '-' || r == '_' || r == '.'
}

// A MemberID is etcd's number for a member. It is written in hexadecimal, as
// etcdctl does.
type MemberID uint64

// ParseMemberID reads the form that [MemberID.String] writes.
func ParseMemberID(s string) (MemberID, error) {
	id, err := parseHex(s)
	if err != nil {
		return 0, fmt.Errorf("member id %q is not a hexadecimal number", s)
	}
	return MemberID(id), nil
}

func (id MemberID) String() string { return strconv.FormatUint(uint64(id), 16) }

// MarshalText and UnmarshalText keep JSON readable and exact: a JSON number
// would lose the low bits of a 64-bit id in many readers.
func (id MemberID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (id *MemberID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseMemberID(string(b))
	return err
}

// A ClusterID is etcd's number for a cluster, written in hexadecimal.
type ClusterID uint64

func (id ClusterID) String() string { return strconv.FormatUint(uint64(id), 16) }

// MarshalText writes the id in hexadecimal.
func (id ClusterID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (id *ClusterID) UnmarshalText(b []byte) error {
	n, err := parseHex(string(b))
	if err != nil {
		return fmt.Errorf("cluster id %q is not a hexadecimal number", b)
	}
	*id = ClusterID(n)
	return nil
}

func parseHex(s string) (uint64, error) {
	return strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
}

// A Revision is a revision of etcd's key space.
type Revision int64

// MaxMark is the highest revision that is believed of a record that anybody may
// have written: a hundred thousand years of ten thousand writes a second. Nothing is
// restored on top of it, see MaxBegin.
const MaxMark Revision = 1 << 56

// MaxBegin is the highest revision that a restored cluster begins with. What it
// writes from then on has as many revisions left below MaxMark, above which no backup
// and no mark is believed.
const MaxBegin = MaxMark / 2

// MaxLeap is the highest revision that a restored cluster begins with where no member and
// no node's own mark has come half as far: the store alone has such a revision, and
// somebody may have written it there. So whatever that was, there is room for later
// restores between MaxLeap and MaxBegin.
const MaxLeap = MaxBegin / 2

// MaxRevision is the highest revision that is believed. No cluster comes near:
// one that is claimed is damage, or malice that would leave no room above it.
const MaxRevision Revision = 1 << 62

// A Term is the epoch in which one coordinator may act. Terms only grow; zero
// means that nobody has ever held the lease.
type Term uint64

// A Token is the cluster token of one incarnation: random, and different for
// every bootstrap and restore, so that etcd members of two incarnations can
// never talk to each other.
type Token string

// Validate reports why t cannot be a token. Tokens name directories below
// data/, so they must be one path component.
func (t Token) Validate() error {
	switch {
	case t == "":
		return fmt.Errorf("cluster token is empty")
	case len(t) > 128:
		return fmt.Errorf("cluster token has %d characters, at most 128 are allowed", len(t))
	case t == "." || t == "..":
		return fmt.Errorf("cluster token %q is a directory, not a token", string(t))
	}
	for _, r := range t {
		if !nameRune(r) {
			return fmt.Errorf("cluster token %q has the character %q; letters, digits, '-', '_' and '.' are allowed",
				string(t), r)
		}
	}
	return nil
}
