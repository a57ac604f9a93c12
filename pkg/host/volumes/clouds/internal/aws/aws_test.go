package aws

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
)

// disk makes a volume with the tags of kops.
func disk(n int, p volumestest.Place) *volumestest.Disk {
	return &volumestest.Disk{
		ID: fmt.Sprintf("vol-%017x", n), Zone: p.Zone, Device: "/dev/xvdu",
		Tags: map[string]string{
			"Name":                               p.Member + ".etcd-" + p.Etcd + "." + p.Cluster,
			"k8s.io/etcd/" + p.Etcd:              p.Member + "/a,b,c",
			"k8s.io/role/control-plane":          "1",
			"k8s.io/role/master":                 "1",
			"kubernetes.io/cluster/" + p.Cluster: "owned",
			"KubernetesCluster":                  p.Cluster,
		},
	}
}

func machineOf(n int, zone string) *volumestest.Machine {
	return &volumestest.Machine{
		ID: fmt.Sprintf("i-%017x", n), Zone: zone,
		Addresses: []string{fmt.Sprintf("10.0.0.%d", n), fmt.Sprintf("10.0.1.%d", n)},
	}
}

func want(d volumestest.Disk) volumes.Volume {
	return volumes.Volume{
		Node: "etcd-" + strings.Split(d.Tags["Name"], ".")[0], MountName: "master-" + d.ID,
		Devices: []string{
			"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_" + strings.ReplaceAll(d.ID, "-", ""), d.Device,
		},
	}
}

func TestProvider(t *testing.T) {
	volumestest.Run(t, volumestest.Cloud{
		Zone: "us-test-1a", Other: "us-test-1b", Far: true, Disk: disk, Machine: machineOf, Want: want,
		Open: func(t *testing.T, w *volumestest.World) volumes.Provider { return (&fake{t: t, w: w}).serve(t) },
	})
}

// newFake is a world with one free disk.
func newFake(t *testing.T) (*fake, *volumestest.Disk) {
	d := disk(1, volumestest.Place{Cluster: "prod.example.com", Etcd: "main", Member: "a", Zone: "us-test-1a"})
	self := machineOf(1, "us-test-1a")
	w := &volumestest.World{Self: self, Machines: []*volumestest.Machine{self}, Disks: []*volumestest.Disk{d}}
	return &fake{t: t, w: w}, d
}

func TestMetadataWithoutTokens(t *testing.T) {
	f, d := newFake(t)
	f.refuseToken = true
	if found, err := f.serve(t).Find(t.Context()); err != nil || len(found) != 1 || found[0].ID != d.ID {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestTheAddressIsThatOfIPv6(t *testing.T) {
	f, _ := newFake(t)
	f.six = "fd00::1"
	if a, err := f.serve(t).Address(t.Context()); err != nil || a != "fd00::1" {
		t.Errorf("%q, %v", a, err)
	}
	i := instance{Address: "10.0.0.1", Address6: "fd00::2"}
	if got := i.addresses(); !slices.Equal(got, []string{"fd00::2"}) {
		t.Errorf("%q", got)
	}
}

// A device's name may be in use for a disk that is none of ours.
func TestADeviceInUse(t *testing.T) {
	f, d := newFake(t)
	for i, name := range devices[:2] {
		f.w.Disks = append(f.w.Disks, &volumestest.Disk{ID: fmt.Sprint("vol-", i), Machine: f.w.Self.ID, Device: name})
	}
	p := f.serve(t)
	v, err := p.Attach(t.Context(), volumes.Volume{ID: d.ID})
	if err != nil || v.Devices[1] != devices[2] {
		t.Errorf("%+v, %v", v, err)
	}
	// As after an answer that was lost.
	if again, err := p.Attach(t.Context(), volumes.Volume{ID: d.ID}); err != nil || !again.Here {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestRootDisksAreLeftAlone(t *testing.T) {
	f, d := newFake(t)
	d.Machine, d.Device = f.w.Self.ID, "/dev/xvda"
	if found, err := f.serve(t).Find(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestOnlyWhatKopsGrantsIsCalled(t *testing.T) {
	f, _ := newFake(t)
	p := f.serve(t)
	found, err := p.Find(t.Context())
	if err == nil {
		_, err = p.Attach(t.Context(), found[0])
	}
	if err == nil {
		_, err = p.Nodes(t.Context())
	}
	if err != nil || len(f.calls) != 3 {
		t.Errorf("%v, %v", f.calls, err)
	}
}

func TestEndpoints(t *testing.T) {
	for region, want := range map[string]string{
		"eu-central-1": "https://ec2.eu-central-1.amazonaws.com/", "cn-north-1": "https://ec2.cn-north-1.amazonaws.com.cn/",
		"us-gov-west-1": "https://ec2.us-gov-west-1.amazonaws.com/", "us-isob-east-1": "https://ec2.us-isob-east-1.sc2s.sgov.gov/",
	} {
		if got := endpointOf(region, false); got != want {
			t.Errorf("%s is at %s, want %s", region, got, want)
		}
	}
	if got := endpointOf("eu-central-1", true); got != "https://ec2.eu-central-1.api.aws/" {
		t.Errorf("with IPv6 at %s", got)
	}
}

func TestFlagsAreChecked(t *testing.T) {
	if _, err := New(t.Context(), volumes.Options{}); err == nil || !strings.Contains(err.Error(), "--volume-tag") {
		t.Errorf("%v", err)
	}
}
