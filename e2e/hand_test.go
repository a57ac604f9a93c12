package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// byHand returns the environment in which a person works with the cluster.
func byHand(t *testing.T, c *harness.Cluster) []string {
	t.Helper()
	var nodes []string
	for _, n := range c.Nodes() {
		nodes = append(nodes, n.Name+"="+n.Endpoint())
	}
	pki := filepath.Join(c.Dir, "hand-pki")
	if err := c.PKI.Install(pki); err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(),
		"PATH="+c.Bin+":"+os.Getenv("PATH"), "ETCDADM_CLUSTER_NAME=test", "ETCDADM_BACKUP_STORE="+c.StoreURL(),
		"ETCDADM_PKI_DIR="+pki, "ETCDADM_NODES="+strings.Join(nodes, ","))
}

// shell runs a line as a person would, and returns what it printed.
func shell(t *testing.T, env []string, line string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", line)
	cmd.Env = env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s%s", line, err, out, stderr.String())
	}
	return string(out), err
}

// script runs the printed plan. A step that etcd is not ready for fails; then a
// person observes again.
func script(t *testing.T, c *harness.Cluster, env []string, count int) {
	t.Helper()
	c.Eventually(harness.Soon, "the plan runs to its end", func(context.Context) error {
		lines, err := shell(t, env, "etcdadm plan")
		if err != nil {
			return err
		}
		t.Logf("the plan for %d:\n%s", count, lines)
		path := filepath.Join(c.Dir, "plan.sh")
		if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
			return err
		}
		_, err = shell(t, env, "sh -e "+path)
		return err
	})
}

// end describes where a cluster is, without what differs from run to run.
func end(t *testing.T, c *harness.Cluster, env []string) string {
	t.Helper()
	out, err := shell(t, env, "etcdadm observe -o json")
	if err != nil {
		t.Fatal(err)
	}
	var obs cluster.Observation
	if err := cli.Unmarshal([]byte(out), &obs); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var lines []string
	for _, n := range obs.Nodes {
		lines = append(lines, fmt.Sprintf("%s: disk %s, assigned %t, process %s, %d set aside", n.Name, n.Disk.State,
			n.Assigned != nil, n.Process.State, len(n.SetAside)))
	}
	lines = append(lines, fmt.Sprintf("%d members, lease voters %v", len(obs.Members), obs.LeaseVoters.Names))
	return strings.Join(lines, "\n")
}

// A line of yesterday, pasted, is refused and does no harm.
func TestStaleLinesAreRefused(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	env := byHand(t, c)
	id := fmt.Sprintf("%x", memberID(t, c, c.Node("b")))
	for _, line := range []string{
		"etcdadm member remove --id=" + id + " --expect-name=b --expect-voters=5",
		"etcdadm member remove --id=" + id + " --expect-name=c --expect-voters=3",
		"etcdadm member stop --node=b --expect-token=another",
		"etcdadm data set-aside --node=b --token=another",
		"etcdadm member explode --node=b",
		"etcdadm member start --node=b --mode=sideways --token=x --version=3.6.16",
	} {
		out, err := shell(t, env, line)
		if err == nil {
			t.Errorf("%s was done: %s", line, out)
		}
	}
	// What is done already is done, and nothing happens.
	for _, line := range []string{
		"etcdadm member remove --id=abcdef --expect-name=b --expect-voters=3",
		"etcdadm member promote --name=b --expect-voters=2",
	} {
		if _, err := shell(t, env, line); err != nil {
			t.Error(err)
		}
	}
	c.WaitNames(harness.Soon, "a", "b", "c")
	w.WaitMore(harness.Soon, 10)
}

// The command line that people have for the existing daemon.
func TestCommandLineOfTheExistingDaemon(t *testing.T) {
	t.Parallel()
	for _, dash := range []string{"--", "-"} {
		t.Run("with "+dash, func(t *testing.T) {
			o := options(t)
			o.Insecure = true
			o.Env = []string{"ETCDADM_ETCD_DIR=" + o.EtcdDirs, "ETCD_QUOTA_BACKEND_BYTES=123456789"}
			c := harness.New(t.Context(), t, o)
			if _, err := c.Ctl(dash+"member-count=3", dash+"etcd-version=3.6.16", "configure-cluster"); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"a", "b", "c"} {
				n := c.Node(name)
				var args []string
				for _, f := range []string{
					"insecure", "etcd-insecure", "address=" + n.Address, "etcd-address=" + n.Address, "grpc-port=8000",
					"cluster-name=test", "backup-store=" + c.StoreURL(), "data-dir=" + n.Dir,
					"client-urls=http://" + n.Address + ":4001", "quarantine-client-urls=http://" + n.Address + ":8001",
					"peer-urls=http://" + n.Address + ":2380", "discovery-poll-interval=2s", "v=6",
				} {
					args = append(args, dash+f)
				}
				n.Run(args...)
			}
			c.Eventually(harness.Soon, "three members", func(ctx context.Context) error {
				members, err := c.Members(ctx)
				if err != nil {
					return err
				}
				for _, n := range c.Nodes() {
					if _, err := n.EtcdStatus(ctx); err != nil {
						return err
					}
				}
				if len(members) != 3 {
					return fmt.Errorf("%d members", len(members))
				}
				return nil
			})
			c.Write().WaitMore(harness.Soon, 10)
			n := c.Node("a")
			if id, err := os.ReadFile(filepath.Join(n.Dir, "myid")); err != nil || len(id) != 22 {
				t.Errorf("myid is %q, %v", id, err)
			}
			if _, err := os.Stat(filepath.Join(n.Dir, "state")); err != nil {
				t.Error(err)
			}
			log, err := os.ReadFile(filepath.Join(n.Dir, "etcd.log"))
			if err != nil || !bytes.Contains(log, []byte("123456789")) {
				t.Errorf("etcd was not given ETCD_QUOTA_BACKEND_BYTES: %v", err)
			}
		})
	}
}
