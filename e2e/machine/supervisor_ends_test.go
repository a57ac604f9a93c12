package machine

import (
	"syscall"
	"testing"
)

// A command that finds a supervisor which is about to end, and its etcd with it, does not
// wait for them until its time is over: it starts etcd again.
func TestASupervisorThatIsAboutToEnd(t *testing.T) {
	t.Parallel()
	h := newHost(t, "a", v36)
	h.ok("init")
	h.put("k", "v")
	supervisor, etcd := h.onStatusFile()
	for _, pid := range []int{supervisor, etcd} {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	r := h.begin("init")
	r.says("wait")
	h.kill()
	r.succeeds()
	wantKeys(map[string]string{"k": "v"}, h)
	h.wantVoters("a")
}
