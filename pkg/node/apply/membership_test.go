package apply

import (
	"slices"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// Etcd 3.5 does not report whether a downgrade is still enabled, and takes no member then.
func TestADowngradeThatNobodyReportsOfEndsBeforeAMemberIsAdded(t *testing.T) {
	add := []string{"add [http://d:2380]", "close"}
	ended := append([]string{"cancel the downgrade"}, add...)
	for _, tc := range []struct {
		runs     [3]string
		reported string
		want     []string
	}{
		{runs: [3]string{"3.5.35", "3.5.35", "3.5.35"}, want: ended},
		{runs: [3]string{"3.5.0", "3.6.16", "3.6.16"}, want: ended},
		{runs: [3]string{"3.6.16", "3.6.16", "3.6.16"}, want: add},
		{runs: [3]string{"3.4.25", "3.5.35", "3.5.35"}, want: add},
		{runs: [3]string{"3.5.35", "3.6.16", "3.6.16"}, reported: "3.5.0", want: add}, // the plan cancels what is reported
	} {
		st := newStage()
		for i := range st.obs.Members {
			st.obs.Members[i].Version = etcdversion.Must(tc.runs[i])
		}
		if tc.reported != "" {
			st.obs.Downgrade = etcdversion.Must(tc.reported)
		}
		st.members = slices.Clone(st.obs.Members)
		if err := st.do(t, addD); err != nil {
			t.Fatal(tc.runs, err)
		}
		st.said(t, tc.want...)
	}
}
