package etcdconf

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

func TestTableOfFlags(t *testing.T) {
	var lines int
	for line := range strings.Lines(flagTable) {
		if !strings.HasPrefix(line, "#") {
			lines++
		}
	}
	list := readFlags()
	if len(list) != lines || lines < 100 {
		t.Errorf("%d flags were read from %d lines", len(list), lines)
	}
	kinds := []string{"text", "bool", "int", "uint", "duration", "urls", "gates"}
	for i, k := range list {
		if i > 0 && list[i-1].name >= k.name {
			t.Errorf("%s comes after %s", k.name, list[i-1].name)
		}
		if k.first < oldest || k.last > newest || k.first > k.last {
			t.Errorf("%s is there from 3.%d to 3.%d", k.name, k.first, k.last)
		}
		if !slices.Contains(kinds, k.kind) {
			t.Errorf("%s is of the kind %s", k.name, k.kind)
		}
	}
}

func TestFlagsThatEtcdTakes(t *testing.T) {
	for _, tt := range []struct{ version, flag, value string }{
		{"3.6.16", "snapshot-count", "5000"},
		{"3.4.25", "snapshot-count", "5000"},
		{"3.6.16", "quota-backend-bytes", "-1"},
		{"3.5.8-eks-1-26-16", "experimental-corrupt-check-time", "1h"},
		{"3.6.16", "experimental-corrupt-check-time", "1h"}, // deprecated, but there
		{"3.6.16", "corrupt-check-time", "1h"},
		{"3.7.3", "feature-gates", "FastLeaseKeepAlive=false, CompactHashCheck=true"},
		{"3.7.3", "auto-compaction-retention", "5m"},
		{"3.7.3", "listen-client-http-urls", "https://10.0.0.1:2382,https://[fd00::1]:2382"},
		{"3.7.3", "pre-vote", ""},
		{"3.9.0", "corrupt-check-time", "1h"},
		{"3.5.35", "pre-vote", "1"},
		{"3.5.35", "log-level", "debug"},
	} {
		if err := CheckFlags(etcdversion.Must(tt.version), map[string]string{tt.flag: tt.value}); err != nil {
			t.Errorf("%s, %s=%s: %v", tt.version, tt.flag, tt.value, err)
		}
	}
	if err := CheckFlags(etcdversion.Must("3.6.16"), nil); err != nil {
		t.Errorf("no flags: %v", err)
	}
}

func TestFlagsThatEtcdRefuses(t *testing.T) {
	for _, tt := range []struct{ version, flag, value, reason, instead string }{
		{"3.7.3", "experimental-corrupt-check-time", "1h", "gone from etcd 3.7.3 (3.6 was the last with it)",
			"corrupt-check-time"},
		{"3.7.3", "experimental-initial-corrupt-check", "true", "gone from etcd 3.7.3",
			"feature-gates=InitialCorruptCheck=true"},
		{"3.5.35", "corrupt-check-time", "1h", "it came with 3.6", "experimental-corrupt-check-time"},
		{"3.5.35", "feature-gates", "CompactHashCheck=true,LeaseCheckpoint=false", "it came with 3.6",
			"experimental-compact-hash-check-enabled=true and experimental-enable-lease-checkpoint=false"},
		{"3.4.25", "feature-gates", "CompactHashCheck=true", "it came with 3.6", ""},
		{"3.6.16", "enable-v2", "true", "gone from etcd 3.6.16 (3.5 was the last with it)", ""},
		{"3.5.35", "debug", "true", "gone", "log-level=debug"},
		{"3.6.16", "log-output", "stdout", "gone", "log-outputs"},
		{"3.4.25", "experimental-backend-bbolt-freelist-typ", "map", "not known to etcd 3.4.25",
			"experimental-backend-bbolt-freelist-type"},
		{"3.7.3", "experimental-backend-bbolt-freelist-type", "map", "gone", "backend-bbolt-freelist-type"},
		{"3.6.16", "snapshot-cuont", "1", "is not known to etcd 3.6.16", "snapshot-count"},
		{"3.6.16", "qqqqq", "1", "is not known to etcd 3.6.16", ""},
		{"3.8.0", "brand-new-thing", "1", "not known to etcd 3.7, the latest version whose flags etcdadm knows", ""},
		{"3.6.16", "help", "true", "is not known", ""},

		{"3.6.16", "name", "x", "is part of the member's identity", ""},
		{"3.6.16", "data-dir", "/x", "is part of the member's identity", ""},
		{"3.6.16", "initial-cluster", "a=b", "is part of the member's identity", ""},
		{"3.6.16", "initial-cluster-state", "new", "is part of the member's identity", ""},
		{"3.6.16", "force-new-cluster", "true", "is part of the member's identity", ""},
		{"3.6.16", "discovery-endpoints", "x", "is part of the member's identity", ""},
		{"3.6.16", "config-file", "/x", "is part of the member's identity", ""},
		{"3.4.25", "proxy", "on", "is part of the member's identity", ""},
		{"3.6.16", "experimental-data-dir", "/x", "is part of the member's identity", ""},

		{"3.6.16", "snapshot-count", "lots", `is "lots", not a whole number from 0`, ""},
		{"3.6.16", "snapshot-count", "-1", "not a whole number from 0", ""},
		{"3.6.16", "quota-backend-bytes", "8Gi", "not a whole number", ""},
		{"3.6.16", "pre-vote", "yes", "not true or false", ""},
		{"3.6.16", "corrupt-check-time", "10", "not a duration", ""},
		{"3.6.16", "listen-client-http-urls", "10.0.0.1:1", "not a list of URLs", ""},
		{"3.6.16", "feature-gates", "FastLeaseKeepAlive=true",
			"the gate FastLeaseKeepAlive, which etcd 3.6 does not have", ""},
		{"3.6.16", "feature-gates", "Nope=true", "the gate Nope", ""},
		{"3.6.16", "feature-gates", "AllAlpha", "not of the form Gate=true", ""},
	} {
		v := etcdversion.Must(tt.version)
		err := CheckFlags(v, map[string]string{tt.flag: tt.value})
		var wrong FlagErrors
		if !errors.As(err, &wrong) || len(wrong) != 1 {
			t.Errorf("%s, %s=%s: error %v", tt.version, tt.flag, tt.value, err)
			continue
		}
		if e := wrong[0]; e.Flag != tt.flag || e.Version != v || !strings.Contains(e.Reason, tt.reason) ||
			e.Instead != tt.instead {
			t.Errorf("%s, %s=%s: got %q instead %q", tt.version, tt.flag, tt.value, e.Reason, e.Instead)
		}
	}
}

