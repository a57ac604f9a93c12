package etcdrelease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// probeTimeout bounds `etcd --version`, which takes milliseconds unless the
// disk hangs.
const probeTimeout = 10 * time.Second

// A Tool is one of the binaries of a release.
type Tool struct {
	// Path of the binary, empty if it is not there.
	Path string `json:"path,omitempty"`
	// Version that it prints.
	Version etcdversion.Version `json:"version,omitzero"`
	// Problem is why its version is unknown although it is there.
	Problem string `json:"problem,omitempty"`
}

// Found is what is installed in a directory.
type Found struct {
	Etcd    Tool `json:"etcd"`
	Etcdctl Tool `json:"etcdctl"`
	Etcdutl Tool `json:"etcdutl"`
}

// Present returns which binaries are in installDir, and their versions, which
// it learns by running them, each for at most 10 s.
func Present(ctx context.Context, installDir string) Found {
	dir, err := filepath.Abs(installDir)
	if err != nil {
		dir = installDir // there is no working directory; nothing will be found
	}
	var f Found
	var probes sync.WaitGroup
	for i, name := range tools {
		probes.Go(func() { *f.tools()[i] = observe(ctx, dir, name) })
	}
	probes.Wait()
	return f
}

// tools are the names of the binaries of a release, in the order of
// [Found.tools].
var tools = []string{"etcd", "etcdctl", "etcdutl"}

func (f *Found) tools() []*Tool { return []*Tool{&f.Etcd, &f.Etcdctl, &f.Etcdutl} }

// Is reports whether the set is one of version v, with nothing missing. A set
// without etcdutl is whole: distributors leave it out, also of versions without a
// suffix.
func (f Found) Is(v etcdversion.Version) bool { return len(f.Problems(v)) == 0 }

// Problems returns what is wrong with the set as one of version v. It is not
// said to be wrong that etcdutl is missing: only restoring snapshots needs it.
func (f Found) Problems(v etcdversion.Version) []string {
	var wrong []string
	for i, t := range f.tools() {
		switch {
		case t.Path == "" && tools[i] == "etcdutl":
		case t.Path == "":
			wrong = append(wrong, tools[i]+" is missing")
		case t.Problem != "":
			wrong = append(wrong, t.Problem)
		case !matches(v, t.Version):
			wrong = append(wrong, fmt.Sprintf("%s is of version %s", t.Path, t.Version))
		}
	}
	return wrong
}

// vendored reports whether the suffix of a version is a distributor's, as in
// 3.5.8-eks-1-26-16 or 3.5.24-0, and not etcd's own, as in 3.8.0-alpha.0.
func vendored(v etcdversion.Version) bool {
	own := func(word string) bool { return strings.HasPrefix(v.Pre, word) }
	return v.Pre != "" && !slices.ContainsFunc([]string{"alpha", "beta", "rc", "pre"}, own)
}

// matches reports whether binaries that print printed are those of release v.
func matches(v, printed etcdversion.Version) bool {
	if vendored(v) && printed.Pre == "" {
		v.Pre = ""
	}
	return v == printed
}

// observed finds one binary in dir and asks for its version.
func observe(ctx context.Context, dir, name string) Tool {
	path := filepath.Join(dir, name)
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return Tool{}
	case err != nil:
		return Tool{Path: path, Problem: err.Error()}
	case !st.Mode().IsRegular():
		return Tool{Path: path, Problem: path + " is not a file"}
	case st.Mode()&0o111 == 0:
		return Tool{Path: path, Problem: path + " is not executable"}
	}
	v, err := probe(ctx, path)
	if err != nil {
		return Tool{Path: path, Problem: fmt.Sprintf("%s does not tell its version: %v", path, err)}
	}
	return Tool{Path: path, Version: v}
}

// probe runs a binary and returns the version that it prints.
func probe(ctx context.Context, path string) (etcdversion.Version, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, fmt.Errorf("no answer in %s", probeTimeout))
	defer cancel()
	arg := "version"
	if filepath.Base(path) == "etcd" {
		arg = "--version"
	}
	for {
		out, err := run(ctx, path, arg)
		if errors.Is(err, syscall.ETXTBSY) && pause(ctx, 10*time.Millisecond) == nil {
			// We have just written the file, and a child process that another
			// goroutine is starting still has it open: https://go.dev/issue/22315.
			continue
		}
		if err != nil {
			return etcdversion.Version{}, err
		}
		return printed(filepath.Base(path), out)
	}
}

func run(ctx context.Context, path, arg string) (string, error) {
	cmd := exec.CommandContext(ctx, path, arg)
	// A variable of ours is not for it. etcd before 3.5 runs on anything but
	// amd64 only if it is told to.
	cmd.Env = []string{"ETCD_UNSUPPORTED_ARCH=" + arch}
	if arch == "amd64" {
		cmd.Env = []string{}
	}
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil && ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		err = fmt.Errorf("%w: %.200s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return string(out), err
}

// printed reads the version out of the first line of a binary's output:
// "etcd Version: 3.6.16", "etcdctl version: 3.6.16" or "etcdutl version: 3.6.16".
func printed(name, out string) (etcdversion.Version, error) {
	first, _, _ := strings.Cut(out, "\n")
	before, word, ok := strings.Cut(first, ": ")
	if !ok || !strings.EqualFold(before, name+" version") {
		return etcdversion.Version{}, fmt.Errorf("it printed %.100q", first)
	}
	return etcdversion.Parse(strings.TrimSpace(word))
}

// pause waits for d, or until ctx ends, which is an error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
