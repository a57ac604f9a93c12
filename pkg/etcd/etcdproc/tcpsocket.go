package etcdproc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// socketStates are the states in which a socket has a file in its process: as a listener,
// or with a connection.
const socketStates = 1<<unix.BPF_TCP_LISTEN | 1<<unix.BPF_TCP_ESTABLISHED | 1<<unix.BPF_TCP_CLOSE_WAIT |
	1<<unix.BPF_TCP_FIN_WAIT1 | 1<<unix.BPF_TCP_FIN_WAIT2

// A tcpSocket is one socket as the kernel names it.
type tcpSocket struct {
	family, state uint8
	// id is an inet_diag_sockid (linux/inet_diag.h): the ports and the addresses of this
	// end and the other one, the interface, and a cookie.
	id    [48]byte
	inode uint32
}

// tcpSockets returns the sockets of all processes at a port.
func tcpSockets(family uint8, port uint16) (list []tcpSocket, err error) {
	at := tcpSocket{family: family}
	binary.BigEndian.PutUint16(at.id[:], port)
	r := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
	r.AddData(diagRequest{at})
	messages, err := r.Execute(unix.NETLINK_INET_DIAG, nl.SOCK_DIAG_BY_FAMILY)
	if err != nil {
		return nil, err
	}
	for _, m := range messages { // an inet_diag_msg each
		if len(m) < 72 {
			return nil, errors.New("the kernel's answer is too short")
		}
		list = append(list, tcpSocket{
			family: m[0], state: m[1], id: [48]byte(m[4:52]), inode: binary.NativeEndian.Uint32(m[68:72]),
		})
	}
	return list, nil
}

// local is the address of this end.
func (s tcpSocket) local() netip.AddrPort { return s.end(0, 4) }

// remote is the address of the other end.
func (s tcpSocket) remote() netip.AddrPort { return s.end(2, 20) }

func (s tcpSocket) end(port, address int) netip.AddrPort {
	ip := netip.AddrFrom16([16]byte(s.id[address : address+16])).Unmap()
	if s.family == unix.AF_INET {
		ip = netip.AddrFrom4([4]byte(s.id[address : address+4]))
	}
	return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(s.id[port:port+2]))
}

// destroy ends a connection, and resets the other end. The kernel has to be built with
// CONFIG_INET_DIAG_DESTROY, and this process needs CAP_NET_ADMIN. The error is
// [unix.ENOENT] if it has ended before.
func (s tcpSocket) destroy() error {
	r := nl.NewNetlinkRequest(nl.SOCK_DESTROY, unix.NLM_F_ACK)
	r.AddData(diagRequest{s})
	if _, err := r.Execute(unix.NETLINK_INET_DIAG, 0); err != nil {
		return fmt.Errorf("end the connection from %s: %w", s.remote(), err)
	}
	return nil
}

// A diagRequest is an inet_diag_req_v2 (linux/inet_diag.h) that names a socket, or what
// sockets have in common.
type diagRequest struct{ tcpSocket }

// Len is how long it is.
func (r diagRequest) Len() int { return 8 + len(r.id) }

// Serialize returns it.
func (r diagRequest) Serialize() []byte {
	b := []byte{r.family, unix.IPPROTO_TCP, 0, 0}
	b = binary.NativeEndian.AppendUint32(b, socketStates)
	return append(b, r.id[:]...)
}
