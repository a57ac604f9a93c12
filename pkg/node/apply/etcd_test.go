package apply

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// realHost is a host with the real etcd binaries, whose member listens on free
// ports.
func realHost(t *testing.T, v etcdversion.Version, change ...func(*LocalOptions)) *host {
	t.Helper()
	finder := etcdtest.Finder(t)
	if _, err := finder.Find(v); err != nil {
		t.Skip(err)
	}
	address, urls := freeURLs(t, 3)
	return newHost(t, append([]func(*LocalOptions){func(o *LocalOptions) {
		o.Bin, o.ListenAddress = finder, address
		o.URLs = cluster.URLs{Peer: urls[:1], Client: urls[1:2], Quarantine: urls[2:]}
		o.UserEnv = map[string]string{"ETCD_UNSAFE_NO_FSYNC": "true"}
	}}, change...)...)
}

// reports waits for the node's own etcd to answer as a leader.
func (h *host) reports() (cluster.Node, cluster.Report) {
	h.t.Helper()
	var n cluster.Node
	var r cluster.Report
	testwait.Until(h.t, "a report with a leader", func() bool {
		node, report := h.Observe(h.t.Context())
		if report == nil || report.Leader == 0 {
			return false
		}
		n, r = node, *report
		return true
	})
	return n, r
}

// copier takes a backup into memory.
type copier struct{ bytes.Buffer }

func (c *copier) Take(ctx context.Context, s etcdclient.Snapshotter, _ BackupOf) (cluster.Backup, error) {
	r, err := s.Snapshot(ctx)
	if err != nil {
		return cluster.Backup{}, err
	}
	defer r.Close()
	c.Reset()
	_, err = io.Copy(c, r)
	return cluster.Backup{Name: "b"}, err
}

// TestTheClusterVersionBesideAPortForHTTP: where etcd serves HTTP for clients at a port of
// its own, it reports versions only there, and at its peer port.
func TestTheClusterVersionBesideAPortForHTTP(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"3.5.35", "3.6.16", "3.7.3"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			v := etcdversion.Must(text)
			h := realHost(t, v, func(o *LocalOptions) {
				o.UserEnv["ETCD_LISTEN_CLIENT_HTTP_URLS"] = "http://" + testport.Address(t)
			})
			voters := []cluster.InitialMember{{Name: "a", PeerURLs: h.o.URLs.Peer}}
			h.must(&plan.MemberPrepare{Node: "a", Token: "t1", Version: v, Voters: voters},
				&plan.MemberStart{Node: "a", Token: "t1", Mode: plan.StartNew, Version: v, Peers: voters})
			testwait.Until(h.t, "the cluster version", func() bool {
				_, r := h.reports()
				return r.Cluster.Minor == v.Minor
			})
		})
	}
}

// TestARealMembersLife takes one member through every operation of its node.
func TestARealMembersLife(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"3.5.35", "3.6.16", "3.7.3"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			v := etcdversion.Must(text)
			taken := &copier{}
			h := realHost(t, v, func(o *LocalOptions) { o.Backups = taken })
			voters := []cluster.InitialMember{{Name: "a", PeerURLs: h.o.URLs.Peer}}
			found := &plan.MemberStart{Node: "a", Token: "t1", Mode: plan.StartNew, Version: v, Peers: voters}
			h.must(&plan.MemberPrepare{Node: "a", Token: "t1", Version: v, Voters: voters}, found)
			n, r := h.reports()
			if n.Disk.State != cluster.DiskData || n.Disk.Token != "t1" || n.Disk.MemberID != r.ID || n.Prepared != nil {
				t.Errorf("disk %+v, promise %+v, member %s", n.Disk, n.Prepared, r.ID)
			}
			testwait.Until(h.t, "the ids are on the disk", func() bool {
				h.observe() // writes them, unless the disk is slow
				s := h.disk()
				return s.MemberID == r.ID && s.ClusterID == r.ClusterID && s.MemberToken == "t1"
			})
			pid := h.pid()
			h.must(found)
			if h.pid() != pid {
				t.Error("the same start again started another process")
			}

			h.must(takeBackup)
			if b := taken.Bytes(); len(b) < 1000 || len(b)%512 != sha256.Size {
				t.Errorf("the backup has %d bytes", len(b))
			}
			realQuarantine(t, h)
			realRestart(t, h, v, r.ID)

			h.must(&plan.MemberStop{Node: "a", ExpectToken: "t1", ExpectMemberID: r.ID})
			isStale(t, h.do(setAside()), "expected data of member 0")
			h.must(&plan.DataSetAside{Node: "a", Token: "t1", ExpectMemberID: r.ID})
			if n := h.observe(); n.Disk.State != cluster.DiskEmpty || n.Disk.MemberID != 0 || len(n.SetAside) != 1 ||
				n.SetAside[0].Bytes == 0 {
				t.Errorf("disk %+v, set aside %+v", n.Disk, n.SetAside)
			}
		})
	}
}

