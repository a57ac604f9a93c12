// Package sourcetree describes the source tree that packages and images are built from.
package sourcetree

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
	BuildTags = "disable_grpc_modules,grpcnotrace"
	LinkFlags = "-s -w"
)

// A Tree is the state of a source tree.
type Tree struct {
	// Root is the tree's top folder.
	Root string
	// Version is built into the programs, and names packages and images.
	Version string
	// Commit is what the tree was checked out from, "" where that is unknown.
	Commit string
	// Time is that of the commit, or $SOURCE_DATE_EPOCH, or 1970. It stands for the
	// time of building, which nothing that is built knows.
	Time time.Time
}

// Find describes the source tree around dir. Without a version it is named by its
// commit: devel-0123456789ab.
func Find(ctx context.Context, dir, version string) (Tree, error) {
	t := Tree{Version: version, Time: time.Unix(0, 0).UTC()}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return t, fmt.Errorf("find the source tree: %w", err)
	}
	for d := dir; t.Root == ""; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "images", "etcd")); err == nil {
			t.Root = d
		} else if d == filepath.Dir(d) {
			return t, fmt.Errorf("no source tree of etcdadm around %s: run this below one", dir)
		}
	}
	name := "devel"
	// A tree that was unpacked from an archive has no commit, and is not part of what is around it.
	if _, err := os.Stat(filepath.Join(t.Root, ".git")); err == nil {
		if name, err = t.named(ctx); err != nil {
			return t, err
		}
	}
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		if t.Time, err = unix(epoch); err != nil {
			return t, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
	}
	if t.Version == "" {
		t.Version = name
	}
	return t, nil
}

// named takes commit and time from git, and returns the name that the tree has by them.
func (t *Tree) named(ctx context.Context) (string, error) {
	out, err := t.git(ctx, "log", "-1", "--format=%ct %H")
	if err != nil {
		return "", fmt.Errorf("ask git for the commit: %w", err)
	}
	var at string
	at, t.Commit, _ = strings.Cut(out, " ")
	if t.Time, err = unix(at); err != nil {
		return "", err
	}
	name := "devel-" + t.Commit[:12]
	changed, err := t.git(ctx, "status", "--porcelain")
	if err != nil {
		return "", fmt.Errorf("ask git whether the tree is changed: %w", err)
	}
	if changed != "" {
		name += "-changes"
	}
	return name, nil
}

func (t *Tree) git(ctx context.Context, args ...string) (string, error) {
	// The tree may belong to somebody else. Who builds it runs its code anyway.
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "safe.directory=*", "-C", t.Root}, args...)...)
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
