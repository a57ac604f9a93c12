// Package scalewaytest is Scaleway for tests: its API, and the metadata of one machine.
package scalewaytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
)

// Secret is the key that the API wants, Project the project that volumes are in.
const (
	Secret  = "11111111-1111-4111-8111-111111111111"
	Project = "22222222-2222-4222-8222-222222222222"
	group   = "noprefix=kops.k8s.io/instance-group=control-plane-"
)

// A Fake is the API of Scaleway and the metadata of one machine.
type Fake struct {
	T volumestest.T
	W *volumestest.World
	// State is that of volumes that have one of their own, Refused the status with
	// which the volumes of a zone are refused.
	State   map[string]string
	Refused map[string]int

	lock sync.Mutex
	// slow are volumes whose attachment is not done when they are next asked for.
	slow map[string]bool
}

type object = map[string]any

// Handler serves both.
func (f *Fake) Handler() http.Handler {
	f.slow = map[string]bool{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /conf", volumestest.Own(f.W, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("format") != "json" {
			f.T.Errorf("metadata %s", r.URL)
		}
		volumestest.Send(w, object{"id": f.W.Self.ID, "location": object{"zone_id": f.W.Self.Zone}})
	}))
	api := volumestest.API{
		T: f.T, W: f.W, Header: "X-Auth-Token", Key: Secret,
		Busy: func(w http.ResponseWriter) { refuse(w, http.StatusTooManyRequests, "too_many_requests") },
	}
	api.Serve(mux, map[string]http.HandlerFunc{
		"GET /instance/v1/zones/{zone}/volumes":                     f.volumes,
		"GET /instance/v1/zones/{zone}/volumes/{id}":                f.volume,
		"POST /instance/v1/zones/{zone}/servers/{id}/attach-volume": f.attach,
		"GET /ipam/v1/regions/fr-par/ips":                           f.addresses,
	})
	return mux
}

func refuse(w http.ResponseWriter, status int, kind string) {
	volumestest.Refuse(w, status, object{"type": kind, "message": kind})
}

func (f *Fake) show(d volumestest.Disk) object {
	f.lock.Lock()
	defer f.lock.Unlock()
	v := object{
		"id": d.ID, "name": d.Name, "tags": strings.Split(d.Tags["tags"], " "), "state": "available", "zone": d.Zone,
		"volume_type": "b_ssd", "server": nil,
	}
	if d.Machine != "" {
		v["server"] = object{"id": d.Machine, "name": "x"}
	}
	if f.slow[d.ID] {
		delete(f.slow, d.ID)
		v["state"] = "attaching"
	}
	if s := f.State[d.ID]; s != "" {
		v["state"] = s
	}
	return v
}

// volumes takes tags as parts of one, as if the API were generous.

func (f *Fake) volumes(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("project") != Project || q.Get("volume_type") != "b_ssd" || len(q["tags"]) != 1 {
		f.T.Errorf("asked for %s", r.URL)
	}
	if status := f.Refused[r.PathValue("zone")]; status != 0 {
		kind := "internal_error"
		if status == http.StatusNotFound {
			kind = "unknown_resource"
		}
		refuse(w, status, kind)
		return
	}
	found := f.W.List(func(d volumestest.Disk) bool {
		for _, t := range strings.Split(q.Get("tags"), ",") {
			if !strings.Contains(d.Tags["tags"], t) {
				return false
			}
		}
		return d.Zone == r.PathValue("zone")
	})
	list, _ := volumestest.Cut(f.W, found, (volumestest.Number(q.Get("page"))-1)*f.W.Page)
	answer := []any{}
	for _, d := range list {
		answer = append(answer, f.show(d))
	}
	w.Header().Set("X-Total-Count", strconv.Itoa(len(found)))
	volumestest.Send(w, object{"volumes": answer})
}

func (f *Fake) volume(w http.ResponseWriter, r *http.Request) {
	d, ok := f.W.Disk(r.PathValue("id"))
	if !ok || d.Zone != r.PathValue("zone") {
		refuse(w, http.StatusNotFound, "unknown_resource")
		return
	}
	volumestest.Send(w, object{"volume": f.show(d)})
}

func (f *Fake) attach(w http.ResponseWriter, r *http.Request) {
	var in struct {
		VolumeID   string `json:"volume_id"`
		VolumeType string `json:"volume_type"`
	}
	err := json.NewDecoder(r.Body).Decode(&in)
	if err != nil || r.PathValue("id") != f.W.Self.ID || r.PathValue("zone") != f.W.Self.Zone || in.VolumeType != "b_ssd" {
		f.T.Errorf("attach %+v to %s, %v", in, r.URL, err)
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	switch err := f.W.Attach(in.VolumeID, f.W.Self.ID, ""); {
	case errors.Is(err, volumestest.ErrLost):
		volumestest.Break()
	case err != nil:
		refuse(w, http.StatusBadRequest, "invalid_request_error")
		return
	}
	f.slow[in.VolumeID] = true
	volumestest.Send(w, object{"server": object{"id": f.W.Self.ID}})
}

func (f *Fake) addresses(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("is_ipv6") != "false" {
		f.T.Errorf("asked for %s", r.URL)
	}
	all := []any{}
	for _, m := range f.W.Machines {
		for _, a := range m.Addresses {
			if slices.Contains(q["resource_ids"], m.ID) {
				all = append(all, object{"address": a + "/22", "resource": object{"id": m.ID, "type": "instance_server"}})
			}
		}
	}
	// The API has less on a page than is asked for.
	size := min(volumestest.Number(q.Get("page_size")), 1)
	from := min((volumestest.Number(q.Get("page"))-1)*size, len(all))
	volumestest.Send(w, object{"total_count": len(all), "ips": all[from:min(from+size, len(all))]})
}

// Machine makes a machine.
func Machine(n int, zone string) *volumestest.Machine {
	return &volumestest.Machine{
		ID: fmt.Sprintf("33333333-3333-4333-8333-%012d", n), Name: fmt.Sprint("control-plane-", n), Zone: zone,
		Addresses: []string{fmt.Sprintf("10.0.0.%d", n)},
	}
}

// Disk makes a disk as kops does.
func Disk(n int, p volumestest.Place) *volumestest.Disk {
	return &volumestest.Disk{
		ID: fmt.Sprintf("44444444-4444-4444-8444-%012d", n), Name: p.Member + ".etcd-" + p.Etcd, Zone: p.Zone,
		Tags: map[string]string{"tags": strings.Join([]string{
			"noprefix=kops.k8s.io/cluster=" + p.Cluster, "noprefix=kops.k8s.io/etcd=" + p.Etcd,
			"noprefix=kops.k8s.io/role=ControlPlane", group + p.Member,
		}, " ")},
	}
}

// one returns a world with this machine and a disk of a member.

// Cloud is what kops has there.
func Cloud() volumestest.Cloud {
	return volumestest.Cloud{
		Zone: "fr-par-1", Other: "fr-par-2", Far: true, Disk: Disk, Machine: Machine,
		Want: func(d volumestest.Disk) volumes.Volume {
			return volumes.Volume{
				Node: "vol-" + d.ID, MountName: "scw-" + d.ID,
				Devices: []string{"/dev/disk/by-id/scsi-0SCW_b_ssd_volume-" + d.ID},
			}
		},
	}
}
