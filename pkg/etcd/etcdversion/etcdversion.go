// Package etcdversion orders etcd version numbers and knows what differs
// between them where automation has to care.
package etcdversion

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// A Version is a release of etcd. The zero value means "unknown".
type Version struct {
	Major, Minor, Patch int
	// Pre is the pre-release part without its dash ("alpha.0"), empty for a
	// release.
	Pre string
}

// Parse reads "3.6.16", "v3.6.16" or "3.8.0-alpha.0".
func Parse(s string) (Version, error) {
	core, pre, hasPre := strings.Cut(strings.TrimPrefix(s, "v"), "-")
	parts := strings.Split(core, ".")
	if len(parts) != 3 || (hasPre && pre == "") {
		return Version{}, fmt.Errorf("etcd version %q is not of the form 3.6.16", s)
	}
	var n [3]int
	for i, p := range parts {
		v, err := strconv.Atoi(p)
		if err != nil || v < 0 || strconv.Itoa(v) != p {
			return Version{}, fmt.Errorf("etcd version %q is not of the form 3.6.16", s)
		}
		n[i] = v
	}
	for _, r := range pre {
		if !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '.' || r == '-') {
			return Version{}, fmt.Errorf("etcd version %q has the character %q", s, r)
		}
	}
	return Version{Major: n[0], Minor: n[1], Patch: n[2], Pre: pre}, nil
}

// Must is Parse for constants; it panics on a bad one.
func Must(s string) Version {
	v, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return v
}

// String writes the form that Parse reads, without a leading "v"; "" for the
// zero value.
func (v Version) String() string {
	if v == (Version{}) {
		return ""
	}
	s := fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
	if v.Pre != "" {
		s += "-" + v.Pre
	}
	return s
}

// MarshalText writes the String form.
func (v Version) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads what MarshalText wrote; empty text is the zero value.
func (v *Version) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*v = Version{}
		return nil
	}
	*v, err = Parse(string(b))
	return err
}

// IsZero reports whether the version is unknown.
func (v Version) IsZero() bool { return v == Version{} }

// Compare orders versions; a pre-release comes before its release.
func (v Version) Compare(w Version) int {
	if c := cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch)); c != 0 {
		return c
	}
	switch {
	case v.Pre == w.Pre:
		return 0
	case v.Pre == "":
		return 1
	case w.Pre == "":
		return -1
	}
	return cmp.Compare(v.Pre, w.Pre)
}

// AtLeast reports whether v is the given minor or a later one.
func (v Version) AtLeast(major, minor int) bool {
	return cmp.Or(cmp.Compare(v.Major, major), cmp.Compare(v.Minor, minor)) >= 0
}

// Managed reports whether a cluster of this version can be run by the daemon.
// Learners, on which all membership changes stand, exist from 3.4.
func (v Version) Managed() bool { return v.Major == 3 && v.Minor >= 4 }

// newest are the newest patches that were there when this program was last tried with
// them, by minor version of etcd 3; zero where nobody looked.
var newest = map[int]int{4: 0, 5: 35, 6: 16, 7: 3}

// Unknown says why this program does not know v to be a release of etcd, empty where it
// has no doubt. It knows those that were there when it was made.
func (v Version) Unknown() string {
	patch, known := newest[v.Minor]
	switch {
	case v.Major != 3 || !known:
		return fmt.Sprintf("this program does not know etcd %d.%d", v.Major, v.Minor)
	case patch != 0 && v.Patch > patch:
		return fmt.Sprintf("the newest etcd 3.%d that this program knows is 3.%d.%d", v.Minor, v.Minor, patch)
	}
	return ""
}

// Untried warns of a wanted version that is [Version.Unknown], empty where it is not.
func (v Version) Untried() string {
	if v.Unknown() == "" {
		return ""
	}
	return fmt.Sprintf("%s: members run %s only where their machines have it", v.Unknown(), v)
}

// UpgradeFloor returns the oldest patch of the minor version before v's from
// which a member may be upgraded to v, the zero Version where any will do. 3.6
// believes the newer of the two stores for members, which 3.5 keeps right only
// from 3.5.32 on (etcd issue 20995); 3.7 reads only what 3.6.11 and later write.
func (v Version) UpgradeFloor() Version {
	switch {
	case v.Major == 3 && v.Minor == 6:
		return Version{Major: 3, Minor: 5, Patch: 32}
	case v.Major == 3 && v.Minor == 7:
		return Version{Major: 3, Minor: 6, Patch: 11}
	}
	return Version{}
}

// Release returns the release that v was built from: vendors add a suffix to
// the number (3.5.8-eks-1-26-16), which their binaries do not print. Suffixes of
// etcd itself (alpha, beta, rc) stay.
func (v Version) Release() Version {
	for _, own := range []string{"alpha", "beta", "rc"} {
		if strings.HasPrefix(v.Pre, own) {
			return v
		}
	}
	v.Pre = ""
	return v
}