func TestAllWrongFlagsAreNamedInOrder(t *testing.T) {
	err := CheckFlags(etcdversion.Must("3.7.3"), map[string]string{
		"snapshot-count": "1", "name": "x", "enable-v2": "true", "experimental-memory-mlock": "true",
	})
	if err == nil {
		t.Fatal("no error")
	}
	got := err.Error()
	a, b, c := strings.Index(got, "enable-v2"), strings.Index(got, "experimental-memory-mlock"),
		strings.Index(got, "flag name")
	if a < 0 || b < a || c < b || strings.Contains(got, "snapshot-count") || !strings.Contains(got, "use memory-mlock") {
		t.Errorf("got %s", got)
	}
}

func TestVersionsWhoseFlagsAreKnown(t *testing.T) {
	for v, want := range map[string]bool{"3.3.27": false, "3.4.0": true, "3.7.3": true, "3.8.0": false, "4.0.0": false} {
		if got := FlagsKnown(etcdversion.Must(v)); got != want {
			t.Errorf("%s: got %t", v, got)
		}
	}
	if listed(etcdversion.Must("3.3.27")) != 4 || listed(etcdversion.Must("4.0.0")) != 7 ||
		listed(etcdversion.Must("3.5.1")) != 5 {
		t.Error("a version stands for another one than itself")
	}
}

func TestFlagsEnv(t *testing.T) {
	got := FlagsEnv(map[string]string{"snapshot-count": "5", "log-level": "debug"})
	want := map[string]string{"ETCD_SNAPSHOT_COUNT": "5", "ETCD_LOG_LEVEL": "debug"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// Each gate that a variable became is a gate of the first minor with gates,
// and the variable is one that the minor before had.
func TestGatesThatFlagsBecame(t *testing.T) {
	before := flagsOf(5)
	for variable, gate := range gateOf {
		name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, "ETCD_"), "_", "-"))
		if _, ok := before[name]; !ok {
			t.Errorf("etcd 3.5 has no flag %s", name)
		}
		if gatesSince[gate] != 6 {
			t.Errorf("etcd 3.6 has no gate %s", gate)
		}
	}
}

func TestListenURLsAreTakenAsTheyAre(t *testing.T) {
	m := tlsMember("3.6.16")
	m.Address = "not used"
	m.ListenClientURLs = []string{"https://10.0.0.1:2379", "https://127.0.0.1:2379"}
	m.ListenPeerURLs = []string{"https://[fd00::1]:2380", "https://localhost:2380"}
	env, err := Env(m)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"ETCD_LISTEN_CLIENT_URLS":          "https://10.0.0.1:2379,https://127.0.0.1:2379",
		"ETCD_LISTEN_PEER_URLS":            "https://[fd00::1]:2380,https://localhost:2380",
		"ETCD_ADVERTISE_CLIENT_URLS":       m.URLs.Client[0],
		"ETCD_INITIAL_ADVERTISE_PEER_URLS": m.URLs.Peer[0],
	} {
		if got, _ := lookup(env, key); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}

	m.Quarantined, m.Address = true, "10.0.0.9"
	if env, err = Env(m); err != nil {
		t.Fatal(err)
	}
	if got, _ := lookup(env, "ETCD_LISTEN_CLIENT_URLS"); got != "https://10.0.0.9:3994" {
		t.Errorf("a quarantined member listens on %s", got)
	}
}

func TestListenURLsThatEtcdCannotBind(t *testing.T) {
	for _, u := range []string{
		"https://a.example.com:2379", "https://10.0.0.1", "10.0.0.1:2379", "https://[fe80::1%25eth0]:2379", "unix://x:1",
	} {
		if CheckListenURL(u) == nil {
			t.Errorf("%s is taken", u)
		}
		m := tlsMember("3.6.16")
		m.ListenPeerURLs = []string{u}
		if env, err := Env(m); err == nil || !strings.Contains(err.Error(), "listen addresses") {
			t.Errorf("%s: error %v, environment %v", u, err, env)
		}
	}
	m := plainMember("3.6.16")
	m.ListenClientURLs = []string{"https://127.0.0.1:2379"}
	if _, err := Env(m); err == nil || !strings.Contains(err.Error(), "needs TLS files") {
		t.Errorf("https without TLS: %v", err)
	}
}
