package etcdrelease

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// hintOf returns the hint that the command line would print.
func hintOf(err error) string {
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) {
		return hinted.Hint()
	}
	return ""
}

func TestInstallFromEachSource(t *testing.T) {
	const v = "3.6.16"
	s := newSite(t, v)
	archive := filepath.Join(t.TempDir(), "mine.tar.gz")
	write(t, archive, release(t, v))
	image := filepath.Join(t.TempDir(), "image.tar")
	saveImage(t, image, imageOf(t, arch, layerOf(t, binaries("usr/local/bin/", v)...)))
	for _, c := range []struct {
		name, source string
		sources      machine.Binaries
	}{
		// Each is the first that is set: what comes later cannot work.
		{"directory", "", machine.Binaries{Dir: dirOf(t, v, tools...), Archive: "/none", Image: "/none", ReleaseURL: "none"}},
		{"archive", archive, machine.Binaries{Archive: archive, Image: "/none", ReleaseURL: "none"}},
		{"image", image, machine.Binaries{Image: image, ReleaseURL: "none"}},
		{"release", "etcd-v3.6.16-linux-" + arch + ".tar.gz", machine.Binaries{ReleaseURL: s.URL}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "opt", "bin")
			o := local(t, v)
			o.Sources = c.sources
			done := mustInstall(t, o, dir)
			want := Installed{Changed: true, Version: o.Version, Source: done.Source,
				Etcd: dir + "/etcd", Etcdctl: dir + "/etcdctl", Etcdutl: dir + "/etcdutl"}
			if done != want || !strings.HasSuffix(done.Source, c.source) {
				t.Errorf("it says %+v", done)
			}
			// The second time needs neither source nor network nor cache.
			o = local(t, v)
			o.CacheDir = "/none"
			if done := mustInstall(t, o, dir); done.Changed || done.Etcdutl != dir+"/etcdutl" {
				t.Errorf("the second time it says %+v", done)
			}
		})
	}
}

func TestInstallReplacesExactlyOtherVersions(t *testing.T) {
	for _, c := range []struct {
		desired, have string
		right         bool
	}{
		{"3.5.1", "3.5.10", false},
		{"3.5.10", "3.5.1", false},
		{"3.6.16", "3.6.16", true},
		{"3.5.8-eks-1-26-16", "3.5.8", true},
		{"3.5.8-eks-1-26-16", "3.5.8-eks-1-26-16", true},
		{"3.5.8-eks-1-26-16", "3.5.9", false},
		{"3.5.24-0", "3.5.24", true},
		{"3.8.0-alpha.0", "3.8.0", false},
		{"3.8.0", "3.8.0-alpha.0", false},
		{"3.8.0-rc.1", "3.8.0-rc.1", true},
	} {
		t.Run(c.desired+" over "+c.have, func(t *testing.T) {
			dir := dirOf(t, c.have, tools...)
			o := local(t, c.desired)
			o.Sources.Dir = dirOf(t, c.desired, tools...)
			if done := mustInstall(t, o, dir); done.Changed == c.right {
				t.Errorf("changed: %v", done.Changed)
			}
		})
	}
}

func TestInstallMakesHalfSetsWhole(t *testing.T) {
	const v = "3.6.16"
	damage := map[string]func(t *testing.T, dir string){
		"etcd missing":       func(_ *testing.T, dir string) { os.Remove(dir + "/etcd") },
		"etcdctl missing":    func(_ *testing.T, dir string) { os.Remove(dir + "/etcdctl") },
		"etcdctl of another": func(t *testing.T, dir string) { write(t, dir+"/etcdctl", script("etcdctl", "3.6.1")) },
		"etcdutl of another": func(t *testing.T, dir string) { write(t, dir+"/etcdutl", script("etcdutl", "3.6.1")) },
		"cut off":            func(t *testing.T, dir string) { write(t, dir+"/etcd", nil) },
		"not a program":      func(t *testing.T, dir string) { write(t, dir+"/etcd", noise(100)) },
		"not executable":     func(_ *testing.T, dir string) { os.Chmod(dir+"/etcdctl", 0o644) },
		"something else":     func(t *testing.T, dir string) { write(t, dir+"/etcd", []byte("#!/bin/sh\necho hello\n")) },
		"fails":              func(t *testing.T, dir string) { write(t, dir+"/etcd", []byte("#!/bin/sh\nexit 3\n")) },
		"a link to elsewhere": func(t *testing.T, dir string) {
			other := filepath.Join(dirOf(t, "3.5.1", "etcd"), "etcd")
			os.Remove(dir + "/etcd")
			os.Symlink(other, dir+"/etcd")
		},
		"killed while it unpacked": func(t *testing.T, dir string) {
			write(t, dir+"/.etcd-install-123/etcd", script("etcd", v))
			os.Remove(dir + "/etcd")
		},
	}
	for name, do := range damage {
		t.Run(name, func(t *testing.T) {
			dir := dirOf(t, v, tools...)
			do(t, dir)
			o := local(t, v)
			o.Sources.Dir = dirOf(t, v, tools...)
			if done := mustInstall(t, o, dir); !done.Changed {
				t.Error("it says that nothing was changed")
			}
		})
	}
}

