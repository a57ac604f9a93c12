package handover

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/store"
)

const clusterID = cluster.ClusterID(0xc1)

var v36 = etcdversion.Must("3.6.16")

// A host is a machine with an etcd that is played: all there is of it is on the
// disk, so that a killed process leaves what a killed etcdadm leaves.
type host struct {
	t testing.TB
	// root holds everything; the directories of other hosts are beside it.
	root, name string
	cfg        machine.Config
	o          Options
}

// newHost makes machine number n with a running member of a cluster of the named
// machines, in a directory that all of them share.
func newHost(t testing.TB, shared, name string, names ...string) *host {
	t.Helper()
	h := hostAt(t, shared, name)
	h.must(os.MkdirAll(h.root, 0o755))
	write(t, filepath.Join(h.cfg.Paths.Member(), "wal", "0.wal"), string(wal(idOf(name), clusterID)))
	write(t, filepath.Join(h.cfg.Paths.Member(), "snap", "db"), "the data of "+name)
	write(t, h.cfg.Paths.EnvFile(), "ETCD_NAME="+name+"\n")
	write(t, h.cfg.Paths.Record(), `{"token":"t","action":"init"}`)
	for _, f := range []string{"ca.crt", "ca.key"} {
		b, err := os.ReadFile(filepath.Join(shared, f))
		h.must(err)
		write(t, filepath.Join(h.cfg.Paths.Certificates, f), string(b))
	}
	bin := filepath.Join(h.o.EtcdDir, "etcd-v3.6.16")
	for _, f := range []string{"etcd", "etcdctl", "etcdutl"} {
		write(t, filepath.Join(bin, f), "#!/bin/sh\n")
		h.must(os.Chmod(filepath.Join(bin, f), 0o755))
	}
	h.run()
	h.setMembers(names...)
	return h
}

// hostAt returns a machine of which the disk has all there is to know.
func hostAt(t testing.TB, shared, name string) *host {
	h := &host{t: t, root: filepath.Join(shared, name), name: name, cfg: machine.Defaults()}
	h.cfg.Name, h.cfg.Listen.Address = cluster.NodeName(name), addressOf(name)
	h.cfg.Service.InitSystem = machine.Process
	at := func(dir string) string { return filepath.Join(h.root, dir) }
	h.cfg.Paths = machine.Paths{
		Data: at("etcd"), Certificates: at("pki"), Install: at("bin"), Cache: at("cache"),
		Environment: at("etc"), Units: at("units"), Manifests: at("manifests"),
	}
	h.o = Options{
		Config: h.cfg,
		Manager: machine.Manager{
			ManagerDir: at("manager"), PKIDir: at("manager-pki"), EtcdDir: at("opt"),
			ClusterName: "main", BackupStore: "file://" + filepath.Join(shared, "store"), GRPCPort: 8000,
		},
		Open: func(cfg machine.Config, _ []string) (Machine, error) { h.cfg = cfg; return h, nil },
	}
	return h
}

// newCluster makes the directory of a cluster, with a store and a CA, and its
// machines.
func newCluster(t testing.TB, names ...string) []*host {
	t.Helper()
	shared := t.TempDir()
	if err := os.Mkdir(filepath.Join(shared, "store"), 0o755); err != nil {
		t.Fatal(err)
	}
	newCA(t, shared, "ca")
	var hosts []*host
	for _, name := range names {
		hosts = append(hosts, newHost(t, shared, name, names...))
	}
	return hosts
}

func newCA(t testing.TB, dir, name string) *certs.CA {
	t.Helper()
	ca, err := certs.NewCA(certs.CASpec{CommonName: "etcd", Lifetime: time.Hour}, time.Now())
	if err == nil {
		err = ca.Write(dir, name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A member has the number of its first letter.
func idOf(name string) cluster.MemberID { return cluster.MemberID(name[0]) }

func addressOf(name string) string { return fmt.Sprintf("10.0.0.%d", name[0]) }

// wal is the beginning of a write-ahead log of etcd.
func wal(id cluster.MemberID, c cluster.ClusterID) []byte {
	number := func(b []byte, n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
	}
	record := number(nil, 1, 1)
	record = protowire.AppendBytes(protowire.AppendTag(record, 3, protowire.BytesType),
		number(number(nil, 1, uint64(id)), 2, uint64(c)))
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(record))), record...)
}

func initialMembers(names ...string) []cluster.InitialMember {
	var list []cluster.InitialMember
	for _, n := range names {
		list = append(list, cluster.InitialMember{
			Name: cluster.NodeName(n), PeerURLs: []string{"https://" + addressOf(n) + ":2380"},
		})
	}
	return list
}

// The cluster is a file that all its machines share.
func (h *host) clusterPath() string { return filepath.Join(filepath.Dir(h.root), "members.json") }

func (h *host) setMembers(names ...string) {
	var list []cluster.Member
	for _, n := range names {
		list = append(list, cluster.Member{
			ID: idOf(n), Name: cluster.NodeName(n), Healthy: true,
			PeerURLs: []string{"https://" + addressOf(n) + ":2380"}, ClientURLs: []string{"https://" + addressOf(n) + ":2379"},
		})
	}
	b, err := json.Marshal(list)
	h.must(err)
	write(h.t, h.clusterPath(), string(b))
}

