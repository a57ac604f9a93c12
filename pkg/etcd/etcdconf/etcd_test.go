package etcdconf_test

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// TestRealEtcdUnderstandsItsEnvironment starts etcd of each version that is tested
// and reads in its log that it serves, and that it has recognised everything
// it was given.
func TestRealEtcdUnderstandsItsEnvironment(t *testing.T) {
	f := etcdtest.Finder(t)
	for _, v := range etcdtest.Managed() {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			b, err := f.Find(v)
			if err != nil {
				t.Fatal(err)
			}
			plain := realMember(t, v)
			start(t, b.Etcd, plain)

			// With what an operator may have set since the days of 3.5.
			desired := realMember(t, v)
			desired.User = map[string]string{
				"ETCD_QUOTA_BACKEND_BYTES":                     "1073741824",
				"ETCD_METRICS":                                 "extensive",
				"ETCD_AUTO_COMPACTION_MODE":                    "periodic",
				"ETCD_AUTO_COMPACTION_RETENTION":               "5m",
				"ETCD_DISCOVERY_SRV":                           "example.com",
				"ETCD_CONFIG_FILE":                             "/nowhere",
				"ETCD_INITIAL_ELECTION_TICK_ADVANCE":           "false",
				"ETCD_LISTEN_CLIENT_HTTP_URLS":                 "http://" + testport.Address(t),
				"ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK":      "true",
				"ETCD_EXPERIMENTAL_COMPACT_HASH_CHECK_ENABLED": "true",
				"ETCD_EXPERIMENTAL_COMPACTION_BATCH_LIMIT":     "500",
			}
			start(t, b.Etcd, desired)
		})
	}
}

func realMember(t *testing.T, v etcdversion.Version) etcdconf.Member {
	t.Helper()
	peer := "http://" + testport.Address(t)
	return etcdconf.Member{
		Name:        "a",
		Version:     v,
		Token:       "t",
		DataDir:     filepath.Join(t.TempDir(), "data"),
		State:       etcdconf.StateNew,
		Peers:       []cluster.InitialMember{{Name: "a", PeerURLs: []string{peer}}},
		URLs:        cluster.URLs{Peer: []string{peer}, Client: []string{"http://" + testport.Address(t)}},
		Address:     "127.0.0.1",
		MetricsURLs: []string{"http://" + testport.Address(t)},
	}
}

// start runs etcd until it says that it serves clients.
func start(t *testing.T, path string, m etcdconf.Member) {
	t.Helper()
	env, err := etcdconf.Env(m)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = env
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	serves := false
	lines := bufio.NewScanner(out)
	for !serves && lines.Scan() {
		fmt.Fprintln(&log, lines.Text())
		serves = strings.Contains(lines.Text(), "ready to serve client requests")
	}
	cancel()
	_ = cmd.Wait() // it was killed
	if !serves {
		t.Fatalf("etcd does not serve, with %s\n%s", strings.Join(env, " "), &log)
	}
	for line := range strings.Lines(log.String()) {
		for _, bad := range []string{"unrecognized environment variable", "deprecated"} {
			if strings.Contains(line, bad) {
				t.Errorf("etcd complains: %s", line)
			}
		}
	}
}
