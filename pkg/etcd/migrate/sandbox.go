package migrate

import (
	"errors"
	"fmt"
	"net"
	"runtime"

	"golang.org/x/sys/unix"
)

// A sandbox is a thread with a network of its own, in which there is a loopback and
// nothing else. What it starts is in that network too.
type sandbox struct {
	calls  chan func()
	shared bool
}

// newSandbox makes one. Shared, it has the network of the machine.
func newSandbox(shared bool) (*sandbox, error) {
	b := &sandbox{make(chan func()), shared}
	ready := make(chan error)
	go func() {
		// It ends with the thread locked to it, which ends then too.
		runtime.LockOSThread()
		err := error(nil)
		if !shared {
			err = ownNetwork()
		}
		ready <- err
		if err != nil {
			return
		}
		for f := range b.calls {
			f()
		}
	}()
	err := <-ready
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		err = refuse("run it as root; if no other member of that cluster runs any more, --share-network needs no namespace",
			"no network namespace can be made to keep the copy away from other members: %v", err)
	}
	return b, err
}

func (b *sandbox) close() { close(b.calls) }

// do calls f in the thread.
func (b *sandbox) do(f func()) {
	done := make(chan struct{})
	b.calls <- func() {
		defer close(done)
		f()
	}
	<-done
}

// ownNetwork moves the calling thread to a new network and brings its loopback up.
func ownNetwork() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace: %w", err)
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bring the loopback up: %w", err)
	}
	return nil
}

// addresses returns two for an etcd to listen at: those of etcd, or free ones where others
// may have them.
func (b *sandbox) addresses() (client, peer string, err error) {
	if !b.shared {
		return "127.0.0.1:2379", "127.0.0.1:2380", nil
	}
	var free [2]string
	for i := range free {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", "", err
		}
		defer l.Close()
		free[i] = l.Addr().String()
	}
	return free[0], free[1], nil
}

// dial connects from within the network. An address of numbers is dialled in the calling
// goroutine, whose thread is of that network.
func (b *sandbox) dial(address string) (c net.Conn, err error) {
	b.do(func() { c, err = net.Dial("tcp", address) })
	return c, err
}
