// Package gcetest is Google's Compute Engine for tests: its API, and the metadata of one
// machine.
package gcetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/api/compute/v1"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
)

const prefix = "https://www.googleapis.com/compute/v1/projects/project-1/zones/"

// A Fake is Compute Engine and the metadata of one machine.
type Fake struct {
	T volumestest.T
	W *volumestest.World

	lock sync.Mutex
	// operations have the error code of each, "" for success; they are done when
	// they are asked for again.
	operations []string
	calls      map[string]bool
}

// Calls returns which of its calls were made.
func (f *Fake) Calls() []string {
	f.lock.Lock()
	defer f.lock.Unlock()
	return slices.Collect(maps.Keys(f.calls))
}

// Handler serves both.
func (f *Fake) Handler() http.Handler {
	f.calls = map[string]bool{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /computeMetadata/v1/", f.metadata)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Metadata-Flavor", "Google")
	})
	calls := map[string]http.HandlerFunc{}
	for pattern, call := range map[string]http.HandlerFunc{
		"GET zones": func(w http.ResponseWriter, r *http.Request) {
			volumestest.Send(w, f.page(r, []any{named("us-test1-a"), named("us-test1-b"), named("us-test11-a")}))
		},
		"GET zones/{zone}/disks":                        f.disks,
		"POST zones/{zone}/instances/{name}/attachDisk": f.attach,
		"GET zones/{zone}/operations/{name}":            f.operation,
		"GET zones/{zone}/instances/{name}":             f.instance,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		calls[method+" /compute/v1/projects/project-1/"+path] = func(w http.ResponseWriter, r *http.Request) {
			f.lock.Lock()
			f.calls[pattern] = true
			f.lock.Unlock()
			call(w, r)
		}
	}
	// Any other call is one that kops does not grant.
	api := volumestest.API{
		T: f.T, W: f.W,
		Busy: func(w http.ResponseWriter) { refuse(w, http.StatusForbidden, "rateLimitExceeded") },
	}
	api.Serve(mux, calls)
	return mux
}

func refuse(w http.ResponseWriter, status int, reason string) {
	volumestest.Refuse(w, status, map[string]any{"error": map[string]any{
		"code": status, "message": reason, "errors": []any{map[string]any{"reason": reason}},
	}})
}

// uid is the id of a disk, whose name is another one's when it is gone.
func uid(d volumestest.Disk) uint64 { return 1<<63 + uint64(len(d.Name)) }

func named(name string) map[string]any { return map[string]any{"name": name} }

func (f *Fake) page(r *http.Request, all []any) map[string]any {
	at, _ := strconv.Atoi(r.URL.Query().Get("pageToken"))
	items, next := volumestest.Cut(f.W, all, at)
	answer := map[string]any{"items": items}
	if next > 0 {
		answer["nextPageToken"] = strconv.Itoa(next)
	}
	return answer
}

func (f *Fake) metadata(w http.ResponseWriter, r *http.Request) {
	if !f.W.Metadata() {
		w.WriteHeader(http.StatusNotFound) // what is repeated at once by the client is not asked for here
		return
	}
	text, ok := map[string]string{
		"project/project-id": "project-1", "instance/zone": "projects/1/zones/" + f.W.Self.Zone,
		"instance/name": f.W.Self.Name, "instance/network-interfaces/0/ip": f.W.Self.Addresses[0],
		"instance/service-accounts/default/token": `{"access_token": "token", "expires_in": 3599, "token_type": "Bearer"}`,
	}[strings.TrimPrefix(r.URL.Path, "/computeMetadata/v1/")]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
	}
	fmt.Fprint(w, text)
}

