package etcdbuild

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestBuildMakesEveryToolAndLinksTheDirectory(t *testing.T) {
	f := newFixture(t)
	dir := f.build(t)
	if got := output(t, filepath.Join(dir, "etcd")); got != "server one" {
		t.Errorf("etcd says %q", got)
	}
	if got := output(t, filepath.Join(f.Bin(), "etcd-v1.2.3", "etcdctl")); got != "ctl one" {
		t.Errorf("etcdctl on the search path says %q", got)
	}
	for _, want := range []string{
		"etcd 1.2.3: build etcd ...\n", "etcd 1.2.3: build etcd, took ", "etcd 1.2.3: build etcdctl, took ",
	} {
		if !strings.Contains(f.log.String(), want) {
			t.Errorf("progress lacks %q:\n%s", want, f.log)
		}
	}
}

func TestSecondBuildUsesTheFirst(t *testing.T) {
	f := newFixture(t)
	dir := f.build(t)
	before := f.log.String()
	if again := f.build(t); again != dir {
		t.Errorf("second build is in %s, first in %s", again, dir)
	}
	if got := f.log.String(); got != before {
		t.Errorf("second build did something: %s", strings.TrimPrefix(got, before))
	}
}

func TestChangedFolderGetsItsOwnDirectoryAndTheLink(t *testing.T) {
	f := newFixture(t)
	old := f.build(t)
	f.write(t, "1.2.3/server/main.go", program("server two"))
	fresh := f.build(t)
	if fresh == old {
		t.Fatal("a changed folder gives the old build")
	}
	if got := output(t, filepath.Join(old, "etcd")); got != "server one" {
		t.Errorf("the old build has become %q", got)
	}
	if got := output(t, filepath.Join(f.Bin(), "etcd-v1.2.3", "etcd")); got != "server two" {
		t.Errorf("the search path still leads to %q", got)
	}
	if got := f.entries(t, "bin"); len(got) != 1 {
		t.Errorf("the search path has more than the link: %v", got)
	}
}

