package apply

import (
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// A downgrade that fails is not reverted where the later version would die on what has
// come into the data meanwhile: the earlier one, of which the data is, is tried again
// and again. Without such a thing it is reverted.
func TestNobodyGoesBackToAVersionThatTheDataDoesNotStand(t *testing.T) {
	t.Parallel()
	earlier := etcdversion.Must("3.5.35")
	tests := []struct {
		name  string
		state cluster.HazardState
		back  bool
	}{
		{"keys of the v2 store", cluster.HazardPresent, false},
		{"none", cluster.HazardAbsent, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := cluster.NoHazards()
			for i := range found {
				if found[i].Kind == cluster.HazardV2Content {
					found[i].State = tt.state
				}
			}
			h := known(t, func(o *LocalOptions) { o.examine = func(datadir.Dir) []cluster.Hazard { return found } })
			h.fake(earlier, earlier.String(), "echo no luck; exit 3")
			if err := h.state.Update(func(s *nodestate.State) error {
				s.Change = &cluster.VersionChange{Token: "t1", From: writes, To: earlier}
				s.Assigned.Version = earlier
				s.Seen = &nodestate.SeenVersion{Token: "t1", Version: etcdversion.Must("3.5.0")}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			h.restart()
			testwait.Until(h.t, "the change has failed", func() bool {
				c := h.disk().Change
				return c != nil && strings.Contains(c.Failed, "no luck")
			})
			s := h.disk()
			if s.Change.Back != tt.back || (s.Assigned.Version == writes) != tt.back {
				t.Fatalf("it is to run %s; change %+v", s.Assigned.Version, s.Change)
			}
			if tt.back {
				return
			}
			if why := "cannot go back: etcd 3.6.16 cannot run on the data: v2-content present"; !strings.Contains(
				s.Change.Failed, why) {
				t.Errorf("it says %q", s.Change.Failed)
			}
			h.fake(earlier, earlier.String(), "exec sleep 600") // what is put right comes up
			testwait.Until(h.t, "the earlier version runs", func() bool {
				p := h.observe().Process
				return p.State == cluster.ProcessRunning && p.Version == earlier
			})
		})
	}
}
