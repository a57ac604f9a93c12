package etcdproc

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/internal/timerslack"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// etcd waits as precisely as without a daemon.
func TestEtcdHasTheTimerSlackOfBefore(t *testing.T) {
	before, err := slack()
	if err != nil {
		t.Skip(err)
	}
	if err := timerslack.Widen(300 * time.Microsecond); errors.Is(err, syscall.ENOTSUP) {
		t.Skip("this test uses C, so its threads keep their slack: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = timerslack.Widen(time.Duration(before)) })
	s, out := supervise(t, Options{})
	start(t, s, does("slack stay"))
	want := fmt.Sprint("slack ", before, " <nil>")
	testwait.Until(t, "the child to say what it has", func() bool { return len(out.all()) > 0 })
	if got := out.all(); !slices.Contains(got, want) {
		t.Errorf("the child says %q, want %q", got, want)
	}
}

// slack returns the timer slack of this thread.
func slack() (uintptr, error) {
	ns, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_GET_TIMERSLACK, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return ns, nil
}
