package etcdbin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// probeTimeout bounds `etcd --version`, which takes milliseconds unless the
// binary's disk hangs.
const probeTimeout = 10 * time.Second

// Probe asks a binary of etcd, etcdctl or etcdutl for its version. Which one it
// it is shows in the name of the file.
func Probe(ctx context.Context, path string) (etcdversion.Version, error) {
	v, err := probe(ctx, path)
	if err != nil {
		return etcdversion.Version{}, fmt.Errorf("ask %s for its version: %w", path, err)
	}
	return v, nil
}

func probe(ctx context.Context, path string) (etcdversion.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	name, arg := filepath.Base(path), "version"
	if name != "etcdctl" && name != "etcdutl" {
		name, arg = "etcd", "--version"
	}
	for {
		out, err := output(ctx, path, name, arg)
		if errors.Is(err, syscall.ETXTBSY) && wait.For(ctx, 10*time.Millisecond) == nil {
			// We have just written the file, and a child process that another
			// goroutine is starting still has it open: https://go.dev/issue/22315.
			continue
		}
		if err != nil {
			return etcdversion.Version{}, err
		}
		return printed(name, out)
	}
}

func output(ctx context.Context, path, name, arg string) (string, error) {
	cmd := exec.CommandContext(ctx, path, arg)
	cmd.Env = []string{} // a variable of ours is not for it
	if name == "etcdctl" {
		cmd.Env = append(cmd.Env, "ETCDCTL_API=3")
	}
	if runtime.GOARCH != "amd64" {
		// etcd before 3.5 runs on anything else only if it is configured to.
		cmd.Env = append(cmd.Env, "ETCD_UNSUPPORTED_ARCH="+runtime.GOARCH)
	}
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch {
	case err != nil && ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", Said(err, stderr.String())
	}
	return stdout.String(), nil
}

// printed reads the version out of the first line of a binary's output:
// "etcd Version: 3.6.16", "etcdctl version: 3.6.16" or "etcdutl version: 3.6.16".
// That of etcd is the same in all versions since 2.x.
func printed(name, out string) (etcdversion.Version, error) {
	first, _, _ := strings.Cut(out, "\n")
	before, word, ok := strings.Cut(first, ": ")
	if !ok || !strings.EqualFold(before, name+" version") {
		return etcdversion.Version{}, fmt.Errorf("it printed %.100q", first)
	}
	return etcdversion.Parse(strings.TrimSpace(word))
}

// lastLines is how much of the output an error carries.
const lastLines, lastBytes = 3, 600

// Said puts the end of a program's output behind its error. "Error: ..." is
// the line in which etcd's tools say what they died of.
func Said(err error, output string) error {
	var lines []string
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	for i := len(lines) - 1; i >= 0; i-- {
		if text, ok := strings.CutPrefix(lines[i], "Error: "); ok {
			return fmt.Errorf("%s (%w)", text, err)
		}
	}
	text := strings.Join(lines[max(0, len(lines)-lastLines):], "; ")
	if text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, text[max(0, len(text)-lastBytes):])
}
