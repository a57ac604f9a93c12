package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A space is a part of the machine that looks like a machine of its own to those
// who are in it: it has a host name, a network in which nobody else is, and
// directories /etc, /var and /opt that are elsewhere for all others.
type space struct {
	work chan func()
	// thread is the number of the thread that holds the space.
	thread int
	// address is the one on the way to other spaces, "" if there are none.
	address string
}

// newSpace returns a space in which the directories /etc, /var and /opt are
// those below root. Its network has nothing but a loopback. It lives until the
// test ends; the test is skipped where it may not make one.
func newSpace(t *testing.T, name, root string) *space {
	t.Helper()
	s := &space{work: make(chan func())}
	ready := make(chan error)
	go func() {
		// The thread is never unlocked: it ends with the goroutine, and what it
		// holds with the last process in it.
		runtime.LockOSThread()
		s.thread = unix.Gettid()
		ready <- enter(name, root)
		for f := range s.work {
			f()
		}
	}()
	err := <-ready
	t.Cleanup(func() { close(s.work) })
	if errors.Is(err, unix.EPERM) || errors.Is(err, exec.ErrNotFound) {
		t.Skipf("a network, a host name and mounts of its own are not to be had here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// enter takes the thread away from the machine. Children of the thread follow
// it.
func enter(name, root string) error {
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := errors.Join(unix.Sethostname([]byte(name)),
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")); err != nil {
		return err
	}
	for _, dir := range []string{"/etc", "/var", "/opt"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
		if err := unix.Mount(filepath.Join(root, dir), dir, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	return ip("link", "set", "lo", "up")
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %q: %w: %s", args, err, out)
	}
	return nil
}

// connect joins two spaces by a wire, which is the way to everywhere for both.
func connect(t *testing.T, a, b *space) {
	t.Helper()
	a.address, b.address = "192.0.2.1", "192.0.2.2"
	err := a.do(func() error {
		return ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(b.thread))
	})
	for _, s := range []*space{a, b} {
		if err == nil {
			err = s.do(func() error {
				return errors.Join(ip("addr", "add", s.address+"/24", "dev", "eth0"), ip("link", "set", "eth0", "up"),
					ip("route", "add", "default", "dev", "eth0"))
			})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// do runs f in the space. Processes that it starts are in it too.
func (s *space) do(f func() error) error {
	done := make(chan error)
	s.work <- func() { done <- f() }
	return <-done
}

// dial connects within the space.
func (s *space) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = s.do(func() error {
		// For one address and no name, the socket is made on this thread.
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// listen listens within the space.
func (s *space) listen(address string) (l net.Listener, err error) {
	err = s.do(func() error {
		l, err = net.Listen("tcp", address)
		return err
	})
	return l, err
}

// newMachine returns a host in a space of its own, where everything is where
// it is by default: no variable of etcdadm is set.
func newMachine(t *testing.T, name, version string) *host {
	t.Helper()
	h := &host{
		t: t, name: name, address: "127.0.0.1", version: version, binaries: etcdDir(t, version), program: program(t),
		vars: map[string]string{},
		root: filepath.Join(t.TempDir(), name), clientPort: 2379, peerPort: 2380,
	}
	h.space = newSpace(t, name, h.root)
	h.write(filepath.Join(h.root, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n", 0o644)
	h.write(filepath.Join(h.root, "etc/group"), "root:x:0:\n", 0o644)
	t.Cleanup(h.end)
	return h
}

// newPair returns two machines that reach each other, and nobody else.
func newPair(t *testing.T, version string) (a, b *host) {
	t.Helper()
	a, b = newMachine(t, "a", version), newMachine(t, "b", version)
	connect(t, a.space, b.space)
	a.address, b.address = a.space.address, b.space.address
	return a, b
}