func TestInstallWithoutEtcdutl(t *testing.T) {
	without := []string{"etcd", "etcdctl"}
	for _, c := range []struct {
		name, version string
		old           string // etcdutl that is there
		changed       bool
		source        bool
		needed        bool
	}{
		{"etcd 3.4 has none", "3.4.30", "", false, false, false},
		{"a distributor leaves it out", "3.5.8-eks-1-26-16", "", false, false, false},
		{"a distributor leaves it out of a version without a suffix", "3.5.21", "", false, false, false},
		{"the source has none, and it is needed", "3.6.16", "", false, true, true},
		{"one of another version goes away", "3.6.16", "3.5.1", true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := dirOf(t, c.version, without...)
			if c.old != "" {
				write(t, dir+"/etcdutl", script("etcdutl", c.old))
			}
			o := local(t, c.version)
			o.Etcdutl = c.needed
			if c.source {
				o.Sources.Dir = dirOf(t, c.version, without...)
			}
			done, err := Install(soon(t), o, dir)
			if err != nil || done.Changed != c.changed || done.Etcdutl != "" {
				t.Fatalf("got %+v, %v", done, err)
			}
			wantSet(t, dir, o.Version, without...)
		})
	}
	t.Run("it is looked for where it may be when it is needed", func(t *testing.T) {
		dir := dirOf(t, "3.6.16", without...)
		o := local(t, "3.6.16")
		o.Etcdutl = true
		seed(t, o, release(t, "3.6.16"))
		if done := mustInstall(t, o, dir); !done.Changed {
			t.Error("nothing was changed")
		}
	})
}

func TestInstallLeavesOldSetWhenNewIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		sources func(t *testing.T) machine.Binaries
		words   []string
	}{
		"another version": {
			func(t *testing.T) machine.Binaries { return machine.Binaries{Dir: dirOf(t, "3.6.1", tools...)} },
			[]string{"not etcd 3.6.16", "etcd has version 3.6.1;"},
		},
		"a tool missing": {
			func(t *testing.T) machine.Binaries { return machine.Binaries{Dir: dirOf(t, "3.6.16", "etcd")} },
			[]string{"etcdctl", "no such file"},
		},
		"no directory": {func(*testing.T) machine.Binaries { return machine.Binaries{Dir: "/none"} }, []string{
			"/none/etcd", "no such file",
		}},
		"no archive": {func(*testing.T) machine.Binaries { return machine.Binaries{Archive: "/none.gz"} }, []string{
			"/none.gz", "no such file",
		}},
		"no image": {func(*testing.T) machine.Binaries { return machine.Binaries{Image: "/none.tar"} }, []string{
			"/none.tar", "no such file",
		}},
		"dir is archive": {func(t *testing.T) machine.Binaries { return machine.Binaries{Archive: t.TempDir()} }, []string{
			"is not a file",
		}},
		"bad checksum": {func(*testing.T) machine.Binaries { return machine.Binaries{SHA256: "abc"} }, []string{
			`"abc" is not a SHA-256`,
		}},
		"other architecture": {
			func(t *testing.T) machine.Binaries {
				dir := dirOf(t, "3.6.16", tools...)
				write(t, dir+"/etcd", []byte("\x7fELF\x02\x01\x01"+strings.Repeat("\x00", 200)))
				return machine.Binaries{Dir: dir}
			},
			[]string{"etcd does not print its version", "exec format error"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := dirOf(t, "3.5.1", tools...)
			o := local(t, "3.6.16")
			o.Sources = c.sources(t)
			_, err := Install(soon(t), o, dir)
			wantError(t, err, append(c.words, "install etcd 3.6.16 in "+dir)...)
			if strings.Contains(err.Error(), ".etcd-install") {
				t.Errorf("the error speaks of a directory that is gone: %v", err)
			}
			wantSet(t, dir, etcdversion.Must("3.5.1"), "etcd", "etcdctl", "etcdutl")
		})
	}
}

func TestInstallNeedsAVersion(t *testing.T) {
	_, err := Install(soon(t), Options{}, t.TempDir())
	wantError(t, err, "version of etcd is missing")
}

func TestInstallWhereItCannot(t *testing.T) {
	o := local(t, "3.6.16")
	o.Sources.Dir = dirOf(t, "3.6.16", tools...)
	write(t, o.CacheDir+"/file", nil)
	_, err := Install(soon(t), o, o.CacheDir+"/file")
	wantError(t, err, "file")
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/etcd/x", 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = Install(soon(t), o, dir)
	wantError(t, err, dir+"/etcd")
}

// A running etcd can be replaced: its file is not written to.
func TestInstallOverARunningBinary(t *testing.T) {
	sleep, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Skipf("there is no /bin/sleep to stand in for etcd: %v", err)
	}
	dir := dirOf(t, "3.5.1", tools...)
	write(t, dir+"/etcd", sleep)
	old := exec.Command(dir+"/etcd", "60")
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { old.Process.Kill(); old.Wait() }()
	if err := os.WriteFile(dir+"/etcd", nil, 0o755); !errors.Is(err, syscall.ETXTBSY) {
		t.Fatalf("the test does not show what it should: %v", err)
	}
	o := local(t, "3.6.16")
	o.Sources.Dir = dirOf(t, "3.6.16", tools...)
	mustInstall(t, o, dir)
	if err := old.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the old process: %v", err)
	}
}

