package scaleway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/scalewaytest"
)

// serve returns the provider of what a fake serves.
func serve(t *testing.T, f *scalewaytest.Fake) *provider {
	s := httptest.NewServer(f.Handler())
	t.Cleanup(s.Close)
	p, err := open(volumestest.KopsOptions("scaleway"), s.URL, []string{"http://127.0.0.1:1", s.URL}, s.Client())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func keys(t *testing.T) {
	t.Setenv("SCW_ACCESS_KEY", "SCWXXXXXXXXXXXXXXXXX")
	t.Setenv("SCW_SECRET_KEY", scalewaytest.Secret)
	t.Setenv("SCW_DEFAULT_PROJECT_ID", scalewaytest.Project)
}

func TestProvider(t *testing.T) {
	keys(t)
	t.Run("all", func(t *testing.T) {
		cloud := scalewaytest.Cloud()
		cloud.Open = func(t *testing.T, w *volumestest.World) volumes.Provider {
			return serve(t, &scalewaytest.Fake{T: t, W: w})
		}
		volumestest.Run(t, cloud)
	})
}

// one returns a world with this machine and a disk of a member.
func one(member string) (*volumestest.World, *volumestest.Disk) {
	self := scalewaytest.Machine(1, "fr-par-1")
	d := scalewaytest.Disk(1, volumestest.Place{
		Cluster: "prod.example.com", Etcd: "main", Member: member, Zone: "fr-par-1",
	})
	return &volumestest.World{Self: self, Machines: []*volumestest.Machine{self}, Disks: []*volumestest.Disk{d}}, d
}

// Volumes of other instance groups are other machines'. A tag is compared as a
// whole, whatever the API does.
func TestTagsSelect(t *testing.T) {
	keys(t)
	for _, member := range []string{"b", "a2"} {
		w, _ := one(member)
		if found, err := serve(t, &scalewaytest.Fake{T: t, W: w}).Find(t.Context()); err != nil || len(found) > 0 {
			t.Errorf("%s: %+v, %v", member, found, err)
		}
	}
}

func TestABusyVolume(t *testing.T) {
	keys(t)
	w, d := one("a")
	f := &scalewaytest.Fake{T: t, W: w, State: map[string]string{d.ID: "saving"}}
	found, err := serve(t, f).Find(t.Context())
	if err != nil || len(found) != 1 || found[0].Busy != "has the state saving" {
		t.Errorf("%+v, %v", found, err)
	}
}

// A zone that Scaleway does not have keeps nobody from being found. Where one does
// not answer, some of the nodes would be taken for all of them.
func TestAZoneWithoutAnAnswer(t *testing.T) {
	keys(t)
	for _, c := range []struct {
		zone         string
		status, want int
	}{
		{"fr-par-3", http.StatusNotFound, 1},
		{"fr-par-3", http.StatusInternalServerError, 0},
		{"fr-par-3", http.StatusForbidden, 0},
		{"fr-par-1", http.StatusNotFound, 0},
	} {
		w, d := one("a")
		d.Machine = w.Self.ID
		nodes, err := serve(t, &scalewaytest.Fake{T: t, W: w, Refused: map[string]int{c.zone: c.status}}).Nodes(t.Context())
		if len(nodes) != c.want || c.want == 0 && (err == nil || !strings.Contains(err.Error(), c.zone)) {
			t.Errorf("%+v: %+v, %v", c, nodes, err)
		}
	}
}

func TestNoAddress(t *testing.T) {
	keys(t)
	w, _ := one("a")
	w.Self.Addresses = nil
	a, err := serve(t, &scalewaytest.Fake{T: t, W: w}).Address(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--address") {
		t.Errorf("%q, %v", a, err)
	}
}

func TestFlagsAreChecked(t *testing.T) {
	keys(t)
	check := func(want string, o volumes.Options) {
		t.Helper()
		_, err := New(t.Context(), o)
		if want == "" && err == nil {
			return
		}
		if err == nil || want == "" || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	check("--volume-tag", volumes.Options{})
	tagged := volumes.Options{Tags: []string{"a=b"}}
	check("", tagged)
	t.Setenv("SCW_SECRET_KEY", "hunter2")
	check("SCW_SECRET_KEY", tagged)
	t.Setenv("SCW_SECRET_KEY", "")
	check("do not both have keys", tagged)
	t.Setenv("SCW_SECRET_KEY", scalewaytest.Secret)
	t.Setenv("SCW_ACCESS_KEY", "x")
	check("access key", tagged)
}
