package etcdrelease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

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
			wrong = append(wrong, fmt.Sprintf("%s has version %s", t.Path, t.Version))
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

// observe finds one binary in dir and asks for its version.
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
	v, err := etcdbin.Probe(ctx, path)
	if err != nil {
		return Tool{Path: path, Problem: fmt.Sprintf("%s does not print its version: %v", path, errors.Unwrap(err))}
	}
	return Tool{Path: path, Version: v}
}
