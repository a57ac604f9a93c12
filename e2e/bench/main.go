// Command bench measures how fast a managed cluster is bootstrapped and fixed, what
// it costs at rest, and how fast a large database is backed up and restored. Each
// time stands beside its floor: what bare etcd and its own tools take on the same
// machine in the same run. It prints tables in Markdown; docs/performance.md has them.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// version is the etcd that is measured.
const version = "3.6.16"

func main() {
	var b bench
	flag.StringVar(&b.bin, "bin", "bin", "directory with the programs, as make build makes them")
	flag.StringVar(&b.etcdDirs, "etcd-dir", os.Getenv("ETCDADM_ETCD_DIR"),
		"directories with etcd-v"+version+", separated by colons")
	flag.StringVar(&b.only, "only", "", "measure only what has this `text` in its name")
	flag.IntVar(&b.rounds, "rounds", 5, "how often each time is measured; the table has the median and the slowest")
	flag.Int64Var(&b.mib, "mib", 2048, "size of the database that is backed up and restored, in MiB")
	flag.Int64Var(&b.versionMiB, "version-mib", 1400, "size of the database whose version is changed, in MiB")
	flag.IntVar(&b.rate, "rate", 500, "puts a second while the version is changed")
	flag.IntVar(&b.changeRate, "change-rate", 2000, "puts a second while members come and go")
	flag.BoolVar(&b.far, "far", false, "change the version from 3.4.25 to 3.7.3 as well")
	flag.DurationVar(&b.idle, "idle", time.Minute, "how long the cluster at rest is measured")
	flag.Parse()
	runtime.LockOSThread() // see bare.start
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	bin, err := filepath.Abs(b.bin)
	if err == nil {
		b.bin = bin
		err = b.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type bench struct {
	bin, etcdDirs string
	only          string
	rounds        int
	idle          time.Duration
	mib           int64
	versionMiB    int64
	rate          int
	changeRate    int
	far           bool
}

// A measurement is one figure of the table.
type measurement struct {
	what, target string
	once         func(ctx context.Context, t harness.T) time.Duration
	floor        func(ctx context.Context, t harness.T) time.Duration
	needs        func() error // says why it cannot be measured here; nil for nothing
}

// needsMachines says why there can be no machines with volumes and a network.
func needsMachines() error {
	if err := harness.DiskError(); err != nil {
		return err
	}
	return harness.NetError()
}

func (b *bench) run(ctx context.Context) error {
	fmt.Println("| what | median | slowest | floor (median) | over the floor | target |")
	fmt.Println("| --- | --- | --- | --- | --- | --- |")
	for _, m := range []measurement{
		{"three daemons started to the first acknowledged write", "1.5 s over the floor", b.found, b.bootstrapFloor, nil},
		{"two of three daemons started to the first acknowledged write", "10 s", b.foundTwo, nil, nil},
		{"etcd killed with SIGKILL to served again", "1 s over the floor", b.child, b.childFloor, nil},
		{"daemon started where a member's volume is attached to its member serving",
			"2 s over the floor", b.attached, b.childFloor, nil},
		{"daemon started on a new kops machine with a member's volume attached to its member serving",
			"2 s over the floor", b.mounted, b.childFloor, needsMachines},
		{"all killed and started together to all served again", "1 s over the floor", b.restart, b.restartFloor, nil},
		{"coordinator killed to another one acting", "2 s", b.coordinator, nil, nil},
		{"the coordinator of a cluster at rest killed to another one acting", "3.5 s", b.resting, nil, nil},
		{"the coordinator's machine is off to another one acting", "2 s", b.machineOff, nil, harness.NetError},
		{"the disk of the coordinator's machine hangs to another one acting", "10 s", b.hungDisk, nil, harness.DiskError},
		{"`etcdadm init` to the first acknowledged write", "1 s over the floor", b.byHandInit, b.initFloor, nil},
		{"`etcdadm join` to a voter that takes writes", "1 s over the floor", b.byHandJoin, b.joinFloor, nil},
		{"`etcdadm preflight` before init", "1 s", b.preflightInit, nil, nil},
		{"`etcdadm preflight --endpoints` before join", "1 s", b.preflightJoin, nil, nil},
		{"disk lost: end of the grace time to three healthy voters", "2 s over the floor", b.disk, b.diskFloor, nil},
	} {
		if !strings.Contains(m.what, b.only) {
			continue
		}
		if m.needs != nil {
			if err := m.needs(); err != nil {
				fmt.Printf("| %s | not measured: %v | - | - | - | %s |\n", m.what, err, m.target)
				continue
			}
		}
		if err := b.measure(ctx, m); err != nil {
			return err
		}
	}
	if strings.Contains("certificates of `etcdadm init`", b.only) {
		if err := harness.Perform(func(string) {}, b.issue); err != nil {
			return err
		}
	}
	if strings.Contains("at rest", b.only) {
		if err := b.rest(ctx); err != nil {
			return err
		}
	}
	if err := b.changes(ctx); err != nil {
		return err
	}
	if err := b.moves(ctx); err != nil {
		return err
	}
	if err := b.versions(ctx); err != nil {
		return err
	}
	return b.large(ctx)
}

func (b *bench) measure(ctx context.Context, m measurement) error {
	times, err := b.repeat(ctx, m.once)
	if err != nil {
		return fmt.Errorf("%s: %w", m.what, err)
	}
	floor, over := "-", "-"
	if m.floor != nil {
		floors, err := b.repeat(ctx, m.floor)
		if err != nil {
			return fmt.Errorf("floor of %s: %w", m.what, err)
		}
		floor, over = short(median(floors)), short(median(times)-median(floors))
	}
	fmt.Printf("| %s | %s | %s | %s | %s | %s |\n", m.what, short(median(times)), short(slices.Max(times)), floor, over,
		m.target)
	return nil
}

func (b *bench) repeat(ctx context.Context, once func(context.Context, harness.T) time.Duration) (
	[]time.Duration, error) {
	var times []time.Duration
	for range b.rounds {
		err := harness.Perform(func(string) {}, func(t harness.T) { times = append(times, once(ctx, t)) })
		if err != nil {
			return nil, err
		}
	}
	return times, nil
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

func short(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// row prints a line of the table that has one figure.
func row(what, value, target string) {
	fmt.Println(strings.Join([]string{"|", what, "|", value, "| - | - | - |", target, "|"}, " "))
}
