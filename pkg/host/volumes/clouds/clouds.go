// Package clouds links the providers of all clouds.
package clouds

import (
	_ "github.com/etcdadm/etcdadm/pkg/host/volumes/aws"     // --volume-provider=aws
	_ "github.com/etcdadm/etcdadm/pkg/host/volumes/azure"   // --volume-provider=azure
	_ "github.com/etcdadm/etcdadm/pkg/host/volumes/do"      // --volume-provider=do
	_ "github.com/etcdadm/etcdadm/pkg/host/volumes/gce"     // --volume-provider=gce
	_ "github.com/etcdadm/etcdadm/pkg/host/volumes/hetzner" // --volume-provider=hetzner
)
