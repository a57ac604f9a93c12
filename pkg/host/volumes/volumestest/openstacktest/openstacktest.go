// Package openstacktest is an OpenStack for tests: Keystone, Nova, Cinder, and the metadata
// of one server.
package openstacktest

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
	"github.com/etcdadm/etcdadm/pkg/internal/keystone/keystonetest"
)

// A Fake is Keystone, Nova, Cinder, and the metadata of one server.
type Fake struct {
	T        volumestest.T
	W        *volumestest.World
	Keystone *keystonetest.Server

	Lock sync.Mutex
	// Slow is how often volumes are yet shown as reserved, and none of their
	// attachments, less than 0 forever.
	Slow map[string]int
	// Status is that of volumes that have one of their own.
	Status map[string]string
	// Fails says that Nova's attachments fail after its answer.
	Fails bool
	// Refuses is the status with which Nova refuses to attach a volume that is free.
	Refuses map[string]int
	// Old says that Nova does not show which volumes a server has, Zoneless that
	// nobody knows its zone.
	Old, Zoneless bool
	// Attachments is how many were asked for.
	Attachments int
}

type object = map[string]any

// Handler serves all.
func (f *Fake) Handler() http.Handler {
	if f.Slow == nil {
		f.Slow = map[string]int{}
	}
	f.Keystone = &keystonetest.Server{T: f.T, Busy: func() bool { return !f.W.Call() }, Services: map[string]string{
		"compute": "/nova/v2.1", "volumev3": "/cinder/v3/" + keystonetest.Project,
	}}
	api := http.NewServeMux()
	cinder := "GET /cinder/v3/" + keystonetest.Project
	api.HandleFunc(cinder+"/volumes/detail", f.volumes)
	api.HandleFunc(cinder+"/volumes/{id}", f.volume)
	api.HandleFunc("GET /nova/v2.1/servers/{id}", f.nova)
	api.HandleFunc("POST /nova/v2.1/servers/{id}/os-volume_attachments", f.attach)
	api.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		f.T.Errorf("a call that is not expected: %s %s", r.Method, r.URL)
	})
	mux := http.NewServeMux()
	mux.Handle("/identity/", f.Keystone)
	mux.Handle("/", f.Keystone.Guarded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		api.ServeHTTP(w, r)
	})))
	mux.HandleFunc("GET /openstack/latest/meta_data.json", volumestest.Own(f.W, f.metadata))
	return mux
}

func (f *Fake) metadata(w http.ResponseWriter, _ *http.Request) {
	m := object{"uuid": f.W.Self.ID, "name": f.W.Self.Name, "project_id": keystonetest.Project}
	if !f.Zoneless {
		m["availability_zone"] = "nova"
	}
	volumestest.Send(w, m)
}

func (f *Fake) show(d volumestest.Disk) object {
	f.Lock.Lock()
	defer f.Lock.Unlock()
	v := object{
		"id": d.ID, "name": d.Name, "metadata": d.Tags, "availability_zone": d.Zone, "status": "available",
		"attachments": []any{},
	}
	switch {
	case f.Slow[d.ID] != 0:
		f.Slow[d.ID]--
		v["status"] = "reserved"
	case d.Machine != "":
		v["status"] = "in-use"
		v["attachments"] = []any{object{"server_id": d.Machine, "volume_id": d.ID, "device": "/dev/vdb"}}
	}
	if s := f.Status[d.ID]; s != "" {
		v["status"] = s
	}
	return v
}

func (f *Fake) volumes(w http.ResponseWriter, r *http.Request) {
	at, _ := strconv.Atoi(r.URL.Query().Get("marker"))
	page, next := volumestest.Cut(f.W, f.W.List(nil), at)
	list := []any{}
	for _, d := range page {
		list = append(list, f.show(d))
	}
	answer := object{"volumes": list}
	if next > 0 {
		answer["volumes_links"] = []any{object{
			"rel": "next", "href": fmt.Sprintf("http://%s%s?marker=%d", r.Host, r.URL.Path, next),
		}}
	}
	volumestest.Send(w, answer)
}

func (f *Fake) volume(w http.ResponseWriter, r *http.Request) {
	d, ok := f.W.Disk(r.PathValue("id"))
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	volumestest.Send(w, object{"volume": f.show(d)})
}

