package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

const grace = 3 * time.Second

// cluster returns a cluster without nodes, that nobody watches.
func (b *bench) cluster(ctx context.Context, t harness.T) *harness.Cluster {
	return b.clusterOn(ctx, t, nil)
}

// clusterOn is cluster on a network of its own.
func (b *bench) clusterOn(ctx context.Context, t harness.T, net *harness.Net) *harness.Cluster {
	return harness.New(ctx, t, harness.Options{
		Net: net, Bin: b.bin, EtcdDirs: b.etcdDirs, Unwatched: true,
		Flags: []string{"--replace-grace=" + grace.String()}, OnFailure: func(*harness.Cluster) {},
	})
}

// until calls cond without much of a pause until it returns nil.
func until(ctx context.Context, t harness.T, cond func(ctx context.Context) error) {
	t.Helper()
	within(ctx, t, harness.Soon, cond)
}

func within(ctx context.Context, t harness.T, limit time.Duration, cond func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := cond(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %v", limit, err)
		case <-tick.C:
		}
	}
}

// write writes a key, with little timeout.
func write(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err := client.Put(ctx, "bench", "x")
	return err
}

func (b *bench) found(ctx context.Context, t harness.T) time.Duration {
	return b.foundOn(ctx, t, "a", "b", "c")
}

// foundTwo starts two of three: they wait for the third as long as they do by default.
func (b *bench) foundTwo(ctx context.Context, t harness.T) time.Duration {
	return b.foundOn(ctx, t, "a", "b")
}

