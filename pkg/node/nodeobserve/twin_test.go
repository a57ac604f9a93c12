package nodeobserve

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdproc"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// reports is an etcd that says where a member is: at its own address, if at is empty.
func reports(id cluster.MemberID, at string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `[{"id":%d,"name":"b","peerURLs":[%q]}]`, uint64(id), cmp.Or(at, "http://"+r.Host))
	}))
}

// A disk was moved, or copied: at the address that the member had, its etcd runs, another
// one does, or no node answers.
func TestTheMemberRunsElsewhere(t *testing.T) {
	same, other, gone, moved := reports(7, ""), reports(8, ""), reports(7, ""), reports(7, "http://10.0.0.2:2380")
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
		{"no node answers", gone.URL, []string{"http://10.0.0.2:2380"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := New(Options{Name: "b", URLs: cluster.URLs{Peer: tc.own}})
			err := o.Twin(t.Context(), nodestate.State{
				MemberID: 7, Voters: []cluster.InitialMember{{Name: "a"}, {Name: "b", PeerURLs: []string{tc.had}}},
			})
			if (err != nil) != tc.want {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

const home = "http://10.0.0.1:2380"

// A peerOf is another member, which says where member 7 is, and counts what it has had
// from it.
type peerOf struct {
	at string
	// grows is how many readings differ from the one before, the first ones.
	grows int
}

// counter writes what a member counts, which grows for that many readings of what it has had
// from member 7.
func counter(grows int) func(w io.Writer) {
	read := new(atomic.Int64)
	return func(w io.Writer) {
		fmt.Fprintf(w, "etcd_network_peer_received_bytes_total{From=\"9\"} %d\n", read.Load()*5)
		fmt.Fprintf(w, "etcd_network_peer_received_bytes_total{From=\"7\"} %d\n", min(read.Load(), int64(grows)))
		read.Add(1)
	}
}

func (p peerOf) serve(t *testing.T, id int) cluster.InitialMember {
	t.Helper()
	count := counter(p.grows)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			count(w)
			return
		}
		fmt.Fprintf(w, `[{"id":7,"name":"b","peerURLs":[%q]},{"id":%d,"name":"m%d","clientURLs":["http://%s"]}]`,
			p.at, id, id, r.Host)
	}))
	t.Cleanup(s.Close)
	return cluster.InitialMember{Name: cluster.NodeName(fmt.Sprint("m", id)), PeerURLs: []string{s.URL}}
}

// The original of a copy starts while the copy runs, or has run: its own address has
// nobody else, and the other members know.
func TestOthersReportOfTheCopy(t *testing.T) {
	there, gone := reports(7, ""), reports(7, "")
	t.Cleanup(there.Close)
	gone.Close()
	still := peerOf{at: home}
	for name, tc := range map[string]struct {
		peers   []peerOf
		running bool
		want    string
	}{
		"they know nothing of it": {peers: []peerOf{still, still}},
		"they hear from it": {
			peers: []peerOf{still, {home, 9}}, want: "runs on another machine, m2 hears from it",
		},
		"its last words were still being counted": {peers: []peerOf{still, {home, 1}}},
		"it has moved, and answers":               {peers: []peerOf{{there.URL, 0}, still}, want: "runs at " + there.URL},
		"it has moved, and is off":                {peers: []peerOf{{gone.URL, 0}, {gone.URL, 0}}, want: "an older copy"},
		"an old list says that it has moved":      {peers: []peerOf{{gone.URL, 0}, still}},
		"it is this node's own that they hear":    {peers: []peerOf{{home, 9}, {home, 9}}, running: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := nodestate.State{MemberID: 7, Voters: []cluster.InitialMember{{Name: "b", PeerURLs: []string{home}}}}
			for i, p := range tc.peers {
				s.Voters = append(s.Voters, p.serve(t, i+1))
			}
			o := New(Options{Name: "b", URLs: cluster.URLs{Peer: []string{home}}})
			if tc.running {
				o.opts.Status = func() etcdproc.Status { return etcdproc.Status{State: cluster.ProcessRunning} }
			}
			err := o.Twin(t.Context(), s)
			if twin := new(TwinError); (err != nil) != (tc.want != "") ||
				err != nil && (!errors.As(err, &twin) || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("the error is %v, want %q", err, tc.want)
			}
		})
	}
}

// All members advertise one URL, which leads to any of them: what is read there is one's
// counter and then another's, and says nothing. Each is asked at its own address.
func TestMembersAreAskedForTheCopyThemselves(t *testing.T) {
	for name, tc := range map[string]struct {
		// own and shared are how many readings differ, at the member and at the URL of all.
		own, shared int
		want        string
	}{
		"what leads to any of them counts": {0, 9, ""},
		"the member counts":                {9, 0, "runs on another machine, m1 hears from it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own, shared := onePort(t)
			all := "http://" + shared.Listener.Addr().String()
			for s, grows := range map[*httptest.Server]int{own: tc.own, shared: tc.shared} {
				count := counter(grows)
				s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/metrics" {
						count(w)
						return
					}
					fmt.Fprintf(w, `[{"id":7,"name":"b","peerURLs":[%q],"clientURLs":[%q]},`+
						`{"id":1,"name":"m1","peerURLs":["http://%s"],"clientURLs":[%q]}]`, home, all, own.Listener.Addr(), all)
				})
				s.Start()
			}
			o := New(Options{Name: "b", URLs: cluster.URLs{Peer: []string{home}}})
			err := o.Twin(t.Context(), nodestate.State{MemberID: 7, Voters: []cluster.InitialMember{
				{Name: "b", PeerURLs: []string{home}}, {Name: "m1", PeerURLs: []string{own.URL}},
			}})
			if got := fmt.Sprint(err); (err != nil) != (tc.want != "") || !strings.Contains(got, tc.want) {
				t.Errorf("the error is %v, want %q", err, tc.want)
			}
		})
	}
}

// onePort returns two servers, not started, at two addresses and one port.
func onePort(t *testing.T) (a, b *httptest.Server) {
	t.Helper()
	for range 100 {
		a = httptest.NewUnstartedServer(nil)
		_, port, _ := net.SplitHostPort(a.Listener.Addr().String())
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.2:"+port)
		if err != nil { // somebody else has it there
			_ = a.Listener.Close()
			continue
		}
		b = httptest.NewUnstartedServer(nil)
		_ = b.Listener.Close()
		b.Listener = l
		t.Cleanup(a.Close)
		t.Cleanup(b.Close)
		return a, b
	}
	t.Fatal("no port is free at two addresses")
	return nil, nil
}
