package ctl

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A restore begins a billion revisions above all: nobody wrote those, and none of them is lost.
func TestOnlyWrittenRevisionsAreLost(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	now := at.Add(time.Hour)
	for name, c := range map[string]struct {
		token cluster.Token
		want  string
		lost  cluster.Revision
	}{
		"first": {"first", "the writes of the last 1h0m0s, 1000000150 revisions", 1_000_000_150},
		"same":  {"same", "the writes since the restore of 2026-11-20T10:30:00Z, 50 revisions", 50},
		"other": {"other", "the writes of the last 1h0m0s: 50 revisions since the restore of 2026-11-20T10:30:00Z, " +
			"and what that kept of those before", 50},
		"unseen": {"gone", "the writes of the last 1h0m0s, 1000000150 revisions", 1_000_000_150},
	} {
		restored := func(backup string) *cluster.Restored {
			return &cluster.Restored{Backup: backup, Revision: 1_000_000_200}
		}
		obs := cluster.Observation{Token: c.token, Revision: 1_000_000_250, Store: cluster.Store{
			Backups: []cluster.Backup{{Name: "b", At: at}},
			Incarnations: []cluster.Incarnation{
				{Number: 1, Token: "first", At: at.Add(-time.Hour)},
				{Number: 2, Token: "same", At: at.Add(30 * time.Minute), Restored: restored("b")},
				{Number: 3, Token: "other", At: at.Add(30 * time.Minute), Restored: restored("c")},
			},
		}}
		d := newDry(now, cluster.Request{Backup: "b"}, cluster.Source{Revision: 100}, obs)
		if d.lost() != c.want || d.Lost != c.lost {
			t.Errorf("%s: %q, %d", name, d.lost(), d.Lost)
		}
	}
	// A backup that was taken since counts as ever.
	obs := cluster.Observation{Token: "t", Revision: 1_000_000_250, Store: cluster.Store{
		Backups:      []cluster.Backup{{Name: "b", At: at}},
		Incarnations: []cluster.Incarnation{{Token: "t", At: at, Restored: &cluster.Restored{Revision: 1_000_000_200}}},
	}}
	d := newDry(now, cluster.Request{Backup: "b"}, cluster.Source{Revision: 1_000_000_210}, obs)
	if want := "the writes of the last 1h0m0s, 40 revisions"; d.lost() != want {
		t.Errorf("%q, want %q", d.lost(), want)
	}
}
