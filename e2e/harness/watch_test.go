package harness

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/store"
)

func TestCoordinations(t *testing.T) {
	const found, add = "etcdadm incarnation create --token=t1", "etcdadm member add-learner --name=d"
	at := func(e store.HistoryEntry, s int) store.HistoryEntry {
		e.At = time.Unix(int64(s), 0)
		return e
	}
	for name, tt := range map[string]struct {
		history []store.HistoryEntry
		want    []string
	}{
		"one after the other": {
			[]store.HistoryEntry{at(store.HistoryEntry{Term: 1, By: "a", Line: add}, 1),
				at(store.HistoryEntry{Term: 2, By: "b", Line: add}, 2)}, nil,
		},
		"written late": {
			[]store.HistoryEntry{at(store.HistoryEntry{Term: 2, By: "b", Line: add}, 2),
				at(store.HistoryEntry{Term: 1, By: "a", Line: add}, 1)}, nil,
		},
		"two bootstraps, one refused": {
			[]store.HistoryEntry{at(store.HistoryEntry{Term: 1, By: "a", Line: found}, 1),
				at(store.HistoryEntry{Term: 1, By: "b", Line: found, Error: "it exists"}, 2)}, nil,
		},
		"two bootstraps in a term": {
			[]store.HistoryEntry{at(store.HistoryEntry{Term: 1, By: "a", Line: found}, 1),
				at(store.HistoryEntry{Term: 1, By: "b", Line: found}, 2)}, []string{
				"term 1 has the coordinators a and b (" + found + ")",
			},
		},
		"a restore after a total loss": {
			[]store.HistoryEntry{at(store.HistoryEntry{Term: 2, By: "a", Line: add}, 1),
				at(store.HistoryEntry{By: "z", Line: found}, 2), at(store.HistoryEntry{Term: 1, By: "z", Line: add}, 3)}, nil,
		},
		"a restore after a total loss, refused": {
			[]store.HistoryEntry{at(store.HistoryEntry{Term: 2, By: "a", Line: add}, 1),
				at(store.HistoryEntry{By: "z", Line: found, Error: "it exists"}, 2),
				at(store.HistoryEntry{Term: 1, By: "z", Line: add}, 3)}, []string{"z acted in term 1 after term 2 (" + add + ")"},
		},
		"two in one term, also one failed": {
			[]store.HistoryEntry{at(store.HistoryEntry{Term: 3, By: "a", Line: add}, 1),
				at(store.HistoryEntry{Term: 3, By: "b", Line: add, Error: "timeout"}, 2)}, []string{
				"term 3 has the coordinators a and b (" + add + ")",
			},
		},
		"an old term after a new one": {
			[]store.HistoryEntry{at(store.HistoryEntry{Term: 2, By: "b", Line: add}, 1),
				at(store.HistoryEntry{Term: 1, By: "a", Line: add}, 2)}, []string{"a acted in term 1 after term 2 (" + add + ")"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := coordinations(tt.history); !slices.Equal(got, tt.want) {
				t.Errorf("wrong is %q, not %q", got, tt.want)
			}
		})
	}
}

func TestElections(t *testing.T) {
	const (
		first  = `{"level":"info","msg":"starting local member","local-member-id":"a1","cluster-id":"c1"}` + "\n"
		again  = `etcd: {\"level\":\"info\",\"msg\":\"restarting local member\",\"cluster-id\":\"c1\",\"local-member-id\":\"b1\",\"commit-index\":9}` + "\n"
		other  = `{"level":"info","msg":"restarting local member","cluster-id":"c2","local-member-id":"b2","commit-index":9}` + "\n"
		aLeads = `{"level":"info","logger":"raft","msg":"a1 became leader at term 2"}` + "\n"
		bLeads = `{"level":"info","logger":"raft","msg":"b1 became leader at term 2"}` + "\n"
		later  = `{"level":"info","logger":"raft","msg":"b1 became leader at term 3"}` + "\n"
	)
	for name, tt := range map[string]struct {
		logs []string
		want []string
	}{
		"one after the other":       {[]string{first + aLeads, again + later}, nil},
		"each in its own cluster":   {[]string{first + aLeads, other + bLeads}, nil},
		"one cluster, then another": {[]string{first + aLeads + other + bLeads}, nil},
		"half a line":               {[]string{first + aLeads, again + strings.TrimSuffix(bLeads, "\"}\n")}, nil},
		"two in one term": {
			[]string{first + aLeads, again + bLeads}, []string{"raft term 2 of cluster c1 has the leaders a1 and b1"},
		},
		"two in one term of one log": {
			[]string{first + aLeads + bLeads}, []string{"raft term 2 of cluster c1 has the leaders a1 and b1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var logs [][]byte
			for _, l := range tt.logs {
				logs = append(logs, []byte(l))
			}
			if got := elections(logs); !slices.Equal(got, tt.want) {
				t.Errorf("wrong is %q, not %q", got, tt.want)
			}
		})
	}
}
