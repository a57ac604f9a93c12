package etcdbuild

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// UnknownVersionError is returned by [Builder.Build] for a version that has
// no folder.
type UnknownVersionError struct {
	Version string
	// Known lists the versions that have one, oldest first.
	Known []string
	// Modules is where the folders are.
	Modules string
}

func (e *UnknownVersionError) Error() string {
	return fmt.Sprintf("etcd %q is not one of the known versions (%s); to add one, add a folder %s with a go.mod and "+
		"go.sum like those of its neighbours",
		e.Version, strings.Join(e.Known, ", "), filepath.Join(e.Modules, "VERSION"))
}

// Versions returns the versions that have a folder, oldest first.
func (b *Builder) Versions() ([]string, error) {
	mods, err := filepath.Glob(filepath.Join(b.Modules, "*", "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("list versions: %w", err)
	}
	var known []string
	for _, m := range mods {
		known = append(known, filepath.Base(filepath.Dir(m)))
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("no folder below %s has a go.mod", b.Modules)
	}
	slices.SortFunc(known, compareVersions)
	return known, nil
}

// Supported are the versions that there are images of where nobody names one.
var Supported = []string{"3.5.21", "3.5.35", "3.6.16", "3.7.3"}

// sets are the versions that the tests run: an empty cache costs half a minute of two
// cores for each. "make e2e" runs those of "make test", too.
var sets = map[string][]string{
	"test": {"2.3.8", "3.3.27", "3.4.25", "3.5.0", "3.5.21", "3.5.35", "3.6.16", "3.7.3"},
	"e2e": {
		"2.2.5", "2.3.8", "3.0.17", "3.1.20", "3.2.32", "3.3.27", "3.4.25", "3.5.0", "3.5.21", "3.5.35", "3.6.0", "3.6.11",
		"3.6.12", "3.6.16", "3.7.3",
	},
}

// resolve returns the versions that names stand for: versions, or one set.
func (b *Builder) resolve(names []string) ([]string, error) {
	if len(names) == 1 && names[0] == "all" {
		return b.Versions()
	}
	if len(names) == 1 && sets[names[0]] != nil {
		names = sets[names[0]]
	}
	for _, v := range names {
		if _, err := b.folder(v); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// Binaries returns the names of what is built of a version: etcdutl exists from 3.5 on,
// and is not to be had of every patch.
func (b *Builder) Binaries(ctx context.Context, version string) ([]string, error) {
	folder, err := b.folder(version)
	if err != nil {
		return nil, err
	}
	tools, err := b.readTools(ctx, folder)
	var names []string
	for _, t := range tools {
		names = append(names, t.binary)
	}
	return names, err
}

// folder returns the folder of a version.
func (b *Builder) folder(version string) (string, error) {
	known, err := b.Versions()
	if err != nil {
		return "", err
	}
	if !slices.Contains(known, version) {
		return "", &UnknownVersionError{Version: version, Known: known, Modules: b.Modules}
	}
	return filepath.Join(b.Modules, version), nil
}

// compareVersions orders versions by their numbers, 3.5.9 before 3.5.35. A
// part that is not a number counts as 0; equal numbers are ordered as text.
func compareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		x, _ := strconv.Atoi(as[i])
		y, _ := strconv.Atoi(bs[i])
		if x != y {
			return x - y
		}
	}
	return strings.Compare(a, b)
}

// FindModules returns the folder images/etcd of the source tree that dir is
// in.
func FindModules(dir string) (string, error) {
	for d := dir; ; d = filepath.Dir(d) {
		modules := filepath.Join(d, "images", "etcd")
		_, err := os.Stat(modules)
		if err == nil {
			return modules, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return "", fmt.Errorf("look for images/etcd: %w", err)
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no images/etcd in or above %s; say where it is with -modules", dir)
		}
	}
}

// CacheRoot returns the root of the cache: $ETCDADM_CACHE, or the folder
// etcdadm in the user's cache directory.
func CacheRoot() (string, error) {
	if root := os.Getenv("ETCDADM_CACHE"); root != "" {
		return filepath.Abs(root)
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache (or set ETCDADM_CACHE): %w", err)
	}
	return filepath.Join(user, "etcdadm"), nil
}
