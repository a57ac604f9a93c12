package run

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestTheClientsOfItsEnvironmentAreCutOff(t *testing.T) {
	env := []string{"ETCD_LISTEN_CLIENT_URLS=https://10.0.0.1:2379,https://127.0.0.1:4001"}
	if got := (options{}).command(env, "@a").ClientPorts; !slices.Equal(got, []uint16{2379, 4001}) {
		t.Errorf("those of the ports %v", got)
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

func TestLogRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etcd.log")
	l, err := openLog(path, 40)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		l.line("line number " + itoa(i)) // 14 bytes
	}
	l.close()
	for name, want := range map[string]string{
		path: "line number 9\n", path + ".1": "line number 6\nline number 7\nline number 8\n",
	} {
		if b, err := os.ReadFile(name); string(b) != want {
			t.Errorf("%s: %q, %v, want %q", name, b, err, want)
		}
	}
	// Another one goes on in the file.
	if l, err = openLog(path, 40); err != nil {
		t.Fatal(err)
	}
	l.line("line number 10")
	l.close()
	if b, err := os.ReadFile(path); string(b) != "line number 9\nline number 10\n" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestLogThatCannotBeRenamedIsCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etcd.log")
	if err := os.MkdirAll(path+".1/in the way", 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := openLog(path, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for range 100 {
		l.line("0123456789")
	}
	if b, err := os.ReadFile(path); string(b) != "0123456789\n" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestLogOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("cannot mount a small disk: %v %s", err, out)
	}
	defer func() { _ = exec.Command("umount", "--lazy", dir).Run() }()
	l, err := openLog(filepath.Join(dir, "etcd.log"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for range 1000 {
		l.line(strings.Repeat("x", 100)) // must return
	}
	if err := os.Truncate(filepath.Join(dir, "etcd.log"), 0); err != nil {
		t.Fatal(err)
	}
	l.line("there is room again")
	if b, err := os.ReadFile(filepath.Join(dir, "etcd.log")); !strings.HasSuffix(string(b), "there is room again\n") {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
