package isolate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/testing/testchild"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

var (
	errBad   = errors.New("it is bad")
	errFault = errors.New("it does harm")
	errOther = errors.New("it is something else")
)

type question struct{ Do, Arg string }

var try = Define("try", Options{Fault: errFault, Errors: []error{errBad, errOther}, Memory: PerByte(8)},
	func(_ context.Context, q question, progress func(done, total int64)) (map[string]string, error) {
		switch q.Do {
		case "answer":
			progress(1, 1)
			return map[string]string{"arg": q.Arg, "secret": os.Getenv("ETCDADM_ISOLATE_SECRET")}, nil
		case "bad":
			return nil, fmt.Errorf("read %s: %w", q.Arg, errBad)
		case "panic":
			panic("as a broken reader would")
		case "fault":
			_ = syscall.Kill(os.Getpid(), syscall.SIGABRT)
			select {}
		case "eat":
			var all [][]byte
			for range 1 << 10 {
				b := make([]byte, 16<<20)
				for i := 0; i < len(b); i += 4096 {
					b[i] = 1
				}
				all = append(all, b)
			}
			return nil, fmt.Errorf("it got %d pieces", len(all))
		case "threads":
			// The limit of threads counts for everybody but root.
			limit := unix.Rlimit{Cur: 1, Max: 1}
			if err := errors.Join(unix.Setrlimit(unix.RLIMIT_NPROC, &limit), syscall.Setuid(65534)); err != nil {
				return nil, err
			}
			for range 100 {
				go func() { runtime.LockOSThread(); select {} }()
			}
			time.Sleep(time.Hour)
		case "chatter":
			os.Stdout.WriteString(strings.Repeat("x", 2*maxMessage))
		case "killed":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		case "hang":
			_ = os.WriteFile(q.Arg+".new", []byte(strconv.Itoa(os.Getpid())), 0o600)
			_ = os.Rename(q.Arg+".new", q.Arg)
			time.Sleep(time.Hour)
		}
		return nil, nil
	})

const hangVariable = "ETCDADM_ISOLATE_HANG"

func TestMain(m *testing.M) {
	if code, ok := Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout); ok {
		os.Exit(code)
	}
	if path := os.Getenv(hangVariable); path != "" {
		_, _ = try.Call(context.Background(), Input[question]{Value: question{"hang", path}})
		os.Exit(3)
	}
	os.Exit(m.Run())
}

func TestAnAnswerComesBack(t *testing.T) {
	t.Setenv("ETCDADM_ISOLATE_SECRET", "hidden")
	reported := 0
	got, err := try.Call(t.Context(), Input[question]{
		Value: question{"answer", "x"}, Progress: func(_, _ int64) { reported++ },
	})
	if err != nil || got["arg"] != "x" || got["secret"] != "" || reported != 1 {
		t.Errorf("it says %v, %v, and reported %d times", got, err, reported)
	}
	_, err = try.Call(t.Context(), Input[question]{Value: question{"bad", "y"}})
	if !errors.Is(err, errBad) || errors.Is(err, errOther) || errors.Is(err, errFault) ||
		err.Error() != "read y: it is bad" {
		t.Errorf("the error is %v", err)
	}
}

// A machine that has no thread left says nothing of the data.
func TestNoThreadIsNoFaultOfTheData(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody who may have no thread")
	}
	_, err := try.Call(t.Context(), Input[question]{Value: question{Do: "threads"}, Size: 1 << 20})
	var ended *EndedError
	if !errors.As(err, &ended) || errors.Is(err, errFault) {
		t.Errorf("it ended with %v", err)
	}
}

// What the data makes the process do is reported, and ends nothing else.
func TestOnlyTheProcessEnds(t *testing.T) {
	for do, want := range map[string]string{
		"panic":   "panic: as a broken reader would",
		"fault":   "SIGABRT",
		"eat":     "out of memory",
		"chatter": "token too long",
		"killed":  "signal: killed",
	} {
		t.Run(do, func(t *testing.T) {
			_, err := try.Call(t.Context(), Input[question]{Value: question{Do: do}, Size: 1 << 20})
			var ended *EndedError
			if do == "eat" && errors.As(err, &ended) && strings.Contains(err.Error(), "ThreadSanitizer failed to allocate") {
				return // with -race, that is who has no memory first
			}
			if !errors.As(err, &ended) || !strings.Contains(err.Error(), want) &&
				!strings.Contains(err.Error(), "cannot allocate memory") {
				t.Fatalf("it ended with %v, want %q", err, want)
			}
			byItself := do != "chatter" && do != "killed"
			if errors.Is(err, errFault) != byItself {
				t.Errorf("%v is the fault of the data: %t", err, !byItself)
			}
		})
	}
}

// alive reports whether the process runs whose id is in a file.
func alive(path string) bool {
	b, err := os.ReadFile(path)
	pid, _ := strconv.Atoi(string(b))
	if err != nil || pid == 0 {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", string(b), "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestTheProcessEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := try.Call(ctx, Input[question]{Value: question{"hang", path}})
		ended <- err
	}()
	testwait.Until(t, "the process runs", func() bool { return alive(path) })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ends with %v", err)
	}
	if alive(path) {
		t.Error("the process lives on")
	}
}

func TestTheProcessEndsWithItsParent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pid")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), hangVariable+"="+path)
	if err := testchild.Start(cmd); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the process runs", func() bool { return alive(path) })
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	testwait.Until(t, "the process has ended", func() bool { return !alive(path) })
}

func TestAProgramWithoutTheCommandSaysSo(t *testing.T) {
	served.Store(false)
	defer served.Store(true)
	if _, err := try.Call(t.Context(), Input[question]{}); !errors.Is(err, errNoCommand) {
		t.Errorf("it says %v", err)
	}
}
