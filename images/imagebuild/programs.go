package imagebuild

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/etcdadm/etcdadm/images/etcdbuild"
	"github.com/etcdadm/etcdadm/images/notices"
	"github.com/etcdadm/etcdadm/images/sourcetree"
)

// The program that kops starts the manager with is Kubernetes' own. It is pinned in
// images/log-runner.
const logRunnerPackage = "k8s.io/component-base/logs/kube-log-runner"

// A builder builds images from one state of the source tree.
type builder struct {
	source    sourcetree.Tree
	platforms []v1.Platform
	// etcd has the cache and the modules of etcd's versions.
	etcd etcdbuild.Builder
	// work holds programs until the images are written.
	work string
	// base is the layer below all programs.
	base v1.Layer
	// level is that of layers' compression, of compress/gzip.
	level    int
	progress io.Writer
	// done are the programs that are built already.
	done map[string]bool
	// licenses are the texts for each set of programs.
	licenses map[string][]byte
}

// programs builds the programs of a recipe, and returns the directory of each.
func (b *builder) programs(ctx context.Context, r recipe, p v1.Platform) (map[string]string, error) {
	dirs := map[string]string{}
	if r.Etcd != "" {
		etcd := b.etcd
		etcd.Arch = p.Architecture
		dir, err := etcd.Build(ctx, r.Etcd)
		for name := range r.Programs {
			dirs[name] = dir
		}
		return dirs, err
	}
	for _, name := range sorted(r.Programs) {
		dirs[name] = filepath.Join(b.work, p.OS+"-"+p.Architecture)
		if err := b.program(ctx, name, p, filepath.Join(dirs[name], name)); err != nil {
			return nil, err
		}
	}
	return dirs, nil
}

// program builds one program of ours, or the log runner, once.
func (b *builder) program(ctx context.Context, name string, p v1.Platform, out string) error {
	if b.done[out] {
		return nil
	}
	start := time.Now()
	from := b.from(name, p)
	args := slices.Concat([]string{"build", "-p", "2", "-trimpath", "-buildvcs=false", "-o", out}, from.Flags,
		from.Packages)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = from.Dir, append(os.Environ(), from.Env...), 10*time.Second
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	fmt.Fprintf(b.progress, "%s: build for %s ...\n", name, p)
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("build %s: %w\n%s", name, err, bytes.TrimSpace(output.Bytes()))
	}
	fmt.Fprintf(b.progress, "%s: built for %s, took %s\n", name, p, time.Since(start).Round(100*time.Millisecond))
	b.done[out] = true
	return nil
}

// from says what a program of ours, or the log runner, is built from.
func (b *builder) from(name string, p v1.Platform) notices.Build {
	from := notices.Build{
		Dir:   b.source.Root,
		Env:   []string{"GOFLAGS=", "CGO_ENABLED=0", "GOOS=" + p.OS, "GOARCH=" + p.Architecture},
		Flags: []string{"-mod=readonly"},
	}
	if name == logRunner {
		from.Dir, from.Env = filepath.Join(from.Dir, "images", "log-runner"), append(from.Env, "GOWORK=off")
		from.Flags, from.Packages = append(from.Flags, "-ldflags="+sourcetree.LinkFlags), []string{logRunnerPackage}
		return from
	}
	from.Flags = append(from.Flags, "-tags="+sourcetree.BuildTags,
		"-ldflags="+sourcetree.LinkFlags+" -X github.com/etcdadm/etcdadm/pkg/cli.Version="+b.source.Version)
	from.Packages = []string{"./" + name}
	return from
}

// notices returns the licenses of what is linked into the programs of an image.
func (b *builder) notices(ctx context.Context, r recipe, p v1.Platform) ([]byte, error) {
	if r.Etcd != "" {
		etcd := b.etcd
		etcd.Arch = p.Architecture
		return etcd.Notices(ctx, r.Etcd)
	}
	key := strings.Join(append(sorted(r.Programs), p.String()), " ")
	if text, there := b.licenses[key]; there {
		return text, nil
	}
	var all []notices.Linked
	for _, name := range sorted(r.Programs) {
		list, err := notices.List(ctx, b.from(name, p))
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	text, err := notices.Text(all)
	if err == nil {
		b.licenses[key] = text
	}
	return text, err
}
