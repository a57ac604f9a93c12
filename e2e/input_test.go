package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

func putFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	// As the store does it, so that nobody reads half a file.
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// A spec that cannot be is said to be so, and a running cluster goes on.
func TestBadSpec(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.Bootstrap(1, v36, "a", "b", "c")
	w := c.Write()
	spec := filepath.Join(c.Store, "control/etcd-cluster-spec")
	for text, reason := range map[string]string{
		`{"memberCount":`:                          "spec-invalid",
		`{"memberCount":0,"etcdVersion":"3.6.16"}`: "spec-invalid",
		`{"memberCount":8,"etcdVersion":"3.6.16"}`: "spec-invalid",
		// With more members another node may become the coordinator, which never held.
		`{"memberCount":1,"etcdVersion":"3.6.99"}`: "",
	} {
		coordinator := c.Coordinator()
		said := coordinator.LogSize()
		putFile(t, spec, text)
		if reason == "" {
			reason = "binary-missing"
		}
		line := coordinator.WaitSaid(harness.Soon, said, "msg=held", "reason="+reason)
		t.Logf("%s: %s", text, line)
		w.WaitMore(harness.Soon, 10)
		putFile(t, spec, `{"memberCount":1,"etcdVersion":"`+v36+`"}`)
		coordinator.WaitSaid(harness.Soon, said, "no longer held", "reason="+reason)
	}
	c.SetSpec(3, v36)
	c.WaitVoters(harness.Soon, 3)
}

func TestCtlRefusesABadSpec(t *testing.T) {
	t.Parallel()
	c := start(t)
	for _, args := range [][]string{
		{"-member-count=0"}, {"-member-count=8"}, {"-member-count=-3"}, {"-member-count=3", "-etcd-version=three"},
	} {
		if out, err := c.Ctl(append(args, "configure-cluster")...); err == nil {
			t.Errorf("%v was taken: %s", args, out)
		}
	}
	if _, err := os.Stat(filepath.Join(c.Store, "control/etcd-cluster-spec")); err == nil {
		t.Error("a spec was written")
	}
}

func TestUnknownVersionHoldsAndIsFixed(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.SetSpec(1, "3.6.99")
	c.Start("a")
	line := c.Node("a").WaitSaid(harness.Soon, 0, "msg=held", "binary-missing")
	t.Log(line)
	c.SetSpec(1, v36)
	c.WaitVoters(harness.Soon, 1)
}

