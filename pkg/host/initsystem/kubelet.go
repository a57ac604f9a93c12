package initsystem

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// goneGrace is how long nothing may answer for a pod to be taken as gone. A
// crashing etcd answers nobody between two starts, and the kubelet may start it
// once more before it sees that the manifest is gone, which takes it a moment
// (inotify).
const goneGrace = 2 * time.Second

// A kubelet is etcd as a static pod.
type kubelet struct {
	manifest  initfiles.File
	gone      func(context.Context) bool
	busy      func() bool
	logs      string
	goneGrace time.Duration
}

func newKubelet(o Options) (*kubelet, error) {
	if o.Manifest.Path == "" || o.Gone == nil {
		return nil, errors.New("the path of the manifest, or the check that etcd is gone, is missing")
	}
	k := &kubelet{manifest: o.Manifest, gone: o.Gone, busy: o.Busy, logs: o.PodLogs, goneGrace: goneGrace}
	if k.busy == nil {
		k.busy = func() bool { return false }
	}
	if k.logs == "" {
		k.logs = "/var/log/pods"
	}
	return k, nil
}

// Status goes by the manifest, and by whether something answers. The logs of the
// pod's containers distinguish a crash from a start, see [kubelet.crashed].
func (k *kubelet) Status(ctx context.Context) (Status, error) {
	there, err := k.there()
	if err != nil {
		return Status{}, err
	}
	answers := !k.gone(ctx)
	path := k.manifest.Path
	switch {
	case !there && answers:
		return Status{State: Running, Detail: fmt.Sprintf("there is no %s, but etcd still answers", path)}, nil
	case !there && k.busy():
		return Status{State: Running, Detail: fmt.Sprintf("there is no %s, but a process has the database open", path)}, nil
	case !there:
		return Status{State: Absent, Detail: "there is no " + path}, nil
	case answers:
		return Status{State: Running, Enabled: true, Detail: fmt.Sprintf("%s exists, and etcd answers", path)}, nil
	}
	st := Status{State: Starting, Enabled: true, Detail: fmt.Sprintf("%s exists, but nothing answers yet", path)}
	if lines, crashed := k.crashed(); crashed {
		st.State, st.LastLines = Crashing, lines
		st.Detail += "; the kubelet has started it more than once"
	}
	return st, nil
}

func (k *kubelet) there() (bool, error) {
	_, err := os.Stat(k.manifest.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the static pod: %w", err)
	}
	return true, nil
}

// Start writes the manifest, unless it is there and the same.
func (k *kubelet) Start(context.Context) error {
	if k.manifest.Content == "" {
		return errors.New("write the static pod: it is empty")
	}
	if b, err := os.ReadFile(k.manifest.Path); err == nil && string(b) == k.manifest.Content {
		return nil
	}
	if err := hostfs.MakeDir(filepath.Dir(k.manifest.Path), 0o755); err != nil {
		return fmt.Errorf("write the static pod: %w", err)
	}
	// The temporary file begins with a dot, which makes the kubelet ignore it.
	if err := hostfs.WriteFile(k.manifest.Path, []byte(k.manifest.Content), os.FileMode(k.manifest.Mode)); err != nil {
		return fmt.Errorf("write the static pod: %w", err)
	}
	return nil
}

// Stop removes the manifest, and waits until nothing has answered for a while and the database is
// closed.
func (k *kubelet) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	err := os.Remove(k.manifest.Path)
	was := err == nil
	switch {
	case was:
		err = hostfs.SyncDir(filepath.Dir(k.manifest.Path))
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return fmt.Errorf("remove the static pod: %w", err)
	}
	return k.await(ctx, was)
}

// await waits until etcd is gone, and stays so if it may come back.
func (k *kubelet) await(ctx context.Context, mayReturn bool) error {
	since := time.Time{} // when nothing began to answer
	for range wait.Every(ctx, pollInterval) {
		switch {
		case !k.gone(ctx) || k.busy():
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		}
		// When ctx ends, gone may say so for want of an answer.
		if ctx.Err() == nil && !since.IsZero() && (!mayReturn || time.Since(since) >= k.goneGrace) {
			return nil
		}
	}
	return fmt.Errorf("wait until the static pod is gone (does the kubelet run, and watch %s?): %w",
		filepath.Dir(k.manifest.Path), ctx.Err())
}

// Restart removes the manifest and writes it again.
func (k *kubelet) Restart(ctx context.Context) error {
	if err := k.Stop(ctx); err != nil {
		return err
	}
	return k.Start(ctx)
}

// Reload does nothing: the kubelet watches its directory.
func (k *kubelet) Reload(context.Context) error { return nil }

// crashed reports whether a container of etcd has ended since the manifest was
// written, and the last lines of the newest one that has said something.
//
// The kubelet numbers the logs of a pod's containers
// (<logs>/kube-system_etcd-<node>_<uid>/etcd/<n>.log) and keeps that of the one
// before. The number itself says little: it goes on when the same manifest is
// removed and written again.
func (k *kubelet) crashed() (lines []string, crashed bool) {
	manifest, err := os.Stat(k.manifest.Path)
	if err != nil {
		return nil, false
	}
	paths, _ := filepath.Glob(filepath.Join(k.logs, "kube-system_etcd-*", "etcd", "*.log"))
	var newest string
	var changed time.Time
	for _, p := range paths {
		if t := modTime(p); t.After(changed) {
			newest, changed = p, t
		}
	}
	n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(newest), ".log"))
	if err != nil || !modTime(filepath.Join(filepath.Dir(newest), fmt.Sprintf("%d.log", n-1))).After(manifest.ModTime()) {
		return nil, false
	}
	for _, l := range lastLines(tail(newest)) {
		lines = append(lines, criText(l))
	}
	return lines, true
}

// modTime is zero for a file that cannot be checked.
func modTime(path string) time.Time {
	st, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return st.ModTime()
}

// criText is what a container printed: a line of the log is "<time> <stream>
// <tag> <text>".
func criText(line string) string {
	if parts := strings.SplitN(line, " ", 4); len(parts) == 4 && (parts[1] == "stdout" || parts[1] == "stderr") {
		return parts[3]
	}
	return line
}

// tail returns the end of a file, from the beginning of a line on; "" where it
// cannot be read.
func tail(path string) string {
	const size = 32 << 10
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return ""
	}
	from := max(0, st.Size()-size)
	b := make([]byte, size)
	n, _ := f.ReadAt(b, from) // io.EOF with the bytes that there are
	text := string(b[:n])
	if from > 0 {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}
