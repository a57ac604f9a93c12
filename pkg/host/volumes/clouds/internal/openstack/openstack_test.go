package openstack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/openstacktest"
	"github.com/etcdadm/etcdadm/pkg/internal/keystone"
	"github.com/etcdadm/etcdadm/pkg/internal/keystone/keystonetest"
)

// serve returns the provider for what a fake serves, with credentials as kops writes them.
func serve(t *testing.T, f *openstacktest.Fake, o volumes.Options, change ...string) *provider {
	t.Helper()
	s := httptest.NewServer(f.Handler())
	t.Cleanup(s.Close)
	path := filepath.Join(t.TempDir(), "cloud.config")
	text := strings.NewReplacer(change...).Replace(keystonetest.File(s.URL))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	settings, err := keystone.FromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := open(o, settings, s.URL+"/openstack/latest/meta_data.json", s.Client(), drive(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func options() volumes.Options {
	return volumestest.KopsOptions("openstack")
}

func TestProvider(t *testing.T) {
	cloud := openstacktest.Cloud()
	cloud.Open = func(t *testing.T, w *volumestest.World) volumes.Provider {
		return serve(t, &openstacktest.Fake{T: t, W: w}, options())
	}
	volumestest.Run(t, cloud)
}

// one returns a world with this machine and a disk of a member.
func one(zone string) (*volumestest.World, *volumestest.Disk) {
	self := openstacktest.Machine(1, "az-1")
	d := openstacktest.Disk(1, volumestest.Place{Cluster: "prod.example.com", Etcd: "main", Member: "a", Zone: zone})
	return &volumestest.World{Self: self, Machines: []*volumestest.Machine{self}, Disks: []*volumestest.Disk{d}}, d
}

// Clouds whose volumes have zones of their own say so in the file.
func TestZonesOfVolumesMayBeIgnored(t *testing.T) {
	for ignore, want := range map[string]int{"ignore-volume-az=false": 0, "ignore-volume-az=true": 1} {
		w, _ := one("nova")
		p := serve(t, &openstacktest.Fake{T: t, W: w}, options(), "ignore-volume-az=false", ignore)
		if found, err := p.Find(t.Context()); err != nil || len(found) != want {
			t.Errorf("%s: %+v, %v", ignore, found, err)
		}
	}
}

// The address is the first fixed one in the first network, or the first one in
// --network-cidr.
func TestAddress(t *testing.T) {
	for cidr, want := range map[string]string{
		"": "10.0.0.1", "10.0.0.0/8": "10.0.0.1", "192.168.0.0/16": "192.168.0.9", "203.0.113.0/24": "", "172.16.0.0/12": "",
	} {
		w, d := one("az-1")
		d.Machine = w.Self.ID
		o := options()
		o.NetworkCIDR = cidr
		p := serve(t, &openstacktest.Fake{T: t, W: w}, o)
		a, err := p.Address(t.Context())
		if a != want || (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), "--network-cidr="+cidr) {
			t.Errorf("%q: %q, %v, want %q", cidr, a, err, want)
		}
		nodes, err := p.Nodes(t.Context())
		if err != nil || (len(nodes) == 1) != (want != "") || len(nodes) == 1 && nodes[0].Addresses[0] != want {
			t.Errorf("%q: nodes %+v, %v, want %q", cidr, nodes, err, want)
		}
	}
}

// Nova answers before a volume is attached. What fails then is reported, and the
// volume is not taken for attached.
func TestAnAttachmentThatFailsLater(t *testing.T) {
	w, d := one("az-1")
	f := &openstacktest.Fake{T: t, W: w, Fails: true}
	v, err := serve(t, f, options()).Attach(t.Context(), volumes.Volume{ID: d.ID})
	if err == nil || !strings.Contains(err.Error(), "its status is available") {
		t.Errorf("%+v, %v", v, err)
	}
}

// A volume that is neither attached nor free is waited for.
func TestABusyVolumeIsNotTried(t *testing.T) {
	w, d := one("az-1")
	f := &openstacktest.Fake{T: t, W: w, Status: map[string]string{d.ID: "reserved"}}
	p := serve(t, f, options())
	var reported []string
	v, err := volumes.Acquire(t.Context(), p, slog.New(slog.DiscardHandler), func(why string) {
		reported = append(reported, why)
		f.Lock.Lock()
		defer f.Lock.Unlock()
		f.Status = nil
	})
	if err != nil || !v.Here || f.Attachments != 1 || !strings.Contains(reported[0], d.ID+" has the status reserved") {
		t.Errorf("%+v, %v, %d attachments, reported %q", v, err, f.Attachments, reported)
	}
}

// two returns a world with one more disk and one more machine.
func two() (w *volumestest.World, a, b *volumestest.Disk) {
	w, a = one("az-1")
	b = openstacktest.Disk(2, volumestest.Place{Cluster: "prod.example.com", Etcd: "main", Member: "b", Zone: "az-1"})
	w.Disks, w.Machines = append(w.Disks, b), append(w.Machines, openstacktest.Machine(2, "az-1"))
	return w, a, b
}

func acquire(t *testing.T, p *provider, want *volumestest.Disk) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	v, err := volumes.Acquire(ctx, p, slog.New(slog.NewTextHandler(t.Output(), nil)), func(string) {})
	if err != nil || !v.Here || v.ID != want.ID {
		t.Errorf("acquired %+v, %v; want %s", v, err, want.ID)
	}
}

// Cinder shows no attachment before it is made. Who loses a race against an
// attachment that is being made, or never will be, takes the next volume.
func TestARaceIsLostBeforeTheWinnerIsKnown(t *testing.T) {
	for name, slow := range map[string]int{"attaching": 5, "leaked": -1} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s answer lost %t", name, lost), func(t *testing.T) {
				t.Parallel()
				w, a, b := two()
				f := &openstacktest.Fake{T: t, W: w}
				w.BeforeAttach = func(d *volumestest.Disk) {
					if d.ID == a.ID && d.Machine == "" {
						d.Machine, f.Slow[d.ID] = w.Machines[1].ID, slow
						if lost {
							volumestest.Break()
						}
					}
				}
				acquire(t, serve(t, f, options()), b)
				if f.Attachments != 2 {
					t.Errorf("%d attachments were asked for", f.Attachments)
				}
			})
		}
	}
}

