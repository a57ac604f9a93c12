package migrate

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/internal/timerslack"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

const (
	// pollInterval is how often the etcd is asked, stopTime how long it gets to end.
	pollInterval = 200 * time.Millisecond
	stopTime     = 2 * time.Minute
)

// replay runs the etcd on the copy until it has read its log to the end, and returns the
// raft snapshot that it wrote then.
//
// It makes one with every second entry. Its name is made up for this run and published as
// its first own entry: a snapshot in which that name stands has all entries before it.
// Each question for its health is an entry of its own, which changes nothing.
func replay(ctx context.Context, o Options, p Plan, data string) (string, error) {
	box, err := newSandbox(o.ShareNetwork)
	if err != nil {
		return "", err
	}
	defer box.close()
	name := "migrate-" + strings.ToLower(rand.Text())
	client, peer, err := box.addresses()
	if err != nil {
		return "", err
	}
	var log bytes.Buffer
	cmd := p.command(data, name, client, peer)
	cmd.Stdout, cmd.Stderr = &log, &log
	var starting error
	box.do(func() { starting = timerslack.Start(cmd) })
	if starting != nil {
		return "", fmt.Errorf("start %s: %w", p.Binary, starting)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	snap, err := await(ctx, box, client, datadir.At(data).Snap(), name, ended)
	if err != nil {
		_ = cmd.Process.Kill()
		if !errors.Is(err, errEnded) {
			<-ended //nolint:errcheck // it was killed
		}
	} else {
		err = stop(ctx, cmd, ended)
	}
	if err != nil {
		return "", fmt.Errorf("read the copy with etcd %s: %w", p.Version, etcdbin.Said(err, log.String()))
	}
	return newestWith(filepath.Dir(snap), name)
}

// command is the etcd, alone.
func (p Plan) command(data, name, client, peer string) *exec.Cmd {
	args := []string{
		"--name=" + name, "--data-dir=" + data, "--snapshot-count=1",
		"--listen-client-urls=http://" + client, "--advertise-client-urls=http://" + client,
		"--listen-peer-urls=http://" + peer, "--initial-advertise-peer-urls=http://" + peer,
		"--initial-cluster=" + name + "=http://" + peer,
	}
	if p.Members != 1 {
		args = append(args, "--force-new-cluster")
	}
	cmd := exec.Command(p.Binary, args...)
	// Whatever is not on this machine's loopback is behind a proxy that is not there.
	cmd.Env = []string{
		"HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9", "ETCD_UNSUPPORTED_ARCH=" + runtime.GOARCH,
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd
}

// stop ends the etcd so that it writes what it has to its disk.
func stop(ctx context.Context, cmd *exec.Cmd, ended <-chan error) error {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	select {
	case <-ended: //nolint:errcheck // etcd ends by the signal that it was sent
		return nil
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		<-ended //nolint:errcheck // it was killed
		return errors.New("it does not end")
	}
}

// errEnded is for an etcd that ended by itself.
var errEnded = errors.New("it ended")

// await asks for the health of the etcd until it has written a snapshot with its name.
func await(ctx context.Context, box *sandbox, client, dir, name string, ended <-chan error) (string, error) {
	web := &http.Client{
		Timeout: 30 * time.Second,
		Transport: &http.Transport{
			DialContext:       func(context.Context, string, string) (net.Conn, error) { return box.dial(client) },
			DisableKeepAlives: true,
		},
	}
	for {
		select {
		case err := <-ended:
			return "", errors.Join(errEnded, err)
		default:
		}
		ask(ctx, web, "http://"+client+"/health")
		if snap, err := newestWith(dir, name); err == nil {
			return snap, nil
		}
		if err := wait.For(ctx, pollInterval); err != nil {
			return "", err
		}
	}
}

// ask sends a request. What comes back does not matter: the snapshots show it.
func ask(ctx context.Context, web *http.Client, url string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return
	}
	if r, err := web.Do(req); err == nil {
		_ = r.Body.Close()
	}
}

// newestWith returns the newest raft snapshot in which a name stands.
func newestWith(dir, name string) (string, error) {
	entries, err := os.ReadDir(dir) // by name: they begin with the term and the index, in hexadecimal of one length
	if err != nil {
		return "", err
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".snap") })
	if len(entries) == 0 {
		return "", os.ErrNotExist
	}
	newest := filepath.Join(dir, entries[len(entries)-1].Name())
	b, err := os.ReadFile(newest)
	if err == nil && !bytes.Contains(b, []byte(name)) {
		err = os.ErrNotExist
	}
	return newest, err
}
