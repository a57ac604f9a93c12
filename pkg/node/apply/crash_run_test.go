//go:build !crashpoints

package apply

import (
	"testing"

	"github.com/etcdadm/etcdadm/pkg/testing/crashrun"
)

// TestCrashes runs the tests of crash_test.go, which need a build with crash
// points.
func TestCrashes(t *testing.T) { crashrun.Run(t) }
