package gce

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/compute/metadata"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/option"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
)

const prefix = "https://www.googleapis.com/compute/v1/projects/project-1/zones/"

// A fake is Compute Engine and the metadata of one machine.
type fake struct {
	t *testing.T
	w *volumestest.World
	// operations have the error code of each, "" for success; they are done when
	// they are asked for again.
	operations []string

	mu    sync.Mutex
	calls map[string]bool
}

// here redirects the metadata client, which has no address of its own to set.
type here struct{ url *url.URL }

func (h here) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = h.url.Scheme, h.url.Host
	return http.DefaultTransport.RoundTrip(r)
}

func (f *fake) serve(t *testing.T) *provider {
	f.calls = map[string]bool{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /computeMetadata/v1/", f.metadata)
	for pattern, h := range map[string]http.HandlerFunc{
		"GET zones": func(w http.ResponseWriter, r *http.Request) {
			send(w, f.page(r, []any{named("us-test1-a"), named("us-test1-b"), named("us-test11-a")}))
		},
		"GET zones/{zone}/disks":                        f.disks,
		"POST zones/{zone}/instances/{name}/attachDisk": f.attach,
		"GET zones/{zone}/operations/{name}":            f.operation,
		"GET zones/{zone}/instances/{name}":             f.instance,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /compute/v1/projects/project-1/"+path, func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			f.calls[pattern] = true
			f.mu.Unlock()
			if !f.w.Call() {
				refuse(w, http.StatusForbidden, "rateLimitExceeded")
				return
			}
			h(w, r)
		})
	}
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		f.t.Errorf("a call that kops does not grant: %s %s", r.Method, r.URL)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	o := volumestest.KopsOptions("gce")
	return open(o, metadata.NewClient(&http.Client{Transport: here{u}}), option.WithEndpoint(s.URL+"/compute/v1/"),
		option.WithHTTPClient(s.Client()))
}

func send(w io.Writer, answer any) { _ = json.NewEncoder(w).Encode(answer) }

func refuse(w http.ResponseWriter, status int, reason string) {
	w.WriteHeader(status)
	send(w, map[string]any{"error": map[string]any{
		"code": status, "message": reason, "errors": []any{map[string]any{"reason": reason}},
	}})
}

// uid is the id of a disk, whose name is another one's when it is gone.
func uid(d volumestest.Disk) uint64 { return 1<<63 + uint64(len(d.Name)) }

func named(name string) map[string]any { return map[string]any{"name": name} }

func (f *fake) page(r *http.Request, all []any) map[string]any {
	at, _ := strconv.Atoi(r.URL.Query().Get("pageToken"))
	items, next := volumestest.Cut(f.w, all, at)
	answer := map[string]any{"items": items}
	if next > 0 {
		answer["nextPageToken"] = strconv.Itoa(next)
	}
	return answer
}

func (f *fake) metadata(w http.ResponseWriter, r *http.Request) {
	if !f.w.Metadata() {
		w.WriteHeader(http.StatusNotFound) // what is repeated at once by the client is not asked for here
		return
	}
	fmt.Fprint(w, map[string]string{
		"project/project-id": "project-1", "instance/zone": "projects/1/zones/" + f.w.Self.Zone,
		"instance/name": f.w.Self.Name, "instance/network-interfaces/0/ip": f.w.Self.Addresses[0],
	}[strings.TrimPrefix(r.URL.Path, "/computeMetadata/v1/")])
}

func (f *fake) disks(w http.ResponseWriter, r *http.Request) {
	var all []any
	for _, d := range f.w.List(func(d volumestest.Disk) bool { return d.Zone == r.PathValue("zone") }) {
		out := &compute.Disk{Name: d.Name, Id: uid(d), Labels: d.Tags}
		if zone, name, ok := strings.Cut(d.Machine, "/"); ok {
			out.Users = []string{prefix + zone + "/instances/" + name}
		}
		all = append(all, out)
	}
	send(w, f.page(r, all))
}

func (f *fake) attach(w http.ResponseWriter, r *http.Request) {
	var in struct{ Source, DeviceName, Mode, Type string }
	err := json.NewDecoder(r.Body).Decode(&in)
	id := strings.TrimPrefix(in.Source, "projects/project-1/zones/"+f.w.Self.Zone+"/disks/")
	if err != nil || in.DeviceName != id || in.Mode != "READ_WRITE" || in.Type != "PERSISTENT" {
		f.t.Errorf("attach %+v, %v", in, err)
	}
	code := ""
	switch err := f.w.Attach(id, r.PathValue("zone")+"/"+r.PathValue("name"), in.DeviceName); {
	case errors.Is(err, volumestest.ErrLost):
		volumestest.Break()
	case err != nil:
		code = "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"
	}
	f.operations = append(f.operations, code)
	send(w, &compute.Operation{Name: fmt.Sprint("op-", len(f.operations)-1), Status: "RUNNING"})
}

