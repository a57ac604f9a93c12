//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// A byHandHost is a machine whose etcd is run by etcdadm, with the init system
// "process", or by the daemon of the node of its name.
type byHandHost struct {
	t    *testing.T
	c    *harness.Cluster
	node *harness.Node
	root string
}

// anyLoopback lets a member have an address that no interface names, as all of
// 127.0.0.0/8 are the loopback's.
const anyLoopback = "--ignore-preflight-errors=BindAddress"

// handed makes a cluster of such machines, bootstrapped by etcdadm init and join. Its
// members trust the CA that the harness' clients have.
func handed(t *testing.T, names ...string) (*harness.Cluster, []*byHandHost) {
	t.Helper()
	// Apart from the cluster's directory, in which nothing may live on when the
	// cluster is closed; the supervisors of etcd end after that.
	root := t.TempDir()
	var hosts []*byHandHost
	t.Cleanup(func() {
		for _, h := range hosts {
			if out, err := h.command("join", "phase", "stop", "https://127.0.0.1:1").CombinedOutput(); err != nil {
				t.Errorf("stop the etcd of %s: %v: %s", h.node.Name, err, out)
			}
		}
	})
	c := start(t)
	for i, name := range names {
		h := &byHandHost{t: t, c: c, node: c.Node(name), root: filepath.Join(root, name)}
		h.node.Dir, h.node.PKIDir = h.path("manager"), h.path("manager-pki")
		if err := c.PKI.CAs[harness.ClientsCA].Write(h.path("pki"), "ca"); err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, h)
		if i == 0 {
			h.ok("init", anyLoopback)
		} else {
			h.ok("join", hosts[0].node.ClientURL(), anyLoopback)
		}
	}
	return c, hosts
}

func (h *byHandHost) path(parts ...string) string {
	return filepath.Join(append([]string{h.root}, parts...)...)
}

func (h *byHandHost) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.t.Context()), 2*harness.Soon)
	if args[0] == "handover" {
		args = append(args, "--etcd-dir="+h.path("opt"))
	}
	cmd := exec.CommandContext(ctx, filepath.Join(h.c.Bin, "etcdadm"), args...)
	cmd.Cancel = func() error { cancel(); return cmd.Process.Kill() }
	etcd, err := harness.EtcdBinary(h.c.EtcdDirs, v36, "etcd")
	if err != nil {
		h.t.Fatal(err)
	}
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "ETCDADM_INIT_SYSTEM=process", "ETCDADM_NAME=" + h.node.Name, "ETCDADM_VERSION=" + v36,
		"ETCDADM_BIND_ADDRESS=" + h.node.Address, "ETCDADM_CLIENT_PORT=" + strconv.Itoa(harness.ClientPort),
		"ETCDADM_PEER_PORT=" + strconv.Itoa(harness.PeerPort),
		// Not on 127.0.0.1 besides, where there is one port for all.
		"ETCDADM_LISTEN_CLIENT_URLS=" + h.node.ClientURL(),
		"ETCDADM_DATA_DIR=" + h.path("etcd"), "ETCDADM_CERTS_DIR=" + h.path("pki"), "ETCDADM_INSTALL_DIR=" + h.path("bin"),
		"ETCDADM_CACHE_DIR=" + h.path("cache"),
		"ETCDADM_ENVIRONMENT_DIR=" + h.path("etc"), "ETCDADM_UNIT_DIR=" + h.path("units"),
		"ETCDADM_KUBELET_POD_MANIFEST_PATH=" + h.path("manifests"),
		"ETCDADM_BINARIES_DIR=" + filepath.Dir(etcd), "ETCDADM_MANAGER_DATA_DIR=" + h.node.Dir,
		"ETCDADM_PKI_DIR=" + h.node.PKIDir,
	}
	// What etcd is given besides, which goes over with it.
	cmd.Env = append(cmd.Env, "ETCDADM_QUOTA_BACKEND_BYTES=123456789")
	return cmd
}