func (f *Fake) nova(w http.ResponseWriter, r *http.Request) {
	m := f.W.Machine(r.PathValue("id"))
	if m == nil {
		w.WriteHeader(http.StatusNotFound)
		volumestest.Send(w, object{"itemNotFound": object{"code": 404, "message": "Instance could not be found."}})
		return
	}
	networks := object{"zzz": []any{object{"addr": "192.168.0.9", "version": 4, "OS-EXT-IPS:type": "fixed"}}}
	own := []any{object{"addr": "203.0.113.7", "version": 4, "OS-EXT-IPS:type": "floating"}}
	for _, a := range m.Addresses {
		own = append(own, object{"addr": a, "version": 4, "OS-EXT-IPS:type": "fixed"})
	}
	networks["prod.example.com"] = own
	server := object{"id": m.ID, "name": m.Name, "status": "ACTIVE", "addresses": networks}
	if !f.Zoneless {
		server["OS-EXT-AZ:availability_zone"] = m.Zone
	}
	if !f.Old {
		attached := []any{}
		for _, id := range f.W.DisksOf(m.ID) {
			attached = append(attached, object{"id": id, "delete_on_termination": false})
		}
		server["os-extended-volumes:volumes_attached"] = attached
	}
	volumestest.Send(w, object{"server": server})
}

func (f *Fake) attach(w http.ResponseWriter, r *http.Request) {
	var in struct {
		VolumeAttachment struct{ VolumeID string }
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.PathValue("id") != f.W.Self.ID {
		f.T.Errorf("attach to %s: %v", r.PathValue("id"), err)
	}
	id := in.VolumeAttachment.VolumeID
	f.Lock.Lock()
	defer f.Lock.Unlock()
	f.Attachments++
	if f.Fails {
		volumestest.Send(w, object{"volumeAttachment": object{"volumeId": id}})
		return
	}
	if status := f.Refuses[id]; status != 0 {
		w.WriteHeader(status)
		volumestest.Send(w, object{"refused": object{"code": status, "message": "The volume and the server are in different zones"}})
		return
	}
	switch err := f.W.Attach(id, f.W.Self.ID, ""); {
	case errors.Is(err, volumestest.ErrLost):
		volumestest.Break()
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
		volumestest.Send(w, object{"badRequest": object{"code": 400, "message": "Invalid volume: status must be available"}})
		return
	}
	f.Slow[id] = 1
	volumestest.Send(w, object{"volumeAttachment": object{"volumeId": id, "serverId": f.W.Self.ID, "device": "/dev/vdb"}})
}

// Machine makes a server.
func Machine(n int, zone string) *volumestest.Machine {
	return &volumestest.Machine{
		ID: fmt.Sprintf("5ce4b0e1-0000-4000-8000-%012d", n), Name: fmt.Sprint("control-plane-", n), Zone: zone,
		Addresses: []string{fmt.Sprintf("10.0.0.%d", n)},
	}
}

// Disk makes a volume as kops does.
func Disk(n int, p volumestest.Place) *volumestest.Disk {
	return &volumestest.Disk{
		ID:   fmt.Sprintf("0f0e0d0c-0b0a-4000-9000-%012d", n),
		Name: p.Member + ".etcd-" + p.Etcd + "." + p.Cluster, Zone: p.Zone, Tags: map[string]string{
			"k8s.io/etcd/" + p.Etcd: p.Member + "/a,b,c", "k8s.io/role/control-plane": "1", "k8s.io/role/master": "1",
			"KubernetesCluster": p.Cluster,
		},
	}
}

// Cloud is what kops has there.
func Cloud() volumestest.Cloud {
	return volumestest.Cloud{
		Zone: "az-1", Other: "az-2", Far: true, Disk: Disk, Machine: Machine,
		Want: func(d volumestest.Disk) volumes.Volume {
			by := "/dev/disk/by-id/"
			return volumes.Volume{
				Node: "etcd-" + d.Name[:1], MountName: "master-" + d.Name, Rescan: true, Devices: []string{
					by + "virtio-0f0e0d0c-0b0a-4000-9", by + "virtio-" + d.ID, by + "scsi-0QEMU_QEMU_HARDDISK_0f0e0d0c-0b0a-4000-9",
					by + "scsi-0QEMU_QEMU_HARDDISK_" + d.ID, by + "wwn-0x" + strings.ReplaceAll(d.ID, "-", ""),
				},
			}
		},
	}
}
