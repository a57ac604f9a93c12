package main

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/e2e/stores/servers"
)

const backupTitle = "backup of a large database"

// backup measures etcd-backup against "etcdctl snapshot save" to the same disk.
func (w *world) backup(ctx context.Context, t harness.T) {
	s3, err := servers.RunS3(ctx, filepath.Join(w.dir, "s3"))
	must(t, err)
	t.Cleanup(s3.Stop)
	for name, value := range s3.Environ() {
		must(t, os.Setenv(name, value))
	}
	lines := []*contest{{what: "`etcdctl snapshot save`: the floor", target: "-", once: w.saveFloor}}
	for _, l := range []struct {
		what, compression, location, dir string
		pid                              int
	}{
		{"backup with gzip to a directory", "gzip", filepath.Join(w.dir, "store"), filepath.Join(w.dir, "store"), 0},
		{"backup with zstd to a directory", "zstd", filepath.Join(w.dir, "store"), filepath.Join(w.dir, "store"), 0},
		{"backup with gzip to the S3 server", "gzip", s3.Location("x"), filepath.Join(s3.Dir, s3.Bucket), s3.PID},
		{"backup with zstd to the S3 server", "zstd", s3.Location("x"), filepath.Join(s3.Dir, s3.Bucket), s3.PID},
	} {
		lines = append(lines, &contest{what: l.what, target: "1.15 of the floor, 96 MiB",
			once: func(_ context.Context, t harness.T) cost {
				servers := []int{w.server.processes["a"].Process.Pid}
				if l.pid != 0 {
					servers = append(servers, l.pid)
				}
				before := cpuTimes(t, servers...)
				c := w.take(t, l.compression, l.location)
				c.others, c.stored = cpuTimes(t, servers...)-before, dirSize(t, l.dir)
				entries, err := os.ReadDir(l.dir)
				must(t, err)
				for _, e := range entries {
					must(t, os.RemoveAll(filepath.Join(l.dir, e.Name())))
				}
				return c
			}})
	}
	w.compete(ctx, t, lines)
}

// take runs etcd-backup once.
func (w *world) take(t harness.T, compression, location string) cost {
	t.Helper()
	pair := filepath.Join(w.server.dir, "a-"+harness.ClientsCA)
	return w.process(t, filepath.Join(w.bin, "etcd-backup"), "--once", "--cluster-name=bench", "--backup-store="+location,
		"--compression="+compression,
		"--client-url="+w.server.clientURL("a"),
		"--client-ca-file="+filepath.Join(w.server.dir, "pki", harness.ClientsCA+".crt"),
		"--client-cert-file="+pair+".crt", "--client-key-file="+pair+".key")
}

func (w *world) saveFloor(_ context.Context, t harness.T) cost {
	pair, file := filepath.Join(w.server.dir, "a-"+harness.ClientsCA), filepath.Join(w.dir, "saved.db")
	pid := w.server.processes["a"].Process.Pid
	before := cpuTimes(t, pid)
	c := w.process(t, w.program(t, "etcdctl"), "--endpoints="+w.server.clientURL("a"),
		"--cacert="+filepath.Join(w.server.dir, "pki", harness.ClientsCA+".crt"),
		"--cert="+pair+".crt", "--key="+pair+".key", "snapshot", "save", file)
	c.others, c.stored = cpuTimes(t, pid)-before, dirSize(t, file)
	must(t, os.Remove(file))
	return c
}

func cpuTimes(t harness.T, pids ...int) (sum time.Duration) {
	t.Helper()
	for _, pid := range pids {
		sum += cpuTime(t, pid)
	}
	return sum
}

// dirSize returns the size of all files below a path.
func dirSize(t harness.T, path string) (sum int64) {
	t.Helper()
	must(t, filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	}))
	return sum
}
