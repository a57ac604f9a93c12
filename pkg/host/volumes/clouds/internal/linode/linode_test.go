package linode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
)

const group = "kops.k8s.io/instance-group:control-plane-"

// A fake is the API of Linode and the metadata of one machine.
type fake struct {
	t *testing.T
	w *volumestest.World

	lock sync.Mutex
	// slow are volumes whose attachment is not done when they are next asked for.
	slow map[string]bool
	// status is that of volumes that have one of their own.
	status map[string]string
	// thief is the instance that has every volume, whatever was answered.
	thief int
	// ips are what the API says of addresses, if not what machines have.
	ips, instance object
}

type object = map[string]any

func (f *fake) serve(t *testing.T) *provider {
	f.slow = map[string]bool{}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /metadata/token", func(w http.ResponseWriter, r *http.Request) {
		if !f.w.Metadata() || r.Header.Get("Metadata-Token-Expiry-Seconds") == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "metadata-token")
	})
	mux.HandleFunc("GET /metadata/instance", func(w http.ResponseWriter, r *http.Request) {
		if !f.w.Metadata() || r.Header.Get("Metadata-Token") != "metadata-token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, "backups.enabled: false\nhost_uuid: 1\nid: %s\nlabel: x\nregion: %s\ntags: a\n", f.w.Self.ID,
			f.w.Self.Zone)
	})
	for pattern, h := range map[string]http.HandlerFunc{
		"GET /v4/volumes":                   f.volumes,
		"GET /v4/volumes/{id}":              f.volume,
		"POST /v4/volumes/{id}/attach":      f.attach,
		"GET /v4/linode/instances/{id}":     f.linode,
		"GET /v4/linode/instances/{id}/ips": f.addresses,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer token" {
				f.t.Errorf("%s %s without the token", r.Method, r.URL)
			}
			if !f.w.Call() {
				refuse(w, http.StatusTooManyRequests, "Too many requests")
				return
			}
			h(w, r)
		})
	}
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		f.t.Errorf("a call that is not expected: %s %s", r.Method, r.URL)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return &provider{
		Options: volumestest.KopsOptions("linode"),
		api:     api{s.URL + "/v4", "token", s.Client()}, metadata: s.URL + "/metadata", local: s.Client(),
	}
}

func send(w http.ResponseWriter, answer any) { _ = json.NewEncoder(w).Encode(answer) }

func refuse(w http.ResponseWriter, status int, reason string) {
	w.WriteHeader(status)
	send(w, object{"errors": []any{object{"reason": reason}}})
}

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

func (f *fake) show(d volumestest.Disk) object {
	f.lock.Lock()
	defer f.lock.Unlock()
	v := object{
		"id": number(d.ID), "label": d.Name, "region": d.Zone, "status": active, "linode_id": nil,
		"tags": strings.Split(d.Tags["tags"], " "), "filesystem_path": "/dev/disk/by-id/scsi-0Linode_Volume_" + d.Name,
	}
	if s := f.status[d.ID]; s != "" {
		v["status"], v["filesystem_path"] = s, ""
	}
	switch {
	case f.thief != 0:
		v["linode_id"] = f.thief
	case f.slow[d.ID]:
		delete(f.slow, d.ID)
	case d.Machine != "":
		v["linode_id"] = number(d.Machine)
	}
	return v
}

func (f *fake) volumes(w http.ResponseWriter, r *http.Request) {
	if number(r.URL.Query().Get("page_size")) < 25 {
		f.t.Errorf("asked for %s", r.URL)
	}
	found := f.w.List(nil)
	page, pages := max(number(r.URL.Query().Get("page")), 1), 1
	if f.w.Page > 0 {
		pages = max((len(found)+f.w.Page-1)/f.w.Page, 1)
	}
	list, _ := volumestest.Cut(f.w, found, (page-1)*f.w.Page)
	data := []any{}
	for _, d := range list {
		data = append(data, f.show(d))
	}
	send(w, object{"data": data, "page": page, "pages": pages, "results": len(found)})
}

func (f *fake) volume(w http.ResponseWriter, r *http.Request) {
	d, ok := f.w.Disk(r.PathValue("id"))
	if !ok {
		refuse(w, http.StatusNotFound, "Not found")
		return
	}
	send(w, f.show(d))
}