// foundOn is how long daemons that are started on empty disks take to take a write, of a
// cluster that is to have three.
func (b *bench) foundOn(ctx context.Context, t harness.T, names ...string) time.Duration {
	c := b.cluster(ctx, t)
	c.SetSpec(3, version)
	var nodes []*harness.Node
	for _, name := range names {
		nodes = append(nodes, c.Node(name))
	}
	client, err := c.NewClient(nodes...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer client.Close()
	began := time.Now()
	c.Start(names...)
	until(ctx, t, func(ctx context.Context) error { return write(ctx, client) })
	return time.Since(began)
}

// running returns a cluster of three that has done what it had to.
func (b *bench) running(ctx context.Context, t harness.T, flags ...string) *harness.Cluster {
	c := b.cluster(ctx, t)
	for i, name := range []string{"a", "b", "c"} {
		if i < len(flags) {
			c.Node(name).Flags = strings.Fields(flags[i])
		}
	}
	b.converge(ctx, c)
	return c
}

// converge starts the three of c, and waits until they have done what they had to.
func (b *bench) converge(ctx context.Context, c *harness.Cluster) {
	c.SetSpec(3, version)
	c.Start("a", "b", "c")
	c.WaitVoters(harness.Soon, 3)
	c.Eventually(harness.Soon, "nothing left to do", func(context.Context) error {
		r, err := c.Status()
		if err == nil && (!r.Converged || r.Term == 0) {
			err = fmt.Errorf("the cluster is not what the spec says: %v", r.Holds)
		}
		return err
	})
	wait(ctx, memberRestTime)
}

// memberRestTime is how long etcd must be left alone until it takes part in membership
// changes: it refuses them while a connection between members is younger than 5 s.
const memberRestTime = 6 * time.Second

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (b *bench) child(ctx context.Context, t harness.T) time.Duration {
	c := b.running(ctx, t)
	n := c.Node("b")
	began := time.Now()
	pid := n.KillEtcd()
	until(ctx, t, func(ctx context.Context) error {
		if now := n.EtcdPID(); now == 0 || now == pid {
			return errors.New("there is no new process")
		}
		return serves(ctx, func(ctx context.Context) (*clientv3.StatusResponse, error) { return n.EtcdStatus(ctx) })
	})
	return time.Since(began)
}

// attached kills one daemon and its etcd, and starts the daemon again as a new machine
// does: it has the flags and the member's volume, nothing else.
func (b *bench) attached(ctx context.Context, t harness.T) time.Duration {
	n := b.running(ctx, t).Node("b")
	n.Kill()
	began := time.Now()
	n.Start()
	until(ctx, t, func(ctx context.Context) error {
		return serves(ctx, func(ctx context.Context) (*clientv3.StatusResponse, error) { return n.EtcdStatus(ctx) })
	})
	return time.Since(began)
}

// restart kills all daemons and their etcds, and starts them in the same moment.
func (b *bench) restart(ctx context.Context, t harness.T) time.Duration {
	c := b.running(ctx, t)
	client, err := c.NewClient(c.Nodes()...)
	must(t, err)
	defer client.Close()
	for _, n := range c.Nodes() {
		n.Kill()
	}
	began := time.Now()
	for _, n := range c.Nodes() {
		n.Start()
	}
	until(ctx, t, func(ctx context.Context) error { return write(ctx, client) })
	for _, n := range c.Nodes() {
		until(ctx, t, func(ctx context.Context) error {
			return serves(ctx, func(ctx context.Context) (*clientv3.StatusResponse, error) { return n.EtcdStatus(ctx) })
		})
	}
	return time.Since(began)
}

// serves asks for a status, with little timeout.
func serves(ctx context.Context, status func(ctx context.Context) (*clientv3.StatusResponse, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	r, err := status(ctx)
	if err == nil && r.Leader == 0 {
		err = errors.New("it sees no leader")
	}
	return err
}

// coordinator measures until another daemon has the lease and goes on: that is
// when it says so.
func (b *bench) coordinator(ctx context.Context, t harness.T) time.Duration {
	c := b.running(ctx, t)
	gone := c.Coordinator()
	return succession(ctx, t, c, gone, gone.Kill)
}

// resting is coordinator where nothing has been to do for so long that the lease is one for rest.
func (b *bench) resting(ctx context.Context, t harness.T) time.Duration {
	c := b.running(ctx, t)
	wait(ctx, 45*time.Second)
	gone := c.Coordinator()
	return succession(ctx, t, c, gone, gone.Kill)
}

// machineOff is coordinator where the machine is off with it: nothing refuses a
// connection to it, and what is sent to it gets lost.
func (b *bench) machineOff(ctx context.Context, t harness.T) time.Duration {
	net := harness.NewNet(t)
	c := b.clusterOn(ctx, t, net)
	b.converge(ctx, c)
	gone := c.Coordinator()
	return succession(ctx, t, c, gone, func() {
		net.Cut(gone)
		gone.Kill()
	})
}

// hungDisk is coordinator where the daemon lives and its disk takes no writes.
func (b *bench) hungDisk(ctx context.Context, t harness.T) time.Duration {
	c := b.cluster(ctx, t)
	disks := map[string]*harness.Disk{}
	for _, name := range []string{"a", "b", "c"} {
		disks[name] = c.NewDisk(c.Node(name), 600)
	}
	b.converge(ctx, c)
	gone := c.Coordinator()
	took := succession(ctx, t, c, gone, disks[gone.Name].Freeze)
	disks[gone.Name].Thaw()
	return took
}

// succession ends a coordinator in some way, and measures until another acts.
func succession(ctx context.Context, t harness.T, c *harness.Cluster, gone *harness.Node, end func()) time.Duration {
	said := map[string]int{}
	for _, n := range c.Nodes() {
		said[n.Name] = n.LogSize()
	}
	began := time.Now()
	end()
	until(ctx, t, func(context.Context) error {
		for _, n := range c.Nodes() {
			if n != gone && strings.Contains(n.Said(said[n.Name]), "msg=coordinating") {
				return nil
			}
		}
		return errors.New("nobody coordinates")
	})
	return time.Since(began)
}

func (b *bench) disk(ctx context.Context, t harness.T) time.Duration {
	c := b.running(ctx, t)
	victim := c.Node("a")
	for _, n := range c.Nodes() {
		if n != c.Coordinator() {
			victim = n
		}
	}
	began := time.Now()
	victim.LoseDisk()
	victim.Start()
	wait(ctx, grace-time.Since(began)) // until then c is not replaced, and the list is the old one
	until(ctx, t, func(ctx context.Context) error {
		names, err := c.Voters(ctx)
		if err == nil && len(names) != 3 {
			err = fmt.Errorf("the voters are %v", names)
		}
		return err
	})
	return time.Since(began) - grace
}

// rest measures what a cluster costs that has nothing to do.
func (b *bench) rest(ctx context.Context) error {
	return harness.Perform(func(string) {}, func(t harness.T) {
		var flags []string
		var ports []int
		for range 3 {
			port := testport.Free(t)
			ports = append(ports, port)
			flags = append(flags, fmt.Sprintf("--etcd-manager-metrics-port=%d --etcd-manager-metrics-address=127.0.0.1", port))
		}
		c := b.running(ctx, t, flags...)
		wait(ctx, 20*time.Second)
		cpu, requests := map[string]time.Duration{}, total(t, ports)
		for _, n := range c.Nodes() {
			cpu[n.Name] = cpuTime(t, n.PID())
		}
		began := time.Now()
		wait(ctx, b.idle)
		took := time.Since(began)
		var most float64
		var rss int
		for _, n := range c.Nodes() {
			most = max(most, 100*(cpuTime(t, n.PID())-cpu[n.Name]).Seconds()/took.Seconds())
			rss = max(rss, residentKiB(t, n.PID()))
		}
		row(fmt.Sprintf("at rest for %s: processor time of the busiest daemon", b.idle),
			fmt.Sprintf("%.2f %% of a core", most), "0.1 %")
		row("at rest: memory of the largest daemon (RSS)", fmt.Sprintf("%.1f MiB", float64(rss)/1024), "32 MiB")
		row("at rest: store requests of the whole cluster",
			fmt.Sprintf("%.1f a minute", float64(total(t, ports)-requests)/took.Minutes()), "12 a minute")
		info, err := os.Stat(filepath.Join(b.bin, "etcd-manager"))
		if err != nil {
			t.Fatalf("%v", err)
		}
		row("size of etcd-manager, stripped", fmt.Sprintf("%.1f MB", float64(info.Size())/1e6), "40 MB")
	})
}

var requestLine = regexp.MustCompile(`(?m)^etcdadm_store_requests_total\S* (\S+)$`)

// total sums the store requests of all daemons.
func total(t harness.T, ports []int) int {
	sum := 0
	for _, port := range ports {
		r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
		if err != nil {
			t.Fatalf("%v", err)
		}
		text, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		m := requestLine.FindAllSubmatch(text, -1)
		if err != nil || m == nil {
			t.Fatalf("no etcdadm_store_requests_total on port %d: %v", port, err)
		}
		for _, line := range m {
			n, err := strconv.ParseFloat(string(line[1]), 64)
			if err != nil {
				t.Fatalf("%s: %v", line[0], err)
			}
			sum += int(n)
		}
	}
	return sum
}

// cpuTime returns the processor time that a process has used. The kernel
// counts it in hundredths of a second.
func cpuTime(t harness.T, pid int) time.Duration {
	t.Helper()
	own, _ := processorTimes(t, pid)
	return own
}

// familyTime is cpuTime with that of the children that have ended.
func familyTime(t harness.T, pid int) time.Duration {
	t.Helper()
	own, children := processorTimes(t, pid)
	return own + children
}

func processorTimes(t harness.T, pid int) (own, children time.Duration) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatalf("%v", err)
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var times [4]time.Duration
	for i := range times {
		n, err := strconv.Atoi(fields[11+i])
		must(t, err)
		times[i] = time.Duration(n) * 10 * time.Millisecond
	}
	return times[0] + times[1], times[2] + times[3]
}

var rssLine = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)

func residentKiB(t harness.T, pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	m := rssLine.FindSubmatch(b)
	if err != nil || m == nil {
		t.Fatalf("no VmRSS of process %d: %v", pid, err)
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return n
}
