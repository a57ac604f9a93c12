package etcdclient

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/testport"
)

// minors are the releases that are tested, one of each minor version.
var minors = []string{"3.5.35", "3.6.16", "3.7.3"}

// eachMinor runs f with the etcd binary of each minor version. Most of the time
// is etcd's own waiting, so all run at the same time.
func eachMinor(t *testing.T, f func(t *testing.T, binary string, v etcdversion.Version)) {
	t.Parallel()
	list := os.Getenv(etcdbin.DirVariable)
	if list == "" {
		t.Skip(etcdbin.DirVariable + " names no directory with etcd binaries")
	}
	for _, text := range minors {
		t.Run(text, func(t *testing.T) {
			v := etcdversion.Must(text)
			bin, err := etcdbin.Finder{Dirs: filepath.SplitList(list)}.Find(v)
			if err != nil {
				t.Skip(err)
			}
			t.Parallel()
			f(t, bin.Etcd, v)
		})
	}
}

// A process is one etcd of a test.
type process struct {
	name, peer, client string
	cmd                *exec.Cmd
	log                string
}

func newProcess(t *testing.T, name string) *process {
	return &process{name: name, peer: "http://" + testport.Address(t), client: "http://" + testport.Address(t), log: filepath.Join(t.TempDir(), name+".log")}
}

// start runs etcd as a new member of the initial cluster: those that are given
// and p itself.
func (p *process) start(t *testing.T, binary, state string, others []*process, args ...string) {
	t.Helper()
	initial := []string{p.name + "=" + p.peer}
	for _, o := range others {
		initial = append(initial, o.name+"="+o.peer)
	}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(binary, append([]string{
		"--name=" + p.name, "--data-dir=" + filepath.Join(t.TempDir(), p.name), "--unsafe-no-fsync",
		"--listen-peer-urls=" + p.peer, "--initial-advertise-peer-urls=" + p.peer,
		"--listen-client-urls=" + p.client, "--advertise-client-urls=" + p.client,
		"--initial-cluster=" + strings.Join(initial, ","), "--initial-cluster-state=" + state,
	}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// Should the test be killed, so is its etcd.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			b, _ := os.ReadFile(p.log)
			t.Logf("the end of %s's log:\n%s", p.name, b[max(0, len(b)-2000):])
		}
	})
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // "signal: killed"
}

// open returns a client of the process.
func (p *process) open(t *testing.T) *Client {
	t.Helper()
	c, err := Open(Options{Endpoints: []string{p.client}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// eventually repeats ok until it says true, each time with a deadline of its
// own.
func eventually(t *testing.T, what string, ok func(ctx context.Context) error) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := ok(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited 20 s for %s: %v", what, err)
		}
		<-tick.C
	}
}

// serving waits for a member that follows a leader, and returns its report.
func serving(t *testing.T, c *Client) cluster.Report {
	t.Helper()
	var r cluster.Report
	eventually(t, "a leader", func(ctx context.Context) (err error) {
		if r, err = c.Report(ctx); err == nil && r.Leader == 0 {
			err = fmt.Errorf("no leader")
		}
		return err
	})
	return r
}

// founder starts a cluster of one.
func founder(t *testing.T, binary string, args ...string) (*process, *Client) {
	t.Helper()
	a := newProcess(t, "a")
	a.start(t, binary, "new", nil, args...)
	c := a.open(t)
	serving(t, c)
	return a, c
}

func short(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	t.Cleanup(cancel)
	return ctx
}
