//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/testing/crashrun"
)

// Daemons are killed with SIGKILL, and their members with them, before and after a peer URL on
// record gets TLS, and before a member starts with it. Then a machine is cut off while the
// others have not moved yet: they move when it is back. What was acknowledged stays.
func TestEtcdGetsTLSKilledAndPartitioned(t *testing.T) {
	t.Parallel()
	bin, dir := crashPrograms(t), t.TempDir()
	x := machines(t, 250*time.Millisecond)
	x.c.SetSpec(3, v36)
	for _, n := range x.nodes { // whichever coordinates
		n.Bin, n.MayEnd, n.Env = bin, true, []string{crashrun.Variable + "=" + crashrun.Dir + dir}
		x.events(n, true)
		x.startOurs(n)
	}
	x.serve(kopsVoters...)
	w := x.c.Write()
	w.WaitMore(harness.Soon, 10)
	for _, step := range []string{"member-update.before", "member-update.after", "member-start.before-spawn"} {
		if err := os.WriteFile(filepath.Join(dir, step), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range x.nodes[:2] {
		n.Stop()
		x.events(n, false)
		x.startOurs(n)
		eventually(t, x.c, "the members serve", func() error {
			x.begunAgain()
			names, err := x.c.Voters(t.Context())
			if err == nil && !slices.Equal(names, kopsVoters) {
				err = fmt.Errorf("the voters are %v", names)
			}
			return err
		})
	}
	eventually(t, x.c, "two members with TLS", func() error {
		x.begunAgain()
		list, err := x.c.Members(t.Context())
		for _, m := range list {
			if want := "https://" + x.c.Node(m.Name).Host + ":2380"; m.Name != "etcd-c" && !slices.Contains(m.PeerURLs, want) {
				err = fmt.Errorf("%s is at %v", m.Name, m.PeerURLs)
			}
		}
		left, bad := os.ReadDir(dir)
		if len(left) > 0 {
			bad = fmt.Errorf("steps that have killed nobody: %v", left)
		}
		return errors.Join(err, bad)
	})
	w.WaitMore(harness.Soon, 10)

	last := x.nodes[2]
	x.c.Net.Cut(x.nodes[0])
	last.Stop()
	x.events(last, false)
	x.startOurs(last)
	w.WaitMore(harness.Soon, 10)
	x.at(last, "http", "https")
	x.c.Net.Heal()
	for _, n := range x.nodes {
		x.at(n, "https", "https")
	}
	x.c.WaitNames(harness.Soon, kopsVoters...)
	x.unchanged()
	w.WaitMore(harness.Soon, 10)
}
