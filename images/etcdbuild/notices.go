package etcdbuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/etcdadm/etcdadm/images/notices"
)

// Notices returns the licenses of all that the binaries of version are made of. They are read from
// the modules, not from the cache: an early version is prepared for it as for a build.
func (b *Builder) Notices(ctx context.Context, version string) (text []byte, err error) {
	folder, err := b.folder(version)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "etcdadm-notices-")
	if err != nil {
		return nil, fmt.Errorf("make a place to prepare etcd %s: %w", version, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	r, err := b.prepare(ctx, folder, filepath.Join(scratch, "source"))
	if err != nil {
		return nil, fmt.Errorf("prepare etcd %s: %w", version, err)
	}
	from := notices.Build{
		Dir: r.folder, Env: b.goCommand(ctx, folder).Env, Flags: slices.Concat(buildFlags, r.flags),
	}
	for _, t := range r.tools {
		from.Packages = append(from.Packages, t.pkg)
	}
	list, err := notices.List(ctx, from)
	if err == nil {
		text, err = notices.Text(list)
	}
	if err != nil {
		return nil, fmt.Errorf("licenses of etcd %s: %w", version, err)
	}
	return text, nil
}
