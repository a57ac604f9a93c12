package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// version is the etcd that the demonstration runs.
const version = "3.6.16"

// grace is how long a member may be gone before it is replaced. The default is
// a minute, which is dull to watch.
const grace = 3 * time.Second

// A demonstration is a cluster and where it is shown.
type demonstration struct {
	bin, etcdDirs string
	keep          bool
	out           *terminal

	c       *harness.Cluster
	etcdctl string
}

// run shows all steps. At its end everything is stopped and deleted, unless
// all went well and it is to be kept.
func (s *demonstration) run(ctx context.Context) error {
	var err error
	if s.etcdctl, err = harness.EtcdBinary(s.etcdDirs, version, "etcdctl"); err != nil {
		return err
	}
	for _, p := range harness.Programs {
		if _, err := exec.LookPath(filepath.Join(s.bin, p)); err != nil {
			return fmt.Errorf("%w (make build makes it)", err)
		}
	}
	return harness.Perform(func(text string) { s.out.happened("%s", text) }, func(t harness.T) { s.steps(ctx, t) })
}

// steps shows them one after the other.
func (s *demonstration) steps(ctx context.Context, t harness.T) {
	began := time.Now()
	s.c = harness.New(ctx, t, harness.Options{
		Bin: s.bin, EtcdDirs: s.etcdDirs, Keep: s.keep,
		Flags:     []string{"--replace-grace=" + grace.String(), "--bootstrap-grace=5s"},
		OnFailure: keepLogs(t),
	})
	follow := s.out.follow(ctx, s.c)
	t.Cleanup(follow.stop)

	s.bootstrap()
	writer := s.c.Write()
	s.useIt(t)
	s.loseDisk(ctx)
	s.resize()
	s.killEtcd()
	s.out.step("The key is still there")
	s.ctl(t, "get", "greeting")
	s.out.step("How it stands")
	s.c.Eventually(harness.Soon, "the cluster is as the spec says", func(context.Context) error {
		r, err := s.c.Status()
		if err == nil && (!r.Converged || len(r.Observation.Members) != 3) {
			err = fmt.Errorf("it has %d members, and holds: %v", len(r.Observation.Members), r.Holds)
		}
		return err
	})
	follow.stop()
	table, err := s.c.Ctl("status")
	if err != nil {
		t.Fatalf("%v", err)
	}
	s.out.plain(table)
	if s.keep {
		s.howToTalk()
		return
	}
	s.out.happened("%d writes were acknowledged meanwhile; now each of them is looked for", writer.Acked())
	s.c.Close()
	if !t.Failed() {
		s.out.happened("none is lost. Everything is stopped and deleted, after %s.", since(began))
	}
}

func since(t time.Time) time.Duration { return time.Since(t).Round(10 * time.Millisecond) }

func (s *demonstration) bootstrap() {
	s.out.step("Three machines find each other and bootstrap a cluster")
	s.out.command("etcd-manager-ctl --backup-store=%s --member-count=3 --etcd-version=%s configure-cluster", s.c.StoreURL(),
		version)
	s.c.SetSpec(3, version)
	began := time.Now()
	for _, n := range s.c.Start("a", "b", "c") {
		s.out.command("etcd-manager --node-name=%s --address=%s ...", n.Name, n.Address)
	}
	s.c.WaitNames(harness.Soon, "a", "b", "c")
	s.out.happened("three healthy members, %s after the daemons were started", since(began))
}

func (s *demonstration) useIt(t harness.T) {
	s.out.step("A key is written and read through a client certificate")
	ca, cert, key := s.c.PKI.ClientFiles()
	s.out.command("export ETCDCTL_CACERT=%s ETCDCTL_CERT=%s ETCDCTL_KEY=%s", ca, cert, key)
	s.ctl(t, "put", "greeting", "hello")
	s.ctl(t, "get", "greeting")
}

// ctl runs etcdctl, as a person would.
func (s *demonstration) ctl(t harness.T, args ...string) {
	t.Helper()
	ca, cert, key := s.c.PKI.ClientFiles()
	args = append([]string{"--endpoints=" + s.somebody().ClientURL()}, args...)
	s.out.command("etcdctl %s", strings.Join(args, " "))
	cmd := exec.Command(s.etcdctl, args...)
	cmd.Env = []string{"ETCDCTL_CACERT=" + ca, "ETCDCTL_CERT=" + cert, "ETCDCTL_KEY=" + key}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("etcdctl: %v: %s", err, out)
	}
	s.out.plain(string(out))
}