func (f *fake) operation(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(strings.TrimPrefix(r.PathValue("name"), "op-"))
	op := &compute.Operation{Name: r.PathValue("name"), Status: "DONE"}
	if code := f.operations[n]; code != "" {
		op.Error = &compute.OperationError{Errors: []*compute.OperationErrorErrors{{Code: code, Message: "in use"}}}
	}
	send(w, op)
}

func (f *fake) instance(w http.ResponseWriter, r *http.Request) {
	m := f.w.Machine(r.PathValue("zone") + "/" + r.PathValue("name"))
	if m == nil {
		refuse(w, http.StatusNotFound, "notFound")
		return
	}
	var interfaces []any
	for _, a := range m.Addresses {
		interfaces = append(interfaces, map[string]any{"networkIP": a})
	}
	send(w, map[string]any{"name": m.Name, "networkInterfaces": interfaces})
}

func TestProvider(t *testing.T) {
	volumestest.Run(t, volumestest.Cloud{
		Zone: "us-test1-a", Other: "us-test1-b", Far: true, Disk: diskOf,
		Machine: func(n int, zone string) *volumestest.Machine {
			name := fmt.Sprint("master-", n)
			return &volumestest.Machine{
				ID: zone + "/" + name, Name: name, Zone: zone,
				Addresses: []string{fmt.Sprintf("10.0.0.%d", n), fmt.Sprintf("10.1.0.%d", n)},
			}
		},
		Want: func(d volumestest.Disk) volumes.Volume {
			return volumes.Volume{
				UID: strconv.FormatUint(uid(d), 10), Node: "etcd-" + d.Name[:1],
				MountName: "master-" + d.Zone + "-" + d.Name, Devices: []string{"/dev/disk/by-id/google-" + d.Name},
			}
		},
		Open: func(t *testing.T, w *volumestest.World) volumes.Provider { return (&fake{t: t, w: w}).serve(t) },
	})
}

// diskOf makes a disk as kops does.
func diskOf(n int, p volumestest.Place) *volumestest.Disk {
	name := fmt.Sprintf("%s-etcd-%s-%s-%d", p.Member, p.Etcd, strings.ReplaceAll(p.Cluster, ".", "-"), n)
	return &volumestest.Disk{ID: name, Name: name, Zone: p.Zone, Tags: map[string]string{
		"k8s-io-cluster-name": strings.ReplaceAll(p.Cluster, ".", "-"), "k8s-io-role-master": "master",
		"k8s-io-etcd-" + p.Etcd: p.Member + "-2f" + p.Member,
	}}
}

func TestLabelsAreDecoded(t *testing.T) {
	for label, want := range map[string]string{
		"a-2fa": "a/a", "us-2dtest1-2da-2fus-2dtest1-2da": "us-test1-a/us-test1-a", "": "", "a-": "a-", "a-x": "a-x",
	} {
		if got := decode(label); got != want {
			t.Errorf("%q is %q, want %q", label, got, want)
		}
	}
}

func TestOnlyWhatKopsGrantsIsCalled(t *testing.T) {
	m := &volumestest.Machine{ID: "us-test1-a/m", Name: "m", Zone: "us-test1-a", Addresses: []string{"10.0.0.1"}}
	d := diskOf(1, volumestest.Place{Cluster: "prod.example.com", Etcd: "main", Member: "a", Zone: "us-test1-a"})
	f := &fake{t: t, w: &volumestest.World{
		Self: m, Machines: []*volumestest.Machine{m}, Disks: []*volumestest.Disk{d},
	}}
	p := f.serve(t)
	found, err := p.Find(t.Context())
	if err == nil {
		_, err = p.Attach(t.Context(), found[0])
	}
	if err == nil {
		_, err = p.Nodes(t.Context())
	}
	if err != nil || len(f.calls) != 5 {
		t.Errorf("%v, %v", slices.Collect(maps.Keys(f.calls)), err)
	}
}

func TestFlagsAreChecked(t *testing.T) {
	if _, err := New(t.Context(), volumes.Options{}); err == nil || !strings.Contains(err.Error(), "--volume-tag") {
		t.Errorf("%v", err)
	}
}