func (f *Fake) disks(w http.ResponseWriter, r *http.Request) {
	var all []any
	for _, d := range f.W.List(func(d volumestest.Disk) bool { return d.Zone == r.PathValue("zone") }) {
		out := &compute.Disk{Name: d.Name, Id: uid(d), Labels: d.Tags}
		if zone, name, ok := strings.Cut(d.Machine, "/"); ok {
			out.Users = []string{prefix + zone + "/instances/" + name}
		}
		all = append(all, out)
	}
	volumestest.Send(w, f.page(r, all))
}

func (f *Fake) attach(w http.ResponseWriter, r *http.Request) {
	var in struct{ Source, DeviceName, Mode, Type string }
	err := json.NewDecoder(r.Body).Decode(&in)
	id := strings.TrimPrefix(in.Source, "projects/project-1/zones/"+f.W.Self.Zone+"/disks/")
	if err != nil || in.DeviceName != id || in.Mode != "READ_WRITE" || in.Type != "PERSISTENT" {
		f.T.Errorf("attach %+v, %v", in, err)
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	code := ""
	switch err := f.W.Attach(id, r.PathValue("zone")+"/"+r.PathValue("name"), in.DeviceName); {
	case errors.Is(err, volumestest.ErrLost):
		volumestest.Break()
	case err != nil:
		code = "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"
	}
	f.operations = append(f.operations, code)
	volumestest.Send(w, &compute.Operation{Name: fmt.Sprint("op-", len(f.operations)-1), Status: "RUNNING"})
}

func (f *Fake) operation(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(strings.TrimPrefix(r.PathValue("name"), "op-"))
	f.lock.Lock()
	defer f.lock.Unlock()
	op := &compute.Operation{Name: r.PathValue("name"), Status: "DONE"}
	if code := f.operations[n]; code != "" {
		op.Error = &compute.OperationError{Errors: []*compute.OperationErrorErrors{{Code: code, Message: "in use"}}}
	}
	volumestest.Send(w, op)
}

func (f *Fake) instance(w http.ResponseWriter, r *http.Request) {
	m := f.W.Machine(r.PathValue("zone") + "/" + r.PathValue("name"))
	if m == nil {
		refuse(w, http.StatusNotFound, "notFound")
		return
	}
	var interfaces []any
	for _, a := range m.Addresses {
		interfaces = append(interfaces, map[string]any{"networkIP": a})
	}
	volumestest.Send(w, map[string]any{"name": m.Name, "networkInterfaces": interfaces})
}

// diskOf makes a disk as kops does.

// Disk makes a disk as kops does.
func Disk(n int, p volumestest.Place) *volumestest.Disk {
	name := fmt.Sprintf("%s-etcd-%s-%s-%d", p.Member, p.Etcd, strings.ReplaceAll(p.Cluster, ".", "-"), n)
	return &volumestest.Disk{ID: name, Name: name, Zone: p.Zone, Tags: map[string]string{
		"k8s-io-cluster-name": strings.ReplaceAll(p.Cluster, ".", "-"), "k8s-io-role-master": "master",
		"k8s-io-etcd-" + p.Etcd: p.Member + "-2f" + p.Member,
	}}
}

// Machine makes a machine.
func Machine(n int, zone string) *volumestest.Machine {
	name := fmt.Sprint("master-", n)
	return &volumestest.Machine{
		ID: zone + "/" + name, Name: name, Zone: zone,
		Addresses: []string{fmt.Sprintf("10.0.0.%d", n), fmt.Sprintf("10.1.0.%d", n)},
	}
}

// Cloud is what kops has there.
func Cloud() volumestest.Cloud {
	return volumestest.Cloud{
		Zone: "us-test1-a", Other: "us-test1-b", Far: true, Disk: Disk, Machine: Machine,
		Want: func(d volumestest.Disk) volumes.Volume {
			return volumes.Volume{
				UID: strconv.FormatUint(uid(d), 10), Node: "etcd-" + d.Name[:1],
				MountName: "master-" + d.Zone + "-" + d.Name, Devices: []string{"/dev/disk/by-id/google-" + d.Name},
			}
		},
	}
}
