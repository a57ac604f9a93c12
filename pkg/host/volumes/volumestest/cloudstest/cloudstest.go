// Package cloudstest has the fakes of clouds for whole daemons: what one with kops' command line
// meets on its machine.
package cloudstest

import (
	"net/http"

	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/azuretest"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/dotest"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/gcetest"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/hetznertest"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/linodetest"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/openstacktest"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/scalewaytest"
	"github.com/etcdadm/etcdadm/pkg/internal/keystone"
	"github.com/etcdadm/etcdadm/pkg/internal/keystone/keystonetest"
)

// A Fake is a cloud as a daemon meets it.
type Fake struct {
	volumestest.Cloud
	// Serve returns what answers for the API and for the metadata of the machine.
	Serve func(t volumestest.T, w *volumestest.World) http.Handler
	// Hosts are the names under which it is asked, Metadata the address of the metadata.
	Hosts    []string
	Metadata string
	// Env is what kops' pod has for it, Files what the machine has, by their paths.
	Env   []string
	Files map[string]string
}

// linkLocal is the address of most clouds' metadata.
const linkLocal = "169.254.169.254"

// All are those of all clouds but Amazon's, by the value of --volume-provider.
func All() map[string]Fake {
	return map[string]Fake{
		"azure": {
			Cloud: azuretest.Cloud(), Hosts: []string{"management.azure.com"}, Metadata: linkLocal,
			Serve: func(t volumestest.T, w *volumestest.World) http.Handler {
				return (&azuretest.Fake{T: t, W: w}).Handler()
			},
			Env: []string{"AZURE_STORAGE_ACCOUNT=account"},
		},
		"do": {
			Cloud: dotest.Cloud(), Hosts: []string{"api.digitalocean.com"}, Metadata: linkLocal,
			Serve: func(t volumestest.T, w *volumestest.World) http.Handler { return (&dotest.Fake{T: t, W: w}).Handler() },
			Env:   []string{"DIGITALOCEAN_ACCESS_TOKEN=token"},
		},
		"gce": {
			Cloud: gcetest.Cloud(), Hosts: []string{"compute.googleapis.com", "metadata.google.internal"}, Metadata: linkLocal,
			Serve: func(t volumestest.T, w *volumestest.World) http.Handler { return (&gcetest.Fake{T: t, W: w}).Handler() },
		},
		"hetzner": {
			Cloud: hetznertest.Cloud(), Hosts: []string{"api.hetzner.cloud"}, Metadata: linkLocal,
			Serve: func(t volumestest.T, w *volumestest.World) http.Handler {
				return (&hetznertest.Fake{T: t, W: w}).Handler()
			},
			Env: []string{"HCLOUD_TOKEN=token"},
		},
		"linode": {
			Cloud: linodetest.Cloud(), Hosts: []string{"api.linode.com"}, Metadata: linkLocal,
			Serve: func(t volumestest.T, w *volumestest.World) http.Handler {
				return (&linodetest.Fake{T: t, W: w}).Handler()
			},
			Env: []string{"LINODE_TOKEN=token"},
		},
		"openstack": {
			Cloud: openstacktest.Cloud(), Hosts: []string{"openstack.example.com"}, Metadata: linkLocal,
			Serve: func(t volumestest.T, w *volumestest.World) http.Handler {
				return (&openstacktest.Fake{T: t, W: w}).Handler()
			},
			Files: map[string]string{keystone.Path: keystonetest.File("https://openstack.example.com")},
		},
		"scaleway": {
			Cloud: scalewaytest.Cloud(), Hosts: []string{"api.scaleway.com"}, Metadata: "169.254.42.42",
			Serve: func(t volumestest.T, w *volumestest.World) http.Handler {
				return (&scalewaytest.Fake{T: t, W: w}).Handler()
			},
			Env: []string{
				"SCW_ACCESS_KEY=SCWXXXXXXXXXXXXXXXXX", "SCW_SECRET_KEY=" + scalewaytest.Secret,
				"SCW_DEFAULT_PROJECT_ID=" + scalewaytest.Project,
			},
		},
	}
}
