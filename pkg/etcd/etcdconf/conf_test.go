package etcdconf

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// tlsMember is a bootstrap voter of three, as kops would have it.
func tlsMember(v string) Member {
	initialMember := func(n string) cluster.InitialMember {
		return cluster.InitialMember{
			Name: cluster.NodeName("etcd-" + n), PeerURLs: []string{"https://etcd-" + n + ".internal.example.com:2380"},
		}
	}
	return Member{
		Name:    "etcd-a",
		Version: etcdversion.Must(v),
		Token:   "8NLu7sNPR1iEFfBHsJhPBw",
		DataDir: "/rootfs/mnt/master-vol-1/data/8NLu7sNPR1iEFfBHsJhPBw",
		State:   StateNew,
		Peers:   []cluster.InitialMember{initialMember("c"), initialMember("a"), initialMember("b")},
		URLs: cluster.URLs{
			Peer:       []string{"https://etcd-a.internal.example.com:2380"},
			Client:     []string{"https://etcd-a.internal.example.com:4001"},
			Quarantine: []string{"https://etcd-a.internal.example.com:3994"},
		},
		TLS: &TLS{
			Peer:   Files{CA: "/pki/peers/ca.crt", Cert: "/pki/peers/me.crt", Key: "/pki/peers/me.key"},
			Client: Files{CA: "/pki/clients/ca.crt", Cert: "/pki/clients/server.crt", Key: "/pki/clients/server.key"},
		},
	}
}

// plainMember is a single member on IPv6 without TLS.
func plainMember(v string) Member {
	return Member{
		Name:    "a",
		Version: etcdversion.Must(v),
		Token:   "t1",
		DataDir: "/var/lib/etcd/data/t1",
		State:   StateExisting,
		URLs: cluster.URLs{
			Peer:       []string{"http://[fd00::a]:2380"},
			Client:     []string{"http://[fd00::a]:4001", "http://a.example.com:4001"},
			Quarantine: []string{"http://[fd00::a]:8001"},
		},
		Address:     "::",
		MetricsURLs: []string{"", "http://[fd00::a]:8081"},
	}
}

func TestGolden(t *testing.T) {
	scenarios := []struct {
		name   string
		member func(version string) Member
	}{
		{"a bootstrap voter with TLS", tlsMember},
		{"a restart on IPv6 without TLS", plainMember},
		{"a quarantined member with the operator's variables", func(v string) Member {
			m := tlsMember(v)
			m.Quarantined = true
			m.User = User([]string{
				"ETCD_QUOTA_BACKEND_BYTES=8589934592",
				"ETCD_LISTEN_CLIENT_HTTP_URLS=https://0.0.0.0:8082",
				"ETCD_LISTEN_METRICS_URLS=http://0.0.0.0:8081",
				"ETCD_EXPERIMENTAL_COMPACT_HASH_CHECK_ENABLED=1",
				"ETCD_EXPERIMENTAL_COMPACTION_BATCH_LIMIT=500",
				"ETCD_DATA_DIR=/elsewhere",
				"ETCD_MANAGER_DAILY_BACKUPS_RETENTION=90d",
				"PATH=/bin",
			})
			return m
		}},
	}
	for _, v := range []string{"3.4.25", "3.5.35", "3.6.16", "3.7.3"} {
		t.Run(v, func(t *testing.T) {
			var b strings.Builder
			for _, s := range scenarios {
				m := s.member(v)
				env, err := Env(m)
				if err != nil {
					t.Fatalf("%s: %v", s.name, err)
				}
				fmt.Fprintf(&b, "# %s\n%s\nignored: %s\n\n", s.name, strings.Join(env, "\n"), Ignored(m))
			}
			file := filepath.Join("testdata", v[:strings.LastIndex(v, ".")])
			if *update {
				if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("%s differs; if that is meant, run go test ./etcdconf -update\ngot:\n%s\nwant:\n%s", file,
					b.String(), want)
			}
		})
	}
}

