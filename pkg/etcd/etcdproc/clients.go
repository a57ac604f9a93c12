package etcdproc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// clientsTimeout is how long clients have to end their requests after SIGTERM. etcd ends
// when none of them has a stream, and waits 7 s for it (embed.Etcd.Close and its request
// timeout); those that watch have one until they are told. What etcd had taken of a client
// is done by then, or its disk is slow.
const clientsTimeout = time.Second

// endClients ends the connections that the process pid has accepted at one of the ports,
// as its machine's failure would: their clients connect to another member. It is no error
// where there are none. The kernel has to be built with CONFIG_INET_DIAG_DESTROY, and this
// process needs CAP_NET_ADMIN.
func endClients(pid int, ports []uint16) error {
	own, err := sockets(pid)
	if err != nil {
		return err
	}
	var errs []error
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		list, err := netlink.SocketDiagTCP(family)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) { // what is missing is asked for again
			errs = append(errs, fmt.Errorf("list the connections of etcd: %w", err))
		}
		for _, s := range list {
			if s.State == netlink.TCP_LISTEN || !slices.Contains(ports, s.ID.SourcePort) || !slices.Contains(own, s.INode) {
				continue
			}
			if err := destroy(s); err != nil {
				errs = append(errs, fmt.Errorf("end the connection from %s to etcd: %w",
					net.JoinHostPort(s.ID.Destination.String(), strconv.Itoa(int(s.ID.DestinationPort))), err))
			}
		}
	}
	return errors.Join(errs...)
}

// sockets returns the inodes of the sockets that a process has open.
func sockets(pid int) (inodes []uint32, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range list {
		to, err := os.Readlink(filepath.Join(dir, f.Name()))
		if err != nil {
			continue // it was closed
		}
		if text, ok := strings.CutPrefix(to, "socket:["); ok {
			if n, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 32); err == nil {
				inodes = append(inodes, uint32(n))
			}
		}
	}
	return inodes, nil
}

// destroy ends one connection, on both ends.
func destroy(s *netlink.Socket) error {
	r := nl.NewNetlinkRequest(nl.SOCK_DESTROY, unix.NLM_F_ACK)
	r.AddData(socketRequest(*s))
	_, err := r.Execute(unix.NETLINK_INET_DIAG, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil // it has ended
	}
	return err
}

// A socketRequest is an inet_diag_req_v2 (linux/inet_diag.h) that names one connection.
type socketRequest netlink.Socket

func (r socketRequest) Len() int { return 56 }

func (r socketRequest) Serialize() []byte {
	b := []byte{r.Family, unix.IPPROTO_TCP, 0, 0}
	b = binary.NativeEndian.AppendUint32(b, ^uint32(0)) // in any state
	b = binary.BigEndian.AppendUint16(b, r.ID.SourcePort)
	b = binary.BigEndian.AppendUint16(b, r.ID.DestinationPort)
	for _, ip := range []net.IP{r.ID.Source, r.ID.Destination} {
		var field [16]byte
		if r.Family == unix.AF_INET {
			ip = ip.To4()
		}
		copy(field[:], ip)
		b = append(b, field[:]...)
	}
	for _, n := range []uint32{r.ID.Interface, r.ID.Cookie[0], r.ID.Cookie[1]} {
		b = binary.NativeEndian.AppendUint32(b, n)
	}
	return b
}
