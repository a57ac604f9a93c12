package azure

import (
	"context"
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
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
	"github.com/etcdadm/etcdadm/pkg/testing/testproxy"
)

// firstLUN is that of a disk that was attached before a test.
const firstLUN = 7

const group = "/subscriptions/sub-1/resourceGroups/group-1"

// A fake is the resource manager and the metadata of one machine.
type fake struct {
	t   *testing.T
	w   *volumestest.World
	url string

	lock sync.Mutex
	// luns are those of the machine's disks, etag changes with them.
	luns map[string]int
	etag int
	// operations have the error code of each, "" for success.
	operations []string
	// beforePut is called before a machine is written.
	beforePut func()
}

type key struct{}

func (key) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: "token", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func (f *fake) serve(t *testing.T) *provider {
	f.luns = map[string]int{"/other/disk": 3}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metadata/instance", f.metadata)
	vm := group + machinePath("{set}", "{id}")
	for pattern, h := range map[string]http.HandlerFunc{
		"GET " + group + "/providers/Microsoft.Compute/disks": f.disks,
		"GET " + vm:                           f.machine,
		"PUT " + vm:                           f.attach,
		"GET " + vm + "/networkInterfaces":    f.interfaces,
		"GET " + group + "/operations/{name}": f.operation,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer token" {
				f.t.Errorf("%s %s without the token", r.Method, r.URL)
			}
			if !f.w.Call() {
				refuse(w, http.StatusTooManyRequests, "OperationNotAllowed")
				return
			}
			h(w, r)
		})
	}
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		f.t.Errorf("a call outside of the resource group: %s %s", r.Method, r.URL)
	})
	s := httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	f.url = s.URL
	o := options()
	o.Transport = s.Client()
	o.Cloud = cloud.Configuration{Services: map[cloud.ServiceName]cloud.ServiceConfiguration{
		cloud.ResourceManager: {Endpoint: s.URL, Audience: "https://management.test"},
	}}
	v := volumestest.KopsOptions("azure")
	return &provider{
		Options: v, tags: volumes.ParseTags(v.Tags, "="), metadata: s.URL + "/metadata/instance", local: s.Client(),
		connect: func(cloud.Configuration) (*arm.Client, error) { return arm.NewClient("test", "v0.0.1", key{}, o) },
	}
}

func send(w io.Writer, answer any) { _ = json.NewEncoder(w).Encode(answer) }

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	send(w, map[string]any{"error": map[string]string{"code": code, "message": code}})
}

type object = map[string]any

func (f *fake) metadata(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Metadata") != "true" {
		f.t.Error("metadata is asked for without its header")
	}
	if !f.w.Metadata() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	m := f.w.Self
	send(w, object{
		"compute": object{
			"name": m.Name, "resourceGroupName": "group-1", "subscriptionId": "sub-1", "azEnvironment": "AzurePublicCloud",
			"vmScaleSetName": strings.TrimSuffix(m.Name, m.Name[strings.LastIndex(m.Name, "_"):]), "zone": m.Zone,
		},
		"network": object{"interface": []any{object{"ipv4": object{
			"ipAddress": []any{object{"privateIpAddress": m.Addresses[0], "publicIpAddress": ""}},
		}}}},
	})
}

func (f *fake) disks(w http.ResponseWriter, r *http.Request) {
	at, _ := strconv.Atoi(r.URL.Query().Get("at"))
	page, next := volumestest.Cut(f.w, f.w.List(nil), at)
	answer := object{}
	if next > 0 {
		answer["nextLink"] = fmt.Sprintf("%s%s?at=%d", f.url, r.URL.Path, next)
	}
	list := []any{}
	for _, d := range page {
		list = append(list, object{
			"id": d.ID, "name": d.Name, "zones": []string{d.Zone}, "tags": d.Tags, "managedBy": d.Machine,
			"properties": object{"uniqueId": "unique-" + d.Name, "diskState": "Attached"},
		})
	}
	answer["value"] = list
	send(w, answer)
}

func (f *fake) machine(w http.ResponseWriter, _ *http.Request) {
	f.lock.Lock()
	defer f.lock.Unlock()
	var disks []any
	for id, lun := range f.luns {
		disks = append(disks, object{"lun": lun, "createOption": "Attach", "managedDisk": object{"id": id}})
	}
	for _, d := range f.w.List(func(d volumestest.Disk) bool { return d.Machine == f.w.Self.ID }) {
		if _, ok := f.luns[d.ID]; !ok {
			f.luns[d.ID] = firstLUN
			disks = append(disks, object{"lun": firstLUN, "managedDisk": object{"id": strings.ToUpper(d.ID)}})
		}
	}
	send(w, object{"etag": fmt.Sprint(f.etag), "location": "test", "properties": object{"storageProfile": object{
		"osDisk": object{"name": "os"}, "dataDisks": disks,
	}}})
}