func TestALaterMinorIsReportedWhatTheNewestKnownIs(t *testing.T) {
	newest, err := Env(tlsMember("3.7.3"))
	if err != nil {
		t.Fatal(err)
	}
	later, err := Env(tlsMember("3.9.0"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(newest, later) {
		t.Errorf("3.7.3: %v\n3.9.0: %v", newest, later)
	}
}

func TestEnvRefusesWhatEtcdWouldRefuse(t *testing.T) {
	tests := []struct {
		name string
		edit func(*Member)
		want string
	}{
		{"no name", func(m *Member) { m.Name = "" }, "node name is empty"},
		{"no version", func(m *Member) { m.Version = etcdversion.Version{} }, "version is missing"},
		{"etcd 3.3", func(m *Member) { m.Version = etcdversion.Must("3.3.27") }, "too old"},
		{"token with a slash", func(m *Member) { m.Token = "a/b" }, `character '/'`},
		{"relative data directory", func(m *Member) { m.DataDir = "data" }, "not an absolute path"},
		{"no state", func(m *Member) { m.State = "" }, "is neither new nor existing"},
		{"bootstrap alone by omission", func(m *Member) { m.Peers = nil }, "needs the list of its peers"},
		{"not among its peers", func(m *Member) { m.Name = "etcd-d" }, "not among its peers"},
		{"peer without a name", func(m *Member) { m.Peers[0].Name = "" }, "node name is empty"},
		{"peer without a URL", func(m *Member) { m.Peers[0].PeerURLs = nil }, "peer URL of etcd-c is missing"},
		{"no peer URL", func(m *Member) { m.URLs.Peer = nil }, "peer URL is missing"},
		{"no client URL", func(m *Member) { m.URLs.Client = nil }, "client URL is missing"},
		{"no port", func(m *Member) { m.URLs.Client = []string{"https://a"} }, "not of the form https://host:port"},
		{"a path", func(m *Member) { m.URLs.Client = []string{"https://a:1/x"} }, "more than a host and a port"},
		{"a comma", func(m *Member) { m.URLs.Client = []string{"https://a,b:1"} }, "has a comma"},
		{"not http", func(m *Member) { m.URLs.Client = []string{"unix://a:1"} }, "does not begin with"},
		{"quarantine without URLs", func(m *Member) { m.Quarantined, m.URLs.Quarantine = true, nil }, "no quarantine URL"},
		{"https without TLS", func(m *Member) { m.TLS = nil }, "needs TLS files"},
		{"listen on a name", func(m *Member) { m.Address = "a.example.com" }, "not an IP address"},
		{"gates that are none", func(m *Member) { m.User = map[string]string{"ETCD_FEATURE_GATES": "X"} }, "Gate=true"},
		{"a gate of neither truth", func(m *Member) {
			m.User = map[string]string{"ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK": "maybe"}
		}, "is neither true nor false"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := tlsMember("3.6.16")
			tt.edit(&m)
			if env, err := Env(m); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v (environment %v), want one with %q", err, env, tt.want)
			}
		})
	}
}

func TestEnvLeavesItsInputAlone(t *testing.T) {
	m := tlsMember("3.6.16")
	first := m.Peers[0].Name
	if _, err := Env(m); err != nil {
		t.Fatal(err)
	}
	if m.Peers[0].Name != first {
		t.Error("Env sorted the caller's peers")
	}
}

// lookup returns the value of key in env, and whether it is there.
func lookup(env []string, key string) (string, bool) {
	for _, line := range env {
		if v, ok := strings.CutPrefix(line, key+"="); ok {
			return v, true
		}
	}
	return "", false
}

