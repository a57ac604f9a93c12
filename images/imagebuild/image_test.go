package imagebuild

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/etcdadm/etcdadm/images/etcdbuild"
	"github.com/etcdadm/etcdadm/images/sourcetree"
)

// Entries of all images, and of those that have programs in /usr/local/bin.
var (
	below = []string{
		"drwxr-xr-x /etc", "-rw-r--r-- /etc/group", "-rw-r--r-- /etc/passwd", "drwxr-xr-x /etc/ssl",
		"drwxr-xr-x /etc/ssl/certs", "-rw-r--r-- /etc/ssl/certs/ca-certificates.crt", "dtrwxrwxrwx /tmp",
		"drwxr-xr-x /usr", "drwxr-xr-x /usr/share", "drwxr-xr-x /usr/share/doc", "drwxr-xr-x /usr/share/doc/etcdadm",
		"-rw-r--r-- /usr/share/doc/etcdadm/THIRD-PARTY-NOTICES",
	}
	local = []string{"drwxr-xr-x /usr/local", "drwxr-xr-x /usr/local/bin"}
)

// The files and the configuration of each image are what manifests rely on.
func TestImages(t *testing.T) {
	b := newFixture(t, amd64)
	link := func(at, to string) string { return "Lrwxrwxrwx " + at + " -> " + to }
	const program = "-rwxr-xr-x "
	for name, want := range map[string]struct {
		user, entrypoint string
		layers           int
		files            []string
	}{
		"etcd-manager": {root, "/ko-app/etcd-manager", 3, slices.Concat(local, []string{
			program + "/go-runner", "drwxr-xr-x /ko-app", program + "/ko-app/etcd-manager",
			program + "/ko-app/etcd-manager-ctl -> ko-app/etcd-manager",
			program + "/ko-app/etcdadm -> ko-app/etcd-manager",
			link("/etcd-manager", "/ko-app/etcd-manager"),
			link("/usr/local/bin/etcd-manager", "/ko-app/etcd-manager"),
			link("/usr/local/bin/etcd-manager-ctl", "/ko-app/etcd-manager-ctl"),
			link("/usr/local/bin/etcdadm", "/ko-app/etcdadm"),
		})},
		"etcd-manager-ctl": {nonroot, "/ko-app/etcd-manager-ctl", 2, slices.Concat(local, []string{
			"drwxr-xr-x /ko-app", program + "/ko-app/etcd-manager-ctl",
			link("/usr/local/bin/etcd-manager-ctl", "/ko-app/etcd-manager-ctl"),
		})},
		"etcd-backup": {nonroot, "/ko-app/etcd-backup", 2, slices.Concat(local, []string{
			"drwxr-xr-x /ko-app", program + "/ko-app/etcd-backup",
			link("/usr/local/bin/etcd-backup", "/ko-app/etcd-backup"),
		})},
		"etcdadm": {root, "/usr/local/bin/etcdadm", 2, slices.Concat(local, []string{program + "/usr/local/bin/etcdadm"})},
	} {
		t.Run(name, func(t *testing.T) {
			img := b.must(t, name).Images[0].Image
			wantFiles(t, img, below, want.files, []string{"-rw-r--r-- /usr/share/doc/etcdadm/LICENSE"})
			c, err := img.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if c.Config.User != want.user || !slices.Equal(c.Config.Entrypoint, []string{want.entrypoint}) ||
				len(c.RootFS.DiffIDs) != want.layers || c.OS != "linux" || c.Architecture != "amd64" ||
				!c.Created.Equal(b.source.Time) {
				t.Errorf("configuration %+v", c)
			}
		})
	}
}

