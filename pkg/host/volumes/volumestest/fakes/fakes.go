// Package fakes has the fakes of clouds for whole daemons: what one with kops' command line
// meets on its machine.
package fakes

import (
	"net/http"

	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/azurefake"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/dofake"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/gcefake"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/hetznerfake"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/linodefake"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/openstackfake"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/scalewayfake"
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
			Cloud: azurefake.Cloud(), Hosts: []string{"management.azure.com"}, Metadata: linkLocal,
			Serve: func(t volumestest.T, w *volumestest.World) http.Handler {
				return (&azurefake.Fake{T: t, W: w}).Handler()
			},
			Env: []string{"AZURE_STORAGE_ACCOUNT=account"},
		},
		"do": {
			Cloud: dofake.Cloud(), Hosts: []string{"api.digitalocean.com"}, Metadata: linkLocal,
			Serve: func(t volumestest.T, w *volumestest.World) http.Handler { return (&dofake.Fake{T: t, W: w}).Handler() },
			Env:   []string{"DIGITALOCEAN_ACCESS_TOKEN=token"},
		},
		"gce": {
			Cloud: gcefake.Cloud(), Hosts: []string{"compute.googleapis.com", "metadata.google.internal"}, Metadata: linkLocal,
			Serve: func(t volumestest.T, w *volumestest.World) http.Handler { return (&gcefake.Fake{T: t, W: w}).Handler() },
		},
		"hetzner": {
			Cloud: hetznerfake.Cloud(), Hosts: []string{"api.hetzner.cloud"}, Metadata: linkLocal,
			Serve: func(t volumestest.T, w *volumestest.World) http.Handler {
				return (&hetznerfake.Fake{T: t, W: w}).Handler()
			},
			Env: []string{"HCLOUD_TOKEN=token"},
		},
		"linode": {
			Cloud: linodefake.Cloud(), Hosts: []string{"api.linode.com"}, Metadata: linkLocal,
			Serve: func(t volumestest.T, w *volumestest.World) http.Handler {
				return (&linodefake.Fake{T: t, W: w}).Handler()
			},
			Env: []string{"LINODE_TOKEN=token"},
		},
		"openstack": {
			Cloud: openstackfake.Cloud(), Hosts: []string{"openstack.example.com"}, Metadata: linkLocal,
			Serve: func(t volumestest.T, w *volumestest.World) http.Handler {
				return (&openstackfake.Fake{T: t, W: w}).Handler()
			},
			Files: map[string]string{keystone.Path: keystonetest.File("https://openstack.example.com")},
		},
		"scaleway": {
			Cloud: scalewayfake.Cloud(), Hosts: []string{"api.scaleway.com"}, Metadata: "169.254.42.42",
			Serve: func(t volumestest.T, w *volumestest.World) http.Handler {
				return (&scalewayfake.Fake{T: t, W: w}).Handler()
			},
			Env: []string{
				"SCW_ACCESS_KEY=SCWXXXXXXXXXXXXXXXXX", "SCW_SECRET_KEY=" + scalewayfake.Secret,
				"SCW_DEFAULT_PROJECT_ID=" + scalewayfake.Project,
			},
		},
	}
}
