package etcdbuild

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// heartbeatInterval is how often a step that takes long says that it is still going.
const heartbeatInterval = 10 * time.Second

// A Builder builds etcd releases into a cache. Several may use one cache at
// the same time, in one process or in many.
type Builder struct {
	// Modules is the folder with one module per version.
	Modules string
	// Cache is the root of the cache. It is made when needed.
	Cache string
	// Progress gets a line per step.
	Progress io.Writer
	// Parallel is how many packages the go command compiles at once, 2 if 0.
	Parallel int
	// Arch is the processor of the Linux machines to build for; "" builds for what the go
	// command builds for.
	Arch string
}

// Bin returns the search path that leads to the builds for this machine.
func (b *Builder) Bin() string { return filepath.Join(b.Cache, "bin") }

// Build returns the directory of the version's binaries, building them if
// the cache does not have them. If it fails or is interrupted, the cache has
// no directory for them. A build for this machine is also linked below
// [Builder.Bin].
func (b *Builder) Build(ctx context.Context, version string) (string, error) {
	dir, err := b.build(ctx, version)
	if err != nil {
		return "", fmt.Errorf("build etcd %s: %w", version, err)
	}
	return dir, nil
}

func (b *Builder) build(ctx context.Context, version string) (string, error) {
	folder, err := b.folder(version)
	if err != nil {
		return "", err
	}
	g, err := b.readGoEnv(ctx, folder)
	if err != nil {
		return "", err
	}
	key, err := b.key(ctx, folder, g)
	if err != nil {
		return "", err
	}
	name := version + "-" + key
	dir := filepath.Join(b.Cache, "etcd", name)

	unlock, err := b.lock(ctx, name)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := b.make(ctx, folder, dir); err != nil {
			return "", err
		}
	} else if err != nil {
		return "", fmt.Errorf("look into the cache: %w", err)
	}
	if g.OS != runtime.GOOS || g.Arch != runtime.GOARCH {
		return dir, nil
	}
	return dir, b.link(version, name)
}

// make builds into a directory beside dir, and renames it to dir when it is
// complete. The caller holds the lock, so whatever an earlier builder left
// there is nobody's.
func (b *Builder) make(ctx context.Context, folder, dir string) (err error) {
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return fmt.Errorf("clear away an unfinished build: %w", err)
	}
	if err := os.MkdirAll(partial, 0o755); err != nil {
		return fmt.Errorf("make a place in the cache: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	free, err := b.slot(ctx)
	if err != nil {
		return err
	}
	defer free()
	r, err := b.prepare(ctx, folder, dir+".source")
	defer func() { err = errors.Join(err, r.close()) }()
	if err != nil {
		return err
	}
	for _, t := range r.tools {
		if err := b.compile(ctx, filepath.Base(folder), r, t, filepath.Join(partial, t.binary)); err != nil {
			return err
		}
	}
	if err := os.Rename(partial, dir); err != nil {
		return fmt.Errorf("put the build in its place: %w", err)
	}
	return nil
}

// compile builds one binary. The go command's output becomes part of the
// error, and is not shown otherwise.
func (b *Builder) compile(ctx context.Context, version string, r recipe, t tool, out string) error {
	parallel := b.Parallel
	if parallel == 0 {
		parallel = 2
	}
	args := slices.Concat([]string{"build", "-p", fmt.Sprint(parallel)}, buildFlags, r.flags)
	cmd := b.goCommand(ctx, r.folder, append(args, "-o", out, t.pkg)...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output

	done := b.step(version, "build "+t.binary)
	err := cmd.Run()
	done()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("compile %s: %w\n%s", t.binary, err, tail(output.String(), 20))
	}
	return nil
}

// step says that a step begins, that it still goes on, and when the returned
// function is called, that it is over.
func (b *Builder) step(version, what string) func() {
	start := time.Now()
	say := func(suffix string) {
		fmt.Fprintf(b.Progress, "etcd %s: %s%s\n", version, what, suffix)
	}
	elapsed := func() string { return time.Since(start).Round(100 * time.Millisecond).String() }
	say(" ...")
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(heartbeatInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				say(" ... " + elapsed())
			case <-over:
				return
			}
		}
	}()
	return func() {
		close(over)
		<-ended
		say(", took " + elapsed())
	}
}

// link makes Bin/etcd-v<version> a link to the named build. The link is
// replaced in one step, so a reader sees the old build or the new one.
func (b *Builder) link(version, name string) error {
	target := filepath.Join("..", "etcd", name)
	link := filepath.Join(b.Bin(), "etcd-v"+version)
	if have, err := os.Readlink(link); err == nil && have == target {
		return nil
	}
	if err := os.MkdirAll(b.Bin(), 0o755); err != nil {
		return fmt.Errorf("make the search path: %w", err)
	}
	fresh := filepath.Join(b.Bin(), "."+name)
	err := os.RemoveAll(fresh)
	if err == nil {
		err = os.Symlink(target, fresh)
	}
	if err == nil {
		err = os.Rename(fresh, link)
	}
	if err != nil {
		return fmt.Errorf("link the build into the search path: %w", err)
	}
	return nil
}

// tail returns the last n lines of s.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