// wantFiles compares what is in an image with lists.
func wantFiles(t *testing.T, img v1.Image, lists ...[]string) {
	t.Helper()
	got, want := files(t, img), slices.Concat(lists...)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("files are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The image of etcd has what the images that Kubernetes publishes have at the same places, for each platform.
func TestTheImageOfEtcd(t *testing.T) {
	b := newFixture(t, amd64, arm64)
	b.etcd = etcdbuild.Builder{Modules: t.TempDir(), Cache: t.TempDir(), Progress: io.Discard}
	smallEtcd(t, filepath.Join(b.etcd.Modules, "3.6.16"))
	chosen, err := choose([]string{"etcd:3.6.16"}, []string{"3.6.16"})
	if err != nil {
		t.Fatal(err)
	}
	built, err := b.image(t.Context(), chosen[0])
	if err != nil {
		t.Fatal(err)
	}
	if ref := built.recipe.ref("v1.2.3"); ref != "etcd:v3.6.16" || len(built.Images) != 2 {
		t.Errorf("%d images of %s", len(built.Images), ref)
	}
	for i, want := range []struct {
		platform v1.Platform
		machine  elf.Machine
	}{{amd64, elf.EM_X86_64}, {arm64, elf.EM_AARCH64}} {
		img := built.Images[i].Image
		wantFiles(t, img, below, local, []string{
			"-rwxr-xr-x /usr/local/bin/etcd", "-rwxr-xr-x /usr/local/bin/etcdctl", "-rwxr-xr-x /usr/local/bin/etcdutl",
			"drwxr-xr-x /var", "drwx------ /var/etcd", "drwxr-xr-x /var/lib", "drwx------ /var/lib/etcd",
		})
		c, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if c.Config.User != root || len(c.Config.Entrypoint) > 0 ||
			!slices.Equal(c.Config.Cmd, []string{"/usr/local/bin/etcd"}) ||
			!strings.Contains(c.Config.Env[0], ":/usr/local/bin:") ||
			!slices.Equal(sorted(c.Config.ExposedPorts), []string{"2379/tcp", "2380/tcp"}) || c.Config.WorkingDir != "/" ||
			len(c.RootFS.DiffIDs) != 2 || !c.Created.Equal(b.source.Time) ||
			c.OS != want.platform.OS || c.Architecture != want.platform.Architecture {
			t.Errorf("configuration %+v", c)
		}
		for _, name := range []string{"etcd", "etcdctl", "etcdutl"} {
			wantStatic(t, strings.NewReader(content(t, img, "usr/local/bin/"+name)), want.machine)
		}
	}
}

// wantStatic checks that a program is for a machine, and needs no loader, which no image has.
func wantStatic(t *testing.T, program io.ReaderAt, machine elf.Machine) {
	t.Helper()
	f, err := elf.NewFile(program)
	if err != nil {
		t.Fatal(err)
	}
	loader := func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }
	if f.Machine != machine || len(f.Progs) == 0 || slices.ContainsFunc(f.Progs, loader) {
		t.Errorf("a program is for %s, not %s, or needs a loader: %+v", f.Machine, machine, f.Progs)
	}
}

// Programs are built for the platform of the image, whatever this machine is.
func TestAProgramForAnotherPlatform(t *testing.T) {
	b := &builder{source: sourcetree.Tree{Root: sourceRoot}, progress: io.Discard, done: map[string]bool{}}
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		out := filepath.Join(t.TempDir(), logRunner)
		if err := b.program(t.Context(), logRunner, v1.Platform{OS: "linux", Architecture: arch}, out); err != nil {
			t.Fatal(err)
		}
		program, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		wantStatic(t, bytes.NewReader(program), machine)
	}
}

