// Package stores tests the stores in clouds against real servers.
package stores

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/stores/servers"
	"github.com/etcdadm/etcdadm/pkg/store"
	_ "github.com/etcdadm/etcdadm/pkg/store/cloud"
	"github.com/etcdadm/etcdadm/pkg/store/storetest"
)

func open(t *testing.T, location string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var paths atomic.Int64

// conform runs the suite of all stores, each test in a path of its own.
func conform(t *testing.T, location func(path string) string) {
	storetest.Run(t, func(t *testing.T) func() *store.Store {
		at := location(fmt.Sprintf("a/path/%d", paths.Add(1)))
		return func() *store.Store { return open(t, at) }
	})
}

func TestS3(t *testing.T)  { conform(t, servers.StartS3(t).Location) }
func TestGCS(t *testing.T) { conform(t, servers.StartGCS(t).Location) }
