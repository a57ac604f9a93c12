// Package azuretest is Azure for tests: its resource manager, and the metadata of one machine.
package azuretest

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

// firstLUN is that of a disk that was attached before a test.
const firstLUN = 7

const group = "/subscriptions/sub-1/resourceGroups/group-1"

// A Fake is the resource manager and the metadata of one machine.
type Fake struct {
	T volumestest.T
	W *volumestest.World
	// BeforePut is called before a machine is written.
	BeforePut func()

	lock sync.Mutex
	// luns are those of the machine's disks, etag changes with them.
	luns map[string]int
	etag int
	// operations have the error code of each, "" for success.
	operations []string
}

// Put attaches a disk at a LUN, as another program does, if it is not attached.
func (f *Fake) Put(disk string, lun int) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if _, ok := f.luns[disk]; !ok {
		f.luns[disk] = lun
		f.etag++
	}
}

// Handler serves both. The token is "token".
func (f *Fake) Handler() http.Handler {
	f.luns = map[string]int{"/other/disk": 3}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metadata/instance", volumestest.Own(f.W, f.metadata))
	mux.HandleFunc("GET /metadata/identity/oauth2/token", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata") != "true" {
			refuse(w, http.StatusBadRequest, "invalid_request") // which is how the SDK learns that it is there
			return
		}
		volumestest.Send(w, object{"access_token": "token", "expires_in": "86400", "token_type": "Bearer"})
	})
	vm := group + machinePath("{set}", "{id}")
	api := volumestest.API{
		T: f.T, W: f.W, Header: "Authorization", Key: "Bearer token",
		Busy: func(w http.ResponseWriter) { refuse(w, http.StatusTooManyRequests, "OperationNotAllowed") },
	}
	api.Serve(mux, map[string]http.HandlerFunc{
		"GET " + group + "/providers/Microsoft.Compute/disks": f.disks,
		"GET " + vm:                           f.machine,
		"PUT " + vm:                           f.attach,
		"GET " + vm + "/networkInterfaces":    f.interfaces,
		"GET " + group + "/operations/{name}": f.operation,
	})
	return mux
}

func machinePath(set, instance string) string {
	return "/providers/Microsoft.Compute/virtualMachineScaleSets/" + set + "/virtualMachines/" + instance
}

// A vm is a machine as it is written.
type vm struct {
	Properties struct {
		Storage struct {
			OSDisk any        `json:"osDisk"`
			Disks  []dataDisk `json:"dataDisks"`
		} `json:"storageProfile"`
	}
}

type dataDisk struct {
	LUN  int
	Disk struct{ ID string } `json:"managedDisk"`
}

// has is for who has locked f.
func (f *Fake) has(disk string) bool {
	for id := range f.luns {
		if strings.EqualFold(id, disk) {
			return true
		}
	}
	return false
}

func refuse(w http.ResponseWriter, status int, code string) {
	volumestest.Refuse(w, status, object{"error": object{"code": code, "message": code}})
}

type object = map[string]any

func (f *Fake) metadata(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Metadata") != "true" {
		f.T.Errorf("metadata is asked for without its header")
	}
	m := f.W.Self
	volumestest.Send(w, object{
		"compute": object{
			"name": m.Name, "resourceGroupName": "group-1", "subscriptionId": "sub-1", "azEnvironment": "AzurePublicCloud",
			"vmScaleSetName": strings.TrimSuffix(m.Name, m.Name[strings.LastIndex(m.Name, "_"):]), "zone": m.Zone,
		},
		"network": object{"interface": []any{object{"ipv4": object{
			"ipAddress": []any{object{"privateIpAddress": m.Addresses[0], "publicIpAddress": ""}},
		}}}},
	})
}

func (f *Fake) disks(w http.ResponseWriter, r *http.Request) {
	at, _ := strconv.Atoi(r.URL.Query().Get("at"))
	page, next := volumestest.Cut(f.W, f.W.List(nil), at)
	answer := object{}
	if next > 0 {
		answer["nextLink"] = fmt.Sprintf("%s%s?at=%d", volumestest.Base(r), r.URL.Path, next)
	}
	list := []any{}
	for _, d := range page {
		list = append(list, object{
			"id": d.ID, "name": d.Name, "zones": []string{d.Zone}, "tags": d.Tags, "managedBy": d.Machine,
			"properties": object{"uniqueId": "unique-" + d.Name, "diskState": "Attached"},
		})
	}
	answer["value"] = list
	volumestest.Send(w, answer)
}

