package etcdproc

import (
	"strconv"
	"testing"
)

// The kernel takes etcd before its supervisor: the other way round both die.
func TestEtcdIsKilledForMemoryBeforeItsSupervisor(t *testing.T) {
	own, err := oomScore("self")
	if err != nil {
		t.Skip(err)
	}
	s, _ := supervise(t, Options{})
	start(t, s, does("stay"))
	got, err := oomScore(strconv.Itoa(s.Status().PID))
	if err != nil {
		t.Fatal(err)
	}
	if want := min(worst, own+oomAfter); got != want || want <= own && own < worst {
		t.Errorf("oom_score_adj of the process is %d, of this one %d", got, own)
	}
}
