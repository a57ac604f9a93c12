package etcdproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test binary, started again with this variable, is a child that does what
// the variable's words say, see childMain.
const script = "ETCDPROC_TEST_CHILD"

func TestMain(m *testing.M) {
	if words := os.Getenv(script); words != "" {
		childMain(strings.Fields(words))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// childMain carries out words in order.
func childMain(words []string) {
	for _, word := range words {
		verb, arg, _ := strings.Cut(word, ":")
		switch verb {
		case "print":
			fmt.Println(arg)
		case "mutter": // no end of line
			fmt.Print(arg)
		case "complain":
			fmt.Fprintln(os.Stderr, arg)
		case "long":
			n, _ := strconv.Atoi(arg)
			fmt.Println(strings.Repeat("x", n))
		case "count":
			n, _ := strconv.Atoi(arg)
			for i := range n {
				fmt.Printf("line %d\n", i)
			}
		case "environ":
			wd, _ := os.Getwd()
			fmt.Println("environ", len(os.Environ()), "wd", wd, "group", syscall.Getpgrp() == os.Getpid(), "args",
				strings.Join(os.Args[1:], " "))
		case "slack":
			ns, err := slack()
			fmt.Println("slack", ns, err)
		case "stubborn":
			signal.Ignore(syscall.SIGTERM)
		case "alone": // complain if another child with the same file lives
			f, err := os.OpenFile(arg, os.O_CREATE|os.O_RDWR, 0o600)
			if err == nil {
				err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
			}
			if err != nil {
				fmt.Println("DOUBLED", err)
			}
			defer f.Close()
		case "fail-times": // exit 1 as long as the file has fewer bytes
			file, n, _ := strings.Cut(arg, "=")
			f, _ := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			_, _ = f.WriteString(".")
			fi, _ := f.Stat()
			if limit, _ := strconv.Atoi(n); fi.Size() <= int64(limit) {
				fmt.Println("failure", fi.Size())
				os.Exit(1)
			}
		case "exit":
			code, _ := strconv.Atoi(arg)
			os.Exit(code)
		case "for":
			d, _ := time.ParseDuration(arg)
			time.Sleep(d)
		case "stay":
			fmt.Println("ready")
			select {}
		case "serve": // on SIGTERM, as etcd, do not end before the clients have
			if err := serve(arg); err != nil {
				fmt.Println("complaint:", err)
			}
		case "hold": // on SIGTERM, as etcd, do not end before the clients and then the peers have
			if err := hold(arg); err != nil {
				fmt.Println("complaint:", err)
			}
		case "supervise": // be a daemon whose etcd is another child
			s, err := New(context.Background(), Options{Dir: arg})
			if err == nil {
				err = s.Start(context.Background(), Config{Path: os.Args[0], Env: []string{script + "=stubborn stay"}})
			}
			fmt.Println("child", s.Status().PID, err)
			select {}
		}
	}
}

// does returns the configuration of a child that does what the words say.
func does(words string) Config {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Config{Path: exe, Env: []string{script + "=" + words}}
}

// output collects lines.
type output struct {
	mu    sync.Mutex
	lines []string
}

func (o *output) add(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, line)
}

func (o *output) has(line string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Contains(o.lines, line)
}

func (o *output) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.lines)
}

// supervise returns a supervisor in a new directory that is closed when the
// test ends, and what its process prints.
func supervise(t *testing.T, o Options) (*Supervisor, *output) {
	t.Helper()
	out := &output{}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.Log == nil {
		o.Log = out.add
	}
	s, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		if st := s.Status(); st.PID != 0 || st.State != "stopped" {
			t.Errorf("after Close: %+v", st)
		}
		if _, err := os.Stat(filepath.Join(o.Dir, recordName)); err == nil {
			t.Error("Close left the pid file")
		}
	})
	return s, out
}

func start(t *testing.T, s *Supervisor, cfg Config) {
	t.Helper()
	if err := s.Start(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// alive reports whether a process does anything.
func alive(pid int) bool {
	_, ok, err := observeAt(pid)
	if err != nil && !errors.Is(err, errGone) {
		panic(err)
	}
	return ok
}
