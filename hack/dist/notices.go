package main

import (
	"context"

	"github.com/etcdadm/etcdadm/images/notices"
	"github.com/etcdadm/etcdadm/images/sourcetree"
)

// notices returns the licenses of all that is linked into programs.
func (s source) notices(ctx context.Context, arch string) ([]byte, error) {
	b := notices.Build{
		Dir: s.Root, Env: []string{"GOFLAGS=-mod=readonly", "CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch},
		Flags: []string{"-tags=" + sourcetree.BuildTags},
	}
	for _, name := range programs {
		b.Packages = append(b.Packages, "./"+name)
	}
	list, err := notices.List(ctx, b)
	if err != nil {
		return nil, err
	}
	return notices.Text(list)
}
