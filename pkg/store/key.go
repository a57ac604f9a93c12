package store

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The keys below control/.
const (
	controlPrefix     = "control/"
	specKey           = "control/etcd-cluster-spec"
	createdKey        = "control/etcd-cluster-created"
	incarnationPrefix = "control/incarnations/"
	nodePrefix        = "control/nodes/"
	requestPrefix     = "control/requests/"
	historyKey        = "control/history"
	auditPrefix       = "control/audit/"
	ordersPrefix      = "control/orders/"
	damagedHistoryKey = "control/history.damaged"

	damagedOrdersPrefix = "control/orders-damaged/"

	statusKey    = "control/status"
	revisionKey  = "control/revision"
	closedPrefix = "control/closed/"
	commandFile  = "_command.json"
)

// checkKey reports why key cannot name an object.
func checkKey(key string) error {
	for part := range strings.SplitSeq(key, "/") {
		if err := checkName(part); err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
	}
	return nil
}

// checkName reports why name cannot be one component of a key. What begins with
// a dot is a temporary file, or leads out of the store.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("a name in the store is empty")
	case len(name) > 255:
		return fmt.Errorf("the name %.20q... has %d bytes, at most 255 are allowed", name, len(name))
	case name[0] == '.':
		return fmt.Errorf("the name %q begins with a dot", name)
	case !utf8.ValidString(name):
		return fmt.Errorf("the name %q is not UTF-8", name)
	}
	for _, r := range name {
		if r == '/' || r == '\\' || unicode.IsControl(r) {
			return fmt.Errorf("the name %q has the character %q", name, r)
		}
	}
	return nil
}

// child returns the rest of key after prefix, if that is a single name.
func child(key, prefix string) (string, bool) {
	name, ok := strings.CutPrefix(key, prefix)
	return name, ok && name != "" && !strings.Contains(name, "/")
}
