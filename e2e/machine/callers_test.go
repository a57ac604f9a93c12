//go:build e2e

package machine

import (
	"io"
	"net/http"
	"os"
	"runtime"
	"testing"
	"time"
)

// Two machines join at once with an archive that comes slowly, an endpoint that is
// dead, and a caller that runs the command once.
func TestJoinsWithASlowMirror(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	a := hosts[0]
	a.ok("init")
	path := archive(t, v36)
	name := "/v" + v36 + "/etcd-v" + v36 + "-linux-" + runtime.GOARCH + ".tar.gz"
	url, _ := a.serve(map[string]http.HandlerFunc{
		name: throttled(path), "/v" + v36 + "/SHA256SUMS": textAnswer(
			digest(t, path) + "  " + name[len("/v"+v36+"/"):] + "\n"),
	})
	var joins []*running
	for _, h := range hosts[1:] {
		h.copyCA(a)
		h.vars["ETCDADM_BINARIES_DIR"] = ""
		joins = append(joins, h.beginsInTurn("join", "https://127.0.0.1:1,"+a.clientURL(), "--release-url", url,
			"--binaries-sha256", digest(t, path)))
	}
	for _, j := range joins {
		j.succeeds()
	}
	a.wantVoters("a", "b", "c")
}

// throttled sends a file in pieces, some 40 of them, with a pause after each.
func throttled(path string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(path)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			if n, err := io.CopyN(w, f, info.Size()/40+1); n == 0 || err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-tick.C:
			}
		}
	}
}

// A controller removes old members by etcd's API while new machines join, as in a
// rollout that creates and deletes at the same time.
func TestAControllerRemovesMembersWhileOthersJoin(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 5)
	a := hosts[0]
	found(hosts[:3]...)
	a.put("before", "anything")
	var joins []*running
	for _, h := range hosts[3:] {
		h.copyCA(a)
		joins = append(joins, h.beginsInTurn("join", a.clientURL()+","+hosts[1].clientURL()))
	}
	client := a.client(a)
	for _, old := range hosts[1:3] {
		remove(t, client, old)
		old.kill()
	}
	for _, j := range joins {
		j.succeeds()
	}
	a.wantVoters("a", "d", "e")
	for _, h := range []*host{a, hosts[3], hosts[4]} {
		wantKeys(map[string]string{"before": "anything"}, h)
	}
}
