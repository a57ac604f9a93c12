package daemon

import (
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want one with %q", err, text)
	}
}

func config() Config {
	return Config{
		ClusterName: "main", BackupStore: "/store", DataDir: "/data", Address: "10.0.0.1", GRPCPort: 8000, PKIDir: "/pki",
		PeerURLs: []string{"https://__address__:2380"}, ClientURLs: []string{"https://__name__:4001"},
		QuarantineURLs: []string{"https://__name__:3994"},
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(c *Config)
		want   string
	}{
		{"right", func(*Config) {}, ""},
		{"IPv6", func(c *Config) { c.Address = "fd00::1" }, ""},
		{"a port of the kernel's choice", func(c *Config) { c.GRPCPort = 0 }, ""},
		{"no TLS, no PKI", func(c *Config) { c.PKIDir, c.Insecure, c.EtcdInsecure = "", true, true }, ""},
		{"releases of etcd", func(c *Config) { c.Release = "https://mirror.example/etcd" }, ""},
		{"a mirror on this machine", func(c *Config) { c.Release = "file:///srv/etcd" }, ""},
		{"plain http", func(c *Config) { c.Release = "http://mirror.example/etcd" }, "--etcd-release"},
		{"one archive", func(c *Config) { c.Release = "https://mirror.example/etcd.tar.gz" }, "--etcd-release"},
		{"no URL", func(c *Config) { c.Release = "mirror.example" }, "--etcd-release"},
		{"digests of releases", func(c *Config) { c.Release, c.ReleaseDigests = "file:///srv/etcd", "/srv/digests" }, ""},
		{"digests of nothing", func(c *Config) { c.ReleaseDigests = "/srv/digests" }, "--etcd-release-digests"},
		{"no name", func(c *Config) { c.ClusterName = "" }, "--cluster-name"},
		{"no store", func(c *Config) { c.BackupStore = "" }, "--backup-store"},
		{"no place", func(c *Config) { c.DataDir = "" }, "--data-dir"},
		{"a relative place", func(c *Config) { c.DataDir = "data" }, `--data-dir "data" is not an absolute path`},
		{"no address", func(c *Config) { c.Address = "" }, "--address"},
		{"a name for an address", func(c *Config) { c.Address = "localhost" }, "--address"},
		{"port too high", func(c *Config) { c.GRPCPort = 1 << 16 }, "--grpc-port"},
		{"port too low", func(c *Config) { c.GRPCPort = -1 }, "--grpc-port"},
		{"metrics address is a name", func(c *Config) { c.MetricsAddress = "localhost" }, "--etcd-manager-metrics-address"},
		{"metrics port too high", func(c *Config) { c.MetricsPort = 1 << 16 }, "--etcd-manager-metrics-port"},
		{"TLS between daemons needs a PKI", func(c *Config) { c.PKIDir, c.EtcdInsecure = "", true }, "--pki-dir"},
		{"TLS of etcd needs a PKI", func(c *Config) { c.PKIDir, c.Insecure = "", true }, "--pki-dir"},
		{"a name that cannot be", func(c *Config) { c.NodeName = "a/b" }, "--node-name"},
		{"a grace that is over", func(c *Config) { c.Policy.Grace = -time.Minute }, "--replace-grace"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := config()
			tc.change(&c)
			err := c.Validate()
			if tc.want == "" {
				must(t, err)
				return
			}
			wantError(t, err, tc.want)
		})
	}
}

func TestURLsOfANode(t *testing.T) {
	c := config()
	urls, err := c.URLs("a")
	must(t, err)
	for want, got := range map[string][]string{
		"https://10.0.0.1:2380": urls.Peer, "https://a:4001": urls.Client, "https://a:3994": urls.Quarantine,
	} {
		if !slices.Equal(got, []string{want}) {
			t.Errorf("URLs are %v, want %s", got, want)
		}
	}
	c.EtcdInsecure, c.Address = true, "fd00::1"
	if urls, err = c.URLs("a"); err != nil || urls.Peer[0] != "http://[fd00::1]:2380" ||
		urls.Client[0] != "http://a:4001" {
		t.Errorf("without TLS, on IPv6: %+v, %v", urls, err)
	}
	if got := c.Listen(); got != "[fd00::1]:8000" {
		t.Errorf("it listens on %s", got)
	}
	c.QuarantineURLs = []string{"https://__rack__:1"}
	_, err = c.URLs(cluster.NodeName("a"))
	wantError(t, err, "--quarantine-client-urls")
}

// Directories that are not there are reported before they are made.
func TestNewPlacesAreReported(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		data, store string
		want        []string
	}{
		{dir + "/new", "file://" + dir, nil},
		{dir, dir, nil},
		{dir, "s3://bucket/x", nil},
		{dir + "/typo/data", "file://" + dir, []string{"--data-dir: not even " + dir + "/typo "}},
		{dir, "file://" + dir + "/typo", []string{"--backup-store: " + dir + "/typo "}},
		{dir + "/a/b", dir + "/typo", []string{"--data-dir: ", "--backup-store: "}},
	} {
		got := (Config{DataDir: tc.data, BackupStore: tc.store}).newPlaces(os.Stat)
		if !slices.EqualFunc(got, tc.want, strings.HasPrefix) {
			t.Errorf("%s, %s: %q, want %q", tc.data, tc.store, got, tc.want)
		}
	}
}

// A store on a file system that hangs keeps the member from nothing.
func TestAStoreThatHangsIsNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		release := make(chan struct{})
		defer close(release)
		d := &Daemon{log: slog.New(slog.NewTextHandler(&log, nil)), c: Config{DataDir: dir, BackupStore: dir}}
		d.warnNewPlaces(func(string) (fs.FileInfo, error) {
			<-release
			return nil, fs.ErrNotExist
		})
		if log.Len() > 0 {
			t.Error(log.String())
		}
	})
	var log strings.Builder
	d := &Daemon{log: slog.New(slog.NewTextHandler(&log, nil)), c: Config{DataDir: dir, BackupStore: dir + "/typo"}}
	if d.warnNewPlaces(os.Stat); !strings.Contains(log.String(), "--backup-store: ") {
		t.Errorf("it says %q", log.String())
	}
}
