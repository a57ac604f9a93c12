package etcdbuild

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A fixture is a source tree of small programs that build in a second, and an
// empty cache.
type fixture struct {
	Builder
	log *log
}

const fixtureMod = "module example.com/fixture/v3\n\ngo 1.26.0\n\ntool " +
	"(\n\texample.com/fixture/v3/etcdctl\n\texample.com/fixture/v3/server\n)\n"

// newFixture makes a fixture whose version 1.2.3 has the binaries etcd and
// etcdctl, as a module without dependencies, and keeps the go command off the
// network.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	t.Setenv("GOPROXY", "off")
	l := &log{}
	f := &fixture{log: l, Builder: Builder{Modules: t.TempDir(), Cache: t.TempDir(), Progress: l}}
	f.write(t, "1.2.3/go.mod", fixtureMod)
	f.write(t, "1.2.3/server/main.go", program("server one"))
	f.write(t, "1.2.3/etcdctl/main.go", program("ctl one"))
	return f
}

// program is the source of a program that prints text on stderr.
func program(text string) string {
	return "package main\n\nfunc main() { print(`" + text + "`) }\n"
}

func (f *fixture) write(t *testing.T, name, content string) {
	t.Helper()
	file := filepath.Join(f.Modules, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// build builds version 1.2.3.
func (f *fixture) build(t *testing.T) string {
	t.Helper()
	dir, err := f.Build(t.Context(), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// keyOf returns the key of version 1.2.3.
func (f *fixture) keyOf(t *testing.T) string {
	t.Helper()
	key, err := f.Key(t.Context(), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// entries lists a directory of the cache, empty if it does not exist.
func (f *fixture) entries(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(f.Cache, dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	hidden, err := filepath.Glob(filepath.Join(f.Cache, dir, ".*"))
	if err != nil {
		t.Fatal(err)
	}
	return append(names, hidden...)
}

// output runs a program and returns what it says.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("run %s: %v\n%s", name, err, out)
	}
	return string(out)
}

// A log collects progress from builders at work at the same time.
type log struct {
	mu   sync.Mutex
	text strings.Builder
	// on, if set, is called with each line.
	on func(line string)
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.on != nil {
		l.on(string(p))
	}
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
