package scaleway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
)

const (
	secret  = "11111111-1111-4111-8111-111111111111"
	project = "22222222-2222-4222-8222-222222222222"
	group   = "noprefix=kops.k8s.io/instance-group=control-plane-"
)

// A fake is the API of Scaleway and the metadata of one machine.
type fake struct {
	t *testing.T
	w *volumestest.World

	lock sync.Mutex
	// slow are volumes whose attachment is not done when they are next asked for.
	slow map[string]bool
	// state is that of volumes that have one of their own, refused the status with
	// which the volumes of a zone are refused.
	state   map[string]string
	refused map[string]int
}

type object = map[string]any

func (f *fake) serve(t *testing.T) *provider {
	f.slow = map[string]bool{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metadata/conf", func(w http.ResponseWriter, r *http.Request) {
		if !f.w.Metadata() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if r.URL.Query().Get("format") != "json" {
			f.t.Errorf("metadata %s", r.URL)
		}
		send(w, object{"id": f.w.Self.ID, "location": object{"zone_id": f.w.Self.Zone}})
	})
	for pattern, h := range map[string]http.HandlerFunc{
		"GET /instance/v1/zones/{zone}/volumes":                     f.volumes,
		"GET /instance/v1/zones/{zone}/volumes/{id}":                f.volume,
		"POST /instance/v1/zones/{zone}/servers/{id}/attach-volume": f.attach,
		"GET /ipam/v1/regions/fr-par/ips":                           f.addresses,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Auth-Token") != secret {
				f.t.Errorf("%s %s without the key", r.Method, r.URL)
			}
			if !f.w.Call() {
				refuse(w, http.StatusTooManyRequests, "too_many_requests")
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
	metadata := []string{"http://127.0.0.1:1", s.URL + "/metadata"}
	p, err := open(volumestest.KopsOptions("scaleway"), s.URL, metadata, s.Client())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func send(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func refuse(w http.ResponseWriter, status int, kind string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object{"type": kind, "message": kind})
}

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

func (f *fake) show(d volumestest.Disk) object {
	f.lock.Lock()
	defer f.lock.Unlock()
	v := object{
		"id": d.ID, "name": d.Name, "tags": strings.Split(d.Tags["tags"], " "), "state": available, "zone": d.Zone,
		"volume_type": blockStorage, "server": nil,
	}
	if d.Machine != "" {
		v["server"] = object{"id": d.Machine, "name": "x"}
	}
	if f.slow[d.ID] {
		delete(f.slow, d.ID)
		v["state"] = "attaching"
	}
	if s := f.state[d.ID]; s != "" {
		v["state"] = s
	}
	return v
}

// volumes takes tags as parts of one, as if the API were generous.
func (f *fake) volumes(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("project") != project || q.Get("volume_type") != "b_ssd" || len(q["tags"]) != 1 {
		f.t.Errorf("asked for %s", r.URL)
	}
	if status := f.refused[r.PathValue("zone")]; status != 0 {
		kind := "internal_error"
		if status == http.StatusNotFound {
			kind = "unknown_resource"
		}
		refuse(w, status, kind)
		return
	}
	found := f.w.List(func(d volumestest.Disk) bool {
		for _, t := range strings.Split(q.Get("tags"), ",") {
			if !strings.Contains(d.Tags["tags"], t) {
				return false
			}
		}
		return d.Zone == r.PathValue("zone")
	})
	list, _ := volumestest.Cut(f.w, found, (number(q.Get("page"))-1)*f.w.Page)
	answer := []any{}
	for _, d := range list {
		answer = append(answer, f.show(d))
	}
	w.Header().Set("X-Total-Count", strconv.Itoa(len(found)))
	send(w, object{"volumes": answer})
}

func (f *fake) volume(w http.ResponseWriter, r *http.Request) {
	d, ok := f.w.Disk(r.PathValue("id"))
	if !ok || d.Zone != r.PathValue("zone") {
		refuse(w, http.StatusNotFound, "unknown_resource")
		return
	}
	send(w, object{"volume": f.show(d)})
}

func (f *fake) attach(w http.ResponseWriter, r *http.Request) {
	var in struct {
		VolumeID   string `json:"volume_id"`
		VolumeType string `json:"volume_type"`
	}
	err := json.NewDecoder(r.Body).Decode(&in)
	if err != nil || r.PathValue("id") != f.w.Self.ID || r.PathValue("zone") != f.w.Self.Zone || in.VolumeType != "b_ssd" {
		f.t.Errorf("attach %+v to %s, %v", in, r.URL, err)
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	switch err := f.w.Attach(in.VolumeID, f.w.Self.ID, ""); {
	case errors.Is(err, volumestest.ErrLost):
		volumestest.Break()
	case err != nil:
		refuse(w, http.StatusBadRequest, "invalid_request_error")
		return
	}
	f.slow[in.VolumeID] = true
	send(w, object{"server": object{"id": f.w.Self.ID}})
}

func (f *fake) addresses(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("is_ipv6") != "false" {
		f.t.Errorf("asked for %s", r.URL)
	}
	all := []any{}
	for _, m := range f.w.Machines {
		for _, a := range m.Addresses {
			if slices.Contains(q["resource_ids"], m.ID) {
				all = append(all, object{"address": a + "/22", "resource": object{"id": m.ID, "type": "instance_server"}})
			}
		}
	}
	// The API has less on a page than is asked for.
	size := min(number(q.Get("page_size")), 1)
	from := min((number(q.Get("page"))-1)*size, len(all))
	send(w, object{"total_count": len(all), "ips": all[from:min(from+size, len(all))]})
}

func machineOf(n int, zone string) *volumestest.Machine {
	return &volumestest.Machine{
		ID: fmt.Sprintf("33333333-3333-4333-8333-%012d", n), Name: fmt.Sprint("control-plane-", n), Zone: zone,
		Addresses: []string{fmt.Sprintf("10.0.0.%d", n)},
	}
}

func diskOf(n int, p volumestest.Place) *volumestest.Disk {
	return &volumestest.Disk{
		ID: fmt.Sprintf("44444444-4444-4444-8444-%012d", n), Name: p.Member + ".etcd-" + p.Etcd, Zone: p.Zone,
		Tags: map[string]string{"tags": strings.Join([]string{
			"noprefix=kops.k8s.io/cluster=" + p.Cluster, "noprefix=kops.k8s.io/etcd=" + p.Etcd,
			"noprefix=kops.k8s.io/role=ControlPlane", group + p.Member,
		}, " ")},
	}
}

func keys(t *testing.T) {
	t.Setenv("SCW_ACCESS_KEY", "SCWXXXXXXXXXXXXXXXXX")
	t.Setenv("SCW_SECRET_KEY", secret)
	t.Setenv("SCW_DEFAULT_PROJECT_ID", project)
}

func TestProvider(t *testing.T) {
	keys(t)
	t.Run("all", func(t *testing.T) {
		volumestest.Run(t, volumestest.Cloud{
			Zone: "fr-par-1", Other: "fr-par-2", Far: true, Disk: diskOf, Machine: machineOf,
			Want: func(d volumestest.Disk) volumes.Volume {
				return volumes.Volume{
					Node: "vol-" + d.ID, MountName: "scw-" + d.ID,
					Devices: []string{"/dev/disk/by-id/scsi-0SCW_b_ssd_volume-" + d.ID},
				}
			},
			Open: func(t *testing.T, w *volumestest.World) volumes.Provider { return (&fake{t: t, w: w}).serve(t) },
		})
	})
}

// one returns a world with this machine and a disk of a member.
func one(member string) (*volumestest.World, *volumestest.Disk) {
	self := machineOf(1, "fr-par-1")
	d := diskOf(1, volumestest.Place{Cluster: "prod.example.com", Etcd: "main", Member: member, Zone: "fr-par-1"})
	return &volumestest.World{Self: self, Machines: []*volumestest.Machine{self}, Disks: []*volumestest.Disk{d}}, d
}

// Volumes of other instance groups are other machines'. A tag is compared as a
// whole, whatever the API does.
func TestTagsSelect(t *testing.T) {
	keys(t)
	for _, member := range []string{"b", "a2"} {
		w, _ := one(member)
		if found, err := (&fake{t: t, w: w}).serve(t).Find(t.Context()); err != nil || len(found) > 0 {
			t.Errorf("%s: %+v, %v", member, found, err)
		}
	}
}

func TestABusyVolume(t *testing.T) {
	keys(t)
	w, d := one("a")
	f := &fake{t: t, w: w, state: map[string]string{d.ID: "saving"}}
	found, err := f.serve(t).Find(t.Context())
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
		nodes, err := (&fake{t: t, w: w, refused: map[string]int{c.zone: c.status}}).serve(t).Nodes(t.Context())
		if len(nodes) != c.want || c.want == 0 && (err == nil || !strings.Contains(err.Error(), c.zone)) {
			t.Errorf("%+v: %+v, %v", c, nodes, err)
		}
	}
}

func TestNoAddress(t *testing.T) {
	keys(t)
	w, _ := one("a")
	w.Self.Addresses = nil
	a, err := (&fake{t: t, w: w}).serve(t).Address(t.Context())
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
	t.Setenv("SCW_SECRET_KEY", secret)
	t.Setenv("SCW_ACCESS_KEY", "x")
	check("access key", tagged)
}
