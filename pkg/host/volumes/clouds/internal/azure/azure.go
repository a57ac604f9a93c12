// Package azure finds and attaches managed disks of Azure, on machines of scale
// sets.
package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/internal/proxies"
)

const metadataURL = "http://169.254.169.254/metadata/instance?api-version=2020-06-01"

// clouds are Azure's, as its metadata names them. Any other is the public one.
var clouds = map[string]cloud.Configuration{
	"AzureUSGovernmentCloud": cloud.AzureGovernment, "AzureChinaCloud": cloud.AzureChina,
}

type provider struct {
	volumes.Options
	tags []volumes.Tag
	// metadata and its client are where a machine learns who it is.
	metadata string
	local    *http.Client
	// connect returns the client of the resource manager of a cloud.
	connect func(cloud.Configuration) (*arm.Client, error)
	self    volumes.Lazy[machine]
}

// A machine is this one.
type machine struct {
	manager
	// id is that of its resource, zone the availability zone, "" for none.
	id, zone string
}

// New returns the provider of Azure, with its default credentials, which are
// those of the machine's own identity where the environment has no others.
func New(_ context.Context, o volumes.Options) (volumes.Provider, error) {
	if err := o.Need(); err != nil {
		return nil, err
	}
	return &provider{
		Options: o, tags: volumes.ParseTags(o.Tags, "="), metadata: metadataURL, local: volumes.Local(),
		connect: connect,
	}, nil
}

func connect(c cloud.Configuration) (*arm.Client, error) {
	o := options()
	o.Cloud = c
	credential, err := credential(c)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	return arm.NewClient("etcdadm", "v0.0.0", credential, o)
}

// credential returns Azure's default chain, which asks for the token of the machine's own
// identity past any proxy.
func credential(c cloud.Configuration) (azcore.TokenCredential, error) {
	return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{
		ClientOptions: azcore.ClientOptions{Cloud: c, Transport: proxies.Client()},
	})
}

// options let nothing be asked again, which is done by who asks, and no
// provider of resources be registered, which kops does not grant.
func options() *arm.ClientOptions {
	return &arm.ClientOptions{
		ClientOptions:         policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}},
		DisableRPRegistration: true,
	}
}

// metadata is what a machine learns of itself.
type metadata struct {
	Compute struct {
		Name              string
		AzEnvironment     string
		ResourceGroupName string
		SubscriptionID    string `json:"subscriptionId"`
		VMScaleSetName    string `json:"vmScaleSetName"`
		Zone              string
	}
	Network struct {
		Interface []struct {
			IPv4 struct {
				IPAddress []struct{ PrivateIPAddress string }
			} `json:"ipv4"`
		}
	}
}

func (p *provider) ask(ctx context.Context) (metadata, error) {
	var m metadata
	text, err := volumes.Metadata(ctx, p.local, http.MethodGet, p.metadata, "Metadata", "true")
	if err == nil {
		err = json.Unmarshal([]byte(text), &m)
	}
	return m, err
}

func (p *provider) machine(ctx context.Context) (machine, error) {
	return p.self.Get(ctx, func(ctx context.Context) (machine, error) {
		m, err := p.ask(ctx)
		if err != nil {
			return machine{}, err
		}
		c := m.Compute
		instance, ok := strings.CutPrefix(c.Name, c.VMScaleSetName+"_")
		if c.VMScaleSetName == "" || !ok {
			return machine{}, fmt.Errorf("machine %q is none of a scale set, which those of kops are", c.Name)
		}
		setting, ok := clouds[c.AzEnvironment]
		if !ok {
			setting = cloud.AzurePublic
		}
		client, err := p.connect(setting)
		if err != nil {
			return machine{}, err
		}
		group := "/subscriptions/" + c.SubscriptionID + "/resourceGroups/" + c.ResourceGroupName
		return machine{
			manager: manager{client, group}, zone: c.Zone,
			id: group + machinePath(c.VMScaleSetName, instance),
		}, nil
	})
}

