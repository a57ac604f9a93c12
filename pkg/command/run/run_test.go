package run

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func gone(pid int) bool {
	b, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "stat"))
	return err != nil || strings.Contains(string(b), ") Z ")
}

func TestSignalsEndItAndEtcd(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		p := newPlace(t, "ready stay")
		f := run(t, nil, p.args()...)
		f.awaits(t, "is ready")
		pid := f.etcdPID(t)
		f.signal(t, sig)
		if code := f.wait(t); code != 0 || !gone(pid) || !strings.Contains(f.out.String(), "terminated\n") {
			t.Errorf("%s: code %d, etcd gone %v", sig, code, gone(pid))
		}
		if strings.Contains(f.out.String(), "etcdadm:") || !strings.Contains(f.err.String(), "etcdadm: stops etcd\n") {
			t.Errorf("its own messages are not on stderr alone")
		}
	}
}

func TestEtcdThatDoesNotEndIsKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "stubborn ready stay")
	f := run(t, nil, p.args("--stop-timeout=200ms")...)
	f.awaits(t, "is ready")
	pid := f.etcdPID(t)
	f.signal(t, syscall.SIGTERM)
	if code := f.wait(t); code != 0 || !gone(pid) {
		t.Errorf("code %d, etcd gone %v", code, gone(pid))
	}
}

func TestEtcdGetsTheFileAndNothingElse(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "environ stay")
	f := run(t, []string{"ETCD_NAME=from-outside"}, p.args()...)
	f.awaits(t, "stays")
	var env []string
	for line := range strings.Lines(f.out.String()) {
		if v, ok := strings.CutPrefix(line, "env "); ok {
			env = append(env, strings.TrimSpace(v))
		}
	}
	if len(env) != 3 || env[0] != "ETCD_TEST=environ stay" || env[1] != "GORACE=atexit_sleep_ms=0" ||
		!strings.HasPrefix(env[2], "NOTIFY_SOCKET=@etcdadm/") {
		t.Errorf("%q", env)
	}
}

func TestEtcdThatDiesIsStartedAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "ready stay")
	f := run(t, nil, p.args()...)
	f.awaits(t, "is ready")
	pid := f.etcdPID(t)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "another one to be ready", func() bool { return strings.Count(f.err.String(), "is ready\n") == 2 })
	testwait.Until(t, "another one to stay", func() bool { return f.etcdPID(t) != pid })
}

func TestCrashesAreReported(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "print:why exit:9")
	f := run(t, nil, p.args()...)
	f.awaits(t, "etcd ended (exit status 9")
	f.awaits(t, "restarted 2 times")
	f.signal(t, syscall.SIGTERM)
	if code := f.wait(t); code != 0 {
		t.Errorf("code %d", code)
	}
}

func TestSecondOneInADirectoryRefuses(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "ready stay")
	first := run(t, nil, p.args()...)
	first.awaits(t, "is ready")
	second := run(t, nil, p.args()...)
	if code := second.wait(t); code != 1 ||
		!strings.Contains(second.err.String(), "another process supervises etcd here\nhint: for another etcd give another --dir") {
		t.Errorf("code %d", code)
	}
	if gone(first.etcdPID(t)) {
		t.Error("the first one's etcd is gone")
	}
}

func TestKilledOneTakesItsEtcdAlong(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "ready stay")
	first := run(t, nil, p.args()...)
	first.awaits(t, "is ready")
	pid := first.etcdPID(t)
	first.signal(t, syscall.SIGKILL)
	first.wait(t)
	second := run(t, nil, p.args()...)
	second.awaits(t, "is ready")
	if !gone(pid) {
		t.Errorf("two of them: %d and %d", pid, second.etcdPID(t))
	}
}

func TestItSaysThatItIsReady(t *testing.T) {
	t.Parallel()
	name, messages := listen(t)
	p := newPlace(t, "ready stay")
	f := run(t, []string{"NOTIFY_SOCKET=" + name}, p.args()...)
	select {
	case m := <-messages:
		if m != "READY=1" {
			t.Errorf("%q", m)
		}
	case <-time.After(testwait.Limit):
		t.Fatal("nothing")
	}
	f.awaits(t, "is ready")
}

func TestItGoesOnWhereNobodyHearsThatItIsReady(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "ready stay")
	f := run(t, []string{"NOTIFY_SOCKET=" + p.dir + "/nobody"}, p.args()...)
	f.awaits(t, "etcdadm: say that etcd is ready: dial unixgram")
	f.awaits(t, "is ready")
}

func TestOutputGoesToAFileOfBoundedSize(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "count:1000 ready stay")
	file := filepath.Join(t.TempDir(), "etcd.log")
	f := run(t, nil, p.args("--log-file="+file, "--log-size=2048")...)
	read := func(name string) string {
		b, _ := os.ReadFile(name)
		return string(b)
	}
	testwait.Until(t, "the end of it", func() bool { return strings.Contains(read(file)+read(file+".1"), "stays") })
	if n := len(read(file)) + len(read(file+".1")); n > 2*2048+200 ||
		!strings.Contains(read(file)+read(file+".1"), "line 999\n") {
		t.Errorf("%d bytes:\n%s", n, read(file))
	}
	f.signal(t, syscall.SIGTERM)
	if code := f.wait(t); code != 0 || f.out.String()+f.err.String() != "" {
		t.Errorf("code %d, and it printed something", code)
	}
}

func TestPathsMayBeRelative(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "ready stay")
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []*string{&p.dir, &p.etcd, &p.env} {
		if *path, err = filepath.Rel(wd, *path); err != nil {
			t.Fatal(err)
		}
	}
	f := run(t, nil, p.args()...)
	f.awaits(t, "is ready")
}

func TestWhatItCannotRun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args func(p place) []string
		code int
		want []string
	}{
		{"no environment file", func(p place) []string { p.env += "x"; return p.args() }, 1, []string{
			"environment of etcd: open", "hint: etcdadm init or etcdadm join",
		}},
		{"a directory for it", func(p place) []string { p.env = filepath.Dir(p.env); return p.args() }, 1, []string{
			"is a directory",
		}},
		{"no etcd", func(p place) []string { p.etcd += "x"; return p.args() }, 1, []string{
			"start etcd: fork/exec", "hint: fetch etcd with etcdadm download",
		}},
		{"a file for a directory", func(p place) []string { p.dir = p.env; return p.args() }, 1, []string{"file exists"}},
		{"no place for the log", func(p place) []string { return p.args("--log-file=" + p.dir + "/x/y") }, 1, []string{
			"log file: open", "hint: name a file",
		}},
		{"an argument", func(p place) []string { return p.args("now") }, 2, []string{"etcdadm run --help"}},
		{"no directory", func(p place) []string { p.dir = ""; return p.args() }, 2, []string{"must not be empty"}},
		{"a small log", func(p place) []string { return p.args("--log-size=1") }, 2, []string{"less than 1024"}},
		{"no time", func(p place) []string { return p.args("--stop-timeout=0") }, 2, []string{"must be positive"}},
	}
	for _, tt := range tests {
		f := run(t, nil, tt.args(newPlace(t, "stay"))...)
		if code := f.wait(t); code != tt.code {
			t.Errorf("%s: code %d, want %d: %s", tt.name, code, tt.code, f.err.String())
		}
		for _, want := range tt.want {
			if !strings.Contains(f.err.String(), want) {
				t.Errorf("%s: %s, want ... %s", tt.name, f.err.String(), want)
			}
		}
	}
}
