package etcdconf

import (
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

func vars(text string) map[string]string {
	m := map[string]string{}
	for _, word := range strings.Fields(text) {
		m[strings.SplitN(word, "=", 2)[0]] = strings.SplitN(word, "=", 2)[1]
	}
	return m
}

func TestLost(t *testing.T) {
	for _, tt := range []struct{ name, from, to, user, want string }{
		{"nothing", "3.5.35", "3.6.16", "ETCD_SNAPSHOT_COUNT=5000 ETCD_LOG_LEVEL=debug", ""},
		{"renamed", "3.5.35", "3.7.3", "ETCD_EXPERIMENTAL_CORRUPT_CHECK_TIME=1h " +
			"ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK=true ETCD_EXPERIMENTAL_COMPACT_HASH_CHECK_ENABLED=true", ""},
		{"renamed, back", "3.7.3", "3.5.35", "ETCD_CORRUPT_CHECK_TIME=1h ETCD_FEATURE_GATES=InitialCorruptCheck=true", ""},
		{"switched on", "3.5.35", "3.6.16", "ETCD_ENABLE_V2=true",
			"ETCD_ENABLE_V2=true is gone from etcd 3.6.16 (3.5 was the last with it)"},
		{"switched off", "3.5.35", "3.6.16", "ETCD_ENABLE_V2=false", ""},
		{"of the v2 proxy", "3.5.35", "3.6.16", "ETCD_PROXY=on ETCD_PROXY_DIAL_TIMEOUT=5000", ""},
		{"with a value", "3.4.25", "3.6.16", "ETCD_EXPERIMENTAL_ENABLE_V2V3=/v2",
			"ETCD_EXPERIMENTAL_ENABLE_V2V3=/v2 is gone from etcd 3.6.16 (3.5 was the last with it)"},
		{"of 3.4", "3.4.25", "3.5.35", "ETCD_LOG_PACKAGE_LEVELS=raft=DEBUG ETCD_DEBUG=true ETCD_LOG_OUTPUT=stderr " +
			"ETCD_EXPERIMENTAL_BACKEND_BBOLT_FREELIST_TYPE=map",
			"ETCD_LOG_PACKAGE_LEVELS=raft=DEBUG is gone from etcd 3.5.35 (3.4 was the last with it)"},
		{"a gate that is later", "3.7.3", "3.6.16", "ETCD_FEATURE_GATES=FastLeaseKeepAlive=true",
			"ETCD_FEATURE_GATES=FastLeaseKeepAlive=true has the gate FastLeaseKeepAlive, which etcd 3.6 does not have"},
		{"a gate that was no flag", "3.6.16", "3.5.35", "ETCD_FEATURE_GATES=SetMemberLocalAddr=true,AllAlpha=false",
			"ETCD_FEATURE_GATES=SetMemberLocalAddr=true,AllAlpha=false has SetMemberLocalAddr=true, which etcd 3.5.35 does " +
				"not have"},
		{"a flag that is later", "3.6.16", "3.5.35", "ETCD_MAX_LEARNERS=3",
			"ETCD_MAX_LEARNERS=3 is not known to etcd 3.5.35 (it came with 3.6)"},
		{"what had no effect before", "3.5.35", "3.6.16", "ETCD_VERSION=v3.5.35 ETCD_MAX_LEARNRES=3 ETCD_DEBUG=true", ""},
		{"identity, which is never passed on", "3.5.35", "3.6.16", "ETCD_DISCOVERY_PROXY=http://p:1", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lost := Lost(vars(tt.user), etcdversion.Must(tt.from), etcdversion.Must(tt.to))
			if got := strings.Join(lost, "; "); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

// A setting that a version has under another name is passed on under that.
func TestSettingsAreTranslated(t *testing.T) {
	for _, tt := range []struct{ version, user, want string }{
		{"3.5.35", "ETCD_CORRUPT_CHECK_TIME=1h", "ETCD_EXPERIMENTAL_CORRUPT_CHECK_TIME=1h"},
		{"3.5.35", "ETCD_FEATURE_GATES=InitialCorruptCheck=false,AllAlpha=true",
			"ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK=false ETCD_FEATURE_GATES"},
		{"3.5.35", "ETCD_EXPERIMENTAL_BACKEND_BBOLT_FREELIST_TYPE=map", "ETCD_BACKEND_BBOLT_FREELIST_TYPE=map"},
		{"3.4.25", "ETCD_BACKEND_BBOLT_FREELIST_TYPE=map", "ETCD_EXPERIMENTAL_BACKEND_BBOLT_FREELIST_TYPE=map"},
		{"3.5.35", "ETCD_DEBUG=true ETCD_LOG_OUTPUT=stderr", "ETCD_LOG_LEVEL=debug ETCD_LOG_OUTPUTS=stderr ETCD_DEBUG"},
		{"3.6.16", "ETCD_EXPERIMENTAL_CORRUPT_CHECK_TIME=1h", "ETCD_CORRUPT_CHECK_TIME=1h"},
	} {
		m := tlsMember(tt.version)
		m.User = vars(tt.user)
		env, err := Env(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.Fields(tt.want) {
			key, want, wanted := strings.Cut(word, "=")
			if got, ok := lookup(env, key); ok != wanted || got != want {
				t.Errorf("%s with %s: %s is %q (there: %t), want %q (there: %t)", tt.version, tt.user, key, got, ok, want, wanted)
			}
		}
	}
}
