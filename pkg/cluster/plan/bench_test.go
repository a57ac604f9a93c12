package plan_test

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
)

// large is a cluster of seven members with ten thousand backups, none of which
// is to be deleted, so that every rule is asked.
func large(tb testing.TB) *stage {
	s := newStage()
	s.spec.MemberCount = 7
	if err := s.observe("cluster a b c d e f g\nnodes h"); err != nil {
		tb.Fatal(err)
	}
	var list []cluster.Backup
	for i := range 10000 {
		at := s.obs.At.Add(-time.Duration(i) * time.Hour).Truncate(time.Hour)
		list = append(list, cluster.Backup{Name: retention.Name(at, 1), At: at})
	}
	s.obs.Store.Backups = list
	s.spec.Policy.HourlyRetention = 20000 * time.Hour
	s.spec.Policy.DailyRetention = 40000 * time.Hour
	return s
}

// BenchmarkNext measures one decision; the target is less than 1 ms.
func BenchmarkNext(b *testing.B) {
	s := large(b)
	if op, holds := plan.Next(s.spec, s.obs); op != nil || len(holds) > 0 {
		b.Fatalf("the cluster is not at rest: %v %v", op, holds)
	}
	for b.Loop() {
		plan.Next(s.spec, s.obs)
	}
}

// BenchmarkNextPrune measures the decision where most backups are to go.
func BenchmarkNextPrune(b *testing.B) {
	s := large(b)
	s.spec.Policy = cluster.Policy{}
	for b.Loop() {
		plan.Next(s.spec, s.obs)
	}
}

// BenchmarkMake measures the whole plan from seven empty nodes.
func BenchmarkMake(b *testing.B) {
	s := newStage()
	s.spec.MemberCount = 7
	if err := s.observe("nodes a b c d e f g"); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := plan.Make(s.spec, s.obs); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCheck measures what is asked again before each effect.
func BenchmarkCheck(b *testing.B) {
	s := large(b)
	op := &plan.Remove{ID: 7, ExpectName: "g", ExpectVoters: 7}
	for b.Loop() {
		if err := plan.Check(s.spec, s.obs, op); err != nil {
			b.Fatal(err)
		}
	}
}

// TestManyBackups makes sure that a plan which deletes ten thousand backups
// ends, and keeps the newest.
func TestManyBackups(t *testing.T) {
	s := large(t)
	s.spec.Policy = cluster.Policy{}
	p, err := plan.Make(s.spec, s.obs)
	if err != nil {
		t.Fatal(err)
	}
	obs := s.obs
	for _, op := range p.Operations {
		obs = plan.Predict(obs, op)
	}
	left := obs.Store.Backups
	if len(p.Operations) < 100 || len(left) > 2000 || left[0].Name != s.obs.Store.Backups[0].Name {
		t.Errorf("%d operations leave %d backups, the newest is %s", len(p.Operations), len(left), left[0].Name)
	}
}
