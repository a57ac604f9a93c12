package standin

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/etcdadm/etcdadm/pkg/testing/testchild"
)

// restore makes a new cluster and has a backup's keys written into it, one by one, through
// a member that was healthy before: where none was, the next round makes one more cluster.
func (c *controller) restore(ctx context.Context, v *view, r command) error {
	if r.spec.Count == 0 {
		r.spec = *c.spec
	}
	if err := c.create(ctx, v, r.spec); err != nil {
		return err
	}
	for _, name := range slices.Backward(v.configured()) {
		if !v.healthy[name] {
			continue
		}
		if err := v.leader.Restore(ctx, name, r.backup); err != nil {
			return err
		}
		log.Printf("%s is restored", r.backup)
		return errors.Join(c.writeSpec(r.spec), os.Remove(r.path), c.refresh())
	}
	return errors.New("unable to find peer on which to run restore operation")
}

// Restore writes a backup's keys into the member: no leases, and other revisions.
func (m *machine) Restore(ctx context.Context, backup string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.runs() {
		return errors.New("etcd does not run")
	}
	dir, err := os.MkdirTemp("", "restore-etcd-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	source, stop, err := m.serveBackup(ctx, dir, filepath.Join(m.o.store, backup, "etcd.backup.gz"))
	if err != nil {
		return err
	}
	defer stop()
	c := &controller{m: m}
	return c.with(ctx, m.own().QuarantineURLs, func(_ context.Context, target *clientv3.Client) error {
		next := "\x00"
		for {
			page, err := source.Get(ctx, next, clientv3.WithFromKey(), clientv3.WithLimit(1000))
			if err != nil {
				return err
			}
			for _, kv := range page.Kvs {
				if _, err := target.Put(ctx, string(kv.Key), string(kv.Value)); err != nil {
					return err
				}
				next = string(kv.Key) + "\x00"
			}
			if !page.More {
				return nil
			}
		}
	})
}

// serveBackup starts an etcd of a backup, at a socket in a directory.
func (m *machine) serveBackup(ctx context.Context, dir, backup string) (*clientv3.Client, func(), error) {
	snapshot, data := filepath.Join(dir, "snapshot"), filepath.Join(dir, "data")
	if err := unzip(backup, snapshot); err != nil {
		return nil, nil, err
	}
	etcdutl, err := m.binary(m.state.Version, "etcdutl")
	if err != nil {
		return nil, nil, err
	}
	etcd, err := m.binary(m.state.Version, "etcd")
	if err != nil {
		return nil, nil, err
	}
	client, peer := "unix://127.0.0.1:8002", "unix://127.0.0.1:8003"
	out, err := exec.CommandContext(ctx, etcdutl, "snapshot", "restore", snapshot, "--name=restore", "--data-dir="+data,
		"--initial-cluster=restore="+peer, "--initial-cluster-token=data",
		"--initial-advertise-peer-urls="+peer).CombinedOutput()
	if err != nil {
		return nil, nil, fmt.Errorf("etcdutl: %w: %s", err, out)
	}
	cmd := exec.CommandContext(ctx, etcd, "--force-new-cluster", "--name=restore", "--data-dir="+data,
		"--initial-cluster=restore="+peer, "--initial-advertise-peer-urls="+peer, "--listen-peer-urls="+peer,
		"--listen-client-urls="+client, "--advertise-client-urls="+client, "--log-level=error")
	cmd.Dir = dir // its sockets are files there
	if err := testchild.Start(cmd); err != nil {
		return nil, nil, err
	}
	end := func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"unix://" + filepath.Join(dir, "127.0.0.1:8002")}, Logger: zap.NewNop(),
		DialTimeout: time.Minute, Context: ctx,
	})
	if err != nil {
		end()
		return nil, nil, err
	}
	return c, func() { _ = c.Close(); end() }, nil
}

func unzip(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	zip, err := gzip.NewReader(in)
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, zip)
	return errors.Join(err, out.Close())
}
