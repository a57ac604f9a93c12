//go:build e2e

package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/existing"
)

// TestTakingOverOneOfThree takes over a cluster of one voter, beside which two machines
// have free daemons of the existing tool. Nothing grows before these are gone.
func TestTakingOverOneOfThree(t *testing.T) {
	v := newExistingCluster(t)
	a := v.named("a")
	v.spec(1)
	v.start(a)
	v.converged(1)
	v.start(v.nodes[1:]...) // for their certificates
	v.eventually("all nodes", func(ctx context.Context) error {
		var r reconcile.Report
		v.decode(ctx, &r)
		if len(r.Observation.Nodes) < 3 {
			return fmt.Errorf("%d nodes", len(r.Observation.Nodes))
		}
		return nil
	})
	for _, r := range v.nodes {
		v.stop(r)
	}
	token := v.handOver(a, "a")
	for _, r := range v.nodes[1:] {
		must(t, os.RemoveAll(r.config.DataDir))
	}
	v.forgetControl()
	v.spec(3)
	old := map[string]*existing.Daemon{}
	for _, r := range v.nodes[1:] {
		old[r.name] = v.existingDaemon(r)
	}
	v.start(a)
	v.holding(plan.ExistingDaemon, "b", "c")
	old["b"].Stop()
	v.start(v.named("b"))
	v.holding(plan.ExistingDaemon, "c")
	if list := v.members(a, plainClient(a)); len(list) != 1 {
		t.Fatalf("beside the existing daemon there are %d members", len(list))
	}
	old["c"].Stop()
	v.start(v.named("c"))
	v.agreed(1)
	view, err := v.open().Poll(t.Context())
	must(t, err)
	if got := view.Incarnations[0]; got.Token != token || len(got.Voters) != 1 {
		t.Errorf("the record is %+v", got)
	}
}

// TestTheExistingToolHasRestored has the existing tool make a new cluster on two of three
// machines in between, as it does in a restore. It is taken over, and the third machine,
// whose member has no majority any more, gets a member of it.
func TestTheExistingToolHasRestored(t *testing.T) {
	v := newExistingCluster(t)
	v.spec(3)
	v.start(v.nodes...)
	v.converged(3)
	for _, r := range v.nodes {
		v.stop(r)
	}
	const token = "restored-by-the-existing"
	var members []*etcdtest.Member
	var nodes []existing.Node
	for _, r := range v.nodes[:2] {
		s, err := nodestate.Read(r.config.DataDir)
		must(t, err)
		aside := filepath.Join(r.config.DataDir, "data-trashcan")
		must(t, os.MkdirAll(aside, 0o755))
		data := nodestate.DataDir(r.config.DataDir, s.Assigned.Token)
		must(t, os.Rename(data, filepath.Join(aside, string(s.Assigned.Token))))
		m := &etcdtest.Member{
			Name: r.name, DataDir: nodestate.DataDir(r.config.DataDir, token), Flags: []string{"--unsafe-no-fsync"},
			ClientURL: "http://" + r.config.Address + ":4001", PeerURL: "http://" + r.config.Address + ":2380",
		}
		members = append(members, m)
		nodes = append(nodes, existing.Node{Name: r.name, Peer: []string{m.PeerURL}, Client: []string{m.ClientURL}})
	}
	for i, m := range members {
		old := existing.State{Token: token, Version: version.String(), Nodes: nodes}
		must(t, old.Write(v.nodes[i].config.DataDir))
		m.Start(t, etcdtest.Binaries(t, version.String()), "--initial-cluster="+etcdtest.Initial(members...),
			"--initial-cluster-token="+token)
	}
	c := etcdtest.Dial(t, members...)
	etcdtest.AwaitRead(t, c)
	if _, err := c.Put(t.Context(), "restored", "yes"); err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		m.Kill()
	}
	v.start(v.nodes...)
	v.agreed(2)
	v.eventually("the restored key on c", func(ctx context.Context) error {
		got, err := etcdtest.Dial(t, &etcdtest.Member{ClientURL: "http://" + v.nodes[2].config.Address + ":4001"}).
			Get(ctx, "restored")
		if err == nil && len(got.Kvs) != 1 {
			err = errors.New("it is not there")
		}
		return err
	})
	entries, err := os.ReadDir(filepath.Join(v.nodes[2].config.DataDir, "data-trashcan"))
	if err != nil || len(entries) == 0 {
		t.Errorf("what c had is not kept: %v, %v", entries, err)
	}
}

// TestTakingOverBesideAVoterThatNeverStarted has somebody add a voter while the existing tool
// runs, which never starts. It keeps nobody from taking the cluster over, is no lease voter, and
// is removed after the grace time.
func TestTakingOverBesideAVoterThatNeverStarted(t *testing.T) {
	v := newExistingCluster(t)
	for _, r := range v.nodes {
		r.config.Policy.Grace = 10 * time.Second
	}
	v.spec(3)
	v.start(v.nodes...)
	v.converged(3)
	for _, r := range v.nodes {
		v.stop(r)
	}
	v.handToExisting()
	var members []*etcdtest.Member
	var old []*existingMember
	for _, r := range v.nodes {
		e := v.startExisting(r)
		old, members = append(old, e), append(members, e.etcd)
	}
	c := etcdtest.Dial(t, members...)
	v.eventually("a voter more", func(ctx context.Context) error { // etcd wants its members to be connected for 5 s
		_, err := c.MemberAdd(ctx, []string{"http://" + v.prefix + "99:2380"})
		return err
	})
	for _, e := range old {
		e.stop()
	}
	v.start(v.nodes...)
	v.agreed(1)
}
