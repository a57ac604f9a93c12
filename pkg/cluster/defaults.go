package cluster

// The ports of etcd and of the daemons where nothing else is said: the existing tools have the
// same.
const (
	// EtcdClientPort and EtcdPeerPort are etcd's own.
	EtcdClientPort = 2379
	EtcdPeerPort   = 2380
	// ManagerPort is the one of etcd-manager on which daemons and persons reach it.
	ManagerPort = 8000
)

// The URLs of a daemon's member where nothing else is said. The daemon puts its address in.
const (
	// ManagerClientURL and ManagerQuarantineURL are for clients of a member that etcd-manager
	// runs, and for nobody but the daemons while clients are kept away.
	ManagerClientURL     = "https://__address__:4001"
	ManagerQuarantineURL = "https://__address__:8001"
	// AutoClientURL is for clients of one that etcdadm auto runs, with etcd's own port.
	AutoClientURL = "https://__address__:2379"
	// DaemonPeerURL is for the peers of both.
	DaemonPeerURL = "https://__address__:2380"
)

// The directories of the daemons where nothing else is said.
const (
	// ManagerDir has the data of a daemon.
	ManagerDir = "/var/lib/etcd-manager"
	// ManagerPKI has the authorities of etcd-manager, AutoPKI those of etcdadm auto.
	ManagerPKI = "/etc/kubernetes/pki/etcd-manager"
	AutoPKI    = "/etc/etcd-manager/pki"
)
