package harness

import (
	"slices"
	"testing"
)

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
		"one after the other":        {[]string{first + aLeads, again + later}, nil},
		"each in its own cluster":    {[]string{first + aLeads, other + bLeads}, nil},
		"one cluster, then another":  {[]string{first + aLeads + other + bLeads}, nil},
		"two in one term":            {[]string{first + aLeads, again + bLeads}, []string{"raft term 2 of cluster c1 has the leaders a1 and b1"}},
		"two in one term of one log": {[]string{first + aLeads + bLeads}, []string{"raft term 2 of cluster c1 has the leaders a1 and b1"}},
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
