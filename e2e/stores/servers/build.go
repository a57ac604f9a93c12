package servers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// modules is the folder, in the source tree, that has a Go module for each
// server, whose tool line names the program. They are outside the workspace, which
// could not hold what they depend on.
const modules = "e2e/stores/servers/modules"

// buildTime bounds the building of one server, and the waiting for somebody
// else who does.
const buildTime = 15 * time.Minute

// binary returns the program of a server, built on the first call on a machine.
// It lies in the cache, below a digest of all that decides what it is.
func binary(ctx context.Context, server, program string) (string, error) {
	folder, err := findModule(server)
	if err != nil {
		return "", err
	}
	sum, err := digest(folder)
	if err != nil {
		return "", fmt.Errorf("find the module of the %s server: %w", server, err)
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "servers", server+"-"+sum)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make a place in the cache: %w", err)
	}
	path := filepath.Join(dir, program)
	ctx, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	unlock, err := lock(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return "", fmt.Errorf("wait for another builder of the %s server: %w", server, err)
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := build(ctx, folder, dir, program); err != nil {
		return "", fmt.Errorf("build the %s server: %w", server, err)
	}
	return path, nil
}

// build compiles the program beside its place, and puts it there when it is
// complete.
func build(ctx context.Context, folder, dir, program string) error {
	partial, err := os.MkdirTemp(dir, "partial-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial)
	cmd := exec.CommandContext(ctx, "go", "build", "-p", "2", "-mod=readonly", "-buildvcs=false", "-trimpath",
		"-ldflags=-s -w", "-o", partial+"/", "tool")
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=")
	cmd.WaitDelay = 10 * time.Second
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, bytes.TrimSpace(output))
	}
	return os.Rename(filepath.Join(partial, program), filepath.Join(dir, program))
}

// digest returns a digest of all that decides what is built from a module.
func digest(folder string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(content), content)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

// findModule returns the folder of a server's module in the source tree that
// the working directory is in.
func findModule(server string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		folder := filepath.Join(d, modules, server)
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("there is no %s/%s in or above %s", modules, server, dir)
		}
	}
}

// cacheDir returns $ETCDADM_CACHE, or the folder etcdadm in the user's cache
// directory, as the builds of etcd do.
func cacheDir() (string, error) {
	if dir := os.Getenv("ETCDADM_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache (or set ETCDADM_CACHE): %w", err)
	}
	return filepath.Join(user, "etcdadm"), nil
}

// lock waits until nobody else holds the lock file. It polls, because a blocking
// flock does not end with ctx.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			// Closing the only descriptor gives the lock up.
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(err, f.Close())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		}
	}
}