func TestConcurrentInstallsInOneDirectory(t *testing.T) {
	dir := t.TempDir()
	s := newSite(t, "3.6.16")
	o := s.from(t, "3.6.16")
	var all sync.WaitGroup
	changed := make(chan bool, 8)
	for range cap(changed) {
		all.Go(func() {
			done, err := Install(soon(t), o, dir)
			if err != nil {
				t.Error(err)
			}
			changed <- done.Changed
		})
	}
	all.Wait()
	close(changed)
	n := 0
	for c := range changed {
		if c {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d of them say that they have installed it", n)
	}
	wantSet(t, dir, o.Version, "etcd", "etcdctl", "etcdutl")
	if got := s.archiveRequests(); len(got) != 1 {
		t.Errorf("it was fetched %q", got)
	}
}

func TestInstallDoesNotWaitForever(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lockDir(soon(t), dir, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	o := local(t, "3.6.16")
	o.Sources.Dir = dirOf(t, "3.6.16", tools...)
	o.pace.lock = 100 * time.Millisecond
	_, err = Install(soon(t), o, dir)
	wantError(t, err, "another process", dir)
}

func TestInstallOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mounting a small file system is not permitted here: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	from := dirOf(t, "3.6.16", tools...)
	write(t, from+"/etcdctl", slices.Concat(script("etcdctl", "3.6.16"), []byte("exit\n"), noise(100<<10)))
	archive := packed(t, tarOf(t, file{name: "etcd", body: script("etcd", "3.6.16")}, file{
		name: "etcdctl", body: noise(100 << 10),
	}))
	for name, set := range map[string]func(*Options){
		"directory": func(o *Options) { o.Sources.Dir = from },
		"cache":     func(o *Options) { seed(t, *o, archive) },
	} {
		t.Run(name, func(t *testing.T) {
			o := local(t, "3.6.16")
			set(&o)
			_, err := Install(soon(t), o, dir)
			var full *SpaceError
			if !errors.As(err, &full) || !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("got %v", err)
			}
			wantError(t, err, "is full", "MiB are free")
			if got := listed(t, dir); len(got) != 0 {
				t.Errorf("left behind: %q", got)
			}
		})
	}
}

func TestPresentSaysWhatIsWrong(t *testing.T) {
	dir := dirOf(t, "3.6.16", "etcd", "etcdctl")
	write(t, dir+"/etcdctl", []byte("#!/bin/sh\necho secret >&2; exit 7\n"))
	f := Present(soon(t), dir)
	if f.Etcd != (Tool{Path: dir + "/etcd", Version: etcdversion.Must("3.6.16")}) || f.Etcdutl != (Tool{}) {
		t.Errorf("found %+v", f)
	}
	if p := f.Etcdctl.Problem; !strings.Contains(p, "exit status 7: secret") {
		t.Errorf("the problem is %q", p)
	}
	if f.Is(etcdversion.Must("3.6.16")) {
		t.Error("it counts as right")
	}
	if f := Present(soon(t), "/none"); f != (Found{}) {
		t.Errorf("in a directory that is not there: %+v", f)
	}
	if f := Present(soon(t), dir+"/etcd"); f != (Found{}) {
		t.Errorf("below a file: %+v", f)
	}
	os.Mkdir(dir+"/etcdutl", 0o755)
	if p := Present(soon(t), dir).Etcdutl.Problem; !strings.Contains(p, "not a file") {
		t.Errorf("a directory: %q", p)
	}
}

// A relative directory must not send us through PATH.
func TestPresentInTheWorkingDirectory(t *testing.T) {
	t.Chdir(dirOf(t, "3.6.16", tools...))
	t.Setenv("PATH", dirOf(t, "3.5.1", tools...)+":"+os.Getenv("PATH"))
	if f := Present(soon(t), "."); !f.Is(etcdversion.Must("3.6.16")) {
		t.Errorf("found %+v", f)
	}
}

func TestPresentDoesNotWaitForAHangingBinary(t *testing.T) {
	dir := dirOf(t, "3.6.16", tools...)
	write(t, dir+"/etcd", []byte("#!/bin/sh\nexec sleep 120\n"))
	var f Found
	// A busy machine does not run the others in the shortest of these times.
	for limit := 300 * time.Millisecond; limit < time.Minute; limit *= 4 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		begin := time.Now()
		f = Present(ctx, dir)
		cancel()
		if !strings.Contains(f.Etcd.Problem, "deadline") || time.Since(begin) > limit+30*time.Second {
			t.Errorf("after %s: %+v", time.Since(begin), f.Etcd)
		}
		if f.Etcdctl.Problem == "" {
			return
		}
	}
	t.Errorf("it hinders the others: %+v", f.Etcdctl)
}
