package nodestate

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestMyIDIsMadeOnceAndStays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	ids := make([]string, 8)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			id, err := MyID(dir)
			if err != nil {
				t.Error(err)
			}
			ids[i] = id
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("two ids: %q and %q", id, ids[0])
		}
	}
	if b, err := base64.RawURLEncoding.DecodeString(ids[0]); err != nil || len(b) != 16 || len(ids[0]) != 22 {
		t.Errorf("%q is not 16 bytes of base64url", ids[0])
	}
	path := filepath.Join(dir, "myid")
	if got := slurp(t, path); got != ids[0] {
		t.Errorf("file holds %q", got)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", st, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left %v, %v", entries, err)
	}
	if other, err := MyID(t.TempDir()); err != nil || other == ids[0] {
		t.Errorf("two nodes have the id %q, %v", other, err)
	}
}

func TestMyIDOfAPerson(t *testing.T) {
	for content, want := range map[string]string{"rack-7.node_2": "rack-7.node_2", "a\n": "a", "-b\r\n": "-b"} {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "myid"), content)
		if got, err := MyID(dir); got != want || err != nil {
			t.Errorf("%q: got %q, %v", content, got, err)
		}
	}
}

func TestMyIDThatIsNoNameStopsAndStays(t *testing.T) {
	for _, content := range []string{"", "\n", "a b", "../x", "a\nb"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "myid")
		put(t, path, content)
		_, err := MyID(dir)
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || corrupt.Path != path {
			t.Errorf("%q: got %v", content, err)
		}
		if slurp(t, path) != content {
			t.Errorf("%q was changed", content)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	put(t, file, "")
	if _, err := MyID(file); err == nil {
		t.Error("a file as directory was accepted")
	}
}
