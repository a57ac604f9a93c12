// Package testpty makes terminals for tests.
package testpty

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// A Terminal is one whose screen a test reads.
type Terminal struct {
	// Program is the end that a program writes to.
	Program *os.File
	screen  *os.File
	got     strings.Builder
}

// Open returns a terminal of that size.
func Open(t testing.TB, columns, rows uint16) *Terminal {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	var number, unlocked uint32
	size := [4]uint16{rows, columns}
	control(t, screen, syscall.TIOCGPTN, unsafe.Pointer(&number))
	control(t, screen, syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked))
	control(t, screen, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return &Terminal{Program: program, screen: screen}
}

func control(t testing.TB, f *os.File, request uintptr, argument unsafe.Pointer) {
	t.Helper()
	c, err := f.SyscallConn()
	if err == nil {
		err = c.Control(func(fd uintptr) {
			if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(argument)); errno != 0 {
				t.Errorf("ioctl %#x: %v", request, errno)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Until reads what was written until it has want, and returns all of it; what comes later
// is left for the next call.
func (p *Terminal) Until(t testing.TB, want string) string {
	t.Helper()
	if err := p.screen.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1<<12)
	for {
		all := p.got.String()
		if i := strings.Index(all, want); i >= 0 {
			p.got.Reset()
			p.got.WriteString(all[i+len(want):])
			return all[:i+len(want)]
		}
		n, err := p.screen.Read(b)
		p.got.Write(b[:n])
		if err != nil {
			t.Fatalf("there is no %q on the screen (%v): %q", want, err, p.got.String())
		}
	}
}
