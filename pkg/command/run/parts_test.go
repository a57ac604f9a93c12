package run

import (
	"net"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestClientsAndPeersOfItsEnvironmentAreCutOff(t *testing.T) {
	env := []string{
		"ETCD_LISTEN_CLIENT_URLS=https://10.0.0.1:2379,https://127.0.0.1:4001", "ETCD_LISTEN_PEER_URLS=https://10.0.0.1:2380",
	}
	got := (options{}).command(env, "@a")
	if !slices.Equal(got.ClientPorts, []uint16{2379, 4001}) || !slices.Equal(got.PeerPorts, []uint16{2380}) {
		t.Errorf("those of the ports %v, and of peers %v", got.ClientPorts, got.PeerPorts)
	}
}

func TestReadyIsHeardFromWhoSaidIt(t *testing.T) {
	l, err := listenReady()
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: l.name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, m := range []string{"STATUS=soon", "XREADY=1", "STATUS=now\nREADY=1\n"} {
		if _, err := conn.Write([]byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case pid := <-l.pids:
		if pid != os.Getpid() {
			t.Errorf("said by %d, not %d", pid, os.Getpid())
		}
	case <-time.After(testwait.Limit):
		t.Fatal("nothing")
	}
	select {
	case pid := <-l.pids:
		t.Errorf("said again by %d", pid)
	default:
	}
}
