package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const quietLine = `{"level":"warn","ts":"x","caller":"a.go:1","msg":"slow"}`

// All lines are in the file; errors, and what has no level, are in the output, too.
func TestEtcdsOrdinaryLinesAreInItsFileOnly(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	l, err := newEtcdLog(&out, dir)
	must(t, err)
	quiet := []string{
		`{"level":"info","ts":"x","caller":"a.go:1","msg":"ready"}`, quietLine, `{"level":"debug","msg":"x"}`,
		"2026-11-20 10:11:12.131415 I | etcdmain: etcd Version: 3.3.27", "2026-11-20 10:11:12.131415 W | rafthttp: x",
		"2026-11-27T15:07:32.301577Z\twarn\tembed/config.go:1207\tRunning on a single port.\t{\"a\": 1}",
	}
	loud := []string{
		`{"level":"error","ts":"x","msg":"a"}`, `{"level":"fatal","ts":"x","msg":"b"}`, `{"level":"panic","msg":"c"}`,
		"2026-11-27T15:07:32.301577Z\terror\tembed/etcd.go:1\tno\t{\"a\": 1}",
		"2026-11-20 10:11:12.131415 C | etcdmain: no", "panic: runtime error", "goroutine 1 [running]:", "",
	}
	for _, line := range append(quiet, loud...) {
		l.line(line)
	}
	l.close()
	b, err := os.ReadFile(filepath.Join(dir, etcdLogName))
	if want := strings.Join(append(quiet, loud...), "\n") + "\n"; string(b) != want {
		t.Errorf("the file has %v\n%s", err, b)
	}
	if want := "etcd: " + strings.Join(loud, "\netcd: ") + "\n"; out.String() != want {
		t.Errorf("the output has\n%s", out.String())
	}
	all, err := newEtcdLog(&out, "")
	must(t, err)
	out.Reset()
	all.line(quietLine)
	if all.close(); out.String() != "etcd: "+quietLine+"\n" {
		t.Errorf("without a file the output has %q", out.String())
	}
}

func TestErrorsOfEtcdDoNotFillTheOutput(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		l, err := newEtcdLog(&out, dir)
		must(t, err)
		defer l.close()
		for range 3 * errorBurst {
			l.line(`{"level":"error","msg":"a"}`)
		}
		if n := strings.Count(out.String(), "\n"); n != errorBurst {
			t.Errorf("there are %d lines", n)
		}
		time.Sleep(errorInterval)
		out.Reset()
		l.line(`{"level":"error","msg":"b"}`)
		want := "etcd: (40 more errors are in " + filepath.Join(dir, etcdLogName) + ")\netcd: {\"level\":\"error\",\"msg\":\"b\"}\n"
		if out.String() != want {
			t.Errorf("then %q", out.String())
		}
	})
}

// A disk that hangs holds up neither etcd nor the daemon's end.
func TestEtcdDoesNotWaitForTheDiskOfItsLog(t *testing.T) {
	var out strings.Builder
	synctest.Test(t, func(t *testing.T) {
		l := &etcdLog{out: &out, path: "x", lines: make(chan string, etcdLogQueue), end: make(chan struct{}),
			done: make(chan struct{})}
		for range etcdLogQueue + 7 {
			l.line(quietLine)
		}
		if n := l.lost.Load(); n != 7 {
			t.Errorf("%d lines are lost", n)
		}
		l.close()
		l.line(quietLine) // of an etcd that the disk kept from ending
	})
}

func TestAFileThatEtcdsLogCannotHaveIsNoReasonToEnd(t *testing.T) {
	var out strings.Builder
	l, err := newEtcdLog(&out, filepath.Join(t.TempDir(), "missing"))
	if err == nil {
		t.Error("it is there")
	}
	l.line(quietLine)
	if l.close(); !strings.Contains(out.String(), quietLine) {
		t.Errorf("the output has %q", out.String())
	}
}
