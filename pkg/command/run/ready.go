package run

import (
	"crypto/rand"
	"fmt"
	"net"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// notifySocket names the socket on which a process says that it is ready
// (sd_notify(3)). etcd does so when it has joined its cluster.
const notifySocket = "NOTIFY_SOCKET"

// A readyListener hears etcd say that it is ready.
type readyListener struct {
	// name is the value of NOTIFY_SOCKET for etcd.
	name string
	// pids gets the process that said so.
	pids chan int

	conn *net.UnixConn
	done chan struct{}
}

// listenReady listens on a socket without a file (an "abstract" one), because
// the path of a file might be too long for a socket. Anybody on the machine can
// send to it; the kernel says who did.
func listenReady() (*readyListener, error) {
	name := "@etcdadm/" + rand.Text()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("listen for etcd to be ready: %w", err)
	}
	raw, err := conn.SyscallConn()
	if err == nil {
		var serr error
		err = raw.Control(func(fd uintptr) { serr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) })
		if err == nil {
			err = serr
		}
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("listen for etcd to be ready: %w", err)
	}
	l := &readyListener{name: name, pids: make(chan int, 1), conn: conn, done: make(chan struct{})}
	go l.listen()
	return l, nil
}

func (l *readyListener) listen() {
	defer close(l.done)
	text, control := make([]byte, 4<<10), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	for {
		n, cn, _, _, err := l.conn.ReadMsgUnix(text, control)
		if err != nil {
			return // closed
		}
		if !slices.Contains(strings.Split(string(text[:n]), "\n"), "READY=1") {
			continue
		}
		select {
		case <-l.pids: // only the latest counts
		default:
		}
		l.pids <- sender(control[:cn])
	}
}

// sender is the process that sent a message, 0 if the kernel does not say.
func sender(control []byte) int {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if cred, err := unix.ParseUnixCredentials(&m); err == nil {
			return int(cred.Pid)
		}
	}
	return 0
}

func (l *readyListener) close() {
	l.conn.Close()
	<-l.done
}

// notifyReady notifies our own init system, if it has given us the name of its
// socket, that we are ready.
func notifyReady(name string) error {
	if name == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("say that etcd is ready: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("READY=1")); err != nil {
		return fmt.Errorf("say that etcd is ready: %w", err)
	}
	return nil
}
