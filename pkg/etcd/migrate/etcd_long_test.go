//go:build e2e

package migrate

import (
	"testing"

	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

func TestEveryEtcd2(t *testing.T) {
	t.Run("2.2.5", func(t *testing.T) { testV2(t, "2.2.5") })
	t.Run("torn log of 2.2.5", func(t *testing.T) { testTornLog(t, "2.2.5") })
	t.Run("one of three of 2.3.8", func(t *testing.T) { testOneOfThree(t, "2.3.8") })
	t.Run("one of three of 3.3.27", func(t *testing.T) { testOneOfThree(t, "3.3.27") })
}

func TestEveryEarlyEtcd3(t *testing.T) {
	for _, version := range []string{"3.0.17", "3.1.20", "3.2.32"} {
		t.Run(version, func(t *testing.T) { testBoth(t, version) })
	}
}

// The oldest version that a backup says it is for restores it, and so do those after it, each
// by its own tool.
func TestVersionsThatRestoreIt(t *testing.T) {
	t.Parallel()
	m := old(t, "2.3.8")
	want := fill(t, m)
	kill(t, m)
	_, out := run(t, options(t, m))
	for _, version := range []string{"3.5.0", "3.5.35", etcdtest.V36, "3.7.3"} {
		t.Run(version, func(t *testing.T) { same(t, restoredAs(t, version, out), want, filledTTLs) })
	}
}
