package store

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"
)

// Open returns the store at a location:
//
//	/var/backups, file:///var/backups   a directory, made by the first write
//	mem://                              memory, gone with the Store
//	SCHEME://BUCKET/PATH?OPTIONS        a bucket, if the program has the scheme's driver
//
// As in the existing etcd-manager, the text after file:// is the path as it is,
// without escapes. The options of a bucket are those of gocloud.dev's driver.
// Open makes no request: that a store is not there shows when it is used.
func Open(ctx context.Context, location string) (*Store, error) {
	scheme, rest, hasScheme := strings.Cut(location, "://")
	switch {
	case location == "":
		return nil, fmt.Errorf("open store: the location is empty; %s", supported())
	case !hasScheme:
		return openDir(location)
	case scheme == "file":
		if !strings.HasPrefix(rest, "/") {
			return nil, fmt.Errorf("open store %s: the path must be absolute, such as file:///%s", location, rest)
		}
		return openDir(rest)
	case scheme == "mem":
		return New(memblob.OpenBucket(nil)), nil
	case !blob.DefaultURLMux().ValidBucketScheme(scheme):
		return nil, fmt.Errorf("open store: this program has no driver for %s://; %s", scheme, supported())
	}
	return openBucket(ctx, location)
}

func openDir(dir string) (*Store, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	requests := new(atomic.Int64)
	return newStore(&files{root: root, requests: requests}, requests), nil
}

// openBucket opens a bucket, and the "directory" in it that the path names:
// gocloud.dev ignores the path.
func openBucket(ctx context.Context, location string) (*Store, error) {
	u, err := url.Parse(location)
	if err != nil {
		// The error repeats the location, which may hold a secret in its options.
		return nil, fmt.Errorf("open store: the location is not a URL")
	}
	shown := u.Scheme + "://" + u.Host + u.Path
	dir := strings.Trim(u.Path, "/")
	u.Path, u.RawPath = "", ""
	b, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", shown, err)
	}
	if dir != "" {
		b = blob.PrefixedBucket(b, dir+"/")
	}
	return New(b), nil
}

func supported() string {
	schemes := []string{"file://", "mem://"}
	for _, s := range blob.DefaultURLMux().BucketSchemes() {
		if !slices.Contains(schemes, s+"://") {
			schemes = append(schemes, s+"://")
		}
	}
	return "a location is a path or starts with " + strings.Join(schemes, ", ")
}
