// Package etcdbin finds the binaries of an etcd version on this machine.
package etcdbin

import (
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// DirVariable is the environment variable that lists further directories for
// [Finder.Dirs], separated by colons, see [filepath.SplitList].
const DirVariable = "ETCDADM_ETCD_DIR"

// A Finder looks for binaries, for version V in this order:
//
//   - D/etcd-vV, where kops copies them,
//   - D/etcd-vV/usr/local/bin, where they are in an etcd image mounted as a
//     volume,
//   - D/etcd-vV-linux-ARCH, the name of the release archive,
//   - D/V,
//
// where D is each of Dirs, and at last /opt.
//
// The existing etcd-manager also looks below /tmp. This one does not: anyone
// on the machine may write there, and what is found is run as root.
type Finder struct {
	// Dirs are checked before /opt. Empty strings in it are left out.
	Dirs []string

	// Opt stands in for /opt, empty for itself. Tests that are about binaries that
	// are not there must not find those of the machine they run on.
	Opt string
}

// Binaries are the binaries of one version.
type Binaries struct {
	// Version is the version that was asked for. kops mounts a later patch under
	// the names of all earlier ones, so that the binary may be of a later patch:
	// [Probe] returns.
	Version etcdversion.Version
	// Dir is where they are.
	Dir string
	// Etcd is the path of the server. The tools are empty where they are not
	// beside it: etcdutl exists from 3.5, and kops' init containers leave it out.
	Etcd, Etcdctl, Etcdutl string
}

// A NotFoundError says that there is no etcd binary of a version.
type NotFoundError struct {
	Version etcdversion.Version
	// Places are the directories that were checked, in order.
	Places []string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no etcd %s on this machine: no executable file etcd in %s", e.Version,
		strings.Join(e.Places, ", "))
}

// Hint says what to do about it.
func (e *NotFoundError) Hint() string {
	return fmt.Sprintf("put etcd, etcdctl and etcdutl of %s in %s, or name their parent directory with --etcd-dir or %s",
		e.Version, e.Places[0], DirVariable)
}

// Find returns the binaries of version, from the first place that has etcd.
// The error is a [*NotFoundError] if there is none.
func (f Finder) Find(version etcdversion.Version) (Binaries, error) {
	for dir := range f.places(version) {
		if etcd := executable(dir, "etcd"); etcd != "" {
			return Binaries{
				Version: version,
				Dir:     dir,
				Etcd:    etcd,
				Etcdctl: executable(dir, "etcdctl"),
				Etcdutl: executable(dir, "etcdutl"),
			}, nil
		}
	}
	return Binaries{}, &NotFoundError{Version: version, Places: slices.Collect(f.places(version))}
}

// Versions returns the versions that [Finder.Find] finds, ascending. It goes by
// the names of directories and runs nothing. Directories that cannot be read
// have none.
func (f Finder) Versions() []etcdversion.Version {
	var versions []etcdversion.Version
	for _, b := range f.All() {
		versions = append(versions, b.Version)
	}
	return versions
}

// All returns what [Finder.Find] finds for each of [Finder.Versions], each looked for once.
func (f Finder) All() []Binaries {
	found := map[etcdversion.Version]Binaries{}
	for _, parent := range f.parents() {
		// What cannot be listed is as good as absent: Find would not find it.
		entries, _ := os.ReadDir(parent)
		for _, e := range entries {
			v, ok := versionOf(e.Name())
			if _, known := found[v]; !ok || known {
				continue
			}
			if bin, err := f.Find(v); err == nil {
				found[v] = bin
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Binaries) int { return a.Version.Compare(b.Version) })
}

// parents are the directories below which versions are.
func (f Finder) parents() []string {
	opt := f.Opt
	if opt == "" {
		opt = "/opt"
	}
	dirs := slices.DeleteFunc(slices.Clone(f.Dirs), func(d string) bool { return d == "" })
	return append(dirs, opt)
}

// places are the directories that a version may be in, in order.
func (f Finder) places(v etcdversion.Version) iter.Seq[string] {
	return func(yield func(string) bool) {
		name := "etcd-v" + v.String()
		for _, d := range f.parents() {
			if !yield(filepath.Join(d, name)) || !yield(filepath.Join(d, name, "usr/local/bin")) ||
				!yield(filepath.Join(d, name+archSuffix)) || !yield(filepath.Join(d, v.String())) {
				return
			}
		}
	}
}

const archSuffix = "-linux-" + runtime.GOARCH

// versionOf reads the version out of the name of a directory with binaries.
func versionOf(dir string) (etcdversion.Version, bool) {
	name := strings.TrimSuffix(strings.TrimPrefix(dir, "etcd-"), archSuffix)
	v, err := etcdversion.Parse(name)
	// Binaries of another architecture look like a pre-release.
	return v, err == nil && !strings.HasPrefix(v.Pre, "linux-")
}

// executable returns the path of name in dir, or "" if it is not a file that
// may be run.
func executable(dir, name string) string {
	path := filepath.Join(dir, name)
	if fi, err := os.Stat(path); err != nil || !fi.Mode().IsRegular() || fi.Mode()&0o111 == 0 {
		return ""
	}
	return path
}