func TestUserVariables(t *testing.T) {
	tests := []struct {
		name, version string
		quarantined   bool
		user          string
		// want are KEY=VALUE that must be there, or KEY that must not.
		want    string
		ignored string
	}{
		{name: "override what is computed", version: "3.6.16",
			user: "ETCD_LOG_OUTPUTS=stderr ETCD_LISTEN_PEER_URLS=https://10.0.0.1:2380",
			want: "ETCD_LOG_OUTPUTS=stderr ETCD_LISTEN_PEER_URLS=https://10.0.0.1:2380"},
		{name: "an empty value is none", version: "3.6.16",
			user: "ETCD_LISTEN_METRICS_URLS= ETCD_CLIENT_CERT_AUTH=",
			want: "ETCD_LISTEN_METRICS_URLS ETCD_CLIENT_CERT_AUTH=true"},
		{name: "identity stays", version: "3.6.16",
			user: "ETCD_NAME=x ETCD_WAL_DIR=/w ETCD_INITIAL_CLUSTER_TOKEN=t ETCD_FORCE_NEW_CLUSTER=true " +
				"ETCD_DISCOVERY_SRV=d ETCD_CONFIG_FILE=/f",
			want: "ETCD_NAME=etcd-a ETCD_WAL_DIR ETCD_FORCE_NEW_CLUSTER ETCD_DISCOVERY_SRV ETCD_CONFIG_FILE",
			ignored: "ETCD_CONFIG_FILE ETCD_DISCOVERY_SRV ETCD_FORCE_NEW_CLUSTER ETCD_INITIAL_CLUSTER_TOKEN ETCD_NAME " +
				"ETCD_WAL_DIR"},
		{name: "identity stays under a translated name", version: "3.7.3",
			user: "ETCD_EXPERIMENTAL_DATA_DIR=/x", want: "ETCD_EXPERIMENTAL_DATA_DIR",
			ignored: "ETCD_EXPERIMENTAL_DATA_DIR"},
		{name: "the neighbours of identity are free", version: "3.6.16",
			user: "ETCD_INITIAL_ELECTION_TICK_ADVANCE=false", want: "ETCD_INITIAL_ELECTION_TICK_ADVANCE=false"},
		{name: "client URLs while open", version: "3.6.16",
			user: "ETCD_LISTEN_CLIENT_HTTP_URLS=https://0.0.0.0:8082 ETCD_LISTEN_CLIENT_URLS=https://10.0.0.1:4001",
			want: "ETCD_LISTEN_CLIENT_HTTP_URLS=https://0.0.0.0:8082 ETCD_LISTEN_CLIENT_URLS=https://10.0.0.1:4001"},
		{name: "client URLs while quarantined", version: "3.6.16", quarantined: true,
			user:    "ETCD_LISTEN_CLIENT_HTTP_URLS=https://0.0.0.0:8082 ETCD_LISTEN_CLIENT_URLS=https://10.0.0.1:4001",
			want:    "ETCD_LISTEN_CLIENT_HTTP_URLS ETCD_LISTEN_CLIENT_URLS=https://0.0.0.0:3994",
			ignored: "ETCD_LISTEN_CLIENT_HTTP_URLS ETCD_LISTEN_CLIENT_URLS"},
		{name: "our gate stays beside the user's", version: "3.6.16",
			user: "ETCD_FEATURE_GATES=CompactHashCheck=true",
			want: "ETCD_FEATURE_GATES=CompactHashCheck=true,InitialCorruptCheck=true"},
		{name: "our gate can be switched off", version: "3.7.3",
			user: "ETCD_FEATURE_GATES=InitialCorruptCheck=false", want: "ETCD_FEATURE_GATES=InitialCorruptCheck=false"},
		{name: "3.5 keeps the experimental names", version: "3.5.35",
			user: "ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK=false ETCD_EXPERIMENTAL_CORRUPT_CHECK_TIME=1h",
			want: "ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK=false ETCD_EXPERIMENTAL_CORRUPT_CHECK_TIME=1h ETCD_FEATURE_GATES"},
		{name: "later minors translate them", version: "3.7.3",
			user: "ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK=false ETCD_EXPERIMENTAL_CORRUPT_CHECK_TIME=1h",
			want: "ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK ETCD_EXPERIMENTAL_CORRUPT_CHECK_TIME " +
				"ETCD_FEATURE_GATES=InitialCorruptCheck=false ETCD_CORRUPT_CHECK_TIME=1h"},
		{name: "the new name wins over the old", version: "3.6.16",
			user: "ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK=false ETCD_FEATURE_GATES=InitialCorruptCheck=true " +
				"ETCD_CORRUPT_CHECK_TIME=2h ETCD_EXPERIMENTAL_CORRUPT_CHECK_TIME=1h",
			want: "ETCD_FEATURE_GATES=InitialCorruptCheck=true ETCD_CORRUPT_CHECK_TIME=2h"},
		{name: "what is not etcd's", version: "3.6.16",
			user: "ETCD_MANAGER_HOURLY_BACKUPS_RETENTION=1d HOME=/root ETCDCTL_API=3",
			want: "ETCD_MANAGER_HOURLY_BACKUPS_RETENTION HOME ETCDCTL_API"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := tlsMember(tt.version)
			m.Quarantined = tt.quarantined
			m.User = map[string]string{}
			for _, word := range strings.Fields(tt.user) {
				k, v, _ := strings.Cut(word, "=")
				m.User[k] = v
			}
			env, err := Env(m)
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range strings.Fields(tt.want) {
				key, want, wanted := strings.Cut(word, "=")
				if got, ok := lookup(env, key); ok != wanted || got != want {
					t.Errorf("%s is %q (there: %t), want %q (there: %t)", key, got, ok, want, wanted)
				}
			}
			if got := strings.Join(Ignored(m), " "); got != tt.ignored {
				t.Errorf("ignored %q, want %q", got, tt.ignored)
			}
		})
	}
}

func TestUserTakesOnlyWhatIsMeantForEtcd(t *testing.T) {
	got := User([]string{"ETCD_METRICS=extensive", "ETCD_X=a=b", "ETCD_MANAGER_X=1", "ETCDCTL_API=3", "PATH=/bin", "odd"})
	if len(got) != 2 || got["ETCD_METRICS"] != "extensive" || got["ETCD_X"] != "a=b" {
		t.Errorf("got %v", got)
	}
}

// Restored members that start for the first time do not wait for each other.
func TestUncompared(t *testing.T) {
	for _, v := range []string{"3.5.35", "3.6.16", "3.7.3"} {
		m := Member{
			Name: "a", Version: etcdversion.Must(v), Token: "t", DataDir: "/d", State: StateExisting, Quarantined: true,
			URLs: cluster.URLs{Peer: []string{"http://10.0.0.1:1"}, Client: []string{"http://10.0.0.1:2"}, Quarantine: []string{
				"http://10.0.0.1:3",
			}},
		}
		for _, m.Uncompared = range []bool{false, true} {
			env, err := Env(m)
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.ToLower(strings.ReplaceAll(strings.Join(env, "\n"), "_", "")); strings.Contains(text,
				"corruptcheck") == m.Uncompared {
				t.Errorf("etcd %s, uncompared %t: %s", v, m.Uncompared, text)
			}
		}
	}
}
