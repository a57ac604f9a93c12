package imagebuild

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/etcdadm/etcdadm/images/sourcetree"
)

var amd64, arm64 = v1.Platform{OS: "linux", Architecture: "amd64"}, v1.Platform{OS: "linux", Architecture: "arm64"}

// logRunnerDir has the one program that is built: Kubernetes' log runner, which is small and
// made of several modules.
var logRunnerDir string

// sourceRoot is the top of this source tree.
var sourceRoot string

// licenses are kept: what is linked into a program does not change while tests run.
var licenses = map[string][]byte{}

func TestMain(m *testing.M) {
	code, err := withLogRunner(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withLogRunner(m *testing.M) (code int, err error) {
	if logRunnerDir, err = os.MkdirTemp("", "imagebuild-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(logRunnerDir)) }()
	b := &builder{progress: io.Discard, done: map[string]bool{}}
	if b.source, err = sourcetree.Find(context.Background(), ".", "v1.2.3"); err != nil {
		return 1, err
	}
	sourceRoot = b.source.Root
	err = b.program(context.Background(), logRunner, v1.Platform{OS: "linux", Architecture: runtime.GOARCH},
		filepath.Join(logRunnerDir, logRunner))
	if err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// newFixture returns a builder whose programs are all built already: each is the log
// runner under another name.
func newFixture(t *testing.T, platforms ...v1.Platform) *builder {
	t.Helper()
	lowest, err := base(gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	b := &builder{
		source: sourcetree.Tree{
			Root: sourceRoot, Version: "v1.2.3", Commit: strings.Repeat("ab", 20), Time: time.Unix(1_700_000_000, 0).UTC(),
		},
		base: lowest, platforms: platforms, work: t.TempDir(), progress: io.Discard, done: map[string]bool{},
		level: gzip.BestSpeed, licenses: licenses,
	}
	for _, p := range platforms {
		dir := filepath.Join(b.work, p.OS+"-"+p.Architecture)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, r := range ours {
			for name := range r.Programs {
				out := filepath.Join(dir, name)
				err := os.Symlink(filepath.Join(logRunnerDir, logRunner), out)
				if err != nil && !errors.Is(err, os.ErrExist) {
					t.Fatal(err)
				}
				b.done[out] = true
			}
		}
	}
	return b
}

func (b *builder) must(t *testing.T, name string) *built {
	t.Helper()
	chosen, err := choose([]string{name}, nil)
	if err != nil {
		t.Fatal(err)
	}
	img, err := b.image(t.Context(), chosen[0])
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// files lists what is in an image, a line for each entry.
func files(t *testing.T, img v1.Image) []string {
	t.Helper()
	r := mutate.Extract(img)
	defer r.Close()
	var list []string
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%s /%s", h.FileInfo().Mode(), h.Name)
		if h.Linkname != "" {
			line += " -> " + h.Linkname
		}
		list = append(list, line)
	}
}
