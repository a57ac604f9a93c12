// Package dotest is DigitalOcean for tests: its API, and the metadata of one machine.
package dotest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/digitalocean/godo"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
)

type object = map[string]any

// A Fake is the API of DigitalOcean and the metadata of one machine.
type Fake struct {
	T volumestest.T
	W *volumestest.World

	lock sync.Mutex
	// actions have the status in which each ends.
	actions []string
}

// Handler serves both. The API wants the token "token".
func (f *Fake) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metadata/v1.json", volumestest.Own(f.W, f.metadata))
	api := volumestest.API{
		T: f.T, W: f.W, Header: "Authorization", Key: "Bearer token",
		Busy: func(w http.ResponseWriter) { refuse(w, http.StatusTooManyRequests, "too_many_requests") },
	}
	api.Serve(mux, map[string]http.HandlerFunc{
		"GET /v2/volumes":                     f.volumes,
		"POST /v2/volumes/{id}/actions":       f.attach,
		"GET /v2/volumes/{id}/actions/{name}": f.action,
		"GET /v2/droplets/{id}":               f.droplet,
	})
	return mux
}

func refuse(w http.ResponseWriter, status int, code string) {
	volumestest.Refuse(w, status, object{"id": code, "message": code})
}

func (f *Fake) metadata(w http.ResponseWriter, _ *http.Request) {
	m := f.W.Self
	var private []any
	for _, a := range m.Addresses {
		private = append(private, object{"ipv4": object{"ip_address": a}})
	}
	volumestest.Send(w, object{
		"droplet_id": volumestest.Number(m.ID), "region": m.Zone,
		"tags":       []string{"kubernetescluster:prod-example-com", "k8s-index:etcd-1"},
		"interfaces": object{"private": private},
	})
}

func (f *Fake) volumes(w http.ResponseWriter, r *http.Request) {
	region := r.URL.Query().Get("region")
	found := f.W.List(func(d volumestest.Disk) bool { return region == "" || d.Zone == region })
	page := max(volumestest.Number(r.URL.Query().Get("page")), 1)
	list, next := volumestest.Cut(f.W, found, (page-1)*f.W.Page)
	answer := struct {
		Volumes []godo.Volume `json:"volumes"`
		Links   *godo.Links   `json:"links"`
	}{Links: &godo.Links{Pages: &godo.Pages{}}}
	if next > 0 {
		answer.Links.Pages.Last = fmt.Sprintf("%s/v2/volumes?page=%d", volumestest.Base(r), len(found)/f.W.Page+1)
		answer.Links.Pages.Next = fmt.Sprintf("%s/v2/volumes?page=%d", volumestest.Base(r), page+1)
	}
	for _, d := range list {
		v := godo.Volume{ID: d.ID, Name: d.Name, Region: &godo.Region{Slug: d.Zone}}
		for key, value := range d.Tags {
			v.Tags = append(v.Tags, key+":"+value)
		}
		if d.Machine != "" {
			v.DropletIDs = []int{volumestest.Number(d.Machine)}
		}
		answer.Volumes = append(answer.Volumes, v)
	}
	volumestest.Send(w, answer)
}

func (f *Fake) attach(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Type    string
		Droplet int `json:"droplet_id"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Type != "attach" {
		f.T.Errorf("attach %+v, %v", in, err)
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	status := godo.ActionCompleted
	switch err := f.W.Attach(r.PathValue("id"), strconv.Itoa(in.Droplet), ""); {
	case errors.Is(err, volumestest.ErrLost):
		volumestest.Break()
	case err != nil:
		status = "errored"
	}
	f.actions = append(f.actions, status)
	w.WriteHeader(http.StatusAccepted)
	volumestest.Send(w, object{"action": object{"id": len(f.actions), "status": "in-progress"}})
}

func (f *Fake) action(w http.ResponseWriter, r *http.Request) {
	f.lock.Lock()
	defer f.lock.Unlock()
	n := volumestest.Number(r.PathValue("name"))
	volumestest.Send(w, object{"action": object{"id": n, "status": f.actions[n-1]}})
}

func (f *Fake) droplet(w http.ResponseWriter, r *http.Request) {
	m := f.W.Machine(r.PathValue("id"))
	if m == nil {
		refuse(w, http.StatusNotFound, "not_found")
		return
	}
	v4 := []any{object{"type": "public", "ip_address": "203.0.113.9"}}
	for _, a := range m.Addresses {
		v4 = append(v4, object{"type": "private", "ip_address": a})
	}
	volumestest.Send(w, object{"droplet": object{"id": volumestest.Number(m.ID), "networks": object{"v4": v4}}})
}

// Machine makes a machine.
func Machine(n int, zone string) *volumestest.Machine {
	return &volumestest.Machine{
		ID: fmt.Sprint(1000 + n), Name: fmt.Sprint("droplet-", n), Zone: zone,
		Addresses: []string{fmt.Sprintf("10.0.0.%d", n)},
	}
}

// diskOf makes a volume as kops does: the index is the member's.

// Disk makes a disk as kops does.
func Disk(n int, p volumestest.Place) *volumestest.Disk {
	cluster := strings.ReplaceAll(p.Cluster, ".", "-")
	index := "etcd-" + strconv.Itoa(int(p.Member[0]-'a')+1)
	return &volumestest.Disk{
		ID: fmt.Sprintf("0000-%d", n), Name: fmt.Sprintf("kops-%s-etcd-%s-%s-%d", index, p.Etcd, cluster, n), Zone: p.Zone,
		Tags: map[string]string{
			"etcdCluster-" + p.Etcd: index, "k8s-index": index, "KubernetesCluster": cluster,
		},
	}
}

// Cloud is what kops has there.
func Cloud() volumestest.Cloud {
	return volumestest.Cloud{
		Zone: "nyc3", Other: "nyc1", Far: true, Disk: Disk, Machine: Machine,
		Want: func(d volumestest.Disk) volumes.Volume {
			return volumes.Volume{
				Node: d.Name, MountName: "master-" + d.ID, Devices: []string{"/dev/disk/by-id/scsi-0DO_Volume_" + d.Name},
			}
		},
	}
}
