package etcdproc

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// clientsTimeout is how long clients have to end their requests after etcd has closed the
// listener that took them. etcd waits 7 s for them (embed.Etcd.Close and its request
// timeout); those that watch have one until they are told.
const clientsTimeout = time.Second

// cutClients looks every clientsTimeout whether the process still has connections that it
// has accepted at one of the ports, and ends those whose listener it had closed by the
// last time: as the failure of its machine would, so that their clients connect to
// another member. It does so until ctx ends or the process has no such socket left, and
// returns what is to be said of it. Where it fails, it does not try again.
func cutClients(ctx context.Context, process *os.Process, ports []uint16) string {
	if len(ports) == 0 {
		return ""
	}
	c := cutter{process: process, ports: ports}
	for pause := clientsTimeout / 4; wait.For(ctx, pause) == nil; pause = clientsTimeout {
		more, err := c.round()
		if err != nil && ctx.Err() == nil && !c.ended() {
			return fmt.Sprintf("etcdadm: clients that etcd waits for are not cut off: %v", err)
		}
		if !more {
			break
		}
	}
	if c.cut == 0 {
		return ""
	}
	return fmt.Sprintf("etcdadm: etcd waited for clients, whose connections were cut off: %d", c.cut)
}

// A cutter ends the connections of the clients of a process.
type cutter struct {
	process *os.Process
	ports   []uint16
	// closed are the addresses that had no listener in the last round.
	closed map[netip.AddrPort]bool
	cut    int
}

// ended reports whether the process is no more, and its number may be that of another one.
func (c *cutter) ended() bool { return c.process.Signal(syscall.Signal(0)) != nil }

// round looks once, and reports whether there is a reason to come back.
func (c *cutter) round() (more bool, err error) {
	all, err := c.sockets()
	if err != nil {
		return false, err
	}
	var listeners []netip.AddrPort
	for _, s := range all {
		if s.state == unix.BPF_TCP_LISTEN {
			listeners = append(listeners, s.local())
		}
	}
	before := c.closed
	c.closed = map[netip.AddrPort]bool{}
	for _, s := range all {
		at := s.local()
		if slices.ContainsFunc(listeners, func(l netip.AddrPort) bool {
			return l.Port() == at.Port() && (l.Addr() == at.Addr() || l.Addr().IsUnspecified())
		}) {
			continue
		}
		c.closed[at] = true
		if !before[at] {
			continue
		}
		switch failed := s.destroy(); {
		case failed == nil:
			c.cut++
		case !errors.Is(failed, unix.ENOENT): // it has not ended by itself
			err = failed
		}
	}
	return len(all) > 0, err
}

// sockets returns the sockets that the process has at the ports.
func (c *cutter) sockets() (own []tcpSocket, err error) {
	inodes, err := socketInodes(c.process.Pid)
	if err != nil {
		return nil, err
	}
	if c.ended() { // whose inodes these are is not known
		return nil, os.ErrProcessDone
	}
	for _, port := range c.ports {
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
			list, err := tcpSockets(family, port)
			if family == unix.AF_INET6 && errors.Is(err, unix.ENOENT) {
				continue // a kernel without IPv6
			}
			if err != nil {
				return nil, fmt.Errorf("list the connections of port %d: %w", port, err)
			}
			own = append(own, slices.DeleteFunc(list, func(s tcpSocket) bool { return !inodes[s.inode] })...)
		}
	}
	return own, nil
}

// socketInodes returns the inodes of the sockets that a process has open.
func socketInodes(pid int) (map[uint32]bool, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	inodes := map[uint32]bool{}
	for _, f := range list {
		to, err := os.Readlink(filepath.Join(dir, f.Name()))
		if err != nil {
			continue // it was closed
		}
		if text, ok := strings.CutPrefix(to, "socket:["); ok {
			if n, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 32); err == nil {
				inodes[uint32(n)] = true
			}
		}
	}
	return inodes, nil
}
