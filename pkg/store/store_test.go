package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/store/storetest"
)

// raceDir makes the test binary a racer in TestRaceOfProcesses.
const raceDir = "STORE_TEST_RACE_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(raceDir); dir != "" {
		race(dir)
		return
	}
	os.Exit(m.Run())
}

func open(t *testing.T, location string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDirectory(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() *store.Store {
		dir := filepath.Join(t.TempDir(), "not", "yet")
		return func() *store.Store { return open(t, "file://"+dir) }
	})
}

func TestMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() *store.Store {
		b := memblob.OpenBucket(nil)
		return func() *store.Store { return store.New(b) }
	})
}

// A bucket without digests, as some clouds are.
func TestMemoryWithoutDigests(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() *store.Store {
		b := memblob.OpenBucket(&memblob.Options{NoMD5: true})
		return func() *store.Store { return store.New(b) }
	})
}

const raceRounds = 100

func record(n int, token string) cluster.Incarnation {
	return cluster.Incarnation{
		Number: n, Token: cluster.Token(token), Version: etcdversion.Must("3.6.16"), At: time.Now(), By: "a",
		Voters: []cluster.InitialMember{{Name: "a", PeerURLs: []string{"https://a:2380"}}},
	}
}

// race is one process of TestRaceOfProcesses: it waits for its standard input
// to end, then tries to create each incarnation and prints whose it is.
func race(dir string) {
	ctx := context.Background()
	s, err := store.Open(ctx, dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	me := fmt.Sprint("process-", os.Getpid())
	for n := 1; n <= raceRounds; n++ {
		err := s.CreateIncarnation(ctx, record(n, me))
		var exists *store.ExistsError
		switch {
		case err == nil:
			fmt.Println(n, "won", me)
		case errors.As(err, &exists):
			fmt.Println(n, "lost", exists.Existing.Token)
		default:
			fmt.Println(n, "error", err)
		}
	}
}

func TestRaceOfProcesses(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	const racers = 4
	var outputs []*bufio.Scanner
	var start []func() error
	for range racers {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), raceDir+"="+dir)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		outputs, start = append(outputs, bufio.NewScanner(out)), append(start, in.Close)
	}
	for _, out := range outputs {
		if !out.Scan() || out.Text() != "ready" {
			t.Fatalf("a racer says %q, %v", out.Text(), out.Err())
		}
	}
	for _, begin := range start {
		if err := begin(); err != nil {
			t.Fatal(err)
		}
	}
	winners, owners, answers := map[string]int{}, map[string]string{}, 0
	for _, out := range outputs {
		for out.Scan() {
			word := strings.Fields(out.Text())
			answers++
			if word[1] == "won" {
				winners[word[0]]++
			}
			if owner, ok := owners[word[0]]; ok && owner != word[2] || word[1] == "error" {
				t.Errorf("%s, but others say %s", out.Text(), owner)
			}
			owners[word[0]] = word[2]
		}
	}
	for n, count := range winners {
		if count != 1 {
			t.Errorf("incarnation %s has %d winners", n, count)
		}
	}
	if len(winners) != raceRounds || answers != racers*raceRounds {
		t.Errorf("%d incarnations, %d answers", len(winners), answers)
	}
}

func TestFilesOfADirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	s, ctx := open(t, dir), t.Context()
	if _, err := s.Poll(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading made the directory: %v", err)
	}
	if err := s.CreateIncarnation(ctx, record(1, "x")); err != nil {
		t.Fatal(err)
	}
	if err := s.PutNode(ctx, store.NodeRecord{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Upload(ctx, "b/data", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]fs.FileMode{
		".": 0o755 | fs.ModeDir, "control": 0o755 | fs.ModeDir, "control/incarnations": 0o755 | fs.ModeDir,
		"control/incarnations/1": 0o600, "control/nodes/a": 0o600, "b/data": 0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s has mode %v, %v, want %v", path, info.Mode(), err, mode)
		}
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if strings.HasPrefix(d.Name(), ".") || strings.HasSuffix(d.Name(), ".attrs") {
			t.Errorf("%s was left behind", path)
		}
		return err
	})
}

func TestDeletingLeavesNoDirectories(t *testing.T) {
	dir := t.TempDir()
	s, ctx := open(t, dir), t.Context()
	write := func(path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("2026-11-20T10:39:37Z-000001/etcd.backup.gz")
	write("2026-11-20T10:39:37Z-000001/_etcd_backup.meta")
	write("2026-11-20T10:39:37Z-000001/.tmp-123")
	write("control/2026-11-20T10:39:37Z-000000/_command.json")
	if err := s.DeleteBackup(ctx, "2026-11-20T10:39:37Z-000001"); err != nil {
		t.Error(err)
	}
	if err := s.DeleteCommand(ctx, "2026-11-20T10:39:37Z-000000"); err != nil {
		t.Error(err)
	}
	var left []string
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		left = append(left, path)
		return err
	})
	if len(left) != 2 {
		t.Errorf("left are %v, want the store and control", left)
	}
	write("2026-11-20T10:39:38Z-000001/etcd.backup.gz")
	write("2026-11-20T10:39:38Z-000001/.git/config")
	if err := s.DeleteBackup(ctx, "2026-11-20T10:39:38Z-000001"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "2026-11-20T10:39:38Z-000001/.git/config")); err != nil {
		t.Errorf("a file of somebody else was deleted: %v", err)
	}
}