// Each daemon ends at once, with a message that names what is wrong.
func TestDaemonRefusesToStart(t *testing.T) {
	t.Parallel()
	c := start(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	tests := []struct {
		name string
		make func(n *harness.Node)
		want []string
	}{
		{"no-store", func(n *harness.Node) { n.Store = "" }, []string{"--backup-store"}},
		{"no-cluster", func(n *harness.Node) { n.Cluster = "" }, []string{"--cluster-name"}},
		{"unknown-flag", func(n *harness.Node) { n.Flags = []string{"--no-such-flag"} }, []string{"no-such-flag"}},
		{"bad-address", func(n *harness.Node) { n.Flags = []string{"--address=somewhere"} }, []string{
			"--address", "somewhere",
		}},
		{"bad-interval", func(n *harness.Node) { n.Flags = []string{"--backup-interval=often"} }, []string{
			"backup-interval",
		}},
		{"bad-provider", func(n *harness.Node) { n.Flags = []string{"--volume-provider=aws"} }, []string{"aws"}},
		{"bad-name", func(n *harness.Node) { n.Flags = []string{"--node-name=a/b"} }, []string{"a/b"}},
		{"bad-scheme", func(n *harness.Node) { n.Store = "gopher://hole" }, []string{"gopher"}},
		{"no-pki", func(n *harness.Node) { n.PKIDir = filepath.Join(c.Dir, "nothing") }, []string{"etcd-manager-ca"}},
		{"port-in-use", func(n *harness.Node) {
			n.Flags = []string{"--address=127.0.0.1", fmt.Sprintf("--grpc-port=%d", taken.Addr().(*net.TCPAddr).Port)}
		}, []string{"address already in use"}},
		{"data-is-a-file", func(n *harness.Node) { putFile(t, n.Dir, "a file") }, []string{n0(c, "data-is-a-file")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := c.Node(tt.name)
			n.MayEnd = true
			tt.make(n)
			n.Start()
			if code := n.WaitExit(harness.Soon); code <= 0 {
				t.Errorf("exit code %d", code)
			}
			for _, want := range tt.want {
				if said := n.Said(0); !strings.Contains(strings.SplitN(said, "\n", 2)[1], want) {
					t.Errorf("it does not say %q:\n%s", want, said)
				}
			}
		})
	}
}

// n0 returns the data directory of a node.
func n0(c *harness.Cluster, name string) string { return filepath.Join(c.Dir, "nodes", name) }

func TestTwoDaemonsOnOneDataDir(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.Bootstrap(1, v36, "a")
	w := c.Write()
	second := c.Node("b")
	second.Dir, second.MayEnd = c.Node("a").Dir, true
	second.PKIDir = c.Node("a").Dir + "-pki"
	second.Start()
	if code := second.WaitExit(harness.Soon); code <= 0 {
		t.Errorf("exit code %d", code)
	}
	t.Log(second.Said(0))
	w.WaitMore(harness.Soon, 10)
}

// A second daemon with the name of another neither takes its place nor
// disturbs it.
func TestTwoDaemonsOfOneName(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	twin := c.Node("twin")
	twin.Flags, twin.MayEnd = []string{"--node-name=b"}, true
	twin.Start()
	c.Eventually(harness.Soon, "somebody says that there are two", func(context.Context) error {
		for _, n := range c.Nodes() {
			if strings.Contains(n.Said(0), "name-conflict") || n == twin && !n.Running() {
				return nil
			}
		}
		return fmt.Errorf("nobody does")
	})
	w.WaitMore(harness.Soon, 100)
	c.WaitNames(harness.Soon, "a", "b", "c")
	twin.Stop()
	idle(t, c)
}

func TestGarbageInTheStore(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.SetSpec(3, v36)
	for name, text := range map[string]string{
		"control/nodes/junk":                                "junk",
		"control/requests/junk":                             "{",
		"control/2026-01-01T00:00:00Z-000000/_command.json": "not a command",
		"control/history":                                   "not a history",
		"control/status":                                    "not a status",
		"junk/file":                                         "junk",
		"junk":                                              "",
		".hidden":                                           "junk",
	} {
		if text != "" {
			putFile(t, filepath.Join(c.Store, name), text)
		}
	}
	c.Start("a", "b", "c")
	c.WaitVoters(harness.Soon, 3)
	c.Write().WaitMore(harness.Soon, 10)
	eventually(t, c, "a new history", func() error {
		all, err := c.History()
		if err == nil && len(all) == 0 {
			err = fmt.Errorf("it is empty")
		}
		return err
	})
}

// A daemon whose CA is another's is no part of the cluster, and does it no harm.
func TestForeignCA(t *testing.T) {
	t.Parallel()
	tests := map[string]time.Time{"wrong": time.Now().Add(time.Hour), "expired": time.Now().Add(-time.Hour)}
	for name, notAfter := range tests {
		t.Run(name, func(t *testing.T) {
			c := start(t, quick...)
			c.Bootstrap(3, v36, "a", "b", "c")
			w := c.Write()
			d := c.Node("d")
			d.MayEnd, d.PKIDir = true, filepath.Join(c.Dir, "foreign-pki")
			for _, name := range []string{harness.ManagerCA, harness.PeersCA, harness.ClientsCA} {
				ca, err := harness.NewCA(name, false, notAfter)
				if err == nil {
					err = ca.Write(d.PKIDir, name)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			d.Start()
			c.SetSpec(4, v36)
			w.WaitMore(harness.Soon, 300)
			c.WaitNames(harness.Soon, "a", "b", "c")
			if !d.Running() {
				t.Log(d.Said(0))
			}
		})
	}
}

// A full disk stops what needs the disk, says so, and loses nothing.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	small := c.Node("d")
	if err := os.MkdirAll(small.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", small.Dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(small.Dir, unix.MNT_DETACH) })
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	fill := filepath.Join(small.Dir, "fill")
	small.Start()
	small.WaitSaid(harness.Soon, 0, "msg=running")
	if err := os.WriteFile(fill, make([]byte, 2<<20), 0o600); err == nil {
		t.Fatal("the small file system is not small")
	}
	c.SetSpec(4, v36)
	w.WaitMore(harness.Soon, 300)
	c.SetSpec(3, v36)
	c.WaitVoters(harness.Soon, 3)
	w.WaitMore(harness.Soon, 10)
	if strings.Contains(small.Said(0), "panic") || !small.Running() {
		t.Errorf("the daemon with the full disk: %s", small.Said(0))
	}
	small.Stop()
}
