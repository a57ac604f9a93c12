package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdproc"
	"github.com/etcdadm/etcdadm/pkg/node/nodeobserve"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

const home = "http://10.0.0.1:2380"

// reports is an etcd that says that a member is where it is itself.
func reports(id cluster.MemberID) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `[{"id":%d,"name":"b","peerURLs":["http://%s"]}]`, uint64(id), r.Host)
	}))
}

// A node that was started while it saw nobody learns from etcd that its member has moved:
// it stops its own.
func TestAMemberThatHasMovedIsStopped(t *testing.T) {
	there, gone := reports(7), reports(7)
	t.Cleanup(there.Close)
	gone.Close()
	for name, tc := range map[string]struct {
		record, serving string
		want            bool
	}{
		"another machine answers":          {there.URL, home, true},
		"nobody answers there":             {gone.URL, home, false},
		"it is served there by this node":  {there.URL, there.URL, false},
		"the record says this node's home": {home, there.URL, false},
	} {
		t.Run(name, func(t *testing.T) {
			state, err := nodestate.Open(t.TempDir(), nodestate.Self{Name: "b"})
			if err != nil {
				t.Fatal(err)
			}
			l := NewLocal(LocalOptions{Name: "b", URLs: cluster.URLs{Peer: []string{home}}, Proc: runs(t), Now: time.Now,
				State: state})
			l.observer.Started([]string{tc.serving}, nil)
			l.remember(&cluster.Report{ID: 7, Members: []cluster.Member{{ID: 6}, {ID: 7, PeerURLs: []string{tc.record}}}})
			err = l.replaced(t.Context())
			process := l.o.Proc.Status().State
			if (err != nil) != tc.want || (process != cluster.ProcessRunning) != tc.want {
				t.Fatalf("%v, its process is %v", err, process)
			}
			if twin := new(nodeobserve.TwinError); tc.want && !errors.As(l.Watch(t.Context()), &twin) {
				t.Error("the watch goes on")
			}
		})
	}
}

// The watch sleeps while etcd and the node agree on where the member is, and wakes up for a
// report that says something else.
func TestTheWatchWakesUpForARecordThatMoves(t *testing.T) {
	there := reports(7)
	t.Cleanup(there.Close)
	state, err := nodestate.Open(t.TempDir(), nodestate.Self{Name: "b"})
	if err != nil {
		t.Fatal(err)
	}
	l := NewLocal(LocalOptions{Name: "b", URLs: cluster.URLs{Peer: []string{home}}, Proc: runs(t), Now: time.Now,
		State: state})
	l.observer.Started([]string{home}, nil)
	at := func(url string) {
		l.remember(&cluster.Report{ID: 7, Members: []cluster.Member{{ID: 7, PeerURLs: []string{url}}}})
	}
	at(home)
	l.wakeWatch()
	watched := make(chan error, 1)
	go func() { watched <- l.Watch(t.Context()) }()
	testwait.Until(t, "a watch that sleeps", func() bool { return len(l.work) == 0 })
	at(there.URL)
	twin := new(nodeobserve.TwinError)
	if !errors.As(<-watched, &twin) || l.o.Proc.Status().State == cluster.ProcessRunning {
		t.Error("the member goes on")
	}
}

// runs returns a supervisor with a process.
func runs(t *testing.T) *etcdproc.Supervisor {
	t.Helper()
	p, err := etcdproc.New(t.Context(), etcdproc.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(context.WithoutCancel(t.Context())) })
	c := etcdproc.Config{Path: "/bin/sleep", Args: []string{"600"}, WorkDir: t.TempDir()}
	if err := p.Start(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return p
}
