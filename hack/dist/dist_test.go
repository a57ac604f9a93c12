package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/images/sourcetree"
	"github.com/etcdadm/etcdadm/pkg/command/docs"
)

var (
	built1 = time.Unix(1700000000, 0).UTC()
	tested = source{sourcetree.Tree{Root: "../..", Version: "v1.2.3", Time: built1}}
)

func TestVersionsOfPackages(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "1.2.3", "v0.10.0-rc.1": "0.10.0~rc.1", "devel": "0~20231114221320",
		"devel-0123456789ab":         "0~20231114221320.0123456789ab",
		"devel-0123456789ab-changes": "0~20231114221320.0123456789ab.changes",
	} {
		if got, err := packageVersion(version, built1); err != nil || got != want {
			t.Errorf("%s is %s, want %s; %v", version, got, want, err)
		}
	}
	for _, version := range []string{"", "1.2.3", "v1.2", "v1.2.3-", "v1.2.3 ", "v1.2.3-a b", "latest", "v1.2.3/../x"} {
		if got, err := packageVersion(version, built1); err == nil {
			t.Errorf("%q is %s", version, got)
		}
	}
}

// dpkg orders versions as they were made.
func TestOrderOfVersions(t *testing.T) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("there is no dpkg")
	}
	var before string
	for _, v := range []struct {
		version string
		at      time.Time
	}{
		{"devel-ffffffffffff", built1}, {"devel-000000000000", built1.Add(time.Second)}, {"v0.1.0-rc.1", built1},
		{"v0.1.0-rc.2", built1}, {"v0.1.0", built1}, {"v0.10.0", built1},
	} {
		now, err := packageVersion(v.version, v.at)
		if err != nil {
			t.Fatal(err)
		}
		if before != "" && exec.CommandContext(t.Context(), "dpkg", "--compare-versions", before, "lt", now).Run() != nil {
			t.Errorf("%s is not before %s", before, now)
		}
		before = now
	}
}

// Packages have the programs of "make build".
func TestProgramsOfTheMakefile(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range programs {
		if !strings.Contains(string(text), "./"+name) {
			t.Errorf("the Makefile does not build %s", name)
		}
	}
}

