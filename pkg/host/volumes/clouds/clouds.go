// Package clouds links the providers of all clouds.
package clouds

import (
	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/clouds/internal/aws"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/clouds/internal/azure"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/clouds/internal/do"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/clouds/internal/gce"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/clouds/internal/hetzner"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/clouds/internal/linode"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/clouds/internal/openstack"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/clouds/internal/scaleway"
)

//nolint:gochecknoinits // the program that has them imports this package
func init() {
	volumes.Register("aws", aws.New)
	volumes.Register("azure", azure.New)
	volumes.Register("do", do.New)
	volumes.Register("gce", gce.New)
	volumes.Register("hetzner", hetzner.New)
	volumes.Register("linode", linode.New)
	volumes.Register("openstack", openstack.New)
	volumes.Register("scaleway", scaleway.New)
}
