package hetzner

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/hetznertest"
)

// serve returns the provider of what a fake serves.
func serve(t *testing.T, f *hetznertest.Fake) *provider {
	s := httptest.NewServer(f.Handler())
	t.Cleanup(s.Close)
	return open(volumestest.KopsOptions("hetzner"), s.URL+"/hetzner/v1/metadata", s.Client(), hcloud.WithToken("token"),
		hcloud.WithEndpoint(s.URL+"/v1"))
}

func TestProvider(t *testing.T) {
	cloud := hetznertest.Cloud()
	cloud.Open = func(t *testing.T, w *volumestest.World) volumes.Provider {
		return serve(t, &hetznertest.Fake{T: t, W: w})
	}
	volumestest.Run(t, cloud)
}

// Volumes of other instance groups are other machines', and show their nodes.
func TestTheInstanceGroupSelects(t *testing.T) {
	self := hetznertest.Machine(1, "fsn1")
	other := hetznertest.Disk(1, volumestest.Place{Cluster: "prod.example.com", Etcd: "main", Member: "b", Zone: "fsn1"})
	w := &volumestest.World{Self: self, Machines: []*volumestest.Machine{self}, Disks: []*volumestest.Disk{other}}
	if found, err := serve(t, &hetznertest.Fake{T: t, W: w}).Find(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestNoPrivateNetwork(t *testing.T) {
	self := hetznertest.Machine(1, "fsn1")
	self.Addresses = nil
	w := &volumestest.World{Self: self, Machines: []*volumestest.Machine{self}}
	p := serve(t, &hetznertest.Fake{T: t, W: w})
	a, err := p.Address(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--address") {
		t.Errorf("%q, %v", a, err)
	}
	// It is attached to one while the machine starts.
	self.Addresses = []string{"10.0.0.1"}
	if a, err := p.Address(t.Context()); err != nil || a != "10.0.0.1" {
		t.Errorf("%q, %v", a, err)
	}
}

func TestFlagsAreChecked(t *testing.T) {
	t.Setenv("HCLOUD_TOKEN", "")
	if _, err := New(t.Context(), volumes.Options{Tags: []string{"a=b"}}); err == nil ||
		!strings.Contains(err.Error(), "HCLOUD_TOKEN") {
		t.Errorf("%v", err)
	}
	t.Setenv("HCLOUD_TOKEN", "token")
	if _, err := New(t.Context(), volumes.Options{}); err == nil || !strings.Contains(err.Error(), "--volume-tag") {
		t.Errorf("%v", err)
	}
}