// What cannot be read is not taken for empty.
func TestDirectoryThatCannotBeRead(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"a file where the store should be": func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"a link to nowhere":                func(dir string) error { return os.Symlink(dir+"-unmounted", dir) },
		"a parent that is a link to nowhere": func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Dir(dir)), os.Symlink("unmounted", filepath.Dir(dir)))
		},
		"a link to itself": func(dir string) error { return os.Symlink(dir, dir) },
		"a parent that is a file": func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Dir(dir)), os.WriteFile(filepath.Dir(dir), nil, 0o600))
		},
		"a file where control should be": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(dir+"/control", nil, 0o600))
		},
		"control as a link to nowhere": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o755), os.Symlink("nowhere", dir+"/control"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "parent", "store")
			if err := errors.Join(os.Mkdir(filepath.Dir(dir), 0o755), spoil(dir)); err != nil {
				t.Fatal(err)
			}
			s, ctx := open(t, dir), t.Context()
			_, err := s.Poll(ctx)
			if !errors.Is(err, store.ErrUnreachable) {
				t.Errorf("a poll says %v", err)
			}
			if !strings.Contains(name, "control") {
				if b, err := s.Backups(ctx); !errors.Is(err, store.ErrUnreachable) {
					t.Errorf("backups are %v, %v", b, err)
				}
			}
			if made, err := s.Create(ctx, "control/incarnations/1", nil); made || err == nil {
				t.Errorf("created an object: %t, %v", made, err)
			}
		})
	}
}

func TestDirectoryWithStrangeFiles(t *testing.T) {
	dir := t.TempDir()
	s, ctx := open(t, dir), t.Context()
	if err := s.PutNode(ctx, store.NodeRecord{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "spec")
	for _, err := range []error{
		syscall.Mkfifo(dir+"/control/etcd-cluster-created", 0o600),
		syscall.Mkfifo(dir+"/control/nodes/pipe", 0o600),
		os.WriteFile(target, []byte(`{"memberCount":3}`), 0o600),
		os.Symlink(target, dir+"/control/etcd-cluster-spec"),
		os.Symlink("gone", dir+"/control/nodes/dangling"),
		os.Symlink("..", dir+"/control/requests"),
		os.Mkdir(dir+"/lost+found", 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	v, err := s.Poll(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if v.Spec == nil || v.Spec.MemberCount != 3 {
		t.Errorf("a linked spec is not read: %+v, %v", v.Spec, v.SpecErr)
	}
	if v.Created.IsZero() {
		t.Error("a marker that is a pipe is taken for none")
	}
	if len(v.Nodes) != 1 || len(v.Problems) < 2 {
		t.Errorf("nodes are %+v, problems %q", v.Nodes, v.Problems)
	}
	if _, err := s.Get(ctx, "control/nodes/pipe"); !errors.Is(err, store.ErrGarbage) {
		t.Errorf("a pipe is read: %v", err)
	}
}

// registerTestBucket registers a driver whose buckets lie in a directory.
func registerTestBucket(dir string) {
	store.Register("storetest", func(u *url.URL) (store.Dial, error) {
		if u.Host != "bucket" || u.RawQuery != "region=x" {
			return nil, fmt.Errorf("unexpected bucket %s", u.Host)
		}
		return func(context.Context) (*store.Bucket, error) {
			b, err := fileblob.OpenBucket(dir, nil)
			return &store.Bucket{Blobs: b, Dir: u.Path}, err
		}, nil
	})
}

func TestLocations(t *testing.T) {
	dir := t.TempDir()
	registerTestBucket(dir)
	for location, want := range map[string]string{
		"":                        "empty",
		"s3://bucket/path":        "no driver for s3://",
		"azureblob://c/k":         "file://, mem://, storetest://",
		"file://backups/etcd":     "file:///backups/etcd",
		"file://./x":              "absolute",
		"storetest://other":       "unexpected bucket",
		"storetest://b\x7f/x?s=1": "not a URL",
		"storetset://bucket":      "no driver for storetset://; did you mean storetest://? a location is",
		"fiel:///x":               "no driver for fiel://; did you mean file://? a location is",
		"men://":                  "no driver for men://; did you mean mem://? a location is",
		"ssh://host":              "no driver for ssh://; a location is",
	} {
		if _, err := store.Open(t.Context(), location); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error that contains %q", location, err, want)
		}
	}
	for _, location := range []string{"mem://", "mem://x", "relative/path"} {
		if err := open(t, location).Close(t.Context()); err != nil {
			t.Errorf("%s: %v", location, err)
		}
	}
	s := open(t, "storetest://bucket/some/path/?region=x")
	if err := s.Put(t.Context(), "control/x", []byte("y")); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "some/path/control/x")); err != nil || string(b) != "y" {
		t.Errorf("the path of the URL is not used: %q, %v", b, err)
	}
	// After a trailing slash, percent signs and a question mark the path is as it is.
	odd := filepath.Join(t.TempDir(), "100%25?x=1")
	if err := open(t, "file://"+odd+"/").Put(t.Context(), "a", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(odd, "a")); err != nil {
		t.Error(err)
	}
}
