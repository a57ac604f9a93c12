package azure

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/azuretest"
	"github.com/etcdadm/etcdadm/pkg/testing/testproxy"
)

type key struct{}

func (key) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: "token", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

// serve returns the provider of what a fake serves.
func serve(t *testing.T, f *azuretest.Fake) *provider {
	s := httptest.NewTLSServer(f.Handler())
	t.Cleanup(s.Close)
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

func TestProvider(t *testing.T) {
	c := azuretest.Cloud()
	c.Open = func(t *testing.T, w *volumestest.World) volumes.Provider {
		return serve(t, &azuretest.Fake{T: t, W: w})
	}
	volumestest.Run(t, c)
}

// Of two daemons on a machine that attach at the same time, the later one begins
// again: the list of disks is written as a whole.
func TestTheDiskOfAnotherDaemonStays(t *testing.T) {
	self := azuretest.Machine(1, "1")
	d := azuretest.Disk(1, volumestest.Place{Cluster: "prod.example.com", Etcd: "main", Member: "a", Zone: "1"})
	f := &azuretest.Fake{T: t, W: &volumestest.World{
		Self: self, Machines: []*volumestest.Machine{self}, Disks: []*volumestest.Disk{d},
	}}
	p := serve(t, f)
	f.BeforePut = func() { f.Put("/events/disk", 4) }
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
