// Package linodetest is Linode for tests: its API, and the metadata of one machine.
package linodetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
)

const group = "kops.k8s.io/instance-group:control-plane-"

// A Fake is the API of Linode and the metadata of one machine.
type Fake struct {
	T volumestest.T
	W *volumestest.World
	// Status is that of volumes that have one of their own.
	Status map[string]string
	// Thief is the instance that has every volume, whatever was answered.
	Thief int
	// IPs and Instance are what the API says of addresses, if not what machines have.
	IPs, Instance map[string]any

	lock sync.Mutex
	// slow are volumes whose attachment is not done when they are next asked for.
	slow map[string]bool
}

type object = map[string]any

// Handler serves both. The API wants the token "token".
func (f *Fake) Handler() http.Handler {
	f.slow = map[string]bool{}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/token", func(w http.ResponseWriter, r *http.Request) {
		if !f.W.Metadata() || r.Header.Get("Metadata-Token-Expiry-Seconds") == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "metadata-token")
	})
	mux.HandleFunc("GET /v1/instance", func(w http.ResponseWriter, r *http.Request) {
		if !f.W.Metadata() || r.Header.Get("Metadata-Token") != "metadata-token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, "backups.enabled: false\nhost_uuid: 1\nid: %s\nlabel: x\nregion: %s\ntags: a\n", f.W.Self.ID,
			f.W.Self.Zone)
	})
	api := volumestest.API{
		T: f.T, W: f.W, Header: "Authorization", Key: "Bearer token",
		Busy: func(w http.ResponseWriter) { refuse(w, http.StatusTooManyRequests, "Too many requests") },
	}
	api.Serve(mux, map[string]http.HandlerFunc{
		"GET /v4/volumes":                   f.volumes,
		"GET /v4/volumes/{id}":              f.volume,
		"POST /v4/volumes/{id}/attach":      f.attach,
		"GET /v4/linode/instances/{id}":     f.linode,
		"GET /v4/linode/instances/{id}/ips": f.addresses,
	})
	return mux
}

func refuse(w http.ResponseWriter, status int, reason string) {
	volumestest.Refuse(w, status, object{"errors": []any{object{"reason": reason}}})
}

func (f *Fake) show(d volumestest.Disk) object {
	f.lock.Lock()
	defer f.lock.Unlock()
	v := object{
		"id": volumestest.Number(d.ID), "label": d.Name, "region": d.Zone, "status": "active", "linode_id": nil,
		"tags": strings.Split(d.Tags["tags"], " "), "filesystem_path": "/dev/disk/by-id/scsi-0Linode_Volume_" + d.Name,
	}
	if s := f.Status[d.ID]; s != "" {
		v["status"], v["filesystem_path"] = s, ""
	}
	switch {
	case f.Thief != 0:
		v["linode_id"] = f.Thief
	case f.slow[d.ID]:
		delete(f.slow, d.ID)
	case d.Machine != "":
		v["linode_id"] = volumestest.Number(d.Machine)
	}
	return v
}

func (f *Fake) volumes(w http.ResponseWriter, r *http.Request) {
	if volumestest.Number(r.URL.Query().Get("page_size")) < 25 {
		f.T.Errorf("asked for %s", r.URL)
	}
	found := f.W.List(nil)
	page, pages := max(volumestest.Number(r.URL.Query().Get("page")), 1), 1
	if f.W.Page > 0 {
		pages = max((len(found)+f.W.Page-1)/f.W.Page, 1)
	}
	list, _ := volumestest.Cut(f.W, found, (page-1)*f.W.Page)
	data := []any{}
	for _, d := range list {
		data = append(data, f.show(d))
	}
	volumestest.Send(w, object{"data": data, "page": page, "pages": pages, "results": len(found)})
}

func (f *Fake) volume(w http.ResponseWriter, r *http.Request) {
	d, ok := f.W.Disk(r.PathValue("id"))
	if !ok {
		refuse(w, http.StatusNotFound, "Not found")
		return
	}
	volumestest.Send(w, f.show(d))
}

func (f *Fake) attach(w http.ResponseWriter, r *http.Request) {
	var in struct {
		LinodeID int `json:"linode_id"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || strconv.Itoa(in.LinodeID) != f.W.Self.ID {
		f.T.Errorf("attach %+v, %v", in, err)
	}
	id := r.PathValue("id")
	switch err := f.W.Attach(id, f.W.Self.ID, ""); {
	case errors.Is(err, volumestest.ErrLost):
		volumestest.Break()
	case err != nil:
		refuse(w, http.StatusBadRequest, "Volume "+id+" is already attached")
		return
	}
	d, _ := f.W.Disk(id)
	v := f.show(d)
	f.lock.Lock()
	f.slow[id] = true
	f.lock.Unlock()
	volumestest.Send(w, v)
}

func (f *Fake) machine(w http.ResponseWriter, r *http.Request) *volumestest.Machine {
	m := f.W.Machine(r.PathValue("id"))
	if m == nil {
		refuse(w, http.StatusNotFound, "Not found")
	}
	return m
}

func (f *Fake) linode(w http.ResponseWriter, r *http.Request) {
	if m := f.machine(w, r); m != nil {
		volumestest.Send(w, f.Instance)
	}
}

func (f *Fake) addresses(w http.ResponseWriter, r *http.Request) {
	m := f.machine(w, r)
	switch {
	case m == nil:
	case f.IPs != nil:
		volumestest.Send(w, object{"ipv4": f.IPs})
	default:
		private := []any{}
		for _, a := range m.Addresses {
			private = append(private, object{"address": a, "type": "ipv4", "public": false})
		}
		volumestest.Send(w, object{"ipv4": object{
			"public": []any{object{"address": "203.0.113.5"}}, "private": private, "vpc": []any{object{"address": "10.9.9.9"}},
		}})
	}
}

// Machine makes a machine.
func Machine(n int, zone string) *volumestest.Machine {
	return &volumestest.Machine{
		ID: fmt.Sprint(1000 + n), Name: fmt.Sprint("control-plane-", n), Zone: zone,
		Addresses: []string{fmt.Sprintf("192.168.128.%d", n)},
	}
}

// Disk makes a disk as kops does.
func Disk(n int, p volumestest.Place) *volumestest.Disk {
	return &volumestest.Disk{
		ID: fmt.Sprint(2000 + n), Name: fmt.Sprint("volume", n), Zone: p.Zone, Tags: map[string]string{
			"tags": "kops.k8s.io/cluster:" + strings.ReplaceAll(p.Cluster, ".", "-") + " kops.k8s.io/volume-role:" + p.Etcd +
				" " + group + p.Member + " other",
		},
	}
}

// one returns a world with this machine and a disk of a member.

// Cloud is what kops has there.
func Cloud() volumestest.Cloud {
	return volumestest.Cloud{
		Zone: "us-east", Other: "eu-west", Far: true, Disk: Disk, Machine: Machine,
		Want: func(d volumestest.Disk) volumes.Volume {
			return volumes.Volume{
				Node: "vol-" + d.ID, MountName: "linode-" + d.ID,
				Devices: []string{"/dev/disk/by-id/scsi-0Linode_Volume_" + d.Name},
			}
		},
	}
}
