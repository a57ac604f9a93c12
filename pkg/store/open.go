package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"gocloud.dev/blob/memblob"

	"github.com/etcdadm/etcdadm/pkg/internal/spelling"
)

// Open returns the store at a location:
//
//	/var/backups, file:///var/backups   a directory, made by the first write
//	mem://                              memory, gone with the Store
//	SCHEME://BUCKET/PATH?OPTIONS        a bucket, if the program has the scheme's driver
//
// As in the existing etcd-manager, the text after file:// is the path as it is,
// without escapes. The options of a bucket are its driver's, see package cloud.
// Open makes no request: that a store is not there shows when it is used.
func Open(_ context.Context, location string) (*Store, error) {
	s, err := open(location)
	if err != nil {
		return nil, err
	}
	s.location = location
	return s, nil
}

// NewDirectory returns the directory of a location that is one and is not there yet: the first write makes
// it. A name that nobody meant looks like that, and a volume that is not mounted. It is empty for all others.
func NewDirectory(location string, stat func(string) (fs.FileInfo, error)) string {
	dir, file := strings.CutPrefix(location, "file://")
	if dir == "" || !file && strings.Contains(dir, "://") {
		return ""
	}
	if _, err := stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return dir
}

// NewDirectoryWarning says what a directory that is not there yet may mean.
func NewDirectoryWarning(dir string) string {
	return fmt.Sprintf("%s is not there, and will be made: check whether that is mistyped, or "+
		"a volume is not mounted; the daemons of all machines need the same store", dir)
}

func open(location string) (*Store, error) {
	scheme, rest, hasScheme := strings.Cut(location, "://")
	switch {
	case location == "":
		return nil, fmt.Errorf("open store: the location is empty; %s", supported())
	case !hasScheme:
		if scheme, _, typo := strings.Cut(location, ":/"); typo && !strings.ContainsAny(scheme, "/.") {
			return nil, fmt.Errorf("open store %s: such a location has two slashes, %s://; a directory of that name "+
				"is ./%s", location, scheme, location)
		}
		return openDir(location)
	case scheme == "file":
		if !strings.HasPrefix(rest, "/") {
			return nil, fmt.Errorf("open store %s: the path must be absolute, such as file:///%s", location, rest)
		}
		return openDir(rest)
	case scheme == "mem":
		return New(memblob.OpenBucket(nil)), nil
	}
	return openBucket(scheme, location)
}

func openDir(dir string) (*Store, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	requests := new(atomic.Int64)
	return newStore(&files{root: root, requests: requests}, requests), nil
}

func openBucket(scheme, location string) (*Store, error) {
	driver, ok := drivers.Load(scheme)
	if !ok {
		meant, letters := "", 2
		if len(scheme) < 4 { // most are as short, and two letters would make one of any other
			letters = 1
		}
		if near := spelling.Within(letters, strings.ToLower(scheme), schemes()); near != "" {
			meant = "did you mean " + near + "://? "
		}
		return nil, fmt.Errorf("open store: this program has no driver for %s://; %s%s", scheme, meant, supported())
	}
	u, err := url.Parse(location)
	if err != nil {
		// The error repeats the location, which may hold a secret in its options.
		return nil, errors.New("open store: the location is not a URL")
	}
	dial, err := driver.(Driver)(u)
	if err != nil {
		return nil, redacted{fmt.Errorf("open store %s://%s%s: %w", u.Scheme, u.Host, u.Path, err)}
	}
	requests := new(atomic.Int64)
	return newStore(newLazy(dial, requests), requests), nil
}

func supported() string {
	return "a location is a path or starts with " + strings.Join(schemes(), "://, ") + "://"
}

// schemes are those that the program has, in their order.
func schemes() []string {
	list := []string{"file", "mem"}
	drivers.Range(func(scheme, _ any) bool {
		list = append(list, scheme.(string))
		return true
	})
	slices.Sort(list)
	return list
}
