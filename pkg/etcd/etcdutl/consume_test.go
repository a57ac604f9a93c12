package etcdutl

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

// TestASnapshotIsConsumedWhileTheToolRuns: as soon as the tool has read it, and not before,
// whoever else reads it.
func TestASnapshotIsConsumedWhileTheToolRuns(t *testing.T) {
	dir := t.TempDir()
	snapshot, data := filepath.Join(dir, "s"), filepath.Join(dir, "data")
	if err := os.WriteFile(snapshot, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The shell is the tool, and cat somebody else. It opens the file again, as it may have been
	// open for too short a time to be seen.
	script(t, dir, "etcdutl", `d="${4#--data-dir=}"; mkdir -p "$d"
i=0; while [ $i -lt 50 ]; do i=$((i+1)); cat "$3" >/dev/null || exit 5; done
i=0; while [ -e "$3" ] && command exec 3<"$3"; do
	[ $i = 0 ] && { cat "$3" >/dev/null; cat <&3 >"$d/db"; [ -e "$3" ] || exit 3; }
	exec 3<&-
	i=$((i+1)); [ $i -lt 3000 ] || exit 4; sleep 0.01
done`)
	o := RestoreOptions{Snapshot: snapshot, DataDir: data, Consume: true}
	if err := (Tool{Path: filepath.Join(dir, "etcdutl")}).Restore(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(data, "db")); string(b) != "content" {
		t.Errorf("the tool has read %q, %v", b, err)
	}
}

// TestAReaderIsWaitedFor: until it has closed the file, and for no other.
func TestAReaderIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWatch(path)
	if err != nil {
		t.Fatal(err)
	}
	reader := exec.Command("sh", "-c", `read go; exec 3<"$0"; read content <&3; read go; exec 3<&-; read go`, path)
	stdin, err := reader.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	next := func() {
		if _, err := io.WriteString(stdin, "\n"); err != nil {
			t.Fatal(err)
		}
	}
	seen, ended := make(chan bool), make(chan bool, 1)
	first := sync.OnceFunc(func() { close(seen) })
	go func() {
		ended <- w.closed(func() bool {
			held := holds(reader.Process.Pid, file)
			if held {
				first()
			}
			return held
		})
	}()
	other := func() {
		if _, err := os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	other()
	next()
	<-seen
	for range 50 {
		other()
	}
	select {
	case <-ended:
		t.Error("somebody else was taken for the reader")
	default:
	}
	next()
	if !<-ended {
		t.Error("the reader has closed it, and was not seen to")
	}
	_ = w.events.Close()
	if err := errors.Join(stdin.Close(), reader.Wait()); err != nil && reader.ProcessState.ExitCode() != 1 {
		t.Error(err)
	}
}

// TestASnapshotIsConsumedByEachTool: none opens it twice.
func TestASnapshotIsConsumedByEachTool(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		file, _ := save(t, bin)
		o := RestoreOptions{
			Snapshot: file, DataDir: filepath.Join(t.TempDir(), "data"), Name: "a", Consume: true,
			PeerURLs: []string{"http://127.0.0.1:2380"},
		}
		if err := find(t, bin).Restore(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the snapshot is there: %v", err)
		}
	})
}

// TestASnapshotThatNobodyReadsIsConsumed with the end of the tool.
func TestASnapshotThatNobodyReadsIsConsumed(t *testing.T) {
	dir := t.TempDir()
	snapshot := filepath.Join(dir, "s")
	if err := os.WriteFile(snapshot, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	script(t, dir, "etcdutl", "exit 1")
	o := RestoreOptions{Snapshot: snapshot, DataDir: filepath.Join(dir, "data"), Consume: true}
	if err := (Tool{Path: filepath.Join(dir, "etcdutl")}).Restore(t.Context(), o); err == nil {
		t.Error("a tool that fails has restored something")
	}
	if _, err := os.Stat(snapshot); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the snapshot is there: %v", err)
	}
}
