//go:build e2e

package kind

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A requestError is a request that failed, with the machine whose API server had it: the load balancer
// passes connections on as they are, so the server's certificate shows which it is.
type requestError struct {
	// server is empty where the connection broke before there was a certificate.
	server machine
	err    error
}

// Error returns the machine and the reason.
func (e *requestError) Error() string {
	if e.server == "" {
		return "no API server had it: " + e.err.Error()
	}
	return "the API server of " + string(e.server) + " had it: " + e.err.Error()
}

// Unwrap returns the reason.
func (e *requestError) Unwrap() error { return e.err }

// A failure is a write that was not acknowledged.
type failure struct {
	at  time.Time
	err error
	// ends is the machine whose API server the scenario was ending, if any.
	ends machine
}

// cutOff reports whether the write failed with an API server that the scenario was ending: its connection
// broke, when that API server had it or none yet, or it was refused by an API server that shuts down.
func (f failure) cutOff() bool {
	var r *requestError
	if f.ends == "" || !errors.As(f.err, &r) || r.server != f.ends && r.server != "" {
		return false
	}
	var answer *statusError
	if errors.As(f.err, &answer) {
		return strings.Contains(answer.text, "apiserver is shutting down")
	}
	return slices.ContainsFunc([]error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.ECONNREFUSED},
		func(broken error) bool { return errors.Is(f.err, broken) })
}

// withTheLeader reports whether the write was lost with etcd's leader: etcd has reported to an API server after
// 7 s that it may be lost, or at once that there is no leader to take it.
func (f failure) withTheLeader() bool {
	var answer *statusError
	return errors.As(f.err, &answer) && (strings.Contains(answer.text, "etcdserver: request timed out") ||
		strings.Contains(answer.text, "raft proposal dropped"))
}

// withAMember reports whether the write was lost with the member that an API server had given it to:
// etcd's client says at once that the connection broke, and does not repeat what may have taken place.
func (f failure) withAMember() bool {
	var answer *statusError
	return f.ends != "" && errors.As(f.err, &answer) && strings.Contains(answer.text, "error reading from server: ")
}

// serving makes sure that the API servers served all the time: no write failed but for the given reasons.
func serving(t *testing.T, failed []failure, but ...func(failure) bool) {
	t.Helper()
	for _, f := range failed {
		if !slices.ContainsFunc(but, func(reason func(failure) bool) bool { return reason(f) }) {
			t.Errorf("a write failed: %v", f.err)
		}
	}
}

// started returns when the API servers of machines were started, by what they say themselves.
func started(t *testing.T, machines []machine) map[machine]string {
	t.Helper()
	times := map[machine]string{}
	for _, m := range machines {
		await(t, "the API server of "+string(m)+" says when it was started", time.Minute, func(ctx context.Context) error {
			out, err := m.run(ctx, "kubectl --kubeconfig=/etc/kubernetes/admin.conf --server=https://"+m.address(t)+
				":6443 get --raw=/metrics")
			if err != nil {
				return err
			}
			for line := range strings.Lines(out) {
				if at, ok := strings.CutPrefix(line, "process_start_time_seconds "); ok {
					times[m] = strings.TrimSpace(at)
					return nil
				}
			}
			return fmt.Errorf("%s: no process_start_time_seconds", m)
		})
	}
	return times
}

// stayed makes sure that no API server has ended since the given times.
func stayed(t *testing.T, since map[machine]string) {
	t.Helper()
	for m, before := range since {
		if now := started(t, []machine{m})[m]; now != before {
			t.Errorf("the API server of %s was started at %s, and again at %s", m, before, now)
		}
	}
}