func TestConcurrentBuildersBuildOnce(t *testing.T) {
	f := newFixture(t)
	dirs := make([]string, 4)
	errs := make([]error, len(dirs))
	var all sync.WaitGroup
	for i := range dirs {
		// Each has a lock of its own, as separate processes do.
		b := f.Builder
		all.Go(func() { dirs[i], errs[i] = b.Build(t.Context(), "1.2.3") })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if got := slices.Compact(dirs); len(got) != 1 {
		t.Errorf("the builders have different directories: %v", got)
	}
	if n := strings.Count(f.log.String(), "build etcd, took"); n != 1 {
		t.Errorf("etcd was built %d times:\n%s", n, f.log)
	}
}

func TestFailingBuildLeavesNothing(t *testing.T) {
	f := newFixture(t)
	// etcdctl is built first and succeeds, so there is something to clear away.
	f.write(t, "1.2.3/server/main.go", "package main\n\nfunc main() { nonesuch() }\n")
	_, err := f.Build(t.Context(), "1.2.3")
	if err == nil || !strings.Contains(err.Error(), "build etcd 1.2.3: compile etcd:") ||
		!strings.Contains(err.Error(), "undefined: nonesuch") {
		t.Errorf("error does not say what failed and why: %v", err)
	}
	for _, dir := range []string{"etcd", "bin"} {
		if got := f.entries(t, dir); len(got) != 0 {
			t.Errorf("left behind: %v", got)
		}
	}
	f.write(t, "1.2.3/server/main.go", program("fixed"))
	if got := output(t, filepath.Join(f.build(t), "etcd")); got != "fixed" {
		t.Errorf("after fixing, etcd says %q", got)
	}
}

func TestInterruptedBuildLeavesNothing(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.log.on = func(line string) {
		if strings.Contains(line, "build etcd ...") {
			cancel()
		}
	}
	if _, err := f.Build(ctx, "1.2.3"); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if got := f.entries(t, "etcd"); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}

func TestRemainsOfAKilledBuilderAreClearedAway(t *testing.T) {
	f := newFixture(t)
	partial := filepath.Join(f.Cache, "etcd", "1.2.3-"+f.keyOf(t)+".partial")
	if err := os.MkdirAll(partial, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(partial, "stray"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dir := f.build(t)
	if got := f.entries(t, "etcd"); !slices.Equal(got, []string{dir}) {
		t.Errorf("cache has %v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "stray")); err == nil {
		t.Error("the build contains the remains of the other")
	}
}

func TestWaitForAnotherBuilderEndsWithTheContext(t *testing.T) {
	f := newFixture(t)
	unlock, err := f.lock(t.Context(), "1.2.3-"+f.keyOf(t))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	f.log.on = func(line string) {
		if strings.Contains(line, "waiting") {
			cancel()
		}
	}
	_, err = f.Build(ctx, "1.2.3")
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "wait for another builder") {
		t.Errorf("error is %v", err)
	}
}

func TestCacheThatCannotBeWritten(t *testing.T) {
	for _, dir := range []string{"etcd", "lock", "bin"} {
		t.Run(dir, func(t *testing.T) {
			f := newFixture(t)
			if err := os.WriteFile(filepath.Join(f.Cache, dir), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Build(t.Context(), "1.2.3"); err == nil || !strings.Contains(err.Error(), "not a directory") {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestCallersFlagsDoNotChangeTheBuild(t *testing.T) {
	f := newFixture(t)
	key := f.keyOf(t)
	t.Setenv("GOFLAGS", "-race -tags=other -mod=vendor -modcacherw")
	t.Setenv("GOWORK", filepath.Join(f.Modules, "nonesuch", "go.work"))
	t.Setenv("CGO_ENABLED", "1")
	if got := f.keyOf(t); got != key {
		t.Errorf("key is %s, was %s", got, key)
	}
	f.build(t)
}

func TestBuildForAnotherMachineIsNotOnTheSearchPath(t *testing.T) {
	f := newFixture(t)
	other := map[bool]string{true: "arm64", false: "amd64"}[runtime.GOARCH == "amd64"]
	t.Setenv("GOARCH", other)
	if dir := f.build(t); !strings.HasPrefix(filepath.Base(dir), "1.2.3-") {
		t.Errorf("build is in %s", dir)
	}
	if got := f.entries(t, "bin"); len(got) != 0 {
		t.Errorf("search path has %v", got)
	}
}

func TestKeyChangesWithWhatDecidesTheBuild(t *testing.T) {
	seen := map[string]string{}
	for _, c := range []struct {
		name   string
		change func(t *testing.T, f *fixture)
	}{
		{"nothing", func(*testing.T, *fixture) {}},
		{"content", func(t *testing.T, f *fixture) { f.write(t, "1.2.3/server/main.go", program("two")) }},
		{"what stands in for a module", func(t *testing.T, f *fixture) {
			f.write(t, "1.2.3/go.mod", fixtureMod+"\nreplace example.com/other => ../other\n")
			f.write(t, "other/go.mod", "module example.com/other\n")
		}},
		{"the content of what stands in for a module", func(t *testing.T, f *fixture) {
			f.write(t, "1.2.3/go.mod", fixtureMod+"\nreplace example.com/other => ../other\n")
			f.write(t, "other/go.mod", "module example.com/other\n\ngo 1.26\n")
		}},
		{"a new file", func(t *testing.T, f *fixture) { f.write(t, "1.2.3/extra.txt", "") }},
		{"a new file of another name", func(t *testing.T, f *fixture) { f.write(t, "1.2.3/other.txt", "") }},
		{"go.sum", func(t *testing.T, f *fixture) { f.write(t, "1.2.3/go.sum", "\n") }},
		{"operating system", func(t *testing.T, _ *fixture) { t.Setenv("GOOS", "plan9") }},
		{"processor", func(t *testing.T, _ *fixture) { t.Setenv("GOARCH", "riscv64") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			c.change(t, f)
			key := f.keyOf(t)
			if same, ok := seen[key]; ok {
				t.Errorf("same key as with %s changed", same)
			}
			seen[key] = c.name
		})
	}
}

func TestFolderWithoutToolsIsAnError(t *testing.T) {
	f := newFixture(t)
	f.write(t, "1.2.4/go.mod", "module example.com/fixture/v3\n\ngo 1.26.0\n")
	if _, err := f.Build(t.Context(), "1.2.4"); err == nil || !strings.Contains(err.Error(), "has no tool line") {
		t.Errorf("error is %v", err)
	}
	f.write(t, "1.2.5/go.mod", "not a go.mod")
	if _, err := f.Build(t.Context(), "1.2.5"); err == nil || !strings.Contains(err.Error(), "go.mod") {
		t.Errorf("error is %v", err)
	}
}

func TestStepThatTakesLongSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		b := &Builder{Progress: l}
		done := b.step("1.2.3", "build etcd")
		time.Sleep(25 * time.Second) // the bubble's clock
		done()
		want := "etcd 1.2.3: build etcd ...\netcd 1.2.3: build etcd ... 10s\netcd 1.2.3: build etcd ... 20s\netcd 1.2.3: " +
			"build etcd, took 25s\n"
		if got := l.String(); got != want {
			t.Errorf("progress is\n%s", got)
		}
	})
}