// somebody returns a node that runs etcd.
func (s *demonstration) somebody() *harness.Node {
	for _, n := range s.c.Nodes() {
		if n.EtcdPID() != 0 {
			return n
		}
	}
	return s.c.Node("a")
}

func (s *demonstration) killEtcd() {
	s.out.step("A member's etcd is killed")
	n := s.somebody()
	began := time.Now()
	pid := n.KillEtcd()
	s.out.command("kill -9 %d", pid)
	s.c.Eventually(harness.Soon, "its etcd is back", func(ctx context.Context) error {
		if now := n.EtcdPID(); now == 0 || now == pid {
			return errors.New("there is no new process")
		}
		_, err := n.EtcdStatus(ctx)
		return err
	})
	s.out.happened("its daemon started it again: it serves, %s after the kill", since(began))
	s.c.WaitVoters(harness.Soon, 3)
}

func (s *demonstration) loseDisk(ctx context.Context) {
	s.out.step("A machine loses its disk and comes back with an empty one")
	n := s.c.Node("c")
	old := member(ctx, n)
	n.LoseDisk()
	s.out.command("rm -rf %s", n.Dir)
	began := time.Now()
	n.Start()
	s.out.happened("its member may be gone for %s (--replace-grace; a minute by default)", grace)
	s.c.Eventually(harness.Soon, "c is replaced", func(ctx context.Context) error {
		names, err := s.c.Voters(ctx)
		if err == nil && (len(names) != 3 || member(ctx, n) == old) {
			err = fmt.Errorf("the voters are %v", names)
		}
		return err
	})
	s.out.happened("three healthy members again, %s after the end of that time", since(began.Add(grace)))
}

// member returns the id of the node's member, 0 if it does not answer.
func member(ctx context.Context, n *harness.Node) uint64 {
	r, err := n.EtcdStatus(ctx)
	if err != nil {
		return 0
	}
	return r.Header.MemberId
}

func (s *demonstration) resize() {
	s.out.step("Two more machines: the cluster grows to five, and shrinks to three")
	for _, count := range []int{5, 3} {
		s.out.command("etcd-manager-ctl --backup-store=%s --member-count=%d configure-cluster", s.c.StoreURL(), count)
		s.c.SetSpec(count, version)
		if count == 5 {
			s.c.Start("d", "e")
		}
		began := time.Now()
		s.c.WaitVoters(harness.Soon, count)
		s.out.happened("%d healthy members, %s later", count, since(began))
	}
}

// howToTalk says how to use what is left running.
func (s *demonstration) howToTalk() {
	ca, cert, key := s.c.PKI.ClientFiles()
	var urls, pids []string
	for _, n := range s.c.Nodes() {
		if n.EtcdPID() != 0 {
			urls = append(urls, n.ClientURL())
		}
		pids = append(pids, fmt.Sprint(n.PID()))
	}
	slices.Sort(urls)
	s.out.step("It is left running")
	s.out.plain(fmt.Sprintf("%s --endpoints=%s --cacert=%s --cert=%s --key=%s get greeting\n", s.etcdctl,
		strings.Join(urls, ","), ca, cert, key))
	s.out.plain(fmt.Sprintf("%s --backup-store=%s status\n", filepath.Join(s.bin, "etcd-manager-ctl"), s.c.StoreURL()))
	s.out.plain("tail -f " + s.c.Logs() + "/*.log\n")
	s.out.happened("to stop and delete it:")
	s.out.plain(fmt.Sprintf("kill %s; sleep 10; rm -r %s\n", strings.Join(pids, " "), s.c.Dir))
}

// keepLogs returns what saves the logs where a step failed.
func keepLogs(t harness.T) func(c *harness.Cluster) {
	return func(c *harness.Cluster) {
		dir, err := os.MkdirTemp("", "etcdadm-demo-logs-")
		if err == nil {
			err = os.CopyFS(dir, os.DirFS(c.Logs()))
		}
		if err != nil {
			t.Logf("the logs could not be kept: %v", err)
			return
		}
		t.Logf("the daemons' logs are in %s", dir)
	}
}