// try runs etcdadm on the machine.
func (h *byHandHost) try(args ...string) (string, error) {
	cmd := h.command(args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	began := time.Now()
	out, err := cmd.Output()
	h.t.Logf("%s$ etcdadm %s (%s)\n%s", h.node.Name, strings.Join(args, " "), time.Since(began).Round(time.Millisecond),
		stderr.String())
	if err != nil {
		err = fmt.Errorf("%s: etcdadm %s: %w: %s", h.node.Name, strings.Join(args, " "), err, stderr.String())
	}
	return string(out), err
}

func (h *byHandHost) ok(args ...string) string {
	h.t.Helper()
	out, err := h.try(args...)
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// A handover is what etcdadm handover prints.
type handover struct {
	Kind    string `json:"kind"`
	Changed bool   `json:"changed"`
	Daemon  struct {
		Environment, Argv    []string
		LeaseVoters          []cluster.NodeName
		LeaseVotersWhy, Line string
		Configure            string
	} `json:"daemon"`
}

// toManager hands the machine over and starts the daemon as the output says.
func (h *byHandHost) toManager() handover {
	h.t.Helper()
	args := []string{"handover", "to-manager", "--backup-store=" + h.c.StoreURL(), "--cluster-name=" + h.node.Cluster,
		"-o", "json"}
	var r, again handover
	db := h.inode(h.path("etcd"))
	for _, to := range []*handover{&r, &again} {
		if err := json.Unmarshal([]byte(h.ok(args...)), to); err != nil {
			h.t.Fatal(err)
		}
	}
	if r.Kind != "Handover" || !r.Changed || again.Changed || again.Daemon.Line != r.Daemon.Line {
		h.t.Errorf("handed over twice: %+v, %+v", r, again)
	}
	if token := h.state().Assigned.Token; h.inode(nodestate.DataDir(h.node.Dir, token)) != db {
		h.t.Errorf("the data of %s was copied", h.node.Name)
	}
	h.runDaemon(r)
	return r
}

func (h *byHandHost) runDaemon(r handover) {
	h.t.Helper()
	h.node.Env = r.Daemon.Environment
	h.node.Run(append(slices.Clone(r.Daemon.Argv[1:]), "--discovery-poll-interval=2s")...)
}

// fromManager stops the daemon and takes the machine back.
func (h *byHandHost) fromManager() {
	h.t.Helper()
	token := h.state().Assigned.Token
	if _, err := h.try("handover", "from-manager"); err == nil {
		h.t.Errorf("%s was taken from a daemon that runs", h.node.Name)
	}
	h.node.Stop()
	db := h.inode(nodestate.DataDir(h.node.Dir, token))
	h.ok("handover", "from-manager")
	if h.inode(h.path("etcd")) != db {
		h.t.Errorf("the data of %s was copied", h.node.Name)
	}
	if out := h.ok("handover", "from-manager"); !strings.Contains(out, "Nothing to do") {
		h.t.Errorf("handed back twice: %s", out)
	}
}

func (h *byHandHost) state() nodestate.State {
	h.t.Helper()
	s, err := nodestate.Read(h.node.Dir)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// inode identifies the database in a data directory.
func (h *byHandHost) inode(dir string) uint64 {
	h.t.Helper()
	st, err := os.Stat(filepath.Join(dir, "member", "snap", "db"))
	if err != nil {
		h.t.Fatal(err)
	}
	return st.Sys().(*syscall.Stat_t).Ino
}

// serving waits until the members of all machines serve, and returns their ids.
func serving(t *testing.T, c *harness.Cluster, hosts []*byHandHost) []uint64 {
	t.Helper()
	var ids []uint64
	c.Eventually(harness.Soon, "all members serve", func(ctx context.Context) error {
		ids = nil
		for _, h := range hosts {
			s, err := h.node.EtcdStatus(ctx)
			if err != nil {
				return err
			}
			if s.Leader == 0 {
				return fmt.Errorf("%s has no leader", h.node.Name)
			}
			ids = append(ids, s.Header.MemberId)
		}
		return nil
	})
	return ids
}

// Machines go from etcdadm to the daemons one by one, the daemons do what
// daemons do, and back. The cluster serves all the time.
func TestHandoverThereAndBack(t *testing.T) {
	t.Parallel()
	c, hosts := handed(t, "a", "b", "c")
	ids := serving(t, c, hosts)
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	var lines []handover
	for _, h := range hosts {
		lines = append(lines, h.toManager())
		serving(t, c, hosts)
		w.WaitMore(harness.Soon, 10)
	}
	for i, h := range hosts {
		if got := lines[i].Daemon.LeaseVoters; !slices.Equal(got, []cluster.NodeName{"a", "b", "c"}) {
			t.Errorf("%s begins with the lease voters %v: %s", h.node.Name, got, lines[i].Daemon.LeaseVotersWhy)
		}
	}
	// Nothing is done without a spec.
	c.WaitHold(harness.Soon, "spec-missing")
	if _, err := shell(t, append(os.Environ(), "PATH="+c.Bin+":"+os.Getenv("PATH")),
		lines[0].Daemon.Configure); err != nil {
		t.Fatal(err)
	}
	converged(t, c)
	if got := serving(t, c, hosts); !slices.Equal(got, ids) {
		t.Errorf("the members are %x, they were %x", got, ids)
	}

	// A machine of another kind joins, and leaves.
	d := c.Node("d")
	d.PKIDir = hosts[0].node.PKIDir
	d.Start()
	c.SetSpec(4, v36)
	c.WaitNames(harness.Soon, "a", "b", "c", "d")
	allServe(c, 4)
	c.SetSpec(3, v36)
	c.WaitNames(harness.Soon, "a", "b", "c")
	hosts[1].node.Kill()
	hosts[1].runDaemon(lines[1])
	serving(t, c, hosts)
	converged(t, c)
	w.WaitMore(harness.Soon, 10)

	if _, err := c.Ctl("pause", "--reason=handover"); err != nil {
		t.Fatal(err)
	}
	for _, h := range hosts {
		h.fromManager()
		if got := serving(t, c, hosts); !slices.Equal(got, ids) {
			t.Errorf("the members are %x, they were %x", got, ids)
		}
		w.WaitMore(harness.Soon, 10)
	}
	for _, h := range hosts {
		env, err := os.ReadFile(h.path("etc", "etcd.env"))
		if err != nil || !strings.Contains(string(env), "ETCD_QUOTA_BACKEND_BYTES=123456789") {
			t.Errorf("the settings of %s are %s, %v", h.node.Name, env, err)
		}
	}
	// And etcdadm goes on where it was: one may leave.
	hosts[2].ok("reset")
	w.WaitMore(harness.Soon, 10)
}

// converged waits until the coordinator has nothing to do.
func converged(t *testing.T, c *harness.Cluster) {
	t.Helper()
	convergedSince(t, c, time.Time{})
}

// convergedSince waits until one says so that has published it since then.
func convergedSince(t *testing.T, c *harness.Cluster, since time.Time) {
	t.Helper()
	c.Eventually(harness.Soon, "the cluster is as the spec says", func(context.Context) error {
		r, err := c.Status()
		if err == nil && (!r.Converged || len(r.Holds) > 0 || r.At.Before(since)) {
			err = fmt.Errorf("at %s: converged %t, holds %v", r.At, r.Converged, r.Holds)
		}
		return err
	})
}

// Where a coordinator is at work before all machines are handed over, the last
// one gets the lease voters' record from it.
func TestHandoverUnderACoordinator(t *testing.T) {
	t.Parallel()
	c, hosts := handed(t, "a", "b", "c")
	w := c.Write()
	c.SetSpec(3, v36)
	for _, h := range hosts[:2] {
		h.toManager()
		serving(t, c, hosts)
	}
	marker := filepath.Join(c.Store, "control", "etcd-cluster-created")
	c.Eventually(harness.Soon, "the coordinator marks the cluster as created", func(context.Context) error {
		_, err := os.Stat(marker)
		return err
	})
	r := hosts[2].toManager()
	if len(r.Daemon.LeaseVoters) > 0 || r.Daemon.LeaseVotersWhy == "" || r.Daemon.Configure != "" {
		t.Errorf("c begins with %+v", r.Daemon)
	}
	c.Eventually(harness.Soon, "c is a lease voter", func(context.Context) error {
		for _, h := range hosts {
			s, err := nodestate.Read(h.node.Dir)
			if err == nil && (!slices.Equal(s.LeaseVoters.Names, []cluster.NodeName{"a", "b", "c"}) || s.LeaseVoters.Term == 0) {
				err = fmt.Errorf("the record of %s is %+v", h.node.Name, s.LeaseVoters)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	converged(t, c)
	w.WaitMore(harness.Soon, 10)
	if _, err := c.Ctl("pause", "--reason=handover"); err != nil {
		t.Fatal(err)
	}
	for _, h := range slices.Backward(hosts) {
		h.fromManager()
		serving(t, c, hosts)
	}
	w.WaitMore(harness.Soon, 10)
}

// A member that others need is not taken from them.
func TestHandoverWaitsForAllVoters(t *testing.T) {
	t.Parallel()
	c, hosts := handed(t, "a", "b", "c")
	w := c.Write()
	hosts[2].ok("join", "phase", "stop", "https://127.0.0.1:1")
	args := []string{"handover", "to-manager", "--backup-store=" + c.StoreURL()}
	for _, dry := range [][]string{{"--dry-run"}, nil} {
		_, err := hosts[0].try(append(args, dry...)...)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 5 || !strings.Contains(err.Error(), "c is not healthy") {
			t.Errorf("with c away: %v", err)
		}
	}
	if _, err := os.Stat(hosts[0].path("etcd.handover.json")); err == nil {
		t.Error("there is a journal of what was not begun")
	}
	w.WaitMore(harness.Soon, 10)
	hosts[2].ok("join", hosts[0].node.ClientURL(), anyLoopback)
	serving(t, c, hosts)
	if out := hosts[0].ok(append(args, "--dry-run")...); !strings.Contains(out, "# move: move the data of member") {
		t.Errorf("the dry run prints %s", out)
	}
	w.WaitMore(harness.Soon, 10)
}

// killedAt runs etcdadm and kills it when it says that a step begins. It reports
// whether it came to that.
func (h *byHandHost) killedAt(step string, args ...string) bool {
	h.t.Helper()
	cmd := h.command(args...)
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	said := bufio.NewScanner(stderr)
	killed := false
	for said.Scan() {
		if strings.HasPrefix(said.Text(), "["+step+"]") && !killed {
			killed = true
			if err := cmd.Process.Kill(); err != nil {
				h.t.Error(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed, or what it did shows
	return killed
}

// Killed at any step, the handover is run again and ends where it should: also
// for a cluster of one, which cannot be asked meanwhile.
func TestHandoverKilled(t *testing.T) {
	t.Parallel()
	c, hosts := handed(t, "a")
	h := hosts[0]
	ids := serving(t, c, hosts)
	w := c.Write()
	there := []string{"handover", "to-manager", "--backup-store=" + c.StoreURL(), "--cluster-name=" + h.node.Cluster, "-o",
		"json"}
	back := []string{"handover", "from-manager"}
	ends := [][2]string{{"record", "journal"}, {"stop", "unassign"}, {"files", "move"}, {
		"move", "start",
	}, {"assign", "configure"}, {"done", "start"}, {"journal", "done"}}
	for _, step := range ends {
		if !h.killedAt(step[0], there...) {
			h.t.Errorf("to-manager did not come to %s", step[0])
		}
		var r handover
		if err := json.Unmarshal([]byte(h.ok(there...)), &r); err != nil {
			t.Fatal(err)
		}
		if step[0] == "stop" || step[0] == "done" {
			h.runDaemon(r)
			serving(t, c, hosts)
			w.WaitMore(harness.Soon, 5)
			h.node.Stop()
		}
		if !h.killedAt(step[1], back...) {
			h.t.Errorf("from-manager did not come to %s", step[1])
		}
		h.ok(back...)
		if got := serving(t, c, hosts); !slices.Equal(got, ids) {
			t.Fatalf("the member is %x, it was %x", got, ids)
		}
		w.WaitMore(harness.Soon, 5)
	}
}
