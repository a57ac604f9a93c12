package retention

import (
	"slices"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func TestExpiredIsWhatKeepLetsGo(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 34, 56, 0, time.UTC)
	var backups []cluster.Backup
	for i := range 3000 {
		at := now.Add(-time.Duration(i) * 17 * time.Minute)
		backups = append(backups, cluster.Backup{Name: Name(at, i), At: at})
	}
	backups = append(backups, cluster.Backup{Name: "by-hand"})
	policy := Policy{Hourly: 48 * time.Hour, Daily: 20 * 24 * time.Hour}
	var want []string
	for _, v := range Keep(policy, now, backups) {
		if !v.Keep {
			want = append(want, v.Backup.Name)
		}
	}
	var got []string
	for _, b := range Expired(policy, now, backups) {
		got = append(got, b.Name)
	}
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("%d are expired, Keep lets %d go", len(got), len(want))
	}
}
