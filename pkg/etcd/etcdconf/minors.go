package etcdconf

import "github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"

// A minor says how etcd is configured from one minor version on, where that
// differs from the minor before. The facts are those of etcd --help and of
// starting each version.
type minor struct {
	major, minor int
	// env is set for this minor.
	env map[string]string
	// gates are the feature gates that are switched on, of --feature-gates.
	// Versions without that flag have none.
	gates []string
	// renamed says that options have lost the prefix "experimental-", or have
	// become feature gates. From 3.6 on both names at once stop etcd's start
	// ("cannot specify both flags"); in 3.7 the old names are gone.
	renamed bool
}

// minors is in ascending order; a version uses the last row that it reaches.
var minors = []minor{
	{major: 3, minor: 4},
	// A member compares its data with that of its peers before it serves.
	{major: 3, minor: 5, env: map[string]string{"ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK": "true"}},
	{major: 3, minor: 6, gates: []string{"InitialCorruptCheck"}, renamed: true},
}

func minorOf(v etcdversion.Version) minor {
	m := minors[0]
	for _, row := range minors {
		if v.AtLeast(row.major, row.minor) {
			m = row
		}
	}
	return m
}

// gateOf maps the variables that became feature gates in 3.6 to their gates.
// Every other ETCD_EXPERIMENTAL_X became ETCD_X.
var gateOf = map[string]string{
	"ETCD_EXPERIMENTAL_COMPACT_HASH_CHECK_ENABLED":        "CompactHashCheck",
	"ETCD_EXPERIMENTAL_ENABLE_LEASE_CHECKPOINT":           "LeaseCheckpoint",
	"ETCD_EXPERIMENTAL_ENABLE_LEASE_CHECKPOINT_PERSIST":   "LeaseCheckpointPersist",
	"ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK":             "InitialCorruptCheck",
	"ETCD_EXPERIMENTAL_STOP_GRPC_SERVICE_ON_DEFRAG":       "StopGRPCServiceOnDefrag",
	"ETCD_EXPERIMENTAL_TXN_MODE_WRITE_WITH_SHARED_BUFFER": "TxnModeWriteWithSharedBuffer",
}
