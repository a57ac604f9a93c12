package machine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// mount puts a small file system in the memory at a path.
func (h *host) mount(path, size string) {
	h.t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		h.t.Fatal(err)
	}
	err := unix.Mount("tmpfs", path, "tmpfs", 0, "mode=755,size="+size)
	if errors.Is(err, unix.EPERM) {
		h.t.Skip("mounting is not permitted here")
	}
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		h.kill()
		_ = unix.Unmount(path, unix.MNT_DETACH)
	})
}

// resize changes the size of such a file system.
func (h *host) resize(path, size string) {
	h.t.Helper()
	if err := unix.Mount("", path, "", unix.MS_REMOUNT, "size="+size); err != nil {
		h.t.Fatal(err)
	}
}

// readOnly makes a directory one that cannot be written, also by root.
func (h *host) readOnly(path string) {
	h.t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		h.t.Fatal(err)
	}
	err := unix.Mount(path, path, "", unix.MS_BIND, "")
	if err == nil {
		err = unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
	}
	if errors.Is(err, unix.EPERM) {
		h.t.Skip("mounting is not permitted here")
	}
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
}

// A disk that is too small is found before, and where nobody looked the error
// says it. With space the same command goes on.
func TestNoSpaceForData(t *testing.T) {
	t.Parallel()
	h := newHost(t, "a", v36)
	h.mount(h.path("data"), "32m")
	h.unchanged("init", func() {
		h.fails(3, []string{"DiskSpace", "MiB are free", h.path("data"), "hint: "}, "init")
	})
	h.fails(1, []string{"no space left on device", "hint: "}, "init", "--ignore-preflight-errors=DiskSpace")
	h.resize(h.path("data"), "400m")
	h.ok("init")
	h.wantVoters("a")
}

// The disk fills up under a running member. Nothing is lost.
func TestDiskFillsUp(t *testing.T) {
	t.Parallel()
	h := newHost(t, "a", v36)
	h.mount(h.path("data"), "300m")
	h.ok("init")
	h.put("before", "the disk was full")
	ballast := h.path("data", "ballast")
	h.write(ballast, strings.Repeat("x", 100<<20), 0o600)
	h.resize(h.path("data"), "260m") // less than what is there needs, with the next log
	h.kill()
	if r := h.run("init", "--start-timeout=60s"); r.code != 0 && !strings.Contains(r.stderr, "space") &&
		!strings.Contains(r.stderr, "MiB are free") {
		t.Errorf("the full disk is not named: %s", r)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	h.ok("init")
	wantKeys(map[string]string{"before": "the disk was full"}, h)
}

// No space for the binaries or the files of the init system: nothing half is
// left, and a join is undone.
func TestNoSpaceForFiles(t *testing.T) {
	t.Parallel()
	a, b := strange(t)
	b.mount(b.path("bin"), "20m")
	b.mount(b.path("etc"), "8k")
	b.write(b.path("etc", "ballast"), strings.Repeat("x", 8<<10), 0o600)
	b.fails(1, []string{b.path("bin"), "MiB"}, quick(a.clientURL())...)
	if left := glob(t, b.path("bin", "*")); len(left) > 0 {
		t.Errorf("half an installation is left: %q", left)
	}
	b.resize(b.path("bin"), "400m")
	b.fails(1, []string{"no space left on device", b.path("etc")}, quick(a.clientURL())...)
	a.alone()
	b.nothing()
	b.resize(b.path("etc"), "64k")
	b.ok("join", a.clientURL())
	b.wantVoters("a", "b")
	if left := glob(t, b.path("etc", ".*")); len(left) > 0 {
		t.Errorf("half files are left: %q", left)
	}
}

// A directory that cannot be written is named before anything is done.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"etc", "pki", "bin"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := strange(t)
			b.readOnly(b.path(name))
			for _, args := range [][]string{{"init"}, quick(a.clientURL())} {
				b.unchanged(args[0], func() { b.fails(3, []string{"Writable", b.path(name), "hint: "}, args...) })
			}
			b.run("join", "--ignore-preflight-errors=Writable", "--membership-timeout=10s", a.clientURL())
			a.alone()
			b.nothing()
		})
	}
}