func testPages(t *testing.T) []written {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", "") // pages sets it
	list, err := pages(tested)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Pages say what they are of, and nothing of the machine that they were written on.
func TestPages(t *testing.T) {
	key := func(w written) string { return w.Program + " " + string(w.Kind) + " " + w.Name }
	first := map[string]string{}
	for _, w := range testPages(t) {
		first[key(w)] = w.Text
	}
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range testPages(t) {
		if first[key(w)] != w.Text {
			t.Errorf("%s is not the same elsewhere", key(w))
		}
		if w.Kind == docs.Manual && !strings.Contains(w.Text, `"Nov 2023" "`+w.Program+` v1.2.3"`) {
			t.Errorf("%s does not say what it is of: %.200s", key(w), w.Text)
		}
		if strings.Contains(w.Text, filepath.Dir(own)) || !strings.Contains(w.Text, w.Program) {
			t.Errorf("%s:\n%.300s", key(w), w.Text)
		}
	}
	for _, want := range []string{
		"etcdadm man1 etcdadm.1", "etcdadm man1 etcdadm-init.1", "etcd-manager man1 etcd-manager.1",
		"etcd-manager-ctl man1 etcd-manager-ctl-status.1", "etcd-backup man1 etcd-backup.1",
		"etcdadm bash etcdadm", "etcd-backup zsh _etcd-backup", "etcd-manager-ctl fish etcd-manager-ctl.fish",
	} {
		if first[want] == "" {
			t.Errorf("there is no %s", want)
		}
	}
}

// find returns the file at a path.
func find(t *testing.T, files []file, path string) file {
	t.Helper()
	i := slices.IndexFunc(files, func(f file) bool { return f.Path == path })
	if i < 0 {
		t.Fatalf("there is no %s", path)
	}
	return files[i]
}

func TestWhereDistributionsHaveFiles(t *testing.T) {
	list := testPages(t)
	for _, f := range formats {
		files, err := packageFiles(tested, f, "bin", list, []byte("terms"))
		if err != nil {
			t.Fatal(err)
		}
		flags := map[string]string{"deb": "/etc/default/", "rpm": "/etc/sysconfig/"}[f.Name]
		for _, name := range programs {
			if p := find(t, files, "/usr/bin/"+name); p.Mode != 0o755 || p.Source != "bin/"+name {
				t.Errorf("%+v", p)
			}
			find(t, files, "/usr/share/man/man1/"+name+".1.gz")
			find(t, files, "/usr/share/bash-completion/completions/"+name)
		}
		for _, name := range []string{"etcd-manager", "etcd-backup"} {
			if c := find(t, files, flags+name); c.Type != "config|noreplace" || c.Mode != 0o644 {
				t.Errorf("%+v", c)
			}
			unit := string(find(t, files, "/usr/lib/systemd/system/"+name+".service").Content)
			variable := strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_FLAGS"
			for _, want := range []string{
				"\nEnvironmentFile=-" + flags + name + "\nEnvironmentFile=-/etc/" + name + "/" + name + ".env\n",
				"\nExecStart=/usr/bin/" + name + " $" + variable + "\n", "\nRestart=always\n",
				"\nStateDirectory=" + name + "\n", "\nProtectSystem=strict\n", "\nWantedBy=multi-user.target\n",
			} {
				if !strings.Contains(unit, want) {
					t.Errorf("%s: the unit lacks %q:\n%s", f.Name, want, unit)
				}
			}
			for _, line := range strings.Split(string(find(t, files, flags+name).Content), "\n") {
				if line != "" && !strings.HasPrefix(line, "#") {
					t.Errorf("the file of the flags has more than an example: %s", line)
				}
			}
		}
		find(t, files, "/usr/lib/systemd/system/etcdadm-certs-renew.timer")
		find(t, files, f.License)
		if n := find(t, files, filepath.Dir(f.License)+"/THIRD-PARTY-NOTICES"); string(n.Content) != "terms" {
			t.Errorf("%s: %+v", f.Name, n)
		}
		for _, one := range files { // nothing of a cluster belongs to the package
			if !strings.HasPrefix(one.Path, "/usr/") && !strings.HasPrefix(one.Path, flags) &&
				one.Path != "/etc/needrestart/conf.d/etcdadm.conf" {
				t.Errorf("%s: %s", f.Name, one.Path)
			}
		}
	}
}

// Directories that need not be there keep the daemon from nothing.
func TestUnitOfTheDaemon(t *testing.T) {
	list, err := units(programs, "/usr/local/bin", "/etc/default")
	if err != nil {
		t.Fatal(err)
	}
	text := list[0].Text
	if list[0].Name != "etcd-manager.service" ||
		!strings.Contains(text, "\nReadWritePaths=-/etc/kubernetes/pki/etcd-manager -/mnt/etcd-store\n") {
		t.Errorf("%s", text)
	}
	for _, u := range list {
		if strings.Contains(u.Text, "/usr/bin/") || strings.Contains(u.Text, flagsWord) {
			t.Errorf("%s", u.Text)
		}
	}
	if only, err := units([]string{"etcd-manager-ctl"}, "/usr/bin", "/etc/default"); err != nil || len(only) != 0 {
		t.Errorf("%v %v", only, err)
	}
}

func TestRecipe(t *testing.T) {
	dir := t.TempDir()
	files := []file{
		{Path: "/usr/bin/a", Mode: 0o755, Source: "bin/a"},
		{Path: "/etc/default/a", Type: "config|noreplace", Mode: 0o644, Content: []byte("x")},
	}
	for _, f := range formats {
		r, err := describe(tested, "arm64", files, dir)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(r)
		if err != nil || r.Version != "1.2.3" || r.Arch != "arm64" || !r.MTime.Equal(built1) || len(r.Contents) != 2 {
			t.Fatalf("%s: %+v %v", f.Name, r, err)
		}
		if !strings.Contains(string(text), `{"src":"bin/a","dst":"/usr/bin/a","file_info":{"owner":"root","group":"root",`+
			`"mode":493,"mtime":"2023-11-14T22:13:20Z"}}`) {
			t.Errorf("%s", text)
		}
		staged, err := os.ReadFile(r.Contents[1].Source)
		if err != nil || string(staged) != "x" || r.Contents[1].Type != "config|noreplace" {
			t.Errorf("%+v %q %v", r.Contents[1], staged, err)
		}
		if len(r.Scripts) != 2 {
			t.Errorf("%v", r.Scripts)
		}
		for name, file := range r.Scripts {
			script, err := os.ReadFile(file)
			var does []string
			for _, line := range strings.Split(string(script), "\n") {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
					does = append(does, line)
				}
			}
			if err != nil || !slices.Equal(does, []string{
				`if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then`, "systemctl daemon-reload || true", "fi",
			}) {
				t.Errorf("%s does more than notify systemd: %s %v", name, script, err)
			}
		}
	}
}

