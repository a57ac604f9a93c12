// Package clouds links the providers of all clouds.
package clouds

import (
	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/aws"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/azure"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/do"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/gce"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/hetzner"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/linode"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/openstack"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/scaleway"
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
