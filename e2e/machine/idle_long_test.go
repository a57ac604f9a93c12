//go:build e2e

package machine

import (
	"testing"

	"golang.org/x/sync/errgroup"
)

// A cluster that has a long history, and that nobody writes to, takes members.
func TestJoinOfAnIdleCluster(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			hosts := newHosts(func(name string) *host { return newHost(t, name, version) }, 2)
			a, b := hosts[0], hosts[1]
			a.ok("init")
			b.copyCA(a)
			kv, writers := a.client(a), new(errgroup.Group)
			for range 50 { // 20,000 entries: the log has only the last ones, and etcd sends a snapshot
				writers.Go(func() (err error) {
					for i := 0; i < 400 && err == nil; i++ {
						err = poll(commandTime, func() error {
							_, err := kv.Put(t.Context(), "k", "v")
							return err
						})
					}
					return err
				})
			}
			if err := writers.Wait(); err != nil {
				t.Fatal(err)
			}
			b.repeated(func() result { return b.run("join", "--retry=false", a.clientURL()) })
			b.wantVoters("a", "b")
		})
	}
}
