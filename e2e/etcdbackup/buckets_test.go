//go:build e2e

package etcdbackup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/e2e/stores/servers"
	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdutl"
	"github.com/etcdadm/etcdadm/pkg/store"
	_ "github.com/etcdadm/etcdadm/pkg/store/cloud"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, cond func() error) {
	t.Helper()
	testwait.For(t, what, func(context.Context) error { return cond() })
}

// program builds the program whose main is in a folder.
func program(t *testing.T, folder string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), folder)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-p", "2", "-o", path, "github.com/etcdadm/etcdadm/"+folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", folder, err, out)
	}
	return path
}

// run starts a process that ends with the test at the latest. What it says is
// shown if the test fails.
func run(t *testing.T, path string, args ...string) *exec.Cmd {
	t.Helper()
	var mu sync.Mutex
	var said bytes.Buffer
	cmd := exec.Command(path, args...)
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	must(t, cmd.Start())
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := r.Read(b)
			mu.Lock()
			said.Write(b[:n])
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		w.Close()
		if t.Failed() {
			mu.Lock()
			defer mu.Unlock()
			t.Logf("%s said:\n%s", filepath.Base(path), said.String())
		}
	})
	return cmd
}

func put(t *testing.T, client *clientv3.Client, n int) error {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := client.Put(ctx, fmt.Sprint("key-", n), "value")
	return err
}

// Two agents with a bucket between them take one backup each interval, also
// when one of them is killed; what is in the bucket can be restored.
func TestAgentsWithABucket(t *testing.T) {
	bin := etcdtest.Binaries(t, etcdtest.V36)
	agent := program(t, "etcd-backup")
	for name, location := range map[string]func(t *testing.T) string{
		"S3":  func(t *testing.T) string { return servers.StartS3(t).Location("clusters/main") },
		"GCS": func(t *testing.T) string { return servers.StartGCS(t).Location("clusters/main") },
	} {
		t.Run(name, func(t *testing.T) {
			at := location(t)
			s, err := store.Open(t.Context(), at)
			must(t, err)
			list := func() []cluster.Backup {
				all, err := s.Backups(t.Context())
				must(t, err)
				slices.Reverse(all)
				return all
			}
			client := etcdtest.Serve(t, bin)
			url := client.Endpoints()[0]
			for n := range 20 {
				must(t, put(t, client, n))
			}
			const interval = 3 * time.Second
			args := []string{"--cluster-name=main", "--backup-store=" + at, "--client-url=" + url, "--interval=3s", "--verify",
				"--compression=zstd"}
			first, second := run(t, agent, args...), run(t, agent, args...)
			more := func(n int) {
				t.Helper()
				want := len(list()) + n
				eventually(t, fmt.Sprintf("%d backups", want), func() error {
					if have := len(list()); have < want {
						return fmt.Errorf("there are %d", have)
					}
					return nil
				})
			}
			more(2)
			eventually(t, "the first backup to be verified", func() error {
				if list()[0].Verified.IsZero() {
					return errors.New("it is not")
				}
				return nil
			})
			must(t, first.Process.Kill())
			_ = first.Wait()
			more(2)
			must(t, second.Process.Signal(syscall.SIGTERM))
			must(t, second.Wait())

			all := list()
			for i, b := range all {
				if gap := b.At.Sub(all[max(0, i-1)].At); i > 0 && gap < interval {
					t.Errorf("%s comes %s after the one before", b.Name, gap)
				}
				if d, err := backup.Verify(t.Context(), s, b.Name, backup.FetchOptions{}); err != nil || d.Keys != 20 ||
					d.Compression != backup.Zstd {
					t.Errorf("%s has %d keys in %s, %v", b.Name, d.Keys, d.Compression, err)
				}
			}
			if all[0].Verified.IsZero() {
				t.Errorf("nothing shows that %s was verified", all[0].Name)
			}
			restores(t, s, all[len(all)-1].Name, bin)
		})
	}
}

// restores checks that etcd starts on a backup.
func restores(t *testing.T, s *store.Store, name string, bin etcdbin.Binaries) {
	t.Helper()
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "snapshot.db"))
	must(t, err)
	_, err = backup.Fetch(t.Context(), s, name, file, backup.FetchOptions{})
	must(t, errors.Join(err, file.Close()))
	tool, err := etcdutl.Find(t.Context(), bin.Dir, bin.Version)
	must(t, err)
	m := etcdtest.New(t, "a")
	m.DataDir = filepath.Join(dir, "data")
	must(t, tool.Restore(t.Context(), etcdutl.RestoreOptions{
		Snapshot: file.Name(), DataDir: m.DataDir, Name: cluster.NodeName(m.Name), PeerURLs: []string{m.PeerURL},
	}))
	m.Start(t, bin)
	client := etcdtest.Dial(t, m)
	eventually(t, "the restored etcd", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		r, err := client.Get(ctx, "key-", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err == nil && r.Count != 20 {
			err = fmt.Errorf("it has %d keys", r.Count)
		}
		return err
	})
}
