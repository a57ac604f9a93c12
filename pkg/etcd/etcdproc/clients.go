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

const (
	// clientsTimeout is how long clients stay connected after etcd has closed the listener
	// that took them. etcd waits 7 s for them (embed.Etcd.Close and its request timeout);
	// those that watch have one until they are answered. It answers most of what it has taken
	// within milliseconds.
	clientsTimeout = 150 * time.Millisecond
	// cutInterval is how often it looks for them.
	cutInterval = 50 * time.Millisecond
	// cutDelay is how long its end is waited for when the process has ended.
	cutDelay = time.Second
)

// cutOff looks every cutInterval whether the process still has connections that it has
// accepted at one of the ports and whose listener it has closed, and ends them: those of
// peers when it sees that for the second time, as etcd closes their listener when its Raft
// has ended, those of clients after clientsTimeout. To their clients it is as if the machine
// had failed, so that they connect to another member. It does so until ctx ends or the
// process has no such socket left, and returns what is to be said of the clients. Where it
// fails to end one of a client, it does not try again.
func cutOff(ctx context.Context, process *os.Process, clients, peers []uint16) string {
	if len(clients) == 0 {
		return ""
	}
	c := cutter{process: process, clients: clients, peers: peers, closed: map[netip.AddrPort]time.Time{}}
	for wait.For(ctx, cutInterval) == nil {
		more, err := c.round(time.Now())
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

// A cutter ends the connections of others with a process.
type cutter struct {
	process        *os.Process
	clients, peers []uint16
	// closed has the addresses that have no listener, and since when.
	closed map[netip.AddrPort]time.Time
	cut    int // of clients
}

// ended reports whether the process is no more, and its number may be that of another one.
func (c *cutter) ended() bool { return c.process.Signal(syscall.Signal(0)) != nil }

// round looks once, and reports whether there is a reason to come back.
func (c *cutter) round(now time.Time) (more bool, err error) {
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
	for _, s := range all {
		at := s.local()
		if slices.ContainsFunc(listeners, func(l netip.AddrPort) bool {
			return l.Port() == at.Port() && (l.Addr() == at.Addr() || l.Addr().IsUnspecified())
		}) {
			delete(c.closed, at)
			continue
		}
		since, before := c.closed[at]
		if !before {
			c.closed[at] = now
			continue
		}
		if !slices.Contains(c.clients, at.Port()) {
			_ = s.destroy() // etcd waits for it for a second at most
			continue
		}
		if now.Sub(since) < clientsTimeout {
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
	for _, port := range slices.Concat(c.clients, c.peers) {
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