// smallEtcd makes a module of small programs with the names of etcd's.
func smallEtcd(t *testing.T, dir string) {
	t.Helper()
	mod := "module example.com/etcd/v3\n\ngo 1.26.0\n\ntool (\n"
	for _, name := range []string{"etcdctl", "etcdutl", "server"} {
		mod += "\texample.com/etcd/v3/" + name + "\n"
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		text := "package main\n\nfunc main() { print(`" + name + "`) }\n"
		if err := os.WriteFile(filepath.Join(dir, name, "main.go"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod+")\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Images of all versions are those of the supported ones; an early one has no etcdutl.
func TestImagesOfEarlyVersions(t *testing.T) {
	b := &builder{etcd: etcdbuild.Builder{Modules: "../etcd"}}
	versions, err := b.etcd.Versions()
	if err != nil {
		t.Fatal(err)
	}
	all, err := choose([]string{"etcd"}, versions)
	if err != nil || len(all) != len(etcdbuild.Supported) {
		t.Errorf("%d images, %v", len(all), err)
	}
	for version, want := range map[string]int{"2.3.8": 2, "3.6.11": 2, "3.6.12": 2, "3.5.0": 3} {
		chosen, err := choose([]string{"etcd:" + version}, versions)
		if err == nil {
			err = b.reduce(t.Context(), &chosen[0])
		}
		if err != nil || len(chosen[0].Programs) != want {
			t.Errorf("%s: %+v, %v", version, chosen, err)
		}
	}
}

// A change of a program changes its layer alone.
func TestLayersAreShared(t *testing.T) {
	b := newFixture(t, amd64)
	manager, ctl := b.must(t, "etcd-manager"), b.must(t, "etcd-manager-ctl")
	digests := func(img v1.Image) (list []v1.Hash) {
		m, err := img.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range m.Layers {
			list = append(list, l.Digest)
		}
		return list
	}
	first := digests(manager.Images[0].Image)
	if digests(ctl.Images[0].Image)[0] != first[0] {
		t.Error("the layers below the programs differ")
	}
	b.source.Version, b.source.Time = "v1.2.4", b.source.Time.Add(1)
	if !slices.Equal(first, digests(b.must(t, "etcd-manager").Images[0].Image)) {
		t.Error("a layer has the version or the time in it")
	}
}

// The same source gives the same digest, in another directory and on another day.
func TestDigestsAreReproducible(t *testing.T) {
	var digests []v1.Hash
	for range 2 {
		d, err := newFixture(t, amd64).must(t, "etcd-backup").Index.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, d)
	}
	if digests[0] != digests[1] {
		t.Errorf("digests are %v", digests)
	}
}

func TestPublicRoots(t *testing.T) {
	pem, err := publicRoots()
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(pem)) || strings.Count(pem, "BEGIN CERTIFICATE") < 100 {
		t.Errorf("%d roots", strings.Count(pem, "BEGIN CERTIFICATE"))
	}
}

// Documents refer to the image of their platform, and say what is in it.
func TestReferrers(t *testing.T) {
	b := newFixture(t, amd64)
	img := b.must(t, "etcd-manager").Images[0]
	digest, err := img.Image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string][]byte{}
	for _, r := range img.Referrers {
		m, err := r.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		if m.Subject == nil || m.Subject.Digest != digest {
			t.Errorf("the subject is %+v", m.Subject)
		}
		layers, err := r.Layers()
		if err != nil || len(layers) != 1 {
			t.Fatalf("%d layers, %v", len(layers), err)
		}
		body, err := layers[0].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		if contents[string(m.Config.MediaType)], err = io.ReadAll(body); err != nil {
			t.Fatal(err)
		}
	}
	var bom cyclonedx.BOM
	doc := bytes.NewReader(contents[string(sbomType)])
	if err := cyclonedx.NewBOMDecoder(doc, cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range *bom.Components {
		names = append(names, c.Name)
		if !slices.ContainsFunc(*c.Components, func(c cyclonedx.Component) bool {
			return strings.HasPrefix(c.PackageURL, "pkg:golang/k8s.io/component-base@v")
		}) {
			t.Errorf("%s: its modules are missing", c.Name)
		}
	}
	if !slices.Equal(names, []string{"go-runner", "etcd-manager"}) {
		t.Errorf("programs are %v", names)
	}
	var s statement
	if err := json.Unmarshal(contents[string(provenanceType)], &s); err != nil {
		t.Fatal(err)
	}
	if s.Subject[0].Digest["sha256"] != digest.Hex ||
		s.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"] != b.source.Commit {
		t.Errorf("the statement is %+v", s)
	}
}

// Each module that a bill of materials names has its license in the image.
func TestNoticesAndTheBillOfMaterials(t *testing.T) {
	b := newFixture(t, amd64)
	for _, name := range []string{"etcd-manager", "etcd-backup"} {
		text := content(t, b.must(t, name).Images[0].Image, "usr/share/doc/etcdadm/THIRD-PARTY-NOTICES")
		if !strings.Contains(text, "\nGo and its standard library\n") ||
			!strings.Contains(text, "Copyright 2014 gRPC authors.") {
			t.Errorf("the notices of %s lack licenses", name)
		}
		if strings.Contains(text, "/pkg/mod/") {
			t.Errorf("the notices of %s name directories of this machine", name)
		}
	}
	chosen, err := choose([]string{"etcd-manager"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, modules, err := b.billOfMaterials(chosen[0], []string{filepath.Join(logRunnerDir, logRunner)})
	if err != nil {
		t.Fatal(err)
	}
	text := content(t, b.must(t, "etcd-manager").Images[0].Image, "usr/share/doc/etcdadm/THIRD-PARTY-NOTICES")
	for purl := range modules {
		module := strings.Replace(strings.TrimPrefix(purl, "pkg:golang/"), "@", " ", 1)
		if !strings.HasPrefix(module, "std ") && !strings.Contains(text, "\n"+module+"\n") {
			t.Errorf("the notices lack %s", module)
		}
	}
}

// content returns what a file of an image has in it.
func content(t *testing.T, img v1.Image, name string) string {
	t.Helper()
	r := mutate.Extract(img)
	defer r.Close()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if h.Name != name {
			continue
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
}

// Nothing in a layer is the building user's, or of the time of building.
func TestEntriesAreNobodys(t *testing.T) {
	r := mutate.Extract(newFixture(t, amd64).must(t, "etcd-backup").Images[0].Image)
	defer r.Close()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.ModTime.Unix() != 0 {
			t.Errorf("%+v", h)
		}
	}
}
