// Package hetznertest is Hetzner's cloud for tests: its API, and the metadata of one machine.
package hetznertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
)

// A Fake is the API of Hetzner and the metadata of one machine.
type Fake struct {
	T volumestest.T
	W *volumestest.World

	lock sync.Mutex
	// actions have the error of each, "" for success.
	actions []string
}

// Handler serves both. The API wants the token "token".
func (f *Fake) Handler() http.Handler {
	mux := http.NewServeMux()
	instance := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, f.W.Self.ID) }
	mux.HandleFunc("GET /hetzner/v1/metadata/instance-id", volumestest.Own(f.W, instance))
	api := volumestest.API{
		T: f.T, W: f.W, Header: "Authorization", Key: "Bearer token",
		Busy: func(w http.ResponseWriter) { refuse(w, http.StatusTooManyRequests, "rate_limit_exceeded") },
	}
	api.Serve(mux, map[string]http.HandlerFunc{
		"GET /v1/volumes":                      f.volumes,
		"POST /v1/volumes/{id}/actions/attach": f.attach,
		"GET /v1/actions/{id}":                 f.action,
		"GET /v1/servers":                      f.servers,
		"GET /v1/servers/{id}":                 f.server,
	})
	return mux
}

func refuse(w http.ResponseWriter, status int, code string) {
	volumestest.Refuse(w, status, schema.ErrorResponse{Error: schema.Error{Code: code, Message: code}})
}

func number(id string) int64 {
	n, _ := strconv.ParseInt(id, 10, 64)
	return n
}

func (f *Fake) volumes(w http.ResponseWriter, r *http.Request) {
	found := f.W.List(func(d volumestest.Disk) bool {
		for _, s := range strings.Split(r.URL.Query().Get("label_selector"), ",") {
			key, value, _ := strings.Cut(s, "=")
			if d.Tags[key] != value {
				return false
			}
		}
		return true
	})
	page := max(int(number(r.URL.Query().Get("page"))), 1)
	list, next := volumestest.Cut(f.W, found, (page-1)*f.W.Page)
	var answer struct {
		schema.VolumeListResponse
		schema.MetaResponse
	}
	answer.Meta.Pagination = &schema.MetaPagination{Page: page}
	if next > 0 {
		answer.Meta.Pagination.NextPage = page + 1
	}
	for _, d := range list {
		v := schema.Volume{ID: number(d.ID), Labels: d.Tags, Location: schema.Location{Name: d.Zone}}
		if d.Machine != "" {
			id := number(d.Machine)
			v.Server = &id
		}
		answer.Volumes = append(answer.Volumes, v)
	}
	volumestest.Send(w, answer)
}

func (f *Fake) attach(w http.ResponseWriter, r *http.Request) {
	var in schema.VolumeActionAttachVolumeRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Server != number(f.W.Self.ID) {
		f.T.Errorf("attach %+v, %v", in, err)
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	switch err := f.W.Attach(r.PathValue("id"), f.W.Self.ID, ""); {
	case errors.Is(err, volumestest.ErrLost):
		volumestest.Break()
	case err != nil && len(f.actions) == 0:
		refuse(w, http.StatusUnprocessableEntity, "volume_already_attached")
		return
	case err != nil:
		f.actions = append(f.actions, "action_failed")
	default:
		f.actions = append(f.actions, "")
	}
	w.WriteHeader(http.StatusCreated)
	volumestest.Send(w, schema.VolumeActionAttachVolumeResponse{
		Action: schema.Action{ID: int64(len(f.actions)), Status: "running"},
	})
}

func (f *Fake) action(w http.ResponseWriter, r *http.Request) {
	f.lock.Lock()
	defer f.lock.Unlock()
	a := schema.Action{ID: number(r.PathValue("id")), Status: "success"}
	if code := f.actions[a.ID-1]; code != "" {
		a.Status, a.Error = "error", &schema.ActionError{Code: code, Message: code}
	}
	volumestest.Send(w, schema.ActionGetResponse{Action: a})
}

func serverOf(m *volumestest.Machine) schema.Server {
	s := schema.Server{ID: number(m.ID), Name: m.Name, Location: schema.Location{Name: m.Zone}}
	for _, a := range m.Addresses {
		s.PrivateNet = append(s.PrivateNet, schema.ServerPrivateNet{Network: 1, IP: a})
	}
	return s
}

func (f *Fake) servers(w http.ResponseWriter, _ *http.Request) {
	var answer schema.ServerListResponse
	for _, m := range f.W.Machines {
		answer.Servers = append(answer.Servers, serverOf(m))
	}
	volumestest.Send(w, answer)
}

func (f *Fake) server(w http.ResponseWriter, r *http.Request) {
	m := f.W.Machine(r.PathValue("id"))
	if m == nil {
		refuse(w, http.StatusNotFound, "not_found")
		return
	}
	volumestest.Send(w, schema.ServerGetResponse{Server: serverOf(m)})
}

// Machine makes a machine.
func Machine(n int, zone string) *volumestest.Machine {
	return &volumestest.Machine{
		ID: fmt.Sprint(1000 + n), Name: fmt.Sprint("control-plane-", n), Zone: zone,
		Addresses: []string{fmt.Sprintf("10.0.0.%d", n)},
	}
}

// Disk makes a disk as kops does.
func Disk(n int, p volumestest.Place) *volumestest.Disk {
	return &volumestest.Disk{ID: fmt.Sprint(2000 + n), Zone: p.Zone, Tags: map[string]string{
		"kops.k8s.io/cluster": p.Cluster, "kops.k8s.io/volume-role": p.Etcd,
		"kops.k8s.io/instance-group": "control-plane-" + p.Member,
	}}
}

// Cloud is what kops has there.
func Cloud() volumestest.Cloud {
	return volumestest.Cloud{
		Zone: "fsn1", Other: "nbg1", Far: true, Disk: Disk, Machine: Machine,
		Want: func(d volumestest.Disk) volumes.Volume {
			return volumes.Volume{
				Node: "vol-" + d.ID, MountName: "hcloud-" + d.ID, Devices: []string{"/dev/disk/by-id/scsi-0HC_Volume_" + d.ID},
			}
		},
	}
}