func TestArchive(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("program"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := []file{
		{Path: "bin/a", Mode: 0o755, Source: filepath.Join(dir, "a")},
		{Path: "share/man/man1/a.1.gz", Mode: 0o644, Content: []byte("page")},
	}
	var twice [2]bytes.Buffer
	for i := range twice {
		if err := writeArchive(&twice[i], "a-v1", files, built1); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(twice[0].Bytes(), twice[1].Bytes()) {
		t.Error("it is not the same twice")
	}
	z, err := gzip.NewReader(&twice[0])
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil || h.Uid != 0 || h.Uname != "" || !h.ModTime.Equal(built1) {
			t.Errorf("%+v %v", h, err)
		}
		lines = append(lines, h.FileInfo().Mode().String()+" "+h.Name+" "+string(content))
	}
	want := []string{
		"drwxr-xr-x a-v1/ ", "drwxr-xr-x a-v1/bin/ ", "drwxr-xr-x a-v1/share/ ", "drwxr-xr-x a-v1/share/man/ ",
		"drwxr-xr-x a-v1/share/man/man1/ ", "-rwxr-xr-x a-v1/bin/a program", "-rw-r--r-- a-v1/share/man/man1/a.1.gz page",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("%q", lines)
	}
	if err := writeArchive(io.Discard, "a", []file{{Path: "b", Source: filepath.Join(dir, "b")}}, built1); err == nil {
		t.Error("a program that is not there is left out")
	}
}

// Nothing is deleted that the command has not made.
func TestWhatIsDeleted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dist")
	for range 2 {
		if err := emptyDir(dir); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a-v1-linux-amd64.tar.gz", "a_1_amd64.deb", "a.rpm"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := writeSums(dir); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if err != nil || strings.Count(string(text), "\n") != 3 || !strings.HasSuffix(string(text), "  a_1_amd64.deb\n") {
		t.Errorf("%s %v", text, err)
	}
	for _, name := range []string{"mine", "mine_1_amd64.deb"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := emptyDir(dir); err == nil || !strings.Contains(err.Error(), name+" is not of an earlier run") {
			t.Errorf("error %v", err)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "a.rpm")); err != nil {
		t.Error(err)
	}
}

func TestCommandLines(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-arch=riscv64", `no architecture "riscv64"`}, {"-formats=deb,apk", `no format "apk"`},
		{"-version=1", `the version "1"`}, {"all", `only flags, not "all"`},
	} {
		err := command(t.Context(), append(strings.Fields(c.args), "-output="+t.TempDir())[:1])
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.args, err)
		}
	}
}
