//go:build !crashpoints

package volumes

import (
	"testing"

	"github.com/etcdadm/etcdadm/pkg/testing/crashrun"
)

func TestCrashes(t *testing.T) { crashrun.Run(t) }
