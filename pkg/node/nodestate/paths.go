package nodestate

import (
	"path/filepath"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// The names of the directories in the data directory, as the existing
// etcd-manager has them.
const (
	dataName  = "data"
	trashName = "data-trashcan"
	pkiName   = "pki"
	// restoreName is ours: the existing etcd-manager ignores it.
	restoreName = "restore"
)

// DataDir returns the path of etcd's data directory of an incarnation, below
// the node's data directory dir.
func DataDir(dir string, token cluster.Token) string {
	return filepath.Join(dir, dataName, string(token))
}

// PKIDir returns the path of the directory with the key pairs of an
// incarnation's member; they are in peers/ and clients/ in it.
func PKIDir(dir string, token cluster.Token) string {
	return filepath.Join(dir, pkiName, string(token))
}

// RestoreDir returns the path of the directory in which a restore is staged: a
// data directory named data and what is fetched for it.
func RestoreDir(dir string, token cluster.Token) string {
	return filepath.Join(dir, restoreName, string(token))
}

// RestoredDir returns the path of the data directory that a restore makes.
func RestoredDir(dir string, token cluster.Token) string {
	return filepath.Join(RestoreDir(dir, token), dataName)
}
