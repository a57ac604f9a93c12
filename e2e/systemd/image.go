//go:build e2e

package systemd

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed" // the recipe
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// Versions are the versions of etcd whose archives are in the machines' caches.
var Versions = []string{"3.5.35", "3.6.16"}

//go:embed image.sh
var recipe []byte

// errSetup says what is missing on this host.
var errSetup = errors.New("this host is not set up for machines with systemd; e2e/systemd/setup.sh does it")

// base returns the image of a bare machine. Docker gets it from the archive
// that setup.sh made, once for every recipe.
func base(ctx context.Context) (string, error) {
	if _, err := docker(ctx, "version", "--format", "{{.Server.Version}}"); err != nil {
		return "", fmt.Errorf("%w: %w", errSetup, err)
	}
	key := fmt.Sprintf("%x", sha256.Sum256(recipe))[:16]
	image := "etcdadm-machine:" + key
	if _, err := docker(ctx, "image", "inspect", image); err == nil {
		return image, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	archive := filepath.Join(cache, "etcdadm", "machines", key, "machine.tar")
	if _, err := os.Stat(archive); err != nil {
		return "", fmt.Errorf("%w: %w", errSetup, err)
	}
	_, err = docker(ctx, "import", "--change", "ENV container=docker",
		"--change", `CMD ["/sbin/machine-init"]`, archive, image)
	return image, err
}

// equipped is the image of a machine with etcdadm and the archives of etcd. It
// is made once, and [Clean] removes it.
var equipped struct {
	sync.Mutex
	image string
}

// equip returns the image of a machine with the programs.
func equip(ctx context.Context) (string, error) {
	equipped.Lock()
	defer equipped.Unlock()
	if equipped.image != "" {
		return equipped.image, nil
	}
	bare, err := base(ctx)
	if err != nil {
		return "", err
	}
	id, err := docker(ctx, "create", "--network=none", "--label="+owner(), bare)
	if err != nil {
		return "", err
	}
	defer docker(context.WithoutCancel(ctx), "rm", "--force", id) //nolint:errcheck // sweep tries again
	r, w := io.Pipe()
	go func() { w.CloseWithError(pack(ctx, w)) }()
	_, err = dockerWith(ctx, r, "cp", "-", id+":/")
	r.Close()
	if err != nil {
		return "", err
	}
	image, err := docker(ctx, "commit", "--change=LABEL "+owner(), id)
	if err != nil {
		return "", err
	}
	equipped.image = image
	return image, nil
}

// Clean removes what is kept between tests.
func Clean(ctx context.Context) error {
	equipped.Lock()
	defer equipped.Unlock()
	if equipped.image == "" {
		return nil
	}
	_, err := docker(ctx, "rmi", "--no-prune", equipped.image)
	equipped.image = ""
	return err
}

// pack writes what a machine is equipped with, as a tar archive.
func pack(ctx context.Context, w io.Writer) error {
	dir, err := os.MkdirTemp("", "etcdadm-machine-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	out := tar.NewWriter(w)
	for _, name := range []string{"etcdadm", "etcd-backup", "etcd-manager", "etcd-manager-ctl"} {
		bin, err := program(ctx, dir, name)
		if err != nil {
			return err
		}
		if err := add(out, bin, "usr/local/bin/"+name); err != nil {
			return err
		}
	}
	for _, v := range Versions {
		file := filepath.Join(dir, "release.tar.gz")
		if err := release(file, v, releaseName(v)+"/", "etcd", "etcdctl", "etcdutl"); err != nil {
			return fmt.Errorf("pack etcd %s: %w", v, err)
		}
		if err := add(out, file, "var/cache/etcdadm/etcd/v"+v+"/"+releaseName(v)+".tar.gz"); err != nil {
			return err
		}
	}
	return out.Close()
}

// program returns the path of a program: from ETCDADM_BIN, or built into dir.
func program(ctx context.Context, dir, name string) (string, error) {
	if bin := os.Getenv("ETCDADM_BIN"); bin != "" {
		return filepath.Join(bin, name), nil
	}
	path := filepath.Join(dir, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path,
		"github.com/etcdadm/etcdadm/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return path, nil
}

func releaseName(version string) string {
	return "etcd-v" + version + "-linux-" + runtime.GOARCH
}

// release writes a release archive of etcd with these programs below prefix, from
// the binaries in ETCDADM_ETCD_DIR.
func release(file, version, prefix string, programs ...string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(f, gzip.HuffmanOnly)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, p := range programs {
		path, err := harness.EtcdBinary(os.Getenv("ETCDADM_ETCD_DIR"), version, p)
		if err != nil {
			return err
		}
		if err := add(t, path, prefix+p); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close(), f.Close())
}

// add copies a file into an archive, as root's.
func add(w *tar.Writer, file, name string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	mode := int64(0o644)
	if !strings.HasSuffix(name, ".gz") {
		mode = 0o755
	}
	head := &tar.Header{Name: name, Mode: mode, Size: st.Size(), ModTime: st.ModTime(), Typeflag: tar.TypeReg}
	if err := w.WriteHeader(head); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}