func (h *host) members() []cluster.Member {
	var list []cluster.Member
	b, err := os.ReadFile(h.clusterPath())
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	h.must(err)
	return list
}

// That etcd runs is a file too.
func (h *host) runPath() string { return filepath.Join(h.root, "running") }
func (h *host) running() bool   { _, err := os.Stat(h.runPath()); return err == nil }
func (h *host) run()            { write(h.t, h.runPath(), "") }

func (h *host) Config() machine.Config { return h.cfg }

func (h *host) Lock(machine.Goal) (func(), error) { return func() {}, nil }

func (h *host) Observe(_ context.Context, goal machine.Goal) (machine.Observation, error) {
	obs := machine.Observation{
		At: time.Now(), Data: machine.Data{State: cluster.DiskEmpty}, Service: machine.ServiceStatus{
			State: machine.ServiceStopped,
		},
	}
	if id, c, err := nodestate.DiskMember(h.cfg.Paths.Data); err == nil {
		obs.Data = machine.Data{State: cluster.DiskData, MemberID: id, ClusterID: c}
	}
	list := h.members()
	obs.Remote = machine.Remote{Answered: true, ClusterID: clusterID, Members: list, Leader: list[0].ID}
	if goal.Action == machine.Join && len(list) < 3 {
		obs.Remote = machine.Remote{Problem: "the others have no quorum"}
	}
	if h.running() {
		obs.Service = machine.ServiceStatus{State: machine.ServiceRunning, Enabled: true}
		obs.Local = &cluster.Report{ID: idOf(h.name), ClusterID: clusterID, Version: v36, Leader: list[0].ID}
		obs.Written = map[string]string{"ETCD_NAME": h.name, "ETCD_QUOTA_BACKEND_BYTES": "8589934592"}
	}
	return obs, nil
}

func (h *host) Run(_ context.Context, goal machine.Goal) (operate.Result, error) {
	if goal.Phase == "stop" {
		return operate.Result{}, os.Remove(h.runPath())
	}
	if _, _, err := nodestate.DiskMember(h.cfg.Paths.Data); err != nil {
		return operate.Result{}, fmt.Errorf("started on an empty disk: %w", err)
	}
	if goal.Action == machine.Init {
		if b, _ := os.ReadFile(h.cfg.Paths.Record()); len(b) == 0 {
			return operate.Result{}, errors.New("an init over data that it did not make")
		}
	}
	write(h.t, h.cfg.Paths.EnvFile(), "ETCD_NAME="+h.name+"\n")
	h.run()
	return operate.Result{}, nil
}

func (h *host) over(d machine.Action) (Result, error) { return Run(h.t.Context(), h.o, d) }

func (h *host) ok(d machine.Action) Result {
	h.t.Helper()
	r, err := h.over(d)
	if err != nil {
		h.t.Fatalf("%s: %s: %v", h.name, d, err)
	}
	return r
}

// held hands over, which must not be done for this reason.
func (h *host) held(d machine.Action, reason machine.Reason) *machine.Hold {
	h.t.Helper()
	_, err := h.over(d)
	var why *machine.Hold
	if !errors.As(err, &why) || why.Reason != reason {
		h.t.Fatalf("%s: %s: %v, want a hold %s", h.name, d, err, reason)
	}
	return why
}

func (h *host) state() nodestate.State {
	h.t.Helper()
	s, err := nodestate.Read(h.o.ManagerDir)
	h.must(err)
	return s
}

// at says on which sides there is data, and an order to run it. It is a failure
// if one side has both and the other one has one of them, or if data was
// changed or is nowhere.
func (h *host) at() (here, there bool) {
	h.t.Helper()
	here, err := hasMember(h.cfg.Paths.Data)
	h.must(err)
	dirs, _ := filepath.Glob(filepath.Join(h.o.ManagerDir, "data", "*", "member", "snap", "db"))
	there = len(dirs) > 0
	_, envErr := os.Stat(h.cfg.Paths.EnvFile())
	startable, assigned := envErr == nil, h.state().Assigned != nil
	switch {
	case here == there || len(dirs) > 1:
		h.t.Errorf("there is data here: %t, there: %v", here, dirs)
	case h.running() && (!here || assigned), startable && assigned, assigned && here, startable && there && !h.running():
		h.t.Errorf("data here %t, there %t; running %t, startable %t, assigned %t", here, there, h.running(), startable,
			assigned)
	}
	for _, db := range append(dirs, filepath.Join(h.cfg.Paths.Member(), "snap", "db")) {
		if b, err := os.ReadFile(db); err == nil && string(b) != "the data of "+h.name {
			h.t.Errorf("%s has %q", db, b)
		}
	}
	return here, there
}

func (h *host) records() []cluster.Incarnation {
	h.t.Helper()
	s, err := store.Open(h.t.Context(), h.o.BackupStore)
	h.must(err)
	defer s.Close(h.t.Context())
	v, err := s.Poll(h.t.Context())
	h.must(err)
	return v.Incarnations
}

func stepNames(steps []machine.Step) []string {
	var names []string
	for _, s := range steps {
		names = append(names, s.Phase)
	}
	return names
}

func wantSteps(t testing.TB, r Result, want ...string) {
	t.Helper()
	if got := stepNames(r.Steps); !slices.Equal(got, want) {
		t.Errorf("the steps are %q, want %q", got, want)
	}
}
