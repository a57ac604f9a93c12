package etcdutl

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

// TestASnapshotIsConsumedWhileTheToolRuns: as soon as it has been read, and not before.
func TestASnapshotIsConsumedWhileTheToolRuns(t *testing.T) {
	dir := t.TempDir()
	snapshot, data := filepath.Join(dir, "s"), filepath.Join(dir, "data")
	if err := os.WriteFile(snapshot, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The shell has it open all the time that cat reads.
	script(t, dir, "etcdutl", `d="${4#--data-dir=}"; mkdir -p "$d"
exec 3<"$3"; cat <&3 >"$d/db"; [ -e "$3" ] || exit 3; exec 3<&-
i=0; while [ -e "$3" ]; do i=$((i+1)); [ $i -lt 3000 ] || exit 4; sleep 0.01; done`)
	o := RestoreOptions{Snapshot: snapshot, DataDir: data, Consume: true}
	if err := (Tool{Path: filepath.Join(dir, "etcdutl")}).Restore(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(data, "db")); string(b) != "content" {
		t.Errorf("the tool has read %q, %v", b, err)
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
