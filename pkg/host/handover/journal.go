package handover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/hostfs"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// A Direction says who is to run the machine's etcd.
type Direction string

// The directions.
const (
	ToManager   Direction = "to-manager"
	FromManager Direction = "from-manager"
)

// A Journal is what was decided before anything was changed. It is written
// beside etcdadm's data directory, and one that is done stays there as long as
// the daemon has the data: it says where.
type Journal struct {
	Direction Direction `json:"direction"`
	Done      bool      `json:"done,omitempty"`
	// ManagerDir is the daemon's data directory.
	ManagerDir string `json:"managerDir"`

	Node      cluster.NodeName    `json:"node"`
	MemberID  cluster.MemberID    `json:"memberID"`
	ClusterID cluster.ClusterID   `json:"clusterID"`
	Version   etcdversion.Version `json:"version"`
	// Token is the incarnation, and names the directory of the data.
	Token cluster.Token `json:"token"`
	// Peers is the membership, the machine's own member included.
	Peers []cluster.InitialMember `json:"peers"`
	// URLs are those of the machine's member, Others the client URLs of the other
	// members.
	URLs   cluster.URLs `json:"urls"`
	Others []string     `json:"others,omitempty"`

	// Agreement is about the lease voters, on the way to the daemon.
	Agreement Agreement `json:"agreement,omitzero"`
	// Environment are the operator's variables of etcd.
	Environment []string `json:"environment,omitempty"`
	// MetricsURLs and EtcdAddress are what etcd listens on besides.
	MetricsURLs []string `json:"metricsURLs,omitempty"`
	EtcdAddress string   `json:"etcdAddress,omitempty"`

	// Alone says, on the way back, that no other member is needed for etcd to
	// serve.
	Alone bool `json:"alone,omitempty"`
}

// ReadJournal returns the machine's journal, nil if there is none.
func ReadJournal(cfg machine.Config) (*Journal, error) {
	path := cfg.Paths.Journal()
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var j Journal
	if err == nil {
		err = json.Unmarshal(b, &j)
	}
	if err == nil && j.Direction != ToManager && j.Direction != FromManager {
		err = fmt.Errorf("its direction is %q", j.Direction)
	}
	if err == nil {
		err = j.Token.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal of the handover in %s: %w", path, err)
	}
	return &j, nil
}

func (j *Journal) write(cfg machine.Config) error {
	b, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	path := cfg.Paths.Journal()
	if err := hostfs.MakeDir(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return hostfs.WriteFile(path, append(b, '\n'), 0o600)
}

func removeFile(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return hostfs.SyncDir(filepath.Dir(path))
}
