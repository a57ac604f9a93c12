package imagebuild

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A source is the state of the source tree that images are built from.
type source struct {
	// Root is the tree's top folder.
	Root string
	// Version names the images and is built into our programs.
	Version string
	// Commit is what the tree was checked out from, "" where that is unknown.
	Commit string
	// Time is that of the commit, or $SOURCE_DATE_EPOCH, or 1970. It stands for the
	// time of building, which images do not know.
	Time time.Time
}

// findSource describes the source tree around dir. Without a version the commit is one:
// devel-0123456789ab.
func findSource(ctx context.Context, dir, version string) (source, error) {
	s := source{Version: version, Time: time.Unix(0, 0).UTC()}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return s, fmt.Errorf("find the source tree: %w", err)
	}
	for d := dir; s.Root == ""; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "images", "etcd")); err == nil {
			s.Root = d
		} else if d == filepath.Dir(d) {
			return s, fmt.Errorf("no source tree of etcdadm around %s: run this below one", dir)
		}
	}
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", s.Root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	name := "devel"
	// A tree that was unpacked from an archive has no commit.
	if commit, err := git("rev-parse", "HEAD"); err == nil {
		at, err := git("log", "-1", "--format=%ct")
		if err != nil {
			return s, fmt.Errorf("ask git for the time of the commit: %w", err)
		}
		changed, err := git("status", "--porcelain")
		if err != nil {
			return s, fmt.Errorf("ask git whether the tree is changed: %w", err)
		}
		s.Commit, name = commit, name+"-"+commit[:12]
		if changed != "" {
			name += "-changes"
		}
		if s.Time, err = unix(at); err != nil {
			return s, err
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
	return s, nil
}

func unix(seconds string) (time.Time, error) {
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a number of seconds", seconds)
	}
	return time.Unix(n, 0).UTC(), nil
}
