package hostaddr_test

import (
	"errors"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/internal/hostaddr"
)

// elsewhere runs f on a machine without any network but what lines of ip make.
func elsewhere(t *testing.T, lines []string, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		for _, line := range lines {
			if err == nil {
				err = exec.Command("ip", strings.Fields(line)...).Run()
			}
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; errors.Is(err, unix.EPERM) || errors.Is(err, exec.ErrNotFound) {
		t.Skipf("a network of its own is not to be had here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
}

func TestDefault(t *testing.T) {
	up := []string{"link set lo up", "link add eth0 type veth peer name eth1", "link set eth0 up", "link set eth1 up"}
	four := []string{"addr add 198.51.100.7/24 dev eth0", "route add default dev eth0"}
	six := []string{"addr add 2001:db8:7::7/64 dev eth0 nodad", "-6 route add default dev eth0"}
	tests := []struct {
		name  string
		lines []string
		six   bool
		want  string
	}{
		{"nothing", up, false, ""},
		{"nothing, of six", up, true, ""},
		{"four", append(append([]string{}, up...), four...), false, "198.51.100.7"},
		{"four, six is asked for", append(append([]string{}, up...), four...), true, ""},
		{"six alone", append(append([]string{}, up...), six...), false, "2001:db8:7::7"},
		{"both", append(append(append([]string{}, up...), four...), six...), false, "198.51.100.7"},
		{"both, six is asked for", append(append(append([]string{}, up...), four...), six...), true, "2001:db8:7::7"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			elsewhere(t, tt.lines, func() {
				got, err := hostaddr.Default(tt.six)
				var none *hostaddr.Error
				if got != tt.want || (tt.want == "") != errors.As(err, &none) {
					t.Errorf("%q, %v, want %q", got, err, tt.want)
				}
				if none != nil && !strings.Contains(none.Hint(), "--bind-address") {
					t.Errorf("the hint is %q", none.Hint())
				}
			})
		})
	}
}
