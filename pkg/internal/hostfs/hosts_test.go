package hostfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

const key = "etcd-manager[etcd]"

const localhost = "127.0.0.1\tlocalhost\n"

// guarded returns a block of our key with these lines.
func guarded(lines string) string {
	return "# Begin host entries managed by etcd-manager[etcd] - do not edit\n" + lines +
		"# End host entries managed by etcd-manager[etcd]\n"
}

func entries(pairs ...string) []cluster.HostEntry {
	var out []cluster.HostEntry
	for _, p := range pairs {
		a, n, _ := strings.Cut(p, "=")
		out = append(out, cluster.HostEntry{Address: a, Name: n})
	}
	return out
}

func TestWriteHosts(t *testing.T) {
	ab := entries("10.0.0.2=b.x", "10.0.0.1=a.x")
	block := guarded("10.0.0.1\ta.x\n10.0.0.2\tb.x\n")
	begin, end := newBlock(key).begin+"\n", newBlock(key).end+"\n"
	for _, c := range []struct {
		name, before string
		entries      []cluster.HostEntry
		after        string
	}{
		{"appended after one blank line", localhost, ab, localhost + "\n" + block},
		{"empty file", "", ab, block},
		{"file without a last newline", "127.0.0.1\tlocalhost", ab, localhost + "\n" + block},
		{"blank lines at the end become one", localhost + "\n\n \n", ab, localhost + "\n" + block},
		{"old lines replaced", localhost + "\n" + guarded("10.0.0.9\tz.x\n"), ab, localhost + "\n" + block},
		{"names of one address share a line", localhost, entries("10.0.0.1=b", "10.0.0.1=a", "10.0.0.1=b", "fd00::1=a"),
			localhost + "\n" + guarded("10.0.0.1\ta b\nfd00::1\ta\n")},
		{"moved to the end", localhost + "\n" + guarded("") + "10.9.9.9\tuser\n", ab,
			localhost + "10.9.9.9\tuser\n\n" + block},
		{"duplicate blocks", localhost + "\n" + block + "\n" + guarded("10.0.0.7\tformer\n"), ab, localhost + "\n" + block},
		{"block inside a block", localhost + begin + "10.0.0.7\tformer\n" + block + "10.0.0.8\tformer\n" + end, ab,
			localhost + "\n" + block},
		{"end without beginning", localhost + end, ab, localhost + "\n" + block},
		{"beginning without end", localhost + begin + "10.0.0.7\tformer\n\n10.9.9.9\tuser\n", ab,
			localhost + "\n10.9.9.9\tuser\n\n" + block},
		{"beginning without end before localhost", begin + "10.0.0.7\tformer\n" + localhost + "::1\tlocalhost\n", ab,
			localhost + "::1\tlocalhost\n\n" + block},
		{"torn block before a whole one", localhost + begin + "10.0.0.7\tformer\n" + block, ab, localhost + "\n" + block},
		{"other keys stay", localhost + "\n" + strings.ReplaceAll(block, "[etcd]", "[etcd-events]"), ab,
			localhost + "\n" + strings.ReplaceAll(block, "[etcd]", "[etcd-events]") + "\n" + block},
		{"right in the middle stays", localhost + "\n" + block + "10.9.9.9\tuser\n", ab,
			localhost + "\n" + block + "10.9.9.9\tuser\n"},
		{"right but without a blank line", localhost + block, ab, localhost + "\n" + block},
		{"windows line ends stay", "127.0.0.1\tlocalhost\r\n", ab, "127.0.0.1\tlocalhost\r\n\n" + block},
		{"no entries removes the block", localhost + "\n" + block, nil, localhost},
		{"no entries and only a block", block, nil, ""},
		{"no entries and no block", localhost + "\n\n\n", nil, localhost + "\n\n\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "hosts")
			put(t, path, c.before)
			changed, err := WriteHosts(t.Context(), path, key, c.entries)
			if err != nil || changed != (c.before != c.after) {
				t.Errorf("changed %v, error %v", changed, err)
			}
			wantContent(t, path, c.after)
			if changed, err := WriteHosts(t.Context(), path, key, c.entries); changed || err != nil {
				t.Errorf("second write: changed %v, error %v", changed, err)
			}
			got, err := readHosts(path, key)
			want := slices.Clone(c.entries)
			slices.SortFunc(want, compareEntries)
			want = slices.Compact(want)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("read back %v, %v, want %v", got, err, want)
			}
		})
	}
}

func TestWriteHostsDoesNotTouchRightFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	if changed, err := WriteHosts(t.Context(), path, key, nil); changed || err != nil {
		t.Fatalf("no entries, no file: %v, %v", changed, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a file was made for no entries: %v", err)
	}
	if _, err := WriteHosts(t.Context(), path, key, entries("10.0.0.1=a")); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := WriteHosts(t.Context(), path, key, entries("10.0.0.1=a")); changed || err != nil {
		t.Fatalf("changed %v, %v", changed, err)
	}
	after, err := os.Stat(path)
	if err != nil || !after.ModTime().Equal(before.ModTime()) || !os.SameFile(before, after) {
		t.Fatalf("file was written again: %v %v %v", before, after, err)
	}
}

// A container's hosts file is a bind mount: it can be written, not renamed over.
func TestWriteHostsInPlaceOnBindMount(t *testing.T) {
	dir := t.TempDir()
	host, path := filepath.Join(dir, "host"), filepath.Join(dir, "hosts")
	put(t, host, localhost)
	put(t, path, "")
	if err := unix.Mount(host, path, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("bind mounts are not permitted here: %v", err)
	}
	defer unix.Unmount(path, unix.MNT_DETACH)
	if err := os.Rename(host, path); err == nil {
		t.Fatal("this is no mount point")
	}
	if _, err := WriteHosts(t.Context(), path, key, entries("10.0.0.1=a")); err != nil {
		t.Fatal(err)
	}
	wantContent(t, host, localhost+"\n"+guarded("10.0.0.1\ta\n"))
}

func TestWriteHostsOfManyWritersKeepsAllBlocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	put(t, path, localhost)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for round := range 3 {
				_, err := WriteHosts(t.Context(), path, fmt.Sprintf("key-%d", i), entries(fmt.Sprintf("10.0.%d.%d=a", i, round)))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	settled, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		last := entries(fmt.Sprintf("10.0.%d.2=a", i))
		if changed, err := WriteHosts(t.Context(), path, fmt.Sprintf("key-%d", i), last); changed || err != nil {
			t.Errorf("key %d does not leave the right file alone: %v, %v", i, changed, err)
		}
		got, err := readHosts(path, fmt.Sprintf("key-%d", i))
		if want := entries(fmt.Sprintf("10.0.%d.2=a", i)); err != nil || !slices.Equal(got, want) {
			t.Errorf("key %d has %v, %v", i, got, err)
		}
	}
	if !strings.HasPrefix(string(settled), localhost) {
		t.Errorf("lines of others are lost: %q", settled)
	}
}

// rudeWriter returns a function that puts content into the file, without the
// lock, the first n times that it is called.
func rudeWriter(t *testing.T, path, content string, n int) func(context.Context) error {
	t.Helper()
	return func(context.Context) error {
		if n--; n >= 0 {
			put(t, path, content)
		}
		return nil
	}
}

func TestWriteHostsWritesAgainAfterOverwrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	put(t, path, localhost)
	rude := rudeWriter(t, path, localhost, hostsTries-1)
	changed, err := writeHosts(t.Context(), path, newBlock(key), entries("10.0.0.1=a"), rude)
	if !changed || err != nil {
		t.Fatalf("changed %v, %v", changed, err)
	}
	wantContent(t, path, localhost+"\n"+guarded("10.0.0.1\ta\n"))
}

func TestWriteHostsGivesUpInTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	put(t, path, localhost)
	rude := rudeWriter(t, path, localhost, hostsTries)
	_, err := writeHosts(t.Context(), path, newBlock(key), entries("10.0.0.1=a"), rude)
	if !errors.Is(err, ErrOverwritten) || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v, want ErrOverwritten and the path", err)
	}
	wantContent(t, path, localhost)
}

func TestWriteHostsGivesUpWaitingForTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	put(t, path, localhost)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := flock(f); err != nil {
		t.Fatal(err)
	}
	changed, err := WriteHosts(t.Context(), path, key, entries("10.0.0.1=a"))
	if changed || !errors.Is(err, unix.EWOULDBLOCK) {
		t.Fatalf("changed %v, got %v", changed, err)
	}
	wantContent(t, path, localhost)
}

