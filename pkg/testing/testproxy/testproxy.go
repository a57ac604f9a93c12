// Package testproxy runs a test in a process of its own whose environment names a proxy.
// Go reads that once, so a running test cannot change it.
package testproxy

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

const variable = "ETCDADM_TEST_PROXY"

// Hosts calls f in the process of its own, which ends there, and returns the hosts that the
// proxy was asked for, sorted. The proxy refuses everything. It is the only thing that a test does.
func Hosts(t *testing.T, f func()) []string {
	t.Helper()
	if os.Getenv(variable) != "" {
		f()
		t.SkipNow()
	}
	var lock sync.Mutex
	var hosts []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		hosts = append(hosts, r.URL.Hostname())
		lock.Unlock()
		w.WriteHeader(http.StatusForbidden)
	}))
	defer s.Close()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
	child.Env = append(os.Environ(), variable+"=1")
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		child.Env = append(child.Env, name+"="+s.URL, strings.ToLower(name)+"="+s.URL)
	}
	child.Env = append(child.Env, "NO_PROXY=", "no_proxy=")
	if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- SKIP: "+t.Name()) {
		t.Fatalf("%v: %s", err, out)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}