func (f *fake) attach(w http.ResponseWriter, r *http.Request) {
	if f.beforePut != nil {
		f.beforePut()
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	if r.Header.Get("If-Match") != fmt.Sprint(f.etag) {
		refuse(w, http.StatusPreconditionFailed, "ConditionNotMet")
		return
	}
	var in vm
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Properties.Storage["osDisk"] == nil {
		f.t.Errorf("written %+v, %v", in, err)
	}
	code := ""
	for id := range f.luns {
		if _, ok := in.lun(id); !ok {
			f.t.Errorf("disk %s is detached", id)
		}
	}
	var lost bool
	in.each(func(lun int, id string) {
		if _, ok := f.luns[id]; ok {
			return
		}
		switch err := f.w.Attach(id, f.w.Self.ID, strconv.Itoa(lun)); {
		case errors.Is(err, volumestest.ErrLost):
			lost = true
			f.luns[id] = lun
		case err != nil:
			code = "ConflictingUserInput"
		default:
			f.luns[id] = lun
		}
	})
	f.etag++
	if lost {
		volumestest.Break()
	}
	f.operations = append(f.operations, code)
	w.Header().Set("Azure-AsyncOperation", fmt.Sprintf("%s%s/operations/%d", f.url, group, len(f.operations)-1))
	w.WriteHeader(http.StatusOK)
	send(w, object{"properties": object{"provisioningState": "Updating"}})
}

func (f *fake) operation(w http.ResponseWriter, r *http.Request) {
	f.lock.Lock()
	defer f.lock.Unlock()
	n, _ := strconv.Atoi(r.PathValue("name"))
	if code := f.operations[n]; code != "" {
		send(w, object{"status": "Failed", "error": object{"code": code, "message": code}})
		return
	}
	send(w, object{"status": "Succeeded"})
}

func (f *fake) interfaces(w http.ResponseWriter, r *http.Request) {
	m := f.w.Machine(group + machinePath(r.PathValue("set"), r.PathValue("id")))
	if m == nil {
		refuse(w, http.StatusNotFound, "NotFound")
		return
	}
	var list []any
	for _, a := range m.Addresses {
		list = append(list, object{"properties": object{
			"ipConfigurations": []any{object{"properties": object{"privateIPAddress": a}}},
		}})
	}
	send(w, object{"value": list})
}

func machineOf(n int, zone string) *volumestest.Machine {
	set := fmt.Sprintf("master-%s.masters.prod.example.com", zone)
	return &volumestest.Machine{
		ID: group + machinePath(set, fmt.Sprint(n)), Name: fmt.Sprintf("%s_%d", set, n), Zone: zone,
		Addresses: []string{fmt.Sprintf("10.0.0.%d", n), fmt.Sprintf("10.1.0.%d", n)},
	}
}

func diskOf(n int, p volumestest.Place) *volumestest.Disk {
	name := fmt.Sprintf("%s.etcd-%s.%s-%d", p.Member, p.Etcd, p.Cluster, n)
	return &volumestest.Disk{
		ID: group + "/providers/Microsoft.Compute/disks/" + name, Name: name, Zone: p.Zone, Tags: map[string]string{
			"k8s.io_etcd_" + p.Etcd: p.Member + "/a,b,c", "k8s.io_role_control-plane": "1", "k8s.io_role_master": "1",
			"kubernetes.io_cluster_" + p.Cluster: "owned", "KubernetesCluster": p.Cluster,
		},
	}
}

func TestProvider(t *testing.T) {
	volumestest.Run(t, volumestest.Cloud{
		Zone: "1", Other: "2", Far: true, Disk: diskOf, Machine: machineOf,
		Want: func(d volumestest.Disk) volumes.Volume {
			lun, err := strconv.Atoi(d.Device)
			if err != nil {
				lun = firstLUN // it was attached before
			}
			return volumes.Volume{
				UID: "unique-" + d.Name, Node: "etcd-" + d.Name[:1], MountName: "master-" + d.Name,
				Devices: devices(lun, true),
			}
		},
		Open: func(t *testing.T, w *volumestest.World) volumes.Provider { return (&fake{t: t, w: w}).serve(t) },
	})
}

// Of two daemons on a machine that attach at the same time, the later one begins
// again: the list of disks is written as a whole.
func TestTheDiskOfAnotherDaemonStays(t *testing.T) {
	self := machineOf(1, "1")
	d := diskOf(1, volumestest.Place{Cluster: "prod.example.com", Etcd: "main", Member: "a", Zone: "1"})
	f := &fake{t: t, w: &volumestest.World{
		Self: self, Machines: []*volumestest.Machine{self}, Disks: []*volumestest.Disk{d},
	}}
	p := f.serve(t)
	f.beforePut = func() {
		f.lock.Lock()
		defer f.lock.Unlock()
		if _, ok := f.luns["/events/disk"]; !ok {
			f.luns["/events/disk"] = 4
			f.etag++
		}
	}
	if v, err := p.Attach(t.Context(), volumes.Volume{ID: d.ID}); err == nil {
		t.Errorf("attached %+v to a machine that had changed", v)
	}
	v, err := p.Attach(t.Context(), volumes.Volume{ID: d.ID})
	if err != nil || v.Devices[0] != "/dev/disk/azure/data/by-lun/5" || v.Devices[1] != "/dev/disk/azure/scsi1/lun5" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestFlagsAreChecked(t *testing.T) {
	if _, err := New(t.Context(), volumes.Options{}); err == nil || !strings.Contains(err.Error(), "--volume-tag") {
		t.Errorf("%v", err)
	}
}

func TestTheTokenOfTheMachineIsAskedForPastAProxy(t *testing.T) {
	for _, host := range testproxy.Hosts(t, func() {
		c, err := credential(cloud.AzurePublic)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err = c.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{"https://management.azure.com/.default"}})
		t.Log(err)
	}) {
		t.Errorf("the proxy was asked for %s", host)
	}
}
