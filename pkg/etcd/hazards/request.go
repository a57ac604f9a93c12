package hazards

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// A request is one of the v2 store in the log.
type request struct {
	index        uint64
	method, path string
	// version is the cluster version that it sets, empty for none.
	version string
}

// own are the paths that etcd up to 3.5 writes itself: a member's name and client
// URLs, and the cluster version. 3.6 carries out no others.
var own = regexp.MustCompile(`^(/0/members/[[:xdigit:]]{1,16}/attributes|/0/version)$`)

// refused says whether etcd 3.6 ends with a panic at the request.
func (r request) refused() bool { return r.method != "PUT" || !own.MatchString(r.path) }

// clientKeys is the directory of the keys of clients, who know them without it.
const clientKeys = "/1"

// left returns the keys of the v2 store that are not deleted behind an index, as far as
// paths show: a request that etcd has refused is in the log all the same.
func left(keys []string, log []request, index uint64) []string {
	there := slices.Clone(keys)
	for _, r := range log {
		switch {
		case r.index <= index || !r.refused():
		case r.method == "DELETE":
			there = slices.DeleteFunc(there, func(key string) bool {
				return key == r.path || strings.HasPrefix(key, r.path+"/")
			})
		case r.method == "PUT" || r.method == "POST":
			there = append(there, r.path)
		}
	}
	return there
}

func (r request) String() string {
	return fmt.Sprintf("%s %s at %d", r.method, r.path, r.index)
}

// v2Request reads an entry's data: the message InternalRaftRequest, whose field 2
// is a request of the v2 store, or, in what etcd 2 has written, such a request
// itself, whose field 2 is its method. ok is false where it is of the v3 store.
func v2Request(data []byte) (r request, ok bool) {
	var inner []byte
	err := each(data, func(f field) error {
		if f.num == 2 && f.typ == protowire.BytesType {
			inner, ok = f.bytes, true
		}
		return nil
	})
	switch {
	case err != nil:
		return request{method: "unreadable"}, true
	case !ok:
		return request{}, false
	}
	if r, err := parseRequest(inner); err == nil && r.method != "" {
		return r, true
	}
	r, err = parseRequest(data)
	if err != nil {
		r.method = "unreadable"
	}
	return r, true
}

// versionPath is where the v2 store has the cluster version.
const versionPath = "/0/version"

// parseRequest reads a Request: 2 method, 3 path, 4 value.
func parseRequest(b []byte) (r request, err error) {
	err = each(b, func(f field) error {
		switch {
		case f.num == 2 && f.typ == protowire.BytesType:
			r.method = string(f.bytes)
		case f.num == 3 && f.typ == protowire.BytesType:
			r.path = string(f.bytes)
		case f.num == 4 && f.typ == protowire.BytesType && r.path == versionPath:
			r.version = string(f.bytes)
		}
		return nil
	})
	return r, err
}