// A file is where a directory must be.
func TestFileForADirectory(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"etc", "pki", "bin", "data"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := strange(t)
			if err := os.RemoveAll(b.path(name)); err != nil {
				t.Fatal(err)
			}
			b.write(b.path(name), "nobody knows\n", 0o600)
			for _, args := range [][]string{{"init"}, quick(a.clientURL())} {
				r := b.run(args...)
				if r.code == 0 || !strings.Contains(r.stderr, b.path(name)) || !strings.Contains(r.stderr, "hint: ") {
					t.Errorf("the file is not named: %s", r)
				}
			}
			if b.read(b.path(name)) != "nobody knows\n" {
				t.Error("the file has changed")
			}
			a.alone()
		})
	}
}

// membersAside are the directories of members below the host's directory that
// are not in use.
func (h *host) membersAside() []string {
	h.t.Helper()
	var found []string
	err := filepath.WalkDir(h.root, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.IsDir() && e.Name() == "member" && path != h.path("data", "member") {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return found
}

// The data directory is a mount point, which cannot be moved.
func TestDataOnAMountPoint(t *testing.T) {
	t.Parallel()
	h := newHost(t, "a", v36)
	h.mount(h.path("data"), "1g")
	h.ok("init")
	h.put("life", "first")
	var out struct{ SetAside []string }
	h.unmarshal(h.ok("reset", "-o", "json"), &out)
	if aside := h.membersAside(); len(aside) != 1 || len(out.SetAside) != 1 || filepath.Dir(aside[0]) != out.SetAside[0] {
		t.Errorf("the data is in %q, and reset says in %q", aside, out.SetAside)
	}
	h.ok("init")
	wantKeys(map[string]string{"life": ""}, h)
	// What is aside takes space, and is bounded as everywhere.
	for range 4 {
		h.ok("reset")
		h.ok("init")
	}
	if aside := h.membersAside(); len(aside) > 3 {
		t.Errorf("%d old members fill the disk: %q", len(aside), aside)
	}
	h.write(h.path("data", "lost+found", "file"), "of somebody else", 0o600)
	h.fails(3, []string{"last-member", "is the last of its cluster", "--force"}, "reset", "--discard-data")
	h.ok("reset", "--discard-data", "--force")
	if exists(h.path("data", "member")) || exists(h.path("data", "discarded")) {
		t.Error("the data is still there")
	}
	if len(h.membersAside()) == 0 {
		t.Error("what was set aside before is deleted too")
	}
	if !exists(h.path("data", "lost+found", "file")) {
		t.Error("files that are not etcd's are deleted")
	}
}

// A removed member comes back to a disk of its own.
func TestSetAsideOnAMountPoint(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	a, c := hosts[0], hosts[2]
	c.mount(c.path("data"), "500m")
	found(hosts...)
	c.kill()
	a.ok("remove", "c")
	c.fails(3, []string{"--set-aside-data"}, "join", a.clientURL())
	c.ok("join", "--set-aside-data", a.clientURL())
	a.wantVoters("a", "b", "c")
	if len(c.membersAside()) != 1 {
		t.Errorf("the old data is in %q", c.membersAside())
	}
}

// The data directory is a link to a disk. What is done with the data is done
// there, and the link stays.
func TestDataBehindALink(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"set aside": {"reset"}, "discarded": {"reset", "--discard-data", "--force"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, "a", v36)
			disk := h.path("disk", "etcd")
			if err := errors.Join(os.MkdirAll(disk, 0o700), os.Symlink(disk, h.path("data"))); err != nil {
				t.Fatal(err)
			}
			h.ok("init")
			h.put("life", "first")
			h.ok(args...)
			if exists(filepath.Join(disk, "member")) {
				t.Error("the data is where it was")
			}
			if aside := h.membersAside(); (len(aside) == 1) != (name == "set aside") {
				t.Errorf("the old data is in %q", aside)
			}
			h.ok("init")
			h.wantVoters("a")
			wantKeys(map[string]string{"life": ""}, h)
			if !exists(filepath.Join(disk, "member")) {
				t.Error("the new data is not on the disk that the link names")
			}
		})
	}
}

// A path has a character that some of the files cannot hold. That is said before
// anything is done.
func TestStrangePath(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"with#hash", "with blank", "with'quote", "with$dollar", "with%percent", "with\\backslash",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, "a", v36)
			h.root = filepath.Join(h.root, path)
			if err := os.MkdirAll(h.root, 0o755); err != nil {
				t.Fatal(err)
			}
			before := tree(t, h.root)
			r := h.run("init")
			if r.code == 0 {
				h.wantVoters("a")
				h.ok("reset")
				return
			}
			if found := before.differences(tree(t, h.root)); r.code != 2 || len(found) > 0 {
				t.Errorf("it is refused too late: %s\n%s", r, strings.Join(found, "\n"))
			}
		})
	}
}
