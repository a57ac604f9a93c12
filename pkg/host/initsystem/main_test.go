package initsystem_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/run"
	"github.com/etcdadm/etcdadm/pkg/host/initsystem"
)

// The test binary is also systemctl, journalctl and an etcd (through links of
// these names) and "etcdadm run".
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "systemctl":
		os.Exit(systemctl(os.Args[1:]))
	case "journalctl":
		os.Exit(journalctl(os.Args[1:]))
	case "etcd":
		os.Exit(etcd(strings.Fields(os.Getenv("ETCD_TEST"))))
	}
	if len(os.Args) > 1 && os.Args[1] == "run" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		root := cli.Group("etcdadm", "")
		root.AddCommand(run.New())
		code := cli.Run(ctx, root, os.Args[1:])
		stop()
		os.Exit(code)
	}
	// Otherwise the race detector makes each of these processes last a second.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	// A child that another test forks now would have the file open for writing until it
	// is a program of its own, and nobody could run it.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func status(t *testing.T, s initsystem.System) initsystem.Status {
	t.Helper()
	st, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// mustDo fails the test on an error of Start and its like.
func mustDo(t *testing.T, what func(context.Context) error) {
	t.Helper()
	if err := what(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func newSystem(t *testing.T, o initsystem.Options) initsystem.System {
	t.Helper()
	s, err := initsystem.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOptionsThatLackSomething(t *testing.T) {
	for _, o := range []initsystem.Options{
		{Kind: "openrc"},
		{Kind: "systemd", UnitPath: "etcd.service"},
		{Kind: "kubelet"},
		{Kind: "process", Dir: "x", Etcd: "/x", EnvFile: "/x"},
		{Kind: "process", Dir: "/x", EnvFile: "/x"},
	} {
		if s, err := initsystem.New(o); err == nil || s != nil {
			t.Errorf("%+v: %v, %v", o, s, err)
		}
	}
	if _, err := initsystem.New(initsystem.Options{Kind: "openrc"}); err == nil ||
		fmt.Sprint(err) != `there is no init system "openrc": it is systemd, kubelet or process` {
		t.Error(err)
	}
}