func (f *Fake) machine(w http.ResponseWriter, _ *http.Request) {
	f.lock.Lock()
	defer f.lock.Unlock()
	var disks []any
	for id, lun := range f.luns {
		disks = append(disks, object{"lun": lun, "createOption": "Attach", "managedDisk": object{"id": id}})
	}
	for _, d := range f.W.List(func(d volumestest.Disk) bool { return d.Machine == f.W.Self.ID }) {
		if _, ok := f.luns[d.ID]; !ok {
			f.luns[d.ID] = firstLUN
			disks = append(disks, object{"lun": firstLUN, "managedDisk": object{"id": strings.ToUpper(d.ID)}})
		}
	}
	storage := object{"osDisk": object{"name": "os"}, "dataDisks": disks}
	volumestest.Send(w, object{
		"etag": fmt.Sprint(f.etag), "location": "test", "properties": object{"storageProfile": storage},
	})
}

func (f *Fake) attach(w http.ResponseWriter, r *http.Request) {
	if f.BeforePut != nil {
		f.BeforePut()
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	if r.Header.Get("If-Match") != fmt.Sprint(f.etag) {
		refuse(w, http.StatusPreconditionFailed, "ConditionNotMet")
		return
	}
	var in vm
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Properties.Storage.OSDisk == nil {
		f.T.Errorf("written %+v, %v", in, err)
	}
	code := ""
	disks := in.Properties.Storage.Disks
	for id := range f.luns {
		if !slices.ContainsFunc(disks, func(d dataDisk) bool { return strings.EqualFold(d.Disk.ID, id) }) {
			f.T.Errorf("disk %s is detached", id)
		}
	}
	var lost bool
	for _, d := range disks {
		if f.has(d.Disk.ID) {
			continue
		}
		switch err := f.W.Attach(d.Disk.ID, f.W.Self.ID, strconv.Itoa(d.LUN)); {
		case errors.Is(err, volumestest.ErrLost):
			lost = true
			f.luns[d.Disk.ID] = d.LUN
		case err != nil:
			code = "ConflictingUserInput"
		default:
			f.luns[d.Disk.ID] = d.LUN
		}
	}
	f.etag++
	if lost {
		volumestest.Break()
	}
	f.operations = append(f.operations, code)
	w.Header().Set("Azure-AsyncOperation",
		fmt.Sprintf("%s%s/operations/%d", volumestest.Base(r), group, len(f.operations)-1))
	w.WriteHeader(http.StatusOK)
	volumestest.Send(w, object{"properties": object{"provisioningState": "Updating"}})
}

func (f *Fake) operation(w http.ResponseWriter, r *http.Request) {
	f.lock.Lock()
	defer f.lock.Unlock()
	n, _ := strconv.Atoi(r.PathValue("name"))
	if code := f.operations[n]; code != "" {
		volumestest.Send(w, object{"status": "Failed", "error": object{"code": code, "message": code}})
		return
	}
	volumestest.Send(w, object{"status": "Succeeded"})
}

func (f *Fake) interfaces(w http.ResponseWriter, r *http.Request) {
	m := f.W.Machine(group + machinePath(r.PathValue("set"), r.PathValue("id")))
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
	volumestest.Send(w, object{"value": list})
}

// Machine makes a machine.
func Machine(n int, zone string) *volumestest.Machine {
	set := fmt.Sprintf("master-%s.masters.prod.example.com", zone)
	return &volumestest.Machine{
		ID: group + machinePath(set, fmt.Sprint(n)), Name: fmt.Sprintf("%s_%d", set, n), Zone: zone,
		Addresses: []string{fmt.Sprintf("10.0.0.%d", n), fmt.Sprintf("10.1.0.%d", n)},
	}
}

// Disk makes a disk as kops does.
func Disk(n int, p volumestest.Place) *volumestest.Disk {
	name := fmt.Sprintf("%s.etcd-%s.%s-%d", p.Member, p.Etcd, p.Cluster, n)
	return &volumestest.Disk{
		ID: group + "/providers/Microsoft.Compute/disks/" + name, Name: name, Zone: p.Zone, Tags: map[string]string{
			"k8s.io_etcd_" + p.Etcd: p.Member + "/a,b,c", "k8s.io_role_control-plane": "1", "k8s.io_role_master": "1",
			"kubernetes.io_cluster_" + p.Cluster: "owned", "KubernetesCluster": p.Cluster,
		},
	}
}

// Cloud is what kops has there.
func Cloud() volumestest.Cloud {
	return volumestest.Cloud{
		Zone: "1", Other: "2", Far: true, Disk: Disk, Machine: Machine,
		Want: func(d volumestest.Disk) volumes.Volume {
			lun, err := strconv.Atoi(d.Device)
			if err != nil {
				lun = firstLUN // it was attached before
			}
			return volumes.Volume{
				UID: "unique-" + d.Name, Node: "etcd-" + d.Name[:1], MountName: "master-" + d.Name, Devices: []string{
					fmt.Sprintf("/dev/disk/azure/data/by-lun/%d", lun), fmt.Sprintf("/dev/disk/azure/scsi1/lun%d", lun),
				},
			}
		},
	}
}