// A daemon that ends waits for nobody who has the lock, nor for who writes over its block.
func TestWriteHostsEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	put(t, path, localhost)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	changed, err := WriteHosts(ctx, path, key, entries("10.0.0.1=a"))
	if !changed || !errors.Is(err, enough) {
		t.Errorf("after its write: changed %v, got %v", changed, err)
	}
	wantContent(t, path, localhost+"\n"+guarded("10.0.0.1\ta\n"))
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := flock(f); err != nil {
		t.Fatal(err)
	}
	changed, err = WriteHosts(ctx, path, key, entries("10.0.0.2=a"))
	if changed || !errors.Is(err, enough) || !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("beside who has the lock: changed %v, got %v", changed, err)
	}
}

func TestWriteHostsRefusesWhatBreaksTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	put(t, path, localhost)
	for _, c := range []struct {
		key     string
		entries []cluster.HostEntry
		want    string
	}{
		{"", nil, "key"},
		{"a\nb", nil, "key"},
		{key, entries("10.0.0.1="), "not a host name"},
		{key, entries("10.0.0.1=a b"), "not a host name"},
		{key, entries("10.0.0.1=a#b"), "not a host name"},
		{key, entries("10.0.0.1=a\n1.2.3.4\tbank.example"), "not a host name"},
		{key, entries("10.0.0=a"), "not an IP address"},
		{key, entries("=a"), "not an IP address"},
	} {
		if _, err := WriteHosts(t.Context(), path, c.key, c.entries); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %v: got %v, want %q", c.key, c.entries, err, c.want)
		}
	}
	wantContent(t, path, localhost)
}

func TestHostsFileThatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := WriteHosts(t.Context(), dir, key, entries("10.0.0.1=a")); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("got %v, want EISDIR", err)
	}
	if _, err := readHosts(dir, key); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("got %v, want EISDIR", err)
	}
	if got, err := readHosts(filepath.Join(dir, "none"), key); len(got) != 0 || err != nil {
		t.Errorf("missing file: %v, %v", got, err)
	}
	_, err := WriteHosts(t.Context(), filepath.Join(dir, "no", "dir"), key, entries("10.0.0.1=a"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want not exist", err)
	}
}

func TestOverwriteOnFullDiskKeepsTheLinesOfOthers(t *testing.T) {
	dir := tinyDisk(t)
	path := filepath.Join(dir, "hosts")
	put(t, path, localhost)
	var many []cluster.HostEntry
	for i := range 5000 {
		many = append(many, cluster.HostEntry{Address: fmt.Sprintf("10.1.%d.%d", i/250, i%250), Name: "node"})
	}
	if _, err := WriteHosts(t.Context(), path, key, many); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v, want ENOSPC", err)
	}
	if content, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(content), localhost) {
		t.Fatalf("file begins %.40q, %v", content, err)
	}
	if _, err := WriteHosts(t.Context(), path, key, entries("10.0.0.1=a")); err != nil {
		t.Fatal(err)
	}
	wantContent(t, path, localhost+"\n"+guarded("10.0.0.1\ta\n"))
}

func TestHostsKeyIsTheExistingOne(t *testing.T) {
	if got := HostsKey("etcd"); got != key {
		t.Fatalf("got %q, want %q", got, key)
	}
}

// Whatever is in the file: rendering twice is rendering once, the entries can
// be read back, and no line of anybody else is invented.
func FuzzRender(f *testing.F) {
	b := newBlock(key)
	f.Add(localhost + guarded("10.0.0.1\ta\n"))
	f.Add(b.begin + "\n" + b.begin + "\n\n" + b.end)
	f.Add(b.end + "\n\n" + b.begin + "\n10.0.0.1\ta\n\n\nx")
	f.Fuzz(func(t *testing.T, content string) {
		for _, e := range [][]cluster.HostEntry{nil, entries("10.0.0.1=a", "10.0.0.2=b")} {
			once := b.render(content, e)
			if twice := b.render(once, e); twice != once {
				t.Fatalf("once %q, twice %q", once, twice)
			}
			if got := b.entries(once); !slices.Equal(got, e) {
				t.Fatalf("wrote %v, read %v", e, got)
			}
			for line := range strings.SplitSeq(strings.Replace(once, guarded("10.0.0.1\ta\n10.0.0.2\tb\n"), "", 1), "\n") {
				if !strings.Contains(content, line) {
					t.Fatalf("line %q is new", line)
				}
			}
		}
	})
}

// readHosts returns the entries of the blocks with the given key in the hosts
// file at path, sorted by address and name, each once. A missing file has none.
func readHosts(path, key string) ([]cluster.HostEntry, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read hosts file: %w", err)
	}
	return newBlock(key).entries(string(content)), nil
}
