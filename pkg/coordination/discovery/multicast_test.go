package discovery

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// machineVariable says to the test program that it is a machine of
// TestMulticast.
const machineVariable = "ETCDADM_TEST_MACHINE"

const multicastPort = 3996

func nearbyAt(address, clusterName string) *Nearby {
	return &Nearby{
		Cluster: clusterName, Node: cluster.NodeName("at-" + address), Prove: proveByGreeting,
		Self: netip.AddrPortFrom(netip.MustParseAddr(address), multicastPort),
	}
}

func ipLine(args string) error {
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", args, err, out)
	}
	return nil
}

// another starts the test program as another machine: in a network namespace of
// its own, which ends with its standard input.
func another(t *testing.T, role string) (pid int, out *bufio.Reader) {
	t.Helper()
	c := exec.Command("/proc/self/exe", "-test.run=^TestMulticast$", "-test.v")
	c.Env = append(os.Environ(), machineVariable+"="+role)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	c.Stderr = t.Output()
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); errors.Is(err, syscall.EPERM) {
		t.Skipf("a network of its own is not to be had here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	out = bufio.NewReader(pipe)
	t.Cleanup(func() {
		_ = in.Close()
		rest, _ := io.ReadAll(out)
		if err := c.Wait(); err != nil {
			t.Errorf("the machine %s: %v\n%s", role, err, rest)
		}
	})
	return c.Process.Pid, out
}

// Two machines with one cable, each in a network namespace, find each other by
// multicast. The test runs in the first one; the second one says what it is.
func TestMulticast(t *testing.T) {
	switch os.Getenv(machineVariable) {
	case "a":
		machineA(t)
		return
	case "b":
		machineB(t)
		return
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip(err)
	}
	t.Parallel()
	_, out := another(t, "a")
	if line, err := out.ReadString('\n'); err != nil && !errors.Is(err, io.EOF) {
		t.Error(line, err)
	}
}

// machineB answers, with a listener, at two addresses, and ends with its input.
func machineB(t *testing.T) {
	await(t, "eth0")
	for _, line := range []string{
		"link set lo up", "addr add 10.7.7.2/24 dev eth0", "addr add 10.7.7.3/24 dev eth0", "addr add 10.7.7.4/24 dev eth0",
		"addr add fd07::2/64 dev eth0 nodad", "link set eth0 up",
	} {
		if err := ipLine(line); err != nil {
			t.Fatal(err)
		}
	}
	if !listenAll(t, multicastPort, map[string]string{
		"10.7.7.2": daemonGreeting, "10.7.7.3": daemonGreeting, "10.7.7.4": "stranger", "fd07::2": daemonGreeting,
	}) {
		t.Fatal("cannot listen")
	}
	for address, name := range map[string]string{
		"10.7.7.2": "main", "10.7.7.3": "other", "10.7.7.4": "main", "fd07::2": "main",
	} {
		stop, err := nearbyAt(address, name).Announce()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stop() })
	}
	lies(t)
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// lies answers with addresses at which a daemon would be, which are in no network of
// the cable, with ports that are none, and with what is none of it.
func lies(t *testing.T) {
	t.Helper()
	liar := func(address string, port uint16) []byte {
		n := nearbyAt("10.7.7.2", "main")
		n.Self = netip.AddrPortFrom(netip.MustParseAddr(address), port)
		b, err := n.announcement()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	true10 := liar("10.7.7.4", multicastPort)
	for _, answer := range [][]byte{
		liar("127.0.0.9", multicastPort), liar("10.7.7.4", 0), true10[:len(true10)-1], []byte("no DNS"), {},
	} {
		g, err := nearbyAt("10.7.7.2", "main").join()
		if err != nil {
			t.Fatal(err)
		}
		go g.answerWith(answer)
		t.Cleanup(func() { _ = g.close() })
	}
}

// await waits for an interface, which another machine makes.
func await(t *testing.T, name string) {
	t.Helper()
	testwait.For(t, "the interface "+name, func(context.Context) error {
		_, err := net.InterfaceByName(name)
		return err
	})
}

func machineA(t *testing.T) {
	pid, out := another(t, "b")
	for _, line := range []string{
		"link set lo up", fmt.Sprint("link add eth0 type veth peer name eth0 netns ", pid), "addr add 10.7.7.1/24 dev eth0",
		"addr add fd07::1/64 dev eth0 nodad", "link set eth0 up",
	} {
		if err := ipLine(line); err != nil {
			t.Fatal(err)
		}
	}
	if !listenAll(t, multicastPort, map[string]string{"127.0.0.9": daemonGreeting, "10.7.7.1": daemonGreeting}) {
		t.Fatal("cannot listen")
	}
	for {
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatal(line, err)
		}
		if strings.Contains(line, "ready") {
			break
		}
	}
	asks := func(address string, want ...string) {
		t.Helper()
		n := nearbyAt(address, "main")
		testwait.For(t, "answers", func(context.Context) error { // on a busy machine some come late
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			found, err := n.Ask(ctx)
			if got := addresses(found); err != nil || !slices.Equal(got, want) {
				return fmt.Errorf("%s found %q, %w, want %q", address, got, err, want)
			}
			return nil
		})
	}
	// This one does not find itself.
	stop, err := nearbyAt("10.7.7.1", "main").Announce()
	if err != nil {
		t.Fatal(err)
	}
	whispers(t)
	asks("10.7.7.1", "10.7.7.2")
	if err := stop(); err != nil {
		t.Error(err)
	}
	asks("fd07::1", "fd07::2")
	refused(t, "10.7.7.9", "has the address 10.7.7.9")
	refused(t, "127.0.0.1", "lo with the address 127.0.0.1 has no multicast")
	for _, change := range []struct{ line, want string }{
		{"link set eth0 multicast off", "eth0 with the address 10.7.7.1 has no multicast"},
		{"link set eth0 multicast on down", "eth0 with the address 10.7.7.1 is down"},
	} {
		if err := ipLine(change.line); err != nil {
			t.Fatal(err)
		}
		refused(t, "10.7.7.1", change.want)
	}
}

// whispers asks a daemon's machine alone, past the group: it is not answered.
func whispers(t *testing.T) {
	t.Helper()
	c, err := net.Dial("udp4", "10.7.7.2:5353")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	question := dnsmessage.Message{Questions: []dnsmessage.Question{
		{Name: dnsmessage.MustNewName(service), Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET},
	}}
	b, err := question.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if !asks(b) {
		t.Error("it is no question")
	}
	g, err := nearbyAt("10.7.7.1", "main").join()
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(g.conn.SetReadDeadline(time.Now().Add(500*time.Millisecond)),
		c.SetReadDeadline(time.Now().Add(500*time.Millisecond))); err != nil {
		t.Fatal(err)
	}
	if answer, err := g.receive(make([]byte, maxDatagram)); err == nil {
		t.Errorf("the group is %q", answer)
	}
	if n, err := c.Read(make([]byte, maxDatagram)); err == nil {
		t.Errorf("who asks past the group gets %d bytes", n)
	}
}

// refused expects an error of asking and of announcing.
func refused(t *testing.T, address, want string) {
	t.Helper()
	n := nearbyAt(address, "main")
	if found, err := n.Ask(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s asks: %v, %v, want %q", address, found, err, want)
	}
	if stop, err := n.Announce(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s announces: %v, want %q", address, err, want)
		if stop != nil {
			_ = stop()
		}
	}
}
