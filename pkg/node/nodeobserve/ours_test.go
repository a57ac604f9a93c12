package nodeobserve

import (
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

func TestWhatAnswersAtTheMembersURLMustBeTheMember(t *testing.T) {
	disk := cluster.Disk{State: cluster.DiskData, Token: "t1", MemberID: 7}
	state := nodestate.State{Assigned: &cluster.Assigned{Token: "t1"}, MemberToken: "t1", MemberID: 7, ClusterID: 70}
	for _, tc := range []struct {
		name   string
		change func(d *cluster.Disk, s *nodestate.State, r *cluster.Report)
		want   string
	}{
		{"the member", func(*cluster.Disk, *nodestate.State, *cluster.Report) {}, ""},
		{"on its first day", func(d *cluster.Disk, s *nodestate.State, _ *cluster.Report) {
			d.MemberID, s.MemberID, s.ClusterID, s.MemberToken = 0, 0, 0, ""
		}, ""},
		{"another member", func(_ *cluster.Disk, _ *nodestate.State, r *cluster.Report) { r.ID = 8 },
			"the data on the disk is of 7"},
		{"another cluster", func(d *cluster.Disk, _ *nodestate.State, r *cluster.Report) { r.ClusterID = 71; d.MemberID = 0 },
			"the data on the disk is of cluster 46"},
		{"somebody, and there is no data", func(d *cluster.Disk, _ *nodestate.State, _ *cluster.Report) {
			d.State = cluster.DiskEmpty
		}, "has no data of it"},
		{"somebody, and the data is old", func(d *cluster.Disk, _ *nodestate.State, _ *cluster.Report) { d.Token = "t0" },
			"has no data of it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, s, r := disk, state, cluster.Report{ID: 7, ClusterID: 70}
			tc.change(&d, &s, &r)
			err := ours(d, s, r)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
