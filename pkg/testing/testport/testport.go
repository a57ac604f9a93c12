// Package testport gives tests ports for servers that they start as programs,
// which must be given a port before they listen.
package testport

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

// TB is the part of a test that is needed.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(f func())
}

// Local is the address that [Free] and [Address] give ports of.
const Local = "127.0.0.1"

// Free returns a port of 127.0.0.1 that the kernel gives to nobody else until
// the test ends.
func Free(t TB) int {
	t.Helper()
	return FreeOf(t, Local)
}

// Address returns 127.0.0.1 with a port from [Free].
func Address(t TB) string {
	t.Helper()
	return AddressOf(t, Local)
}

// AddressOf returns an address of this machine with a port from [FreeOf].
func AddressOf(t TB, address string) string {
	t.Helper()
	return net.JoinHostPort(address, strconv.Itoa(FreeOf(t, address)))
}

// FreeOf returns a port of an address of this machine, IPv4 or IPv6, that the
// kernel gives to nobody else until the test ends: neither to who listens at a
// port that the kernel chooses, nor to who connects. A socket holds the port
// that does not listen; a server that asks for the port by its number does not
// mind, if it sets SO_REUSEADDR, as Go does.
func FreeOf(t TB, address string) int {
	t.Helper()
	fd, port, err := hold(address)
	if err != nil {
		t.Fatalf("hold a port of %s: %v", address, err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	return port
}

// hold binds a socket to a port of an address that the kernel chooses.
func hold(address string) (fd, port int, err error) {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return 0, 0, err
	}
	family, at := syscall.AF_INET6, syscall.Sockaddr(&syscall.SockaddrInet6{Addr: ip.As16()})
	if ip.Is4() {
		family, at = syscall.AF_INET, &syscall.SockaddrInet4{Addr: ip.As4()}
	}
	fd, err = syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		if err != nil {
			_ = syscall.Close(fd)
		}
	}()
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, 0, err
	}
	if err := syscall.Bind(fd, at); err != nil {
		return 0, 0, err
	}
	got, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, 0, err
	}
	switch got := got.(type) {
	case *syscall.SockaddrInet4:
		return fd, got.Port, nil
	case *syscall.SockaddrInet6:
		return fd, got.Port, nil
	}
	return 0, 0, fmt.Errorf("the socket has the address %v", got)
}