func (f *fake) attach(w http.ResponseWriter, r *http.Request) {
	var in struct {
		LinodeID int `json:"linode_id"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || strconv.Itoa(in.LinodeID) != f.w.Self.ID {
		f.t.Errorf("attach %+v, %v", in, err)
	}
	id := r.PathValue("id")
	switch err := f.w.Attach(id, f.w.Self.ID, ""); {
	case errors.Is(err, volumestest.ErrLost):
		volumestest.Break()
	case err != nil:
		refuse(w, http.StatusBadRequest, "Volume "+id+" is already attached")
		return
	}
	d, _ := f.w.Disk(id)
	v := f.show(d)
	f.lock.Lock()
	f.slow[id] = true
	f.lock.Unlock()
	send(w, v)
}

func (f *fake) machine(w http.ResponseWriter, r *http.Request) *volumestest.Machine {
	m := f.w.Machine(r.PathValue("id"))
	if m == nil {
		refuse(w, http.StatusNotFound, "Not found")
	}
	return m
}

func (f *fake) linode(w http.ResponseWriter, r *http.Request) {
	if m := f.machine(w, r); m != nil {
		send(w, f.instance)
	}
}

func (f *fake) addresses(w http.ResponseWriter, r *http.Request) {
	m := f.machine(w, r)
	switch {
	case m == nil:
	case f.ips != nil:
		send(w, object{"ipv4": f.ips})
	default:
		private := []any{}
		for _, a := range m.Addresses {
			private = append(private, object{"address": a, "type": "ipv4", "public": false})
		}
		send(w, object{"ipv4": object{
			"public": []any{object{"address": "203.0.113.5"}}, "private": private, "vpc": []any{object{"address": "10.9.9.9"}},
		}})
	}
}

func machineOf(n int, zone string) *volumestest.Machine {
	return &volumestest.Machine{
		ID: fmt.Sprint(1000 + n), Name: fmt.Sprint("control-plane-", n), Zone: zone,
		Addresses: []string{fmt.Sprintf("192.168.128.%d", n)},
	}
}

func diskOf(n int, p volumestest.Place) *volumestest.Disk {
	return &volumestest.Disk{
		ID: fmt.Sprint(2000 + n), Name: fmt.Sprint("volume", n), Zone: p.Zone, Tags: map[string]string{
			"tags": "kops.k8s.io/cluster:" + strings.ReplaceAll(p.Cluster, ".", "-") + " kops.k8s.io/volume-role:" + p.Etcd +
				" " + group + p.Member + " other",
		},
	}
}

func TestProvider(t *testing.T) {
	volumestest.Run(t, volumestest.Cloud{
		Zone: "us-east", Other: "eu-west", Far: true, Disk: diskOf, Machine: machineOf,
		Want: func(d volumestest.Disk) volumes.Volume {
			return volumes.Volume{
				Node: "vol-" + d.ID, MountName: "linode-" + d.ID,
				Devices: []string{"/dev/disk/by-id/scsi-0Linode_Volume_" + d.Name},
			}
		},
		Open: func(t *testing.T, w *volumestest.World) volumes.Provider { return (&fake{t: t, w: w}).serve(t) },
	})
}

// one returns a world with this machine and a disk of a member.
func one(member string) (*volumestest.World, *volumestest.Disk) {
	self := machineOf(1, "us-east")
	d := diskOf(1, volumestest.Place{Cluster: "prod.example.com", Etcd: "main", Member: member, Zone: "us-east"})
	return &volumestest.World{Self: self, Machines: []*volumestest.Machine{self}, Disks: []*volumestest.Disk{d}}, d
}

// Volumes of other instance groups are other machines'.
func TestTheInstanceGroupSelects(t *testing.T) {
	w, _ := one("b")
	if found, err := (&fake{t: t, w: w}).serve(t).Find(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// A volume that is not ready is not tried, and one whose path is not told is
// looked for by its label.
func TestABusyVolume(t *testing.T) {
	w, d := one("a")
	f := &fake{t: t, w: w, status: map[string]string{d.ID: "resizing"}}
	found, err := f.serve(t).Find(t.Context())
	if err != nil || len(found) != 1 || found[0].Busy != "has the status resizing" ||
		found[0].Devices[0] != "/dev/disk/by-id/linode-volume-volume1" {
		t.Errorf("%+v, %v", found, err)
	}
}

// An attachment that was promised, and is another instance's then, is not waited
// for.
func TestAPromiseThatIsBroken(t *testing.T) {
	w, d := one("a")
	p := (&fake{t: t, w: w, thief: 9}).serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := p.Attach(ctx, volumes.Volume{ID: d.ID}); !errors.Is(err, volumes.ErrTaken) {
		t.Error(err)
	}
}

// The address is the private one, else that in a VPC, else a private one among
// the instance's.
func TestAddress(t *testing.T) {
	entry := func(a any) []any { return []any{object{"address": a}} }
	for name, c := range map[string]struct {
		ips      object
		instance []string
		want     string
	}{
		"private":  {object{"private": entry("192.168.1.1"), "vpc": entry("10.0.0.1")}, nil, "192.168.1.1"},
		"vpc":      {object{"private": []any{}, "vpc": entry("10.0.0.1")}, nil, "10.0.0.1"},
		"instance": {object{"vpc": entry(nil)}, []string{"203.0.113.5", "192.168.1.2"}, "192.168.1.2"},
		"none":     {object{"public": entry("203.0.113.5")}, []string{"203.0.113.5"}, ""},
	} {
		w, _ := one("a")
		f := &fake{t: t, w: w, ips: c.ips, instance: object{"ipv4": c.instance}}
		a, err := f.serve(t).Address(t.Context())
		if a != c.want || (err == nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), "--address") {
			t.Errorf("%s: %q, %v, want %q", name, a, err, c.want)
		}
	}
}

// What a call was refused for is told, the token is not.
func TestRefusalsAreTold(t *testing.T) {
	w, _ := one("a")
	p := (&fake{t: t, w: w}).serve(t)
	_, err := p.get(t.Context(), "9")
	if err == nil || !strings.Contains(err.Error(), "404 Not Found") || !strings.Contains(err.Error(), `"reason"`) ||
		strings.Contains(err.Error(), "token") {
		t.Errorf("%v", err)
	}
}

// Key and value may be divided by either sign, in flags and on volumes.
func TestFlagsMayHaveEitherSign(t *testing.T) {
	self := machineOf(1, "us-east")
	d := diskOf(1, volumestest.Place{Cluster: "prod.example.com", Etcd: "main", Member: "a", Zone: "us-east"})
	w := &volumestest.World{Self: self, Machines: []*volumestest.Machine{self}, Disks: []*volumestest.Disk{d}}
	p := (&fake{t: t, w: w}).serve(t)
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
