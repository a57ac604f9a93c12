package machine

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// A running command is one that has not ended.
type running struct {
	h   *host
	cmd *exec.Cmd
	mu  sync.Mutex
	out bytes.Buffer
}

func (r *running) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Write(p)
}

func (r *running) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.String()
}

// begin starts a command and does not wait for its end.
func (h *host) begin(args ...string) *running {
	h.t.Helper()
	r := &running{h: h}
	r.cmd = h.command(h.t.Context(), h.program, args...)
	r.cmd.Stdout, r.cmd.Stderr = r, r
	if err := h.start(r.cmd); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	return r
}

// beginsInTurn starts a command that waits for others, which take their time.
func (h *host) beginsInTurn(args ...string) *running {
	h.t.Helper()
	h.vars["ETCDADM_MEMBERSHIP_TIMEOUT"] = "5m"
	return h.begin(args...)
}

// succeeds waits until the command has ended without an error.
func (r *running) succeeds() {
	r.h.t.Helper()
	if err := r.cmd.Wait(); err != nil {
		r.h.t.Errorf("%s: %v: %s", r.h.name, err, r.said())
	}
}

// says waits until the command has said the words.
func (r *running) says(words string) {
	r.h.t.Helper()
	eventually(r.h.t, commandTime, words, func() error {
		if said := r.said(); !strings.Contains(said, words) {
			return fmt.Errorf("it says %s", said)
		}
		return nil
	})
}

// interrupted ends the command as Ctrl-C does.
func (r *running) interrupted() {
	r.h.t.Helper()
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		r.h.t.Fatal(err)
	}
	_ = r.cmd.Wait()
	if code := r.cmd.ProcessState.ExitCode(); code != 130 {
		r.h.t.Fatalf("an interrupted command ends with %d: %s", code, r.said())
	}
}

// repeated has a command succeed that does not wait for others: it ends at the first question
// that a busy etcd does not answer in time, so that it may be run three times.
func (h *host) repeated(run func() result) {
	h.t.Helper()
	for try := 1; ; try++ {
		switch r := run(); {
		case r.code == 0:
			return
		case try == 3:
			h.t.Fatalf("%s: %s", h.name, r)
		}
	}
}