// realQuarantine closes a member to clients and opens it again.
func realQuarantine(t *testing.T, h *host) {
	t.Helper()
	h.must(&plan.QuarantineSet{Node: "a"})
	h.reports() // at the quarantine URL
	c, err := etcdclient.Open(etcdclient.Options{Endpoints: h.o.URLs.Client})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := c.Report(ctx); err == nil {
		t.Error("a client got in")
	}
	h.must(&plan.QuarantineLift{Node: "a"})
	testwait.Until(h.t, "clients to get in", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Report(ctx)
		return err == nil
	})
}

// realRestart stops a member and starts it again on its data, by order and by
// a new daemon.
func realRestart(t *testing.T, h *host, v etcdversion.Version, id cluster.MemberID) {
	t.Helper()
	isStale(t, h.do(stop()), "found "+id.String())
	h.must(&plan.MemberStop{Node: "a", ExpectToken: "t1", ExpectMemberID: id})
	n, report := h.Observe(t.Context())
	if report != nil || n.Disk.MemberID != id || n.Process.State != cluster.ProcessStopped {
		t.Errorf("stopped, the disk is %+v and the process %+v", n.Disk, n.Process)
	}
	h.must(&plan.MemberStart{Node: "a", Token: "t1", Mode: plan.StartRestart, Version: v})
	if _, r := h.reports(); r.ID != id {
		t.Errorf("member %s came back as %s", id, r.ID)
	}
	h.restart()
	if _, r := h.reports(); r.ID != id {
		t.Errorf("member %s came back as %s", id, r.ID)
	}
}

// An initial member that the power left between making its log and committing its
// bootstrap begins again when it is booted. Once it has committed, nothing that
// its log lost makes it bootstrap another cluster.
func TestARealBootstrapThatWasCutOff(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"3.5.35", "3.6.16", "3.7.3"} {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			v := etcdversion.Must(v)
			h := realHost(t, v)
			op, begin := prepare(), start(plan.StartNew)
			op.Version, begin.Version = v, v
			op.Voters[0].PeerURLs, begin.Peers[0].PeerURLs = h.o.URLs.Peer, h.o.URLs.Peer
			h.must(op)
			promised := h.disk().Prepared
			h.must(begin)
			_, was := h.reports()
			h.close()
			head := func() {
				t.Helper()
				path := filepath.Join(h.o.DataDir, "data", "t1", "member")
				logs, err := filepath.Glob(filepath.Join(path, "wal", "*.wal"))
				if err != nil || len(logs) != 1 {
					t.Fatalf("logs %v, %v", logs, err)
				}
				keepHead(t, logs[0])
				if err := os.Remove(filepath.Join(path, "snap", "db")); err != nil {
					t.Fatal(err)
				}
			}
			head()
			h.start()
			err := h.state.Update(func(s *nodestate.State) error {
				s.Prepared, s.Bootstrap = promised, true
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Boot(t.Context()); err != nil {
				t.Fatal(err)
			}
			var is cluster.Report
			// The disk may have been read just before the member committed its bootstrap.
			testwait.Until(h.t, "the promise has ended", func() bool {
				var n cluster.Node
				n, is = h.reports()
				return n.Prepared == nil
			})
			if is.ID != was.ID || is.ClusterID != was.ClusterID {
				t.Errorf("it was %s of %s and is %s of %s", was.ID, was.ClusterID, is.ID, is.ClusterID)
			}
			h.close()
			head()
			h.start()
			if err := h.Boot(t.Context()); err != nil {
				t.Fatal(err)
			}
			if begun, err := nodestate.Begun(filepath.Join(h.o.DataDir, "data", "t1")); begun || err != nil {
				t.Errorf("what it lost came back: %v, %v", begun, err)
			}
		})
	}
}

