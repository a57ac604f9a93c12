package snapshot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"
)

// only fails the test if the directory holds anything else than the names.
func only(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("the directory holds %v, want %v", got, names)
	}
}

func TestASavedSnapshotIsTheStream(t *testing.T) {
	for _, size := range []int{512, 4096, 1<<18 + 512} {
		dir, want, reported := t.TempDir(), stream(size), 0
		path := filepath.Join(dir, "s.db")
		n, err := Save(t.Context(), SaveOptions{
			Source: of(iotest.HalfReader(bytes.NewReader(want))), Path: path, Stall: time.Minute, Progress: func(n int) {
				reported += n
			},
		})
		if err != nil || n != int64(len(want)) || reported != len(want) {
			t.Fatalf("saved %d bytes, reported %d, %v", n, reported, err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the file has %d bytes, %v", len(got), err)
		}
		if st, err := os.Stat(path); err != nil || st.Mode() != 0o600 {
			t.Errorf("its mode is %v, %v", st.Mode(), err)
		}
		only(t, dir, "s.db")
	}
}

func TestStreamsThatAreNoSnapshot(t *testing.T) {
	good := stream(1 << 16)
	flipped := bytes.Clone(good)
	flipped[1000] ^= 1
	lost := errors.New("connection lost")
	for name, tc := range map[string]struct {
		source source
		want   error
	}{
		"empty":          {of(), ErrDamaged},
		"only a digest":  {of(bytes.NewReader(stream(0))), ErrDamaged},
		"without digest": {of(bytes.NewReader(good[:1<<16])), ErrDamaged},
		"cut off":        {of(bytes.NewReader(good[:512*100+32])), ErrDamaged},
		"one bit wrong":  {of(bytes.NewReader(flipped)), ErrDamaged},
		"breaks off":     {of(bytes.NewReader(good[:1000]), iotest.ErrReader(lost)), lost},
		"refused":        {func(context.Context) (io.ReadCloser, error) { return nil, lost }, lost},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := Save(t.Context(), SaveOptions{Source: tc.source, Path: filepath.Join(dir, "s.db")})
			if !errors.Is(err, tc.want) {
				t.Error(err)
			}
			only(t, dir)
		})
	}
}

func TestAFileIsReplacedOnlyByForce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.db")
	if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	called := false
	_, err := Save(t.Context(), SaveOptions{Path: path, Source: source(func(context.Context) (io.ReadCloser, error) {
		called = true
		return nil, errors.New("no")
	})})
	var exists *ExistsError
	if !errors.As(err, &exists) || exists.Path != path || called {
		t.Errorf("the error is %v, etcd was asked: %t", err, called)
	}
	// A failure leaves what is there, also with force.
	if _, err := Save(t.Context(), SaveOptions{Path: path, Force: true, Source: of()}); err == nil {
		t.Error("nothing was saved, without error")
	}
	if b, err := os.ReadFile(path); string(b) != "mine" {
		t.Errorf("the file is %q, %v", b, err)
	}
	if _, err := Save(t.Context(), SaveOptions{
		Path: path, Force: true, Source: of(bytes.NewReader(stream(512))),
	}); err != nil {
		t.Error(err)
	}
	if st, err := os.Stat(path); err != nil || st.Size() != 544 || st.Mode() != 0o600 {
		t.Errorf("the file is %v, %v", st, err)
	}
	only(t, dir, "s.db")
}

// A file that comes up while the stream is read is not overwritten either.
func TestAFileThatComesUpMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	_, err := Save(t.Context(), SaveOptions{Path: path, Source: source(func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(stream(512))), os.WriteFile(path, []byte("theirs"), 0o600)
	})})
	if !errors.As(err, new(*ExistsError)) {
		t.Error(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "theirs" {
		t.Errorf("the file is %q", b)
	}
}

func TestPlacesThatCannotBeWrittenTo(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/dev/null", filepath.Join(dir, "link.part")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir:                                "is a directory",
		filepath.Join(dir, "none", "s.db"): "no such file or directory",
		filepath.Join(dir, "link"):         "link.part",
	} {
		_, err := Save(t.Context(), SaveOptions{Source: of(bytes.NewReader(stream(512))), Path: path, Force: true})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	only(t, dir, "link.part")
}

func TestWhatAKilledSaveLeft(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.db")
	if err := os.WriteFile(path+".part", bytes.Repeat([]byte("x"), 10_000), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Save(t.Context(), SaveOptions{Source: of(bytes.NewReader(stream(512))), Path: path}); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Size() != 544 || st.Mode() != 0o600 {
		t.Errorf("the file is %v, %v", st, err)
	}
	only(t, dir, "s.db")
}

func TestTwoSavesOfOnePath(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.db")
	first := source(func(context.Context) (io.ReadCloser, error) {
		_, err := Save(t.Context(), SaveOptions{Source: of(bytes.NewReader(stream(512))), Path: path})
		if !errors.Is(err, ErrBusy) {
			t.Errorf("the second ended with %v", err)
		}
		return io.NopCloser(bytes.NewReader(stream(1024))), nil
	})
	if n, err := Save(t.Context(), SaveOptions{Source: first, Path: path}); n != 1056 || err != nil {
		t.Errorf("the first saved %d bytes, %v", n, err)
	}
	only(t, dir, "s.db")
}

func TestAClaimedFileThatHasGotItsName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.part")
	f, err := claim(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !isAt(f, path) {
		t.Error("the file is not where it is")
	}
	if err := os.Rename(path, path+"2"); err != nil {
		t.Fatal(err)
	}
	if isAt(f, path) {
		t.Error("a renamed file is said to be where it was")
	}
}

func TestAStreamThatStalls(t *testing.T) {
	dir := t.TempDir()
	h := newHanging(stream(4096)[:1000])
	began := time.Now()
	_, err := Save(t.Context(), SaveOptions{
		Source: source(func(context.Context) (io.ReadCloser, error) { return h, nil }), Path: filepath.Join(dir, "s.db"),
		Stall: 50 * time.Millisecond,
	})
	if err == nil || !strings.Contains(err.Error(), "sent nothing for 50ms") || time.Since(began) > 5*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
	only(t, dir)
}

func TestACancelledSave(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	h := newHanging(nil)
	_, err := Save(ctx, SaveOptions{Path: filepath.Join(dir, "s.db"),
		Source: source(func(context.Context) (io.ReadCloser, error) {
			time.AfterFunc(10*time.Millisecond, cancel)
			return h, nil
		})})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	only(t, dir)
}

func TestAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
	path := filepath.Join(dir, "s.db")
	_, err := Save(t.Context(), SaveOptions{Source: of(bytes.NewReader(stream(1 << 20))), Path: path})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "s.db.part: no space left on device") {
		t.Error(err)
	}
	only(t, dir)
	if _, err := Save(t.Context(), SaveOptions{Source: of(bytes.NewReader(stream(512))), Path: path}); err != nil {
		t.Errorf("the disk stays full: %v", err)
	}
}

func TestADirectoryThatVanishes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Save(t.Context(),
		SaveOptions{Path: filepath.Join(dir, "s.db"), Source: source(func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(stream(512))), os.RemoveAll(dir)
		})})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
