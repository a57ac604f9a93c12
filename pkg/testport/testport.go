// Package testport gives tests ports for servers that they start as programs,
// which must be told a port before they listen.
package testport

import (
	"fmt"
	"syscall"
)

// TB is the part of a test that is needed.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(f func())
}

// Free returns a port of 127.0.0.1 that the kernel gives to nobody else until
// the test ends. A socket holds it that does not listen; a server that asks for
// the port by its number does not mind, if it sets SO_REUSEADDR, as Go does.
func Free(t TB) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("hold a port: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatalf("hold a port: %v", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatalf("hold a port: %v", err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatalf("hold a port: %v", err)
	}
	return at.(*syscall.SockaddrInet4).Port
}

// Address returns 127.0.0.1 with a port from [Free].
func Address(t TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Free(t))
}
