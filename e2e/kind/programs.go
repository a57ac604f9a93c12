//go:build e2e

package kind

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// root is the top of the source tree.
const root = "../.."

// build builds our programs, and an archive of images with the given names.
func build(t *testing.T, dir string, images ...string) (programs, archive string) {
	t.Helper()
	start := time.Now()
	programs, archive = filepath.Join(dir, "bin"), filepath.Join(dir, "images.tar")
	goIn(t, "build", "-tags=disable_grpc_modules,grpcnotrace", "-trimpath", "-ldflags=-s -w", "-o", programs+"/",
		"./etcdadm", "./etcd-manager-ctl")
	args := append([]string{"run", "./images", "build"}, images...)
	goIn(t, append(args, "-version="+version, "-tarball="+archive)...)
	t.Logf("our programs and images after %.1f s", time.Since(start).Seconds())
	return programs, archive
}

// etcd returns the directory of a version's binaries, built if they are not in the cache.
func etcd(t *testing.T, version string) string {
	t.Helper()
	goIn(t, "run", "./images", "etcd", version)
	dir := strings.TrimSpace(goIn(t, "run", "./images", "path"))
	real, err := filepath.EvalSymlinks(filepath.Join(dir, "etcd-v"+version))
	if err != nil {
		t.Fatal(err)
	}
	return real
}

// goIn runs the go command at the top of the source tree, in its workspace.
func goIn(t *testing.T, args ...string) string {
	t.Helper()
	env := []string{"-C", root, "GOWORK=", "CGO_ENABLED=0", "go"}
	out, err := command(t.Context(), nil, "env", append(env, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
