package linode

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/linodetest"
)

// serve returns the provider of what a fake serves.
func serve(t *testing.T, f *linodetest.Fake) *provider {
	s := httptest.NewServer(f.Handler())
	t.Cleanup(s.Close)
	return &provider{
		Options: volumestest.KopsOptions("linode"),
		api:     api{s.URL + "/v4", "token", s.Client()}, metadata: s.URL + "/v1", local: s.Client(),
	}
}

func TestProvider(t *testing.T) {
	cloud := linodetest.Cloud()
	cloud.Open = func(t *testing.T, w *volumestest.World) volumes.Provider {
		return serve(t, &linodetest.Fake{T: t, W: w})
	}
	volumestest.Run(t, cloud)
}

// one returns a world with this machine and a disk of a member.
func one(member string) (*volumestest.World, *volumestest.Disk) {
	self := linodetest.Machine(1, "us-east")
	d := linodetest.Disk(1, volumestest.Place{Cluster: "prod.example.com", Etcd: "main", Member: member, Zone: "us-east"})
	return &volumestest.World{Self: self, Machines: []*volumestest.Machine{self}, Disks: []*volumestest.Disk{d}}, d
}

// Volumes of other instance groups are other machines'.
func TestTheInstanceGroupSelects(t *testing.T) {
	w, _ := one("b")
	if found, err := serve(t, &linodetest.Fake{T: t, W: w}).Find(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// A volume that is not ready is not tried, and one whose path is not given is
// looked for by its label.
func TestABusyVolume(t *testing.T) {
	w, d := one("a")
	f := &linodetest.Fake{T: t, W: w, Status: map[string]string{d.ID: "resizing"}}
	found, err := serve(t, f).Find(t.Context())
	if err != nil || len(found) != 1 || found[0].Busy != "has the status resizing" ||
		found[0].Devices[0] != "/dev/disk/by-id/linode-volume-volume1" {
		t.Errorf("%+v, %v", found, err)
	}
}

// An attachment that was promised, and is another instance's then, is not waited
// for.
func TestAPromiseThatIsBroken(t *testing.T) {
	w, d := one("a")
	p := serve(t, &linodetest.Fake{T: t, W: w, Thief: 9})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := p.Attach(ctx, volumes.Volume{ID: d.ID}); !errors.Is(err, volumes.ErrTaken) {
		t.Error(err)
	}
}

// The address is the private one, else that in a VPC, else a private one among
// the instance's.
func TestAddress(t *testing.T) {
	entry := func(a any) []any { return []any{map[string]any{"address": a}} }
	for name, c := range map[string]struct {
		ips      map[string]any
		instance []string
		want     string
	}{
		"private":  {map[string]any{"private": entry("192.168.1.1"), "vpc": entry("10.0.0.1")}, nil, "192.168.1.1"},
		"vpc":      {map[string]any{"private": []any{}, "vpc": entry("10.0.0.1")}, nil, "10.0.0.1"},
		"instance": {map[string]any{"vpc": entry(nil)}, []string{"203.0.113.5", "192.168.1.2"}, "192.168.1.2"},
		"none":     {map[string]any{"public": entry("203.0.113.5")}, []string{"203.0.113.5"}, ""},
	} {
		w, _ := one("a")
		f := &linodetest.Fake{T: t, W: w, IPs: c.ips, Instance: map[string]any{"ipv4": c.instance}}
		a, err := serve(t, f).Address(t.Context())
		if a != c.want || (err == nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), "--address") {
			t.Errorf("%s: %q, %v, want %q", name, a, err, c.want)
		}
	}
}

// What a call was refused for is reported, the token is not.
func TestRefusalsAreReported(t *testing.T) {
	w, _ := one("a")
	p := serve(t, &linodetest.Fake{T: t, W: w})
	_, err := p.get(t.Context(), "9")
	if err == nil || !strings.Contains(err.Error(), "404 Not Found") || !strings.Contains(err.Error(), `"reason"`) ||
		strings.Contains(err.Error(), "token") {
		t.Errorf("%v", err)
	}
}

// Key and value may be divided by either sign, in flags and on volumes.
func TestFlagsMayHaveEitherSign(t *testing.T) {
	self := linodetest.Machine(1, "us-east")
	d := linodetest.Disk(1, volumestest.Place{Cluster: "prod.example.com", Etcd: "main", Member: "a", Zone: "us-east"})
	w := &volumestest.World{Self: self, Machines: []*volumestest.Machine{self}, Disks: []*volumestest.Disk{d}}
	p := serve(t, &linodetest.Fake{T: t, W: w})
	p.Tags = []string{"kops.k8s.io/cluster:prod-example-com", "kops.k8s.io/volume-role=main"}
	if found, err := p.Find(t.Context()); err != nil || len(found) != 1 {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestFlagsAreChecked(t *testing.T) {
	t.Setenv("LINODE_TOKEN", "")
	if _, err := New(t.Context(), volumes.Options{Tags: []string{"a=b"}}); err == nil ||
		!strings.Contains(err.Error(), "LINODE_TOKEN") {
		t.Errorf("%v", err)
	}
	t.Setenv("LINODE_TOKEN", "token")
	if _, err := New(t.Context(), volumes.Options{}); err == nil || !strings.Contains(err.Error(), "--volume-tag") {
		t.Errorf("%v", err)
	}
}