// keepHead empties a log behind its first three records: the checksum, whose log
// it is, and the empty snapshot.
func keepHead(t *testing.T, path string) {
	t.Helper()
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := uint64(0)
	for range 3 {
		size := binary.LittleEndian.Uint64(log[at:])
		at += 8 + size&(1<<56-1) + size>>56&7
	}
	clear(log[at:])
	if err := os.WriteFile(path, log, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestALearnerOfARealCluster joins a second node, whose data is lost later: it
// must not come back as a voter without a memory.
func TestALearnerOfARealCluster(t *testing.T) {
	t.Parallel()
	v := etcdversion.Must("3.6.16")
	a := realHost(t, v)
	b := realHost(t, v, func(o *LocalOptions) { o.Name = "b" })
	initialMember := func(h *host) cluster.InitialMember {
		return cluster.InitialMember{Name: h.o.Name, PeerURLs: h.o.URLs.Peer}
	}
	one := []cluster.InitialMember{initialMember(a)}
	a.must(&plan.MemberPrepare{Node: "a", Token: "t1", Version: v, Voters: one},
		&plan.MemberStart{Node: "a", Token: "t1", Mode: plan.StartNew, Version: v, Peers: one})
	a.reports()
	c, err := etcdclient.Open(etcdclient.Options{Endpoints: a.o.URLs.Client})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	id, err := c.AddLearner(t.Context(), b.o.URLs.Peer)
	if err != nil {
		t.Fatal(err)
	}
	join := &plan.MemberStart{
		Node: "b", Token: "t1", Mode: plan.StartJoin, Version: v, Peers: []cluster.InitialMember{
			initialMember(a), initialMember(b),
		},
	}
	order := plan.Order{Operation: join, LeaseVoters: cluster.LeaseVoters{
		Token: "t1", Term: 1, Names: []cluster.NodeName{"a"},
	}}
	if err := b.Do(t.Context(), order, nil); err != nil {
		t.Fatal(err)
	}
	n, r := b.reports()
	if !r.Learner || r.ID != id || n.Disk.MemberID != id {
		t.Errorf("it is %+v, disk %+v, want learner %s", r, n.Disk, id)
	}

	b.close()
	b.loseData()
	b.start()
	if err := b.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.pid() != 0 {
		t.Error("it was started without its data")
	}
	b.refused(join, "has lost its data")
}

func TestARealEtcdThatHangsDoesNotHoldTheObservation(t *testing.T) {
	t.Parallel()
	v := etcdversion.Must("3.6.16")
	h := realHost(t, v)
	voters := []cluster.InitialMember{{Name: "a", PeerURLs: h.o.URLs.Peer}}
	h.must(&plan.MemberPrepare{Node: "a", Token: "t1", Version: v, Voters: voters},
		&plan.MemberStart{Node: "a", Token: "t1", Mode: plan.StartNew, Version: v, Peers: voters})
	h.reports()
	pid := h.pid()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	began := time.Now()
	n, r := h.Observe(t.Context())
	if r != nil || n.Process.State != cluster.ProcessRunning {
		t.Errorf("the report is %+v, the process %+v", r, n.Process)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the observation took %s", took)
	}
}

// TestLeaseVotersAreComparedWithTheQuorum recovers the lease voters on a node with a
// real member: only as the voters that its quorum reports.
func TestLeaseVotersAreComparedWithTheQuorum(t *testing.T) {
	t.Parallel()
	v := etcdversion.Must("3.6.16")
	h := realHost(t, v)
	voters := []cluster.InitialMember{{Name: "a", PeerURLs: h.o.URLs.Peer}}
	h.must(&plan.MemberPrepare{Node: "a", Token: "t1", Version: v, Voters: voters},
		&plan.MemberStart{Node: "a", Token: "t1", Mode: plan.StartNew, Version: v, Peers: voters})
	h.reports()
	op := &plan.LeaseVotersRecover{
		Node: "a", Token: "t1", Term: 7, Names: []cluster.NodeName{"a", "b"}, Expect: []cluster.NodeName{"a"},
		Lost: []cluster.NodeName{"a"},
	}
	var stale *plan.StaleError
	if err := h.do(op); !errors.As(err, &stale) || h.disk().LeaseVoters.Term != 0 {
		t.Errorf("voters that the quorum does not report: %v", err)
	}
	op.Names = []cluster.NodeName{"a"}
	h.refused(op, "names [a] here already")
	if e := h.disk().LeaseVoters; e.Term != 0 {
		t.Errorf("the record on disk is %+v", e)
	}
	op.Token = "t2"
	h.refused(op, "does not run incarnation t2")
}
