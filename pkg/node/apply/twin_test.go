package apply

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// A disk was moved, or copied: at the address that the member had, its etcd runs, another
// one does, or nobody answers.
func TestTheMemberRunsElsewhere(t *testing.T) {
	// tells is an etcd that says where a member is: at its own address, if at is empty.
	tells := func(id cluster.MemberID, at string) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `[{"id":%d,"name":"b","peerURLs":[%q]}]`, uint64(id), cmp.Or(at, "http://"+r.Host))
		}))
	}
	same, other, gone, moved := tells(7, ""), tells(8, ""), tells(7, ""), tells(7, "http://10.0.0.2:2380")
	defer same.Close()
	defer other.Close()
	defer moved.Close()
	gone.Close()
	for _, tc := range []struct {
		name string
		had  string
		own  []string
		want bool
	}{
		{"it runs there", same.URL, []string{"http://10.0.0.2:2380"}, true},
		{"it is this machine's address", same.URL, []string{same.URL}, false},
		{"another member runs there", other.URL, []string{"http://10.0.0.2:2380"}, false},
		{"another member runs there, and says where this one is", moved.URL, []string{"http://10.0.0.2:2380"}, false},
		{"nobody answers", gone.URL, []string{"http://10.0.0.2:2380"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := &Local{o: LocalOptions{Name: "b", URLs: cluster.URLs{Peer: tc.own}}}
			err := l.twin(t.Context(), nodestate.State{
				MemberID: 7, Voters: []cluster.InitialMember{{Name: "a"}, {Name: "b", PeerURLs: []string{tc.had}}},
			})
			if (err != nil) != tc.want {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
