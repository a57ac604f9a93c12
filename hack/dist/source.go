package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Build tags and linker flags of the programs. They are those of "make build".
const (
	buildTags = "disable_grpc_modules,grpcnotrace"
	linkFlags = "-s -w"
)

// A source is the state of the source tree that is built.
type source struct {
	// Root is the tree's top folder.
	Root string
	// Version is built into the programs.
	Version string
	// Time is that of the commit, or $SOURCE_DATE_EPOCH, or 1970.
	Time time.Time
}

// findSource describes the source tree around dir. Without a version it is named by its
// commit.
func findSource(ctx context.Context, dir, version string) (source, error) {
	s := source{Version: version, Time: time.Unix(0, 0).UTC()}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return s, fmt.Errorf("find the source tree: %w", err)
	}
	for d := dir; s.Root == ""; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "hack", "dist", "nfpm")); err == nil {
			s.Root = d
		} else if d == filepath.Dir(d) {
			return s, fmt.Errorf("no source tree of etcdadm around %s: run this below one", dir)
		}
	}
	name := "devel"
	// A tree that was unpacked from an archive has no commit, and is not part of what is around it.
	if _, err := os.Stat(filepath.Join(s.Root, ".git")); err == nil {
		out, err := s.git(ctx, "log", "-1", "--format=%ct %H")
		if err != nil {
			return s, fmt.Errorf("ask git for the commit: %w", err)
		}
		at, commit, _ := strings.Cut(out, " ")
		if s.Time, err = unix(at); err != nil {
			return s, err
		}
		name += "-" + commit[:12]
		changed, err := s.git(ctx, "status", "--porcelain")
		if err != nil {
			return s, fmt.Errorf("ask git whether the tree is changed: %w", err)
		}
		if changed != "" {
			name += "-changes"
		}
	}
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		if s.Time, err = unix(epoch); err != nil {
			return s, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
	}
	if s.Version == "" {
		s.Version = name
	}
	_, err = packageVersion(s.Version, s.Time)
	return s, err
}

func (s source) git(ctx context.Context, args ...string) (string, error) {
	// The tree may belong to somebody else. Who builds it runs its code anyway.
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "safe.directory=*", "-C", s.Root}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if text := strings.TrimSpace(said.String()); err != nil && text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return strings.TrimSpace(string(out)), err
}

func unix(seconds string) (time.Time, error) {
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a number of seconds", seconds)
	}
	return time.Unix(n, 0).UTC(), nil
}

// program builds one of our programs.
func (s source) program(ctx context.Context, name, arch, out string) error {
	return s.build(ctx, s.Root, []string{"GOOS=linux", "GOARCH=" + arch}, "-tags="+buildTags,
		"-ldflags="+linkFlags+" -X github.com/etcdadm/etcdadm/pkg/cli.Version="+s.Version, "-o", out, "./"+name)
}

// build runs the go command, so that the same source gives the same bytes.
func (s source) build(ctx context.Context, dir string, env []string, args ...string) error {
	name := filepath.Base(args[len(args)-1])
	fmt.Fprintln(os.Stderr, "build", name, strings.Join(env, " "))
	cmd := exec.CommandContext(ctx, "go",
		append([]string{"build", "-p", "2", "-mod=readonly", "-trimpath", "-buildvcs=false"}, args...)...)
	cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
	cmd.Env = append(append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0"), env...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, bytes.TrimSpace(output.Bytes()))
	}
	return nil
}
