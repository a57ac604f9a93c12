package harness

import "fmt"

// A KopsEtcd is an etcd cluster of kops, with its ports.
type KopsEtcd struct {
	Key, Name                        string
	Daemon, Client, Quarantine, Peer int
}

// The etcd clusters of kops.
var (
	KopsMain   = KopsEtcd{"main", "etcd", 3996, 4001, 3994, 2380}
	KopsEvents = KopsEtcd{"events", "etcd-events", 3997, 4002, 3995, 2381}
	KopsCilium = KopsEtcd{"cilium", "etcd-cilium", 3991, 4003, 3992, 2382}
	KopsLeases = KopsEtcd{"leases", "etcd-leases", 4006, 4004, 4005, 2383}
)

// KopsName is the name of the Kubernetes cluster, KopsDomain that of its machines.
const KopsName, KopsDomain = "prod.example.com", "internal." + KopsName

// Args is the command line that kops writes, but for what says where volumes are. What is
// given comes after it, so a flag may be given again.
func (e KopsEtcd) Args(store string, more ...string) []string {
	url := func(port int) string { return fmt.Sprintf("https://__name__:%d", port) }
	return append([]string{
		"--backup-store=" + store, "--client-urls=" + url(e.Client), "--cluster-name=" + e.Name, "--containerized=true",
		"--dns-suffix=." + KopsDomain, fmt.Sprintf("--grpc-port=%d", e.Daemon), "--peer-urls=" + url(e.Peer),
		"--quarantine-client-urls=" + url(e.Quarantine), "--v=6",
	}, more...)
}

// AWSArgs is that of a pod on a machine of AWS. Its store is c's.
func (e KopsEtcd) AWSArgs(c *Cluster, more ...string) []string {
	return append(e.Args("file:///rootfs"+c.Store,
		"--volume-name-tag=k8s.io/etcd/"+e.Key, "--volume-provider=aws",
		"--volume-tag=kubernetes.io/cluster/"+KopsName+"=owned", "--volume-tag=k8s.io/etcd/"+e.Key,
		"--volume-tag=k8s.io/role/control-plane=1",
	), more...)
}

// Node returns the node of a member, which has not run yet.
func (e KopsEtcd) Node(c *Cluster, name string) *Node {
	n := c.Node(name)
	n.Host, n.Cluster = name+"."+KopsDomain, e.Name
	n.Port.Store(int32(e.Client))
	return n
}

// AWSMachines returns machines of AWS for the members, with volumes that are attached to
// none of them, and with this etcd for these patches.
func (e KopsEtcd) AWSMachines(c *Cluster, members []string, version string, patches ...string) []*Machine {
	c.t.Helper()
	ec2 := c.NewEC2()
	var machines []*Machine
	for _, member := range members {
		m := c.NewMachine(e.Node(c, e.Name+"-"+member), ec2.Volume(KopsName, e.Key, member, 512))
		m.Etcd(version, patches...)
		m.Env = ec2.Serve(m)
		machines = append(machines, m)
	}
	return machines
}
