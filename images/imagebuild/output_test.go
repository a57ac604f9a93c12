package imagebuild

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func TestLayout(t *testing.T) {
	img := newFixture(t, amd64, arm64).must(t, "etcd-backup")
	dir := filepath.Join(t.TempDir(), "images")
	if err := os.Mkdir(dir+".partial", 0o755); err != nil { // of a build that was killed
		t.Fatal(err)
	}
	if err := writeLayout(dir, "etcdadm", "v1.2.3", []*built{img}); err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := index.IndexManifest()
	if err != nil || len(m.Manifests) != 5 { // an index, and two documents for each platform
		t.Fatalf("the layout holds %+v, %v", m, err)
	}
	names := m.Manifests[0].Annotations
	if names[refName] != "v1.2.3" || names[containerdName] != "etcdadm/etcd-backup:v1.2.3" {
		t.Errorf("names are %v", names)
	}
	inner, err := index.ImageIndex(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(inner); err != nil {
		t.Error(err)
	}
	err = writeLayout(dir, "etcdadm", "v1.2.3", []*built{img})
	if err == nil || !strings.Contains(err.Error(), "delete it") {
		t.Errorf("a second build into it: %v", err)
	}
	if left, _ := filepath.Glob(dir + "*"); len(left) != 1 {
		t.Errorf("left are %v", left)
	}
}

func TestTarball(t *testing.T) {
	b := newFixture(t, amd64)
	file := filepath.Join(t.TempDir(), "images.tar")
	images := []*built{b.must(t, "etcd-backup"), b.must(t, "etcd-manager-ctl")}
	if err := writeTarball(file, "registry.example:5000/x", "v1.2.3", images); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"etcd-backup", "etcd-manager-ctl"} {
		tag, err := name.NewTag("registry.example:5000/x/" + want + ":v1.2.3")
		if err != nil {
			t.Fatal(err)
		}
		img, err := tarball.ImageFromPath(file, &tag)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(img); err != nil {
			t.Error(err)
		}
	}
	if err := writeTarball(file, "Bad Prefix", "v1.2.3", images); err == nil {
		t.Error("a bad prefix is taken")
	}
	full := filepath.Join(t.TempDir(), "missing", "images.tar")
	if err := writeTarball(full, "x", "v1.2.3", images); err == nil || !strings.Contains(err.Error(), full) {
		t.Errorf("without a directory: %v", err)
	}
}

// What is pushed is found by tag and by digest, and so is what refers to it.
func TestPush(t *testing.T) {
	quiet := registry.Logger(log.New(io.Discard, "", 0))
	server := httptest.NewServer(registry.New(quiet, registry.WithReferrersSupport(true)))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	img := newFixture(t, amd64, arm64).must(t, "etcd-backup")
	for range 2 { // again is harmless
		if err := push(t.Context(), host+"/prefix", "v1.2.3", []*built{img}); err != nil {
			t.Fatal(err)
		}
	}
	tag, err := name.NewTag(host + "/prefix/etcd-backup:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(tag)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	m, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range m.Manifests {
		referrers, err := remote.Referrers(tag.Digest(d.Digest.String()))
		if err != nil {
			t.Fatal(err)
		}
		if list, err := referrers.IndexManifest(); err != nil || len(list.Manifests) != 2 {
			t.Errorf("%s has the referrers %+v, %v", d.Platform, list, err)
		}
	}
	server.Close()
	err = push(t.Context(), host+"/prefix", "v1.2.3", []*built{img})
	if err == nil || !strings.Contains(err.Error(), host) {
		t.Errorf("without a registry: %v", err)
	}
}

func TestCommandLine(t *testing.T) {
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-help"}, 0, "images build [flags] [NAME...]"},
		{nil, 2, "-output=DIR, -tarball=FILE or -push=REGISTRY/PREFIX"},
		{[]string{"etcd-manger", "-output=x"}, 2, `no image "etcd-manger"; there are etcd-manager,`},
		{[]string{"etcd:3.6", "-output=x"}, 2, "etcd:3.6.16"},
		{[]string{"-platform=windows/amd64", "-output=x"}, 2, "linux/amd64 and linux/arm64"},
		{[]string{"-platform=", "-output=x"}, 2, "linux/amd64 and linux/arm64"},
		{[]string{"-platform=linux/amd64,linux/arm64", "-tarball=x"}, 2, "one platform"},
		{[]string{"-nonsense"}, 2, "not defined"},
	} {
		var stderr bytes.Buffer
		code := Main(t.Context(), tc.args, io.Discard, &stderr)
		if code != tc.code || !strings.Contains(stderr.String(), tc.want) {
			t.Errorf("%v: exit %d, %s", tc.args, code, stderr.String())
		}
	}
}

func TestFlagsMayComeLast(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stderr bytes.Buffer
	dir := t.TempDir()
	code := Main(ctx, []string{"etcdadm", "-version=v9", "etcd-backup", "-output=" + dir + "/x"}, io.Discard, &stderr)
	if code != 1 || !strings.Contains(stderr.String(), "canceled") {
		t.Errorf("exit %d, %s", code, stderr.String())
	}
	if _, err := os.Stat(dir + "/x"); err == nil {
		t.Error("an interrupted build left a layout")
	}
}
