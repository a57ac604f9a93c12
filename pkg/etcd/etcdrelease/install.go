package etcdrelease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// Installed says what [Install] has done.
type Installed struct {
	// Changed is false if the binaries were there already.
	Changed bool `json:"changed"`
	// Version that the binaries print, without a distributor's suffix.
	Version etcdversion.Version `json:"version"`
	// Source is where they come from; empty if nothing was changed.
	Source string `json:"source,omitempty"`
	// Etcd, Etcdctl and Etcdutl are absolute paths. Etcdutl is empty if the
	// source has none.
	Etcd    string `json:"etcd"`
	Etcdctl string `json:"etcdctl"`
	Etcdutl string `json:"etcdutl,omitempty"`
}

// stagePattern names the directory in the install directory where binaries
// wait. On the same file system they can be renamed, and they get the security
// labels that files there have.
const stagePattern = ".etcd-install-*"

// Install puts etcd, etcdctl and, where the source has it, etcdutl into
// installDir. If they are there in the right version, nothing is changed and no
// source is needed.
//
// The new binaries are written beside the old, run, and renamed into place,
// etcd last: a set that was cut in half is not taken for the new version, and
// a running etcd keeps its own file. A process that another one installs for
// waits. Missing parents of installDir are made.
//
// Errors that a caller may distinguish: [*NotFoundError], [*ChecksumError],
// [*NoChecksumError], [*VersionError], [*SpaceError].
func Install(ctx context.Context, o Options, installDir string) (Installed, error) {
	done, err := install(ctx, o, installDir)
	if err != nil {
		return Installed{}, fmt.Errorf("install etcd %s in %s: %w", o.Version, installDir, err)
	}
	return done, nil
}

func install(ctx context.Context, o Options, dir string) (Installed, error) {
	o, err := o.complete()
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return Installed{}, err
	}
	if found := Present(ctx, dir); o.has(found) {
		return found.installed(), nil
	}
	if err := hostfs.MakeDir(dir, 0o755); err != nil {
		return Installed{}, onDisk(err, filepath.Dir(dir))
	}
	unlock, err := lockDir(ctx, dir, o.pace.lock)
	if err != nil {
		return Installed{}, err
	}
	defer unlock()
	found := Present(ctx, dir) // another process may have been faster
	if o.has(found) {
		return found.installed(), nil
	}
	if err := removeStages(dir); err != nil {
		return Installed{}, err
	}
	stage, err := os.MkdirTemp(dir, stagePattern)
	if err != nil {
		return Installed{}, onDisk(err, dir)
	}
	defer os.RemoveAll(stage)
	source, err := o.fill(ctx, stage)
	if err != nil {
		return Installed{}, err
	}
	return swap(ctx, o.Version, stage, found, source)
}

// has reports whether what is there is what is asked for.
func (o Options) has(f Found) bool {
	return f.Is(o.Version) && (!o.Etcdutl || f.Etcdutl.Path != "")
}

// swap puts the binaries in stage, which are those of the version, in the
// place of the old ones, one directory up.
func swap(ctx context.Context, v etcdversion.Version, stage string, old Found, source string) (Installed, error) {
	dir := filepath.Dir(stage)
	_, err := os.Stat(filepath.Join(stage, "etcdutl"))
	without := errors.Is(err, fs.ErrNotExist)
	if without && old.Etcdutl.Path == "" && len(old.Problems(v)) == 0 {
		return old.installed(), nil
	}
	if without {
		// An etcdutl of another version would restore what this etcd cannot read.
		if err := os.Remove(filepath.Join(dir, "etcdutl")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Installed{}, err
		}
	}
	crashpoint.Hit("install.before-rename")
	for _, name := range []string{"etcdutl", "etcdctl", "etcd"} {
		if name == "etcdutl" && without {
			continue
		}
		if err := hostfs.Rename(filepath.Join(stage, name), filepath.Join(dir, name)); err != nil {
			return Installed{}, err
		}
		crashpoint.Hit("install.after-" + name)
	}
	now := Present(ctx, dir)
	if wrong := now.Problems(v); len(wrong) > 0 {
		return Installed{}, &VersionError{Want: v, Problems: wrong}
	}
	done := now.installed()
	done.Changed, done.Source = true, source
	return done, nil
}

func (f Found) installed() Installed {
	return Installed{Version: f.Etcd.Version, Etcd: f.Etcd.Path, Etcdctl: f.Etcdctl.Path, Etcdutl: f.Etcdutl.Path}
}

// removeStages removes what killed processes left in dir. The caller holds the
// lock.
func removeStages(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, stagePattern))
	for _, l := range left {
		err = errors.Join(err, os.RemoveAll(l))
	}
	return err
}

// fill puts the binaries of the source that is set into the directory stage,
// checks them, and returns the source's name.
func (o Options) fill(ctx context.Context, stage string) (source string, err error) {
	s := o.Sources
	switch {
	case s.Dir != "":
		source, err = s.Dir, copyDir(ctx, s.Dir, stage)
	case s.Archive != "":
		source = s.Archive
		if _, err = o.compare(s.Archive); err == nil {
			err = unpackArchive(ctx, s.Archive, stage)
		}
	case s.Image != "":
		source, err = s.Image, o.fromImage(ctx, stage)
	default:
		return o.fromRelease(ctx, stage)
	}
	if err == nil {
		err = o.verify(ctx, stage)
	}
	return source, err
}

// verify runs the binaries in stage.
func (o Options) verify(ctx context.Context, stage string) error {
	if wrong := Present(ctx, stage).Problems(o.Version); len(wrong) > 0 {
		for i, w := range wrong {
			// The stage is gone when somebody reads this.
			wrong[i] = relative(w, stage)
		}
		return &VersionError{Want: o.Version, Problems: wrong}
	}
	return nil
}

// fromRelease uses the archive in the cache if it is good, and fetches it if
// not.
func (o Options) fromRelease(ctx context.Context, stage string) (source string, err error) {
	path := o.cachePath()
	use := func() error {
		if err := unpackArchive(ctx, path, stage); err != nil {
			return err
		}
		return o.verify(ctx, stage)
	}
	_, why := o.compare(path)
	if why == nil {
		why = use()
	}
	if why == nil {
		return path, nil
	}
	if ctx.Err() != nil {
		return "", why
	}
	var full *SpaceError
	if errors.As(why, &full) {
		return "", why // another archive would not fit either
	}
	source, _, err = o.fetch(ctx, path, why)
	if err != nil {
		return "", err
	}
	return source, use()
}
