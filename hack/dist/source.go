package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/images/sourcetree"
)

// A source is the source tree that is built.
type source struct{ sourcetree.Tree }

// findSource describes the source tree around dir. Its version must be one that packages can have.
func findSource(ctx context.Context, dir, version string) (source, error) {
	t, err := sourcetree.Find(ctx, dir, version)
	if err == nil {
		_, err = packageVersion(t.Version, t.Time)
	}
	return source{t}, err
}

// program builds one of our programs.
func (s source) program(ctx context.Context, name, arch, out string) error {
	return s.build(ctx, s.Root, []string{"GOOS=linux", "GOARCH=" + arch}, "-tags="+sourcetree.BuildTags,
		"-ldflags="+sourcetree.LinkFlags+" -X github.com/etcdadm/etcdadm/pkg/cli.Version="+s.Version, "-o", out, "./"+name)
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
