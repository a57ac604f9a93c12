//go:build e2e

package images

import (
	"bytes"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdrelease"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

const top = "../.."

// build runs "images build" in a source tree and returns what it prints.
func build(t *testing.T, tree string, args ...string) string {
	t.Helper()
	// Whole clusters run beside these tests: what is built leaves them the processors.
	line := append([]string{"-n", "19", "go", "run", "./images", "build"}, args...)
	cmd := exec.CommandContext(t.Context(), "nice", line...)
	cmd.Dir = tree
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("images build %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	t.Logf("images build %s\n%s", strings.Join(args, " "), out)
	return string(out)
}

// digest finds the digest of an image's index in what a build prints.
func digest(t *testing.T, printed, image string) string {
	t.Helper()
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(image) + ` +index +(sha256:[0-9a-f]{64})$`)
	m := line.FindStringSubmatch(printed)
	if m == nil {
		t.Fatalf("no digest of %s in\n%s", image, printed)
	}
	return m[1]
}

// Binaries of etcd are installed from our image: out of a registry, a layout and an
// archive.
func TestEtcdIsInstalledFromOurImage(t *testing.T) {
	t.Parallel()
	const version = "3.6.16"
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	prefix := strings.TrimPrefix(server.URL, "http://") + "/etcdadm"
	dir := t.TempDir()
	layout, archive := filepath.Join(dir, "layout"), filepath.Join(dir, "etcd.tar")
	out := build(t, top, "etcd:"+version, "-push="+prefix, "-output="+layout, "-tarball="+archive)
	wrong := prefix + "/etcd@sha256:" + strings.Repeat("0", 64)
	for image, want := range map[string]string{
		prefix + "/etcd@" + digest(t, out, "etcd:v"+version): "",
		layout:  "",
		archive: "",
		wrong:   wrong,
	} {
		to := t.TempDir()
		_, err := etcdrelease.Install(t.Context(), etcdrelease.Options{
			Version: etcdversion.Must(version), Sources: machine.Binaries{Image: image}, CacheDir: t.TempDir(), Etcdutl: true,
		}, to)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v", image, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", image, err)
			continue
		}
		for _, tool := range []string{"etcd", "etcdctl", "etcdutl"} {
			if _, err := os.Stat(filepath.Join(to, tool)); err != nil {
				t.Errorf("%s: %v", image, err)
			}
		}
	}
}

// Two copies of a source tree, in two directories, give the same digests.
func TestTwoTreesGiveTheSameDigests(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	var digests []string
	for range 2 {
		tree := filepath.Join(t.TempDir(), "etcdadm")
		copyTree(t, tree)
		out := build(t, tree, "etcd-manager-ctl", "-version=v1.2.3", "-output="+filepath.Join(t.TempDir(), "layout"))
		digests = append(digests, digest(t, out, "etcd-manager-ctl:v1.2.3"))
	}
	if digests[0] != digests[1] {
		t.Errorf("digests are %v", digests)
	}
}

// copyTree copies the source tree without what was built in it and without its history.
func copyTree(t *testing.T, to string) {
	t.Helper()
	skipped := map[string]bool{".git": true, ".cache": true, "bin": true}
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, name)
		switch {
		case err != nil:
			return err
		case skipped[rel] && d.IsDir():
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), content, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The image that all control planes pull is small.
func TestSizes(t *testing.T) {
	t.Parallel()
	out := build(t, top, "etcd-manager", "-version=v1.2.3", "-output="+filepath.Join(t.TempDir(), "layout"))
	m := regexp.MustCompile(`(?m)^etcd-manager:v1.2.3 +linux/\w+ +([0-9.]+) MB`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no size in\n%s", out)
	}
	if size, err := strconv.ParseFloat(m[1], 64); err != nil || size >= 40 {
		t.Errorf("the image has %s MB, 40 is the budget; %v", m[1], err)
	}
}
