package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/e2e/kubedata"
)

const versionTitle = "change of version of"

// A journey is a change of the version of three members.
type journey struct{ from, to string }

// versions measures changes of version under load, and the first of them beside a script
// with bare etcd.
func (b *bench) versions(ctx context.Context) error {
	if !strings.Contains(versionTitle, b.only) {
		return nil
	}
	fmt.Printf("\n%s 3 members with %d MiB, %d puts a second and one watcher:\n\n", versionTitle, b.versionMiB, b.rate)
	loadHead("spec")
	return harness.Perform(func(string) {}, func(t harness.T) {
		near := journey{"3.5.35", version}
		w := b.worldOf(ctx, t, near.from)
		w.scripted(ctx, t, near)
		w.ordered(ctx, t, near)
		if b.far {
			w = b.worldOf(ctx, t, "3.4.25")
			w.ordered(ctx, t, journey{"3.4.25", "3.7.3"})
		}
	})
}

// worldOf is a large database, and a backup of it that an etcd of a version has made.
func (b *bench) worldOf(ctx context.Context, t harness.T, from string) *world {
	w := &world{bench: b, dir: b.root(t)}
	w.file = filepath.Join(w.dir, "snapshot.db")
	_, err := kubedata.Write(ctx, w.file, kubedata.Options{Bytes: b.versionMiB << 20, Seed: 1})
	must(t, err)
	w.server = b.bareOf(t, from)
	w.server.names = w.server.names[:1]
	w.server.client.SetEndpoints(w.server.clientURL("a"))
	b.process(t, w.restorer(t, from), w.server.restoring(w.file, "a")...)
	w.server.startAll(t)
	until(ctx, t, func(ctx context.Context) error { return write(ctx, w.server.client) })
	w.take(t, "zstd", filepath.Join(w.dir, "store"))
	w.server.kill("a")
	return w
}

// restorer is the program of a version that restores snapshots.
func (w *world) restorer(t harness.T, version string) string {
	t.Helper()
	for _, name := range []string{"etcdutl", "etcdctl"} {
		if path, err := harness.EtcdBinary(w.etcdDirs, version, name); err == nil {
			return path
		}
	}
	t.Fatalf("no etcdutl or etcdctl of %s", version)
	return ""
}

// scripted is the floor: a script that restarts the followers, moves the leader and
// restarts it, and waits for health between.
func (w *world) scripted(ctx context.Context, t harness.T, j journey) {
	f := w.bareOf(t, j.from)
	for _, name := range f.names {
		w.process(t, w.restorer(t, j.from), f.restoring(w.file, name)...)
	}
	f.startAll(t)
	for _, name := range f.names {
		within(ctx, t, timeout, func(ctx context.Context) error { return serves(ctx, f.status(name)) })
	}
	l := burden(ctx, t, f.client, eager(t, f.pki, f.client.Endpoints()...), w.rate)
	wait(ctx, warmUpTime)
	l.mark()
	began := time.Now()
	etcd, err := harness.EtcdBinary(w.etcdDirs, j.to, "etcd")
	must(t, err)
	leader := f.leader(ctx, t)
	for _, name := range f.names {
		if name != leader {
			l.stops()
			f.replace(ctx, t, name, etcd)
		}
	}
	f.moveLeader(ctx, t, leader)
	f.replace(ctx, t, leader, etcd)
	l.row(ctx, fmt.Sprintf("a script, %s to %s: the floor", j.from, j.to), time.Since(began))
	f.close()
}

// replace stops a member in order, and starts another program on its data.
func (f *bare) replace(ctx context.Context, t harness.T, name, etcd string) {
	cmd := f.processes[name]
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait() // it was asked to end
	f.etcd = etcd
	f.start(t, name, "existing")
	within(ctx, t, timeout, func(ctx context.Context) error {
		c := eager(t, f.pki, f.clientURL(name))
		defer func() { _ = c.Close() }()
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := c.Get(ctx, "health")
		return err
	})
}

func (f *bare) leader(ctx context.Context, t harness.T) string {
	for _, name := range f.names {
		if s, err := f.status(name)(ctx); err == nil && s.Leader == s.Header.MemberId {
			return name
		}
	}
	t.Fatalf("nobody leads")
	return ""
}

func (f *bare) moveLeader(ctx context.Context, t harness.T, leader string) {
	for _, name := range f.names {
		if name == leader {
			continue
		}
		s, err := f.status(name)(ctx)
		must(t, err)
		c := eager(t, f.pki, f.clientURL(leader))
		_, err = c.MoveLeader(ctx, s.Header.MemberId)
		must(t, err)
		return
	}
}

// ordered is the same by daemons: the spec is changed.
func (w *world) ordered(ctx context.Context, t harness.T, j journey) {
	c := harness.New(ctx, t, harness.Options{
		Bin: w.bin, EtcdDirs: w.etcdDirs, Unwatched: true, Restored: true, Env: []string{quota},
		OnFailure: func(*harness.Cluster) {},
	})
	c.SetSpec(3, j.from)
	c.Start("a", "b", "c")
	c.WaitVoters(harness.Soon, 3)
	w.fill(ctx, t, c)
	l, release := burdenOn(ctx, t, c, w.rate)
	defer release()
	began, pids := time.Now(), map[string]int{}
	for _, n := range c.Nodes() {
		pids[n.Name] = n.EtcdPID()
	}
	c.SetSpec(3, j.to)
	within(ctx, t, 2*timeout, func(ctx context.Context) error {
		for _, n := range c.Nodes() {
			if n.EtcdPID() != pids[n.Name] {
				l.stops()
			}
		}
		for _, n := range c.Nodes() {
			if s, err := n.EtcdStatus(ctx); err != nil || s.Version != j.to {
				return fmt.Errorf("%s does not run %s: %w", n.Name, j.to, err)
			}
		}
		return done(c, j.to)
	})
	l.row(ctx, fmt.Sprintf("the daemons, %s to %s", j.from, j.to), time.Since(began))
}

// done reports why the daemons are not finished.
func done(c *harness.Cluster, version string) error {
	r, err := c.Status()
	if err == nil && (!r.Converged || r.Observation.Nodes[0].Assigned.Version.String() != version) {
		err = fmt.Errorf("holds: %v", r.Holds)
	}
	return err
}

// fill restores the large backup into a cluster, and waits until it is open again.
func (w *world) fill(ctx context.Context, t harness.T, c *harness.Cluster) {
	backups, err := filepath.Glob(filepath.Join(w.dir, "store", "2*"))
	must(t, err)
	name := filepath.Base(backups[0])
	must(t, os.MkdirAll(filepath.Join(c.Store, name), 0o755))
	files, err := filepath.Glob(filepath.Join(backups[0], "*"))
	must(t, err)
	for _, f := range files {
		must(t, os.Link(f, filepath.Join(c.Store, name, filepath.Base(f))))
	}
	_, err = c.Ctl("restore-backup", name, "--skip-backup")
	must(t, err)
	within(ctx, t, 2*timeout, func(ctx context.Context) error {
		s, err := c.Nodes()[0].EtcdStatus(ctx)
		if err == nil && s.DbSize < w.versionMiB<<19 {
			err = errors.New("the database is small still")
		}
		if err != nil {
			return err
		}
		r, err := c.Status()
		if err == nil && !r.Converged {
			err = fmt.Errorf("holds: %v", r.Holds)
		}
		return err
	})
	wait(ctx, memberRestTime)
}
