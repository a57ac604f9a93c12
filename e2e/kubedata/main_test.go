package kubedata

import (
	"context"
	"os"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/isolate"
)

// TestMain lets the tests read snapshots in processes of their own.
func TestMain(m *testing.M) {
	if code, ok := isolate.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}
