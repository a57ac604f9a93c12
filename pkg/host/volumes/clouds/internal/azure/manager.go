package azure

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// Versions of the resource manager's API. Interfaces of scale sets have none
// that is later.
const (
	diskVersion      = "2024-03-02"
	machineVersion   = "2024-07-01"
	interfaceVersion = "2018-10-01"
)

// A manager asks Azure's resource manager about one resource group. Credentials,
// signatures and waiting for operations are the SDK's.
type manager struct {
	client *arm.Client
	group  string
}

// get reads the answer of a resource into out.
func (m manager) get(ctx context.Context, url string, out any) error {
	req, err := runtime.NewRequest(ctx, http.MethodGet, url)
	if err != nil {
		return fmt.Errorf("ask the resource manager: %w", err)
	}
	resp, err := m.client.Pipeline().Do(req)
	if err != nil {
		return fmt.Errorf("ask the resource manager: %w", err)
	}
	defer resp.Body.Close()
	if !runtime.HasStatusCode(resp, http.StatusOK) {
		return runtime.NewResponseError(resp)
	}
	return runtime.UnmarshalAsJSON(resp, out)
}

func (m manager) url(resource, version string) string {
	return strings.TrimSuffix(m.client.Endpoint(), "/") + resource + "?api-version=" + version
}

// A disk is a managed disk.
type disk struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Zones     []string          `json:"zones"`
	Tags      map[string]string `json:"tags"`
	ManagedBy string            `json:"managedBy"`
	// Properties have what a later disk with the same ID has not.
	Properties struct {
		UniqueID string `json:"uniqueId"`
	} `json:"properties"`
}

// list returns the items of all pages.
func list[T any](ctx context.Context, m manager, url string) ([]T, error) {
	var all []T
	for url != "" {
		var page struct {
			Value    []T
			NextLink string
		}
		if err := m.get(ctx, url, &page); err != nil {
			return nil, err
		}
		all, url = append(all, page.Value...), page.NextLink
	}
	return all, nil
}

// disks returns those of the resource group.
func (m manager) disks(ctx context.Context) ([]disk, error) {
	return list[disk](ctx, m, m.url(m.group+"/providers/Microsoft.Compute/disks", diskVersion))
}

// A vm is a machine of a scale set. What is not named here goes back as it came.
type vm struct {
	Etag       string `json:"etag,omitempty"`
	Location   string `json:"location"`
	Properties struct {
		Storage map[string]any `json:"storageProfile"`
	} `json:"properties"`
}

func (m manager) machine(ctx context.Context, id string) (vm, error) {
	var v vm
	return v, m.get(ctx, m.url(id, machineVersion), &v)
}

// each calls f with the LUN and the id of each data disk.
func (v vm) each(f func(lun int, id string)) {
	disks, _ := v.Properties.Storage["dataDisks"].([]any)
	for _, d := range disks {
		fields, _ := d.(map[string]any)
		lun, _ := fields["lun"].(float64)
		managed, _ := fields["managedDisk"].(map[string]any)
		id, _ := managed["id"].(string)
		f(int(lun), id)
	}
}

// lun returns that of a disk, if the machine has it.
func (v vm) lun(disk string) (lun int, ok bool) {
	v.each(func(n int, id string) {
		if strings.EqualFold(id, disk) {
			lun, ok = n, true
		}
	})
	return lun, ok
}

// attach adds a disk to those that the machine had when v was read, and returns
// its LUN. It fails where the machine has changed since: the daemon of another
// cluster may attach one, too, and the list is written as a whole.
func (m manager) attach(ctx context.Context, id string, v vm, disk string) (int, error) {
	lun := 0
	v.each(func(n int, _ string) { lun = max(lun, n+1) })
	if v.Properties.Storage == nil {
		v.Properties.Storage = map[string]any{}
	}
	disks, _ := v.Properties.Storage["dataDisks"].([]any)
	v.Properties.Storage["dataDisks"] = append(disks, map[string]any{
		"lun": lun, "createOption": "Attach",
		"managedDisk": map[string]any{"id": disk, "storageAccountType": "StandardSSD_LRS"},
	})
	req, err := runtime.NewRequest(ctx, http.MethodPut, m.url(id, machineVersion))
	if err != nil {
		return 0, fmt.Errorf("ask the resource manager: %w", err)
	}
	if v.Etag != "" {
		req.Raw().Header.Set("If-Match", v.Etag)
		v.Etag = ""
	}
	if err := runtime.MarshalAsJSON(req, v); err != nil {
		return 0, err
	}
	resp, err := m.client.Pipeline().Do(req)
	if err != nil {
		return 0, fmt.Errorf("ask the resource manager: %w", err)
	}
	if !runtime.HasStatusCode(resp, http.StatusOK, http.StatusCreated, http.StatusAccepted) {
		return 0, runtime.NewResponseError(resp)
	}
	poller, err := runtime.NewPoller[vm](resp, m.client.Pipeline(), nil)
	if err != nil {
		return 0, err
	}
	_, err = poller.PollUntilDone(ctx, &runtime.PollUntilDoneOptions{Frequency: time.Second})
	return lun, err
}

// addresses are the private ones of all interfaces of a machine.
func (m manager) addresses(ctx context.Context, id string) ([]string, error) {
	type configuration struct {
		Properties struct{ PrivateIPAddress string }
	}
	found, err := list[struct {
		Properties struct{ IPConfigurations []configuration }
	}](ctx, m, m.url(id+"/networkInterfaces", interfaceVersion))
	var all []string
	for _, n := range found {
		for _, c := range n.Properties.IPConfigurations {
			if a := c.Properties.PrivateIPAddress; a != "" {
				all = append(all, a)
			}
		}
	}
	return all, err
}
