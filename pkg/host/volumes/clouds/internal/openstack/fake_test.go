package openstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
	"github.com/etcdadm/etcdadm/pkg/internal/keystone"
	"github.com/etcdadm/etcdadm/pkg/internal/keystone/keystonetest"
)

// A fake is Keystone, Nova, Cinder, and the metadata of one server.
type fake struct {
	t        *testing.T
	w        *volumestest.World
	keystone *keystonetest.Server

	lock sync.Mutex
	// slow is how often volumes are yet shown as reserved, and none of their
	// attachments, less than 0 forever.
	slow map[string]int
	// status is that of volumes that have one of their own.
	status map[string]string
	// fails says that Nova's attachments fail after its answer.
	fails bool
	// refuses is the status with which Nova refuses to attach a volume that is free.
	refuses map[string]int
	// old says that Nova does not tell which volumes a server has, zoneless that
	// nobody tells its zone.
	old, zoneless bool
	// attachments is how many were asked for.
	attachments int
}

type object = map[string]any

// server serves all, and returns its address.
func (f *fake) server(t *testing.T) *httptest.Server {
	if f.slow == nil {
		f.slow = map[string]int{}
	}
	f.keystone = &keystonetest.Server{T: t, Busy: func() bool { return !f.w.Call() }, Services: map[string]string{
		"compute": "/nova/v2.1", "volumev3": "/cinder/v3/" + keystonetest.Project,
	}}
	api := http.NewServeMux()
	cinder := "GET /cinder/v3/" + keystonetest.Project
	api.HandleFunc(cinder+"/volumes/detail", f.volumes)
	api.HandleFunc(cinder+"/volumes/{id}", f.volume)
	api.HandleFunc("GET /nova/v2.1/servers/{id}", f.nova)
	api.HandleFunc("POST /nova/v2.1/servers/{id}/os-volume_attachments", f.attach)
	api.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		f.t.Errorf("a call that is not expected: %s %s", r.Method, r.URL)
	})
	mux := http.NewServeMux()
	mux.Handle("/identity/", f.keystone)
	mux.Handle("/", f.keystone.Guarded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		api.ServeHTTP(w, r)
	})))
	mux.HandleFunc("GET /openstack/latest/meta_data.json", func(w http.ResponseWriter, _ *http.Request) {
		if !f.w.Metadata() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		m := object{"uuid": f.w.Self.ID, "name": f.w.Self.Name, "project_id": keystonetest.Project}
		if !f.zoneless {
			m["availability_zone"] = "nova"
		}
		send(w, m)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// open returns the provider for a server, with credentials as kops writes them.
func (f *fake) open(t *testing.T, o volumes.Options, change ...string) *provider {
	t.Helper()
	s := f.server(t)
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

func send(w http.ResponseWriter, answer any) { _ = json.NewEncoder(w).Encode(answer) }

func (f *fake) show(d volumestest.Disk) object {
	f.lock.Lock()
	defer f.lock.Unlock()
	v := object{
		"id": d.ID, "name": d.Name, "metadata": d.Tags, "availability_zone": d.Zone, "status": available,
		"attachments": []any{},
	}
	switch {
	case f.slow[d.ID] != 0:
		f.slow[d.ID]--
		v["status"] = "reserved"
	case d.Machine != "":
		v["status"] = "in-use"
		v["attachments"] = []any{object{"server_id": d.Machine, "volume_id": d.ID, "device": "/dev/vdb"}}
	}
	if s := f.status[d.ID]; s != "" {
		v["status"] = s
	}
	return v
}

func (f *fake) volumes(w http.ResponseWriter, r *http.Request) {
	at, _ := strconv.Atoi(r.URL.Query().Get("marker"))
	page, next := volumestest.Cut(f.w, f.w.List(nil), at)
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
	send(w, answer)
}

func (f *fake) volume(w http.ResponseWriter, r *http.Request) {
	d, ok := f.w.Disk(r.PathValue("id"))
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	send(w, object{"volume": f.show(d)})
}

func (f *fake) nova(w http.ResponseWriter, r *http.Request) {
	m := f.w.Machine(r.PathValue("id"))
	if m == nil {
		w.WriteHeader(http.StatusNotFound)
		send(w, object{"itemNotFound": object{"code": 404, "message": "Instance could not be found."}})
		return
	}
	networks := object{"zzz": []any{object{"addr": "192.168.0.9", "version": 4, "OS-EXT-IPS:type": "fixed"}}}
	own := []any{object{"addr": "203.0.113.7", "version": 4, "OS-EXT-IPS:type": "floating"}}
	for _, a := range m.Addresses {
		own = append(own, object{"addr": a, "version": 4, "OS-EXT-IPS:type": "fixed"})
	}
	networks["prod.example.com"] = own
	server := object{"id": m.ID, "name": m.Name, "status": "ACTIVE", "addresses": networks}
	if !f.zoneless {
		server["OS-EXT-AZ:availability_zone"] = m.Zone
	}
	if !f.old {
		attached := []any{}
		for _, id := range f.w.DisksOf(m.ID) {
			attached = append(attached, object{"id": id, "delete_on_termination": false})
		}
		server["os-extended-volumes:volumes_attached"] = attached
	}
	send(w, object{"server": server})
}

func (f *fake) attach(w http.ResponseWriter, r *http.Request) {
	var in struct {
		VolumeAttachment struct{ VolumeID string }
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.PathValue("id") != f.w.Self.ID {
		f.t.Errorf("attach to %s: %v", r.PathValue("id"), err)
	}
	id := in.VolumeAttachment.VolumeID
	f.lock.Lock()
	defer f.lock.Unlock()
	f.attachments++
	if f.fails {
		send(w, object{"volumeAttachment": object{"volumeId": id}})
		return
	}
	if status := f.refuses[id]; status != 0 {
		w.WriteHeader(status)
		send(w, object{"refused": object{"code": status, "message": "The volume and the server are in different zones"}})
		return
	}
	switch err := f.w.Attach(id, f.w.Self.ID, ""); {
	case errors.Is(err, volumestest.ErrLost):
		volumestest.Break()
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
		send(w, object{"badRequest": object{"code": 400, "message": "Invalid volume: status must be available"}})
		return
	}
	f.slow[id] = 1
	send(w, object{"volumeAttachment": object{"volumeId": id, "serverId": f.w.Self.ID, "device": "/dev/vdb"}})
}
