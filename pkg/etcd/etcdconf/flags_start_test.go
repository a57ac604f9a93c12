package etcdconf_test

import (
	"net"
	"net/url"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

// TestRealEtcdStartsWithCheckedFlags starts etcd of each version that is tested with
// flags that CheckFlags lets through, bound to URLs of its own, and reads in its
// log that it knows all of them.
func TestRealEtcdStartsWithCheckedFlags(t *testing.T) {
	f := etcdtest.Finder(t)
	for _, v := range etcdtest.Managed() {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			b, err := f.Find(v)
			if err != nil {
				t.Fatal(err)
			}
			flags := map[string]string{
				"snapshot-count": "5000", "quota-backend-bytes": "1073741824", "pre-vote": "true",
				"auto-compaction-mode":      "periodic",
				"auto-compaction-retention": "5m", "heartbeat-interval": "50", "election-timeout": "500",
				"grpc-keepalive-timeout": "30s", "max-request-bytes": "0x200000",
			}
			newer := map[string]string{"corrupt-check-time": "1h", "feature-gates": "CompactHashCheck=true", "max-learners": "2"}
			older := map[string]string{
				"experimental-corrupt-check-time": "1h", "experimental-compact-hash-check-enabled": "true",
			}
			these, others := newer, older
			if !v.AtLeast(3, 6) {
				these, others = older, newer
			}
			for k, value := range these {
				flags[k] = value
			}
			if err := etcdconf.CheckFlags(v, flags); err != nil {
				t.Fatal(err)
			}
			if err := etcdconf.CheckFlags(v, others); err == nil && v.Minor != 6 { // 3.6 knows both
				t.Errorf("flags of other versions are let through: %v", others)
			}
			m := realMember(t, v)
			m.User = etcdconf.FlagsEnv(flags)
			for _, u := range m.URLs.Client {
				m.ListenClientURLs = append(m.ListenClientURLs, u, atOther(t, u))
			}
			m.ListenPeerURLs = m.URLs.Peer
			m.Address = "192.0.2.1" // an address of no machine: it must not be used
			start(t, b.Etcd, m)
		})
	}
}

// atOther returns a URL at another address of the loopback.
func atOther(t *testing.T, u string) string {
	t.Helper()
	parsed, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + net.JoinHostPort("127.0.0.2", parsed.Port())
}
