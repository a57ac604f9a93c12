package do

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/digitalocean/godo"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
)

type object = map[string]any

// A fake is the API of DigitalOcean and the metadata of one machine.
type fake struct {
	t   *testing.T
	w   *volumestest.World
	url string

	lock sync.Mutex
	// actions have the status in which each ends.
	actions []string
}

func (f *fake) serve(t *testing.T) *provider {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metadata", f.metadata)
	for pattern, h := range map[string]http.HandlerFunc{
		"GET /v2/volumes":                     f.volumes,
		"POST /v2/volumes/{id}/actions":       f.attach,
		"GET /v2/volumes/{id}/actions/{name}": f.action,
		"GET /v2/droplets/{id}":               f.droplet,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer token" {
				f.t.Errorf("%s %s without the token", r.Method, r.URL)
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
	f.url = s.URL
	o := volumestest.KopsOptions("do")
	p, err := open(t.Context(), o, "token", s.URL+"/metadata", s.Client(), godo.SetBaseURL(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func send(w io.Writer, answer any) { _ = json.NewEncoder(w).Encode(answer) }

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	send(w, object{"id": code, "message": code})
}

func number(id string) int {
	n, _ := strconv.Atoi(id)
	return n
}

func (f *fake) metadata(w http.ResponseWriter, _ *http.Request) {
	if !f.w.Metadata() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	m := f.w.Self
	var private []any
	for _, a := range m.Addresses {
		private = append(private, object{"ipv4": object{"ip_address": a}})
	}
	send(w, object{
		"droplet_id": number(m.ID), "region": m.Zone,
		"tags":       []string{"kubernetescluster:prod-example-com", "k8s-index:etcd-1"},
		"interfaces": object{"private": private},
	})
}

func (f *fake) volumes(w http.ResponseWriter, r *http.Request) {
	region := r.URL.Query().Get("region")
	found := f.w.List(func(d volumestest.Disk) bool { return region == "" || d.Zone == region })
	page := max(number(r.URL.Query().Get("page")), 1)
	list, next := volumestest.Cut(f.w, found, (page-1)*f.w.Page)
	answer := struct {
		Volumes []godo.Volume `json:"volumes"`
		Links   *godo.Links   `json:"links"`
	}{Links: &godo.Links{Pages: &godo.Pages{}}}
	if next > 0 {
		answer.Links.Pages.Last = fmt.Sprintf("%s/v2/volumes?page=%d", f.url, len(found)/f.w.Page+1)
		answer.Links.Pages.Next = fmt.Sprintf("%s/v2/volumes?page=%d", f.url, page+1)
	}
	for _, d := range list {
		v := godo.Volume{ID: d.ID, Name: d.Name, Region: &godo.Region{Slug: d.Zone}}
		for key, value := range d.Tags {
			v.Tags = append(v.Tags, key+":"+value)
		}
		if d.Machine != "" {
			v.DropletIDs = []int{number(d.Machine)}
		}
		answer.Volumes = append(answer.Volumes, v)
	}
	send(w, answer)
}

func (f *fake) attach(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Type    string
		Droplet int `json:"droplet_id"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Type != "attach" {
		f.t.Errorf("attach %+v, %v", in, err)
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	status := godo.ActionCompleted
	switch err := f.w.Attach(r.PathValue("id"), strconv.Itoa(in.Droplet), ""); {
	case errors.Is(err, volumestest.ErrLost):
		volumestest.Break()
	case err != nil:
		status = "errored"
	}
	f.actions = append(f.actions, status)
	w.WriteHeader(http.StatusAccepted)
	send(w, object{"action": object{"id": len(f.actions), "status": "in-progress"}})
}

func (f *fake) action(w http.ResponseWriter, r *http.Request) {
	f.lock.Lock()
	defer f.lock.Unlock()
	n := number(r.PathValue("name"))
	send(w, object{"action": object{"id": n, "status": f.actions[n-1]}})
}

func (f *fake) droplet(w http.ResponseWriter, r *http.Request) {
	m := f.w.Machine(r.PathValue("id"))
	if m == nil {
		refuse(w, http.StatusNotFound, "not_found")
		return
	}
	v4 := []any{object{"type": "public", "ip_address": "203.0.113.9"}}
	for _, a := range m.Addresses {
		v4 = append(v4, object{"type": "private", "ip_address": a})
	}
	send(w, object{"droplet": object{"id": number(m.ID), "networks": object{"v4": v4}}})
}

func machineOf(n int, zone string) *volumestest.Machine {
	return &volumestest.Machine{
		ID: fmt.Sprint(1000 + n), Name: fmt.Sprint("droplet-", n), Zone: zone,
		Addresses: []string{fmt.Sprintf("10.0.0.%d", n)},
	}
}

// diskOf makes a volume as kops does: the index is the member's.
func diskOf(n int, p volumestest.Place) *volumestest.Disk {
	cluster := strings.ReplaceAll(p.Cluster, ".", "-")
	index := "etcd-" + strconv.Itoa(int(p.Member[0]-'a')+1)
	return &volumestest.Disk{
		ID: fmt.Sprintf("0000-%d", n), Name: fmt.Sprintf("kops-%s-etcd-%s-%s-%d", index, p.Etcd, cluster, n), Zone: p.Zone,
		Tags: map[string]string{
			"etcdCluster-" + p.Etcd: index, "k8s-index": index, "KubernetesCluster": cluster,
		},
	}
}

func TestProvider(t *testing.T) {
	volumestest.Run(t, volumestest.Cloud{
		Zone: "nyc3", Other: "nyc1", Far: true, Disk: diskOf, Machine: machineOf,
		Want: func(d volumestest.Disk) volumes.Volume {
			return volumes.Volume{
				Node: d.Name, MountName: "master-" + d.ID, Devices: []string{"/dev/disk/by-id/scsi-0DO_Volume_" + d.Name},
			}
		},
		Open: func(t *testing.T, w *volumestest.World) volumes.Provider { return (&fake{t: t, w: w}).serve(t) },
	})
}

// A machine's volume is the one with its own index. One of an etcd cluster whose
// name the volume's name does not have is known by its tag.
func TestTheIndexSelects(t *testing.T) {
	self := machineOf(1, "nyc3")
	w := &volumestest.World{Self: self, Machines: []*volumestest.Machine{self}}
	for i, p := range []volumestest.Place{
		{Cluster: "prod.example.com", Etcd: "main", Member: "b", Zone: "nyc3"},
		{Cluster: "prod.example.com", Etcd: "cilium", Member: "a", Zone: "nyc3"},
		{Cluster: "prod.example.com", Etcd: "main", Member: "a", Zone: "nyc3"},
	} {
		d := diskOf(i, p)
		d.Name = fmt.Sprint("cut-", i)
		w.Disks = append(w.Disks, d)
	}
	found, err := (&fake{t: t, w: w}).serve(t).Find(t.Context())
	if err != nil || len(found) != 1 || found[0].Node != "cut-2" {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestAnAddressThatComesLater(t *testing.T) {
	self := machineOf(1, "nyc3")
	address := self.Addresses[0]
	self.Addresses = nil
	p := (&fake{t: t, w: &volumestest.World{Self: self, Machines: []*volumestest.Machine{self}}}).serve(t)
	if a, err := p.Address(t.Context()); err == nil {
		t.Errorf("without an address: %q", a)
	}
	self.Addresses = []string{address}
	if a, err := p.Address(t.Context()); err != nil || a != address {
		t.Errorf("%q, %v", a, err)
	}
}

func TestFlagsAreChecked(t *testing.T) {
	t.Setenv("DIGITALOCEAN_ACCESS_TOKEN", "")
	if _, err := New(t.Context(), volumes.Options{Tags: []string{"a=b"}}); err == nil ||
		!strings.Contains(err.Error(), "DIGITALOCEAN_ACCESS_TOKEN") {
		t.Errorf("%v", err)
	}
	t.Setenv("DIGITALOCEAN_ACCESS_TOKEN", "token")
	if _, err := New(t.Context(), volumes.Options{}); err == nil || !strings.Contains(err.Error(), "--volume-tag") {
		t.Errorf("%v", err)
	}
}
