package do

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/digitalocean/godo"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/dotest"
)

// serve returns the provider of what a fake serves.
func serve(t *testing.T, f *dotest.Fake) *provider {
	s := httptest.NewServer(f.Handler())
	t.Cleanup(s.Close)
	p, err := open(t.Context(), volumestest.KopsOptions("do"), "token", s.URL+"/metadata/v1.json", s.Client(),
		godo.SetBaseURL(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProvider(t *testing.T) {
	cloud := dotest.Cloud()
	cloud.Open = func(t *testing.T, w *volumestest.World) volumes.Provider {
		return serve(t, &dotest.Fake{T: t, W: w})
	}
	volumestest.Run(t, cloud)
}

// A machine's volume is the one with its own index. One of an etcd cluster whose
// name the volume's name does not have is known by its tag.
func TestTheIndexSelects(t *testing.T) {
	self := dotest.Machine(1, "nyc3")
	w := &volumestest.World{Self: self, Machines: []*volumestest.Machine{self}}
	for i, p := range []volumestest.Place{
		{Cluster: "prod.example.com", Etcd: "main", Member: "b", Zone: "nyc3"},
		{Cluster: "prod.example.com", Etcd: "cilium", Member: "a", Zone: "nyc3"},
		{Cluster: "prod.example.com", Etcd: "main", Member: "a", Zone: "nyc3"},
	} {
		d := dotest.Disk(i, p)
		d.Name = fmt.Sprint("cut-", i)
		w.Disks = append(w.Disks, d)
	}
	found, err := serve(t, &dotest.Fake{T: t, W: w}).Find(t.Context())
	if err != nil || len(found) != 1 || found[0].Node != "cut-2" {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestAnAddressThatComesLater(t *testing.T) {
	self := dotest.Machine(1, "nyc3")
	address := self.Addresses[0]
	self.Addresses = nil
	p := serve(t, &dotest.Fake{T: t, W: &volumestest.World{Self: self, Machines: []*volumestest.Machine{self}}})
	if a, err := p.Address(t.Context()); err == nil {
		t.Errorf("without an address: %q", a)
	}
	self.Addresses = []string{address}
	if a, err := p.Address(t.Context()); err != nil || a != address {
		t.Errorf("%q, %v", a, err)
	}
}

func TestFlagsAreChecked(t *testing.T) {
	t.Setenv("DIGITALOCEAN_ACCESS_TOKEN", "")
	if _, err := New(t.Context(), volumes.Options{Tags: []string{"a=b"}}); err == nil ||
		!strings.Contains(err.Error(), "DIGITALOCEAN_ACCESS_TOKEN") {
		t.Errorf("%v", err)
	}
	t.Setenv("DIGITALOCEAN_ACCESS_TOKEN", "token")
	if _, err := New(t.Context(), volumes.Options{}); err == nil || !strings.Contains(err.Error(), "--volume-tag") {
		t.Errorf("%v", err)
	}
}
