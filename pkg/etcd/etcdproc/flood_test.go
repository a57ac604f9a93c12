package etcdproc

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// entry is a line as etcd writes them.
func entry(caller string, n int) string {
	return fmt.Sprintf(`{"level":"warn","ts":"2026-11-23T11:44:20.406496Z","caller":%q,"msg":"try %d"}`, caller, n)
}

func TestFlood(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	f := newFlood(func() time.Time { return now })
	var got []string
	emit := func(line string) { got = append(got, line) }
	for i := range 7000 {
		f.pass(entry("etcdserver/server.go:1844", i), emit)
	}
	if len(got) != floodBurst || got[floodBurst-1] != entry("etcdserver/server.go:1844", floodBurst-1) {
		t.Fatalf("%d lines were passed on, the last is %s", len(got), got[len(got)-1])
	}
	f.pass(entry("raft/raft.go:1", 1), emit)
	f.pass("panic: no line of etcd's log", emit)
	if len(got) != floodBurst+2 {
		t.Errorf("one kind hides the others: %q", got[floodBurst:])
	}
	got = nil
	now = now.Add(time.Second)
	for i := range 7000 {
		f.pass(entry("etcdserver/server.go:1844", i), emit)
	}
	if len(got) != floodRate+1 || got[0] != "etcdadm: 6800 more lines like the next were omitted" ||
		got[1] != entry("etcdserver/server.go:1844", 0) {
		t.Errorf("a second later: %q", got)
	}
	for i := range 10 * floodKinds {
		f.pass(entry(fmt.Sprintf("file.go:%d", i), i), emit)
	}
	if len(f.kinds) > floodKinds+1 {
		t.Errorf("%d kinds are remembered", len(f.kinds))
	}
}

func TestKindOf(t *testing.T) {
	for line, want := range map[string]string{
		entry("raft/raft.go:12", 1):       "raft/raft.go:12",
		"":                                "",
		`{"level":"info","caller":"cut`:   "",
		"panic: runtime error, goroutine": "",
	} {
		if got := kindOf(line); got != want {
			t.Errorf("%s is of the kind %q, want %q", line, got, want)
		}
	}
}

// What is left out of the log is left out of the log alone: the status has the last lines.
func TestAFloodOfOneProcess(t *testing.T) {
	s, out := supervise(t, Options{Backoff: Backoff{Step: time.Hour}})
	start(t, s, does(fmt.Sprintf("count:%d stay", 3*plainBurst)))
	testwait.Until(t, "the last line", func() bool {
		lines := s.Status().LastLines
		return len(lines) > 0 && lines[len(lines)-1] == "ready"
	})
	logged := out.all()
	if len(logged) < plainBurst || len(logged) >= 2*plainBurst {
		t.Errorf("%d lines of %d were logged: %s", len(logged), 3*plainBurst, strings.Join(logged[:3], ", "))
	}
}
