package volumestest

import (
	"log/slog"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
)

// A KopsLine is what kops' command line for the etcd cluster main of prod.example.com says
// in one cloud and in no other, on a machine of the instance group control-plane-a.
type KopsLine struct {
	// Store is the backup store, in one of the schemes of the cloud.
	Store string
	// Flags say where the volumes are, but for --volume-provider.
	Flags []string
}

// KopsLines are those of all clouds, by the value of --volume-provider.
var KopsLines = map[string]KopsLine{
	"aws": {"s3://kops-state/prod.example.com/backups/etcd/main", []string{
		"--volume-name-tag=k8s.io/etcd/main", "--volume-tag=k8s.io/etcd/main", "--volume-tag=k8s.io/role/control-plane=1",
		"--volume-tag=kubernetes.io/cluster/prod.example.com=owned",
	}},
	"azure": {"azureblob://kops-state/prod.example.com/backups/etcd/main", []string{
		"--volume-name-tag=k8s.io_etcd_main", "--volume-tag=k8s.io_etcd_main", "--volume-tag=k8s.io_role_control-plane=1",
		"--volume-tag=kubernetes.io_cluster_prod.example.com=owned",
	}},
	"do": {"do://kops-state/prod.example.com/backups/etcd/main", []string{
		"--volume-name-tag=etcdCluster-main", "--volume-tag=KubernetesCluster=prod-example-com", "--volume-tag=k8s-index",
	}},
	"gce": {"gs://kops-state/prod.example.com/backups/etcd/main", []string{
		"--volume-name-tag=k8s-io-etcd-main", "--volume-tag=k8s-io-cluster-name=prod-example-com",
		"--volume-tag=k8s-io-etcd-main", "--volume-tag=k8s-io-role-master=master",
	}},
	"hetzner": {"hos://kops-state/prod.example.com/backups/etcd/main", []string{
		"--volume-name-tag=kops.k8s.io/instance-group=control-plane-a",
		"--volume-tag=kops.k8s.io/cluster=prod.example.com", "--volume-tag=kops.k8s.io/volume-role=main",
	}},
	"linode": {"linode://kops-state/prod.example.com/backups/etcd/main", []string{
		"--volume-name-tag=kops.k8s.io/instance-group:control-plane-a",
		"--volume-tag=kops.k8s.io/cluster:prod-example-com", "--volume-tag=kops.k8s.io/volume-role:main",
	}},
	"openstack": {"swift://kops-state/prod.example.com/backups/etcd/main", []string{
		"--network-cidr=10.0.0.0/16", "--volume-name-tag=k8s.io/etcd/main", "--volume-tag=KubernetesCluster=prod.example.com",
		"--volume-tag=k8s.io/etcd/main", "--volume-tag=k8s.io/role/control-plane=1",
	}},
	"scaleway": {"scw://kops-state/prod.example.com/backups/etcd/main", []string{
		"--volume-name-tag=noprefix=kops.k8s.io/instance-group=control-plane-a",
		"--volume-tag=noprefix=kops.k8s.io/cluster=prod.example.com", "--volume-tag=noprefix=kops.k8s.io/etcd=main",
		"--volume-tag=noprefix=kops.k8s.io/role=ControlPlane",
	}},
}

// KopsOptions are what the provider of a cloud is made of where the daemon has kops' line.
func KopsOptions(provider string) volumes.Options {
	o := volumes.Options{ClusterName: "etcd", Log: slog.New(slog.DiscardHandler)}
	for _, f := range KopsLines[provider].Flags {
		name, value, _ := strings.Cut(f, "=")
		switch name {
		case "--volume-tag":
			o.Tags = append(o.Tags, value)
		case "--volume-name-tag":
			o.NameTag = value
		case "--network-cidr":
			o.NetworkCIDR = value
		}
	}
	return o
}
