package etcdrelease

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// A NotFoundError says that a server has no archive of the version.
type NotFoundError struct {
	Version etcdversion.Version
	// Answers are the URLs that were asked for, each with the server's answer.
	Answers []string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no archive of etcd %s for linux/%s: %s", e.Version, arch, strings.Join(e.Answers, "; "))
}

// Hint says what to check.
func (e *NotFoundError) Hint() string {
	return "check --version and --release-url; https://github.com/etcd-io/etcd/releases lists what etcd publishes"
}

// A ChecksumError says that an archive is not the one that was published.
type ChecksumError struct {
	// What is the archive, From where the wanted digest is from.
	What, From string
	// Want and Got are digests in hexadecimal.
	Want, Got string
}

func (e *ChecksumError) Error() string {
	return fmt.Sprintf("%s has the SHA-256 %s, but %s says %s", e.What, e.Got, e.From, e.Want)
}

// Hint says what to do about it.
func (e *ChecksumError) Hint() string {
	if e.From == pinsName {
		return "this is not what etcd published: do not use it, and check what is between (proxy, mirror); the build of " +
			"another maker that you trust is taken with its digest (--binaries-sha256, or --etcd-release-digests of " +
			"etcd-manager)"
	}
	return "do not use this archive; compare the digest with the one that etcd publishes, and check what is " +
		"between (proxy, mirror)"
}

// A NoChecksumError says that nothing says what an archive should be.
type NoChecksumError struct {
	// URL of the archive, and Observed, where a checksum could have been.
	URL      string
	Observed []string
	// Plain says that they do not count, as they come over plain http like the
	// archive.
	Plain bool
	// Digests says that the operator's digests, in Observed, are the only ones that count.
	Digests bool
}

func (e *NoChecksumError) Error() string {
	if e.Plain {
		return fmt.Sprintf("no checksum for %s: one that comes over plain http, like the archive, proves nothing", e.URL)
	}
	return fmt.Sprintf("no checksum for %s: there is none in %s", e.URL, strings.Join(e.Observed, " or "))
}

// Hint says what to do about it.
func (e *NoChecksumError) Hint() string {
	if e.Digests {
		return "check the archive, and add its digest to " + strings.Join(e.Observed, " or ")
	}
	return "give the archive's digest with --binaries-sha256, or use it unchecked with --skip-checksum"
}

// A VersionError says that binaries are of another version than was asked for.
type VersionError struct {
	Want etcdversion.Version
	// Problems says for each binary what is wrong.
	Problems []string
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("not etcd %s: %s", e.Want, strings.Join(e.Problems, "; "))
}

// Hint says what to do about it.
func (e *VersionError) Hint() string {
	return "check that the source of the binaries is of the release in --version, and of this machine's " +
		"architecture (linux/" + arch + ")"
}

// A SpaceError says that a disk is full.
type SpaceError struct {
	// Dir is a directory on the disk, Free what is left there, in bytes, -1 if
	// that is unknown.
	Dir  string
	Free int64
	Err  error
}

func (e *SpaceError) Error() string {
	free := ""
	if e.Free >= 0 {
		free = fmt.Sprintf(", %d MiB are free", e.Free>>20)
	}
	return fmt.Sprintf("the disk of %s is full%s: %v", e.Dir, free, e.Err)
}

func (e *SpaceError) Unwrap() error { return e.Err }

// Hint says what to do about it.
func (e *SpaceError) Hint() string {
	return "make room: an archive of etcd takes about 25 MiB, its binaries about 70 MiB, twice while a new version " +
		"replaces an old one"
}

// onDisk returns err, as a [SpaceError] if it comes from a full disk.
func onDisk(err error, dir string) error {
	var already *SpaceError
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) || errors.As(err, &already) {
		return err
	}
	free, ferr := hostfs.FreeBytes(dir)
	if ferr != nil {
		free = -1
	}
	return &SpaceError{Dir: dir, Free: free, Err: err}
}

// An adviceError is an error that comes with what to do about it.
type adviceError struct {
	text, next string
	err        error
}

func (e *adviceError) Error() string { return e.text }
func (e *adviceError) Unwrap() error { return e.err }
func (e *adviceError) Hint() string  { return e.next }
