package apply

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// A fakePeer answers at a peer URL as a member does.
type fakePeer struct {
	name cluster.NodeName
	url  string

	mu      sync.Mutex
	version string
	hash    uint32
	// kept is false for a member that keeps no digests of compactions.
	kept                bool
	revision, compacted cluster.Revision
	// asked holds the revisions for which it has made a digest.
	asked []cluster.Revision
	// hangs is a channel that nobody closes before the test ends, nil for a member
	// that answers.
	hangs chan struct{}
}

// A fakeTrio is a host, a, whose etcd is a fake one, and what answers at the peer
// URLs of the three members of its cluster.
type fakeTrio struct {
	*host
	peers   map[cluster.NodeName]*fakePeer
	learner cluster.NodeName
	alone   bool
}

// newFakeTrio opens host a beside members that agree. Nothing runs yet.
func newFakeTrio(t *testing.T, change ...func(*LocalOptions)) *fakeTrio {
	t.Helper()
	f := &fakeTrio{peers: map[cluster.NodeName]*fakePeer{}}
	for _, name := range []cluster.NodeName{"a", "b", "c"} {
		p := &fakePeer{name: name, version: writes.String(), hash: 1, kept: true, revision: 9, compacted: 4}
		s := httptest.NewUnstartedServer(f.handler(p))
		p.url = "http://" + s.Listener.Addr().String()
		s.Start()
		t.Cleanup(s.Close)
		f.peers[name] = p
	}
	f.host = newHost(t, append([]func(*LocalOptions){func(o *LocalOptions) {
		o.URLs.Peer, o.recheck = []string{f.peers["a"].url}, recheck
	}}, change...)...)
	return f
}

// found has the host's member run, with the voters that it was given.
func (f *fakeTrio) found() {
	f.t.Helper()
	promise, first := prepare(), start(plan.StartNew)
	promise.Voters = []cluster.InitialMember{{Name: "a", PeerURLs: f.o.URLs.Peer}} // where it serves its peers
	first.Peers = promise.Voters
	f.must(promise, first)
	f.hasData()
}

func (f *fakeTrio) members() []map[string]any {
	var list []map[string]any
	for i, name := range []cluster.NodeName{"a", "b", "c"} {
		if !f.alone || name == "a" {
			list = append(list, map[string]any{
				"id": i + 1, "name": name, "peerURLs": []string{f.peers[name].url}, "isLearner": name == f.learner,
			})
		}
	}
	return list
}

func (f *fakeTrio) handler(p *fakePeer) http.Handler {
	send := func(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
	mux := http.NewServeMux()
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		send(w, map[string]string{"etcdserver": p.version})
	})
	mux.HandleFunc("/members", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		hangs := p.hangs
		p.mu.Unlock()
		if hangs != nil {
			select {
			case <-hangs:
			case <-r.Context().Done():
			}
			return
		}
		send(w, f.members())
	})
	mux.HandleFunc("/members/hashkv", func(w http.ResponseWriter, r *http.Request) {
		var ask struct {
			Revision cluster.Revision `json:"revision"`
		}
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked = append(p.asked, ask.Revision)
		hash, compacted := p.hash, p.compacted
		if ask.Revision == p.compacted && p.kept {
			compacted-- // what it was before
		}
		send(w, map[string]any{"header": map[string]any{"revision": p.revision}, "hash": hash, "compact_revision": compacted})
	})
	return mux
}

func (f *fakeTrio) set(change func(*fakePeer), names ...cluster.NodeName) {
	for _, n := range names {
		p := f.peers[n]
		p.mu.Lock()
		change(p)
		p.mu.Unlock()
	}
}

func (f *fakeTrio) asked(name cluster.NodeName) []cluster.Revision {
	p := f.peers[name]
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// wrong gives members a digest of their own.
func wrong(p *fakePeer) { p.hash = 2 }
