package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/e2e/kubedata"
)

// A cost is what one run of something took.
type cost struct {
	wall time.Duration
	// cpu is the processor time of the programs that are measured, others that
	// of the servers they use.
	cpu, others time.Duration
	// rss is the largest memory of one program, stored the size of the backup.
	rss, stored int64
}

// A contest is one line of the table: something that is measured against the
// floor. The first line of a table is the floor.
type contest struct {
	what, target string
	once         func(ctx context.Context, t harness.T) cost
	costs        []cost
}

// largeRounds is how often the large things are measured.
const largeRounds = 3

// compete runs all lines in turn, round by round, so that what else the machine
// does meets all of them, and prints the table.
func (b *bench) compete(ctx context.Context, t harness.T, lines []*contest) {
	for range min(b.rounds, largeRounds) {
		for _, l := range lines {
			// What was written before is not for this one to wait for.
			syscall.Sync()
			l.costs = append(l.costs, l.once(ctx, t))
		}
	}
	fmt.Println("\n| what | wall (median) | fastest to slowest | of the floor | processor time | etcd's and the " +
		"store's | largest memory (RSS) | stored | target |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	floor := middle(lines[0].costs)
	for _, l := range lines {
		walls, m := make([]time.Duration, 0, len(l.costs)), middle(l.costs)
		memory := int64(0)
		for _, c := range l.costs {
			walls, memory = append(walls, c.wall), max(memory, c.rss)
		}
		stored := "-"
		if m.stored > 0 {
			stored = fmt.Sprintf("%d MiB, 1/%.1f", m.stored>>20, float64(b.mib<<20)/float64(m.stored))
		}
		fmt.Printf("| %s | %s | %s to %s | %.2f | %s | %s | %d MiB | %s | %s |\n", l.what, short(m.wall),
			short(slices.Min(walls)), short(slices.Max(walls)),
			m.wall.Seconds()/floor.wall.Seconds(), short(m.cpu), short(m.others), memory>>20, stored, l.target)
	}
}

// middle returns the run whose time is the median.
func middle(costs []cost) cost {
	sorted := slices.Clone(costs)
	slices.SortFunc(sorted, func(a, b cost) int { return int(a.wall - b.wall) })
	return sorted[len(sorted)/2]
}

// large measures what is done with a large database, and with many backups.
func (b *bench) large(ctx context.Context) error {
	backup, restore := strings.Contains(backupTitle, b.only), strings.Contains(restoreTitle, b.only)
	return harness.Perform(func(string) {}, func(t harness.T) {
		if backup || restore {
			w := b.world(ctx, t)
			if backup {
				w.backup(ctx, t)
			}
			if restore {
				w.restore(ctx, t)
			}
		}
		b.many(ctx, t)
	})
}

// A world is a large database and an etcd that serves it.
type world struct {
	*bench
	dir string
	// file is a snapshot of the database.
	file   string
	server *bare
}

func (b *bench) world(ctx context.Context, t harness.T) *world {
	w := &world{bench: b, dir: b.root(t)}
	w.file = filepath.Join(w.dir, "snapshot.db")
	_, err := kubedata.Write(ctx, w.file, kubedata.Options{Bytes: b.mib << 20, Seed: 1})
	must(t, err)
	w.server = b.bare(t)
	w.server.names = w.server.names[:1]
	w.server.client.SetEndpoints(w.server.clientURL("a"))
	b.process(t, b.program(t, "etcdutl"), w.server.restoring(w.file, "a")...)
	w.server.startAll(t)
	until(ctx, t, func(ctx context.Context) error { return write(ctx, w.server.client) })
	return w
}

// restoring is the command line that makes a member's data directory.
func (f *bare) restoring(file, name string) []string {
	return []string{
		"snapshot", "restore", file, "--data-dir=" + filepath.Join(f.dir, name), "--name=" + name,
		"--initial-advertise-peer-urls=" + f.peerURL(name), "--initial-cluster=" + f.initialCluster(),
		"--initial-cluster-token=bench",
	}
}

// program returns one of etcd's programs.
func (b *bench) program(t harness.T, name string) string {
	t.Helper()
	path, err := harness.EtcdBinary(b.etcdDirs, version, name)
	must(t, err)
	return path
}

// process runs a program to its end, and says what it took.
func (b *bench) process(t harness.T, path string, args ...string) cost {
	t.Helper()
	var said strings.Builder
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	must(t, cmd.Start())
	ended, peak := make(chan struct{}), make(chan int64)
	go func() { peak <- watchMemory(cmd.Process.Pid, ended) }()
	err := cmd.Wait()
	c := cost{wall: time.Since(began), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	close(ended)
	c.rss = <-peak
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", path, args, err, said.String())
	}
	return c
}

// watchMemory returns the largest memory that a process has until it ends. What
// the kernel says at its end (ru_maxrss) counts that of the process it was
// forked from.
func watchMemory(pid int, ended <-chan struct{}) (peak int64) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		peak = max(peak, largestMemory(pid))
		select {
		case <-ended:
			return peak
		case <-tick.C:
		}
	}
}

var peakLine = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// largestMemory returns the largest memory that a process has had, 0 if it is
// gone.
func largestMemory(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	m := peakLine.FindSubmatch(b)
	if err != nil || m == nil {
		return 0
	}
	// It is a number.
	n, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return n << 10
}