// What Nova refuses, or cannot do, is not in the way of the next volume.
func TestAVolumeThatCannotBeAttached(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusConflict} {
		w, a, b := two()
		acquire(t, serve(t, &openstacktest.Fake{T: t, W: w, Refuses: map[string]int{a.ID: status}}, options()), b)
	}
	w, a, b := two()
	f := &openstacktest.Fake{T: t, W: w, Fails: true}
	p := serve(t, f, options())
	f.Status = map[string]string{a.ID: "error_attaching"}
	v, err := p.Attach(t.Context(), volumes.Volume{ID: a.ID})
	if !errors.Is(err, volumes.ErrRefused) || !strings.Contains(err.Error(), "its status is error_attaching") {
		t.Errorf("%+v, %v", v, err)
	}
	f.Fails = false
	acquire(t, p, b)
}

// While Nova has an earlier request of this machine, or does not show whether it
// has, a refusal is no reason to attach another volume.
func TestARefusalIsNoReasonForAnotherVolume(t *testing.T) {
	for name, f := range map[string]*openstacktest.Fake{"coming": {}, "leaving": {}, "not reported": {Old: true}} {
		w, a, _ := two()
		f.T, f.W, f.Slow = t, w, map[string]int{a.ID: -1}
		if name == "leaving" {
			f.Slow, f.Status = nil, map[string]string{a.ID: "detaching"}
		}
		a.Machine = w.Self.ID
		v, err := serve(t, f, options()).Attach(t.Context(), volumes.Volume{ID: a.ID})
		if err == nil || errors.Is(err, volumes.ErrTaken) || errors.Is(err, volumes.ErrRefused) {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
}

// A program that begins while a volume is on its way to the machine, or from it,
// does not attach another one.
func TestAnAttachmentOfAnEarlierProgram(t *testing.T) {
	w, a, b := two()
	b.Machine = w.Self.ID
	f := &openstacktest.Fake{T: t, W: w, Slow: map[string]int{b.ID: 3}}
	acquire(t, serve(t, f, options()), b)
	if f.Attachments != 0 || a.Machine != "" {
		t.Errorf("%d attachments, a volume is at %q", f.Attachments, a.Machine)
	}
	f.Status = map[string]string{b.ID: "detaching"}
	found, err := serve(t, f, options()).Find(t.Context())
	if err != nil || len(found) != 2 || found[1].Here || !found[1].Moving {
		t.Errorf("%+v, %v", found, err)
	}
}

// A server whose zone nobody knows may reach none of the volumes, unless zones
// are ignored.
func TestAnUnknownZone(t *testing.T) {
	for ignore, want := range map[string]string{
		"ignore-volume-az=false": "ignore-volume-az=true below [BlockStorage]", "ignore-volume-az=true": "",
	} {
		w, _ := one("az-2")
		f := &openstacktest.Fake{T: t, W: w, Zoneless: true}
		found, err := serve(t, f, options(), "ignore-volume-az=false", ignore).Find(t.Context())
		if want == "" && (err != nil || len(found) != 1) ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v", ignore, found, err)
		}
	}
}

func TestATokenThatExpiresIsRenewed(t *testing.T) {
	w, d := one("az-1")
	f := &openstacktest.Fake{T: t, W: w}
	p := serve(t, f, options())
	if _, err := p.Find(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Keystone.Expire()
	if v, err := p.Attach(t.Context(), volumes.Volume{ID: d.ID}); err != nil || !v.Here || f.Keystone.Given() != 2 {
		t.Errorf("%+v, %v, %d tokens", v, err, f.Keystone.Given())
	}
}

// Where there is a drive with metadata, nobody else is asked; where it cannot be
// read, the service is.
func TestMetadataOfTheDrive(t *testing.T) {
	w, _ := one("az-1")
	other := openstacktest.Machine(2, "az-1")
	w.Machines = append(w.Machines, other)
	for text, want := range map[string]string{
		`{"uuid": "` + other.ID + `"}`: other.ID, `{`: w.Self.ID, `{}`: w.Self.ID,
	} {
		p := serve(t, &openstacktest.Fake{T: t, W: w}, options())
		p.drive = func() (string, error) { return text, nil }
		if s, err := p.server(t.Context()); err != nil || s.id != want {
			t.Errorf("%s: %+v, %v", text, s, err)
		}
	}
	w.Unanswered = 1
	p := serve(t, &openstacktest.Fake{T: t, W: w}, options())
	if s, err := p.server(t.Context()); err == nil || !strings.Contains(err.Error(), "503") ||
		!strings.Contains(err.Error(), "label config-2") {
		t.Errorf("%+v, %v", s, err)
	}
}

// The drive is mounted for as long as it is read. The test's kernel may have
// neither of the file systems that it has in clouds.
func TestTheDriveIsRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: loop devices and mounts need root")
	}
	command := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	root := t.TempDir()
	content, image := filepath.Join(root, "content"), filepath.Join(root, "image")
	if err := os.MkdirAll(filepath.Join(content, "openstack/latest"), 0o755); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(content, "openstack/latest/meta_data.json")
	if err := os.WriteFile(at, []byte(`{"uuid": "x", "availability_zone": "z"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	command("mkfs.ext4", "-q", "-d", content, "-L", "config-2", image, "4M")
	device := command("losetup", "--show", "-f", image)
	t.Cleanup(func() { command("losetup", "-d", device) })
	text, err := readDrive(device, []string{"no-such-type", "ext4"})
	m, wrong := parse(text)
	if err != nil || wrong != nil || !reflect.DeepEqual(m, metadata{UUID: "x", Zone: "z"}) {
		t.Errorf("%q: %+v, %v, %v", text, m, err, wrong)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), device+" ") {
		t.Errorf("it is still mounted: %v", err)
	}
	// Links of udev lead to devices beside them.
	labels := filepath.Join(root, "dev/disk/by-label")
	if err := os.MkdirAll(labels, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(device, filepath.Join(labels, "CONFIG-2")); err != nil {
		t.Fatal(err)
	}
	if _, err := drive(root)(); err == nil || !strings.Contains(err.Error(), "mount "+device) {
		t.Errorf("a drive with another file system: %v", err)
	}
}

func TestFlagsAreChecked(t *testing.T) {
	for _, name := range []string{"OS_AUTH_URL", "OS_USERNAME", "OS_PASSWORD", "OS_APPLICATION_CREDENTIAL_ID"} {
		t.Setenv(name, "")
	}
	check := func(o volumes.Options, want ...string) {
		t.Helper()
		_, err := New(t.Context(), o)
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%v, want %q", err, w)
			}
		}
		if len(want) == 0 && err != nil {
			t.Error(err)
		}
	}
	check(volumes.Options{}, "--volume-tag")
	o := options()
	o.Root = t.TempDir()
	check(o, "/etc/kubernetes/cloud.config", "OS_AUTH_URL")
	t.Setenv("OS_AUTH_URL", "https://keystone/v3")
	t.Setenv("OS_USERNAME", "u")
	t.Setenv("OS_PASSWORD", "p")
	check(o)
	o.NetworkCIDR = "10.0.0.0"
	check(o, "--network-cidr")
	if err := os.MkdirAll(filepath.Join(o.Root, "etc/kubernetes"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(o.Root, "etc/kubernetes/cloud.config")
	if err := os.WriteFile(path, []byte("[global]\nauth-url=x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check(o, path, "https://HOST:5000/v3")
	o.NetworkCIDR = ""
	if err := os.WriteFile(path, []byte(keystonetest.File("http://keystone")), 0o600); err != nil {
		t.Fatal(err)
	}
	check(o)
}