func machinePath(set, instance string) string {
	return "/providers/Microsoft.Compute/virtualMachineScaleSets/" + set + "/virtualMachines/" + instance
}

// Address is the first private address of IPv4.
func (p *provider) Address(ctx context.Context) (string, error) {
	m, err := p.ask(ctx)
	if err != nil {
		return "", err
	}
	for _, i := range m.Network.Interface {
		for _, a := range i.IPv4.IPAddress {
			if a.PrivateIPAddress != "" {
				return a.PrivateIPAddress, nil
			}
		}
	}
	return "", errors.New("the instance metadata has no private IPv4 address")
}

func (p *provider) Find(ctx context.Context) ([]volumes.Volume, error) {
	m, err := p.machine(ctx)
	if err != nil {
		return nil, err
	}
	found, err := p.list(ctx, m, m.zone)
	for i, v := range found {
		if !v.Here {
			continue
		}
		vm, err := m.machine(ctx, m.id)
		if err != nil {
			return nil, err
		}
		found[i].Devices = devices(vm.lun(v.ID))
	}
	return found, err
}

// list returns the cluster's volumes in a zone, "" for all.
func (p *provider) list(ctx context.Context, m machine, zone string) ([]volumes.Volume, error) {
	disks, err := m.disks(ctx)
	var found []volumes.Volume
	for _, d := range disks {
		elsewhere := zone != "" && len(d.Zones) > 0 && !slices.Contains(d.Zones, zone)
		if elsewhere || !volumes.Tagged(p.tags, d.Tags) {
			continue
		}
		found = append(found, volumes.Volume{
			ID: d.ID, UID: d.Properties.UniqueID, Node: p.NodeName(d.Tags[p.NameTag], d.Name),
			MountName: "master-" + d.Name, Machine: d.ManagedBy, Here: strings.EqualFold(d.ManagedBy, m.id),
		})
	}
	return found, err
}

// devices are links that appear some time after a disk was attached.
func devices(lun int, ok bool) []string {
	if !ok {
		return nil
	}
	return []string{
		fmt.Sprintf("/dev/disk/azure/data/by-lun/%d", lun), fmt.Sprintf("/dev/disk/azure/scsi1/lun%d", lun),
	}
}

func (p *provider) Attach(ctx context.Context, v volumes.Volume) (volumes.Volume, error) {
	m, err := p.machine(ctx)
	if err != nil {
		return v, err
	}
	vm, err := m.machine(ctx, m.id)
	if err != nil {
		return v, err
	}
	lun, there := vm.lun(v.ID)
	if !there {
		if lun, err = m.attach(ctx, m.id, vm, v.ID); err != nil {
			return volumes.Settle(ctx, p, v, err)
		}
	}
	v.Machine, v.Here, v.Devices = m.id, true, devices(lun, true)
	return v, nil
}

// inScaleSet are the parts of a machine's id.
var inScaleSet = regexp.MustCompile(`(?i)^(/subscriptions/[^/]+/resourceGroups/[^/]+)/providers/Microsoft\.Compute/` +
	`virtualMachineScaleSets/([^/]+)/virtualMachines/([^/]+)$`)

func (p *provider) Nodes(ctx context.Context) ([]volumes.Node, error) {
	m, err := p.machine(ctx)
	if err != nil {
		return nil, err
	}
	found, err := p.list(ctx, m, "")
	if err != nil {
		return nil, err
	}
	return p.NodesBy(found, "machine", func(id string) ([]string, error) {
		if !inScaleSet.MatchString(id) {
			return nil, nil
		}
		list, err := m.addresses(ctx, id)
		var refused *azcore.ResponseError
		if errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound {
			err = fmt.Errorf("%w: %w", volumes.ErrMachineGone, err)
		}
		return list, err
	})
}
