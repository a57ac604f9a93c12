package volumes

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/testing/testchild"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == HostExecCommand {
		fmt.Fprintln(os.Stderr, HostExec(os.Args[2:]))
		os.Exit(HostExecFailed)
	}
	if len(os.Args) > 1 && os.Args[1] == "container" {
		inContainer(os.Args[2:])
	}
	os.Exit(m.Run())
}

// A world is a machine and a container on it: two mount namespaces that see
// nothing of each other's mounts. The host's own /mnt is a directory of the
// test, so that nothing of this machine is touched.
type world struct {
	t         *testing.T
	host      *exec.Cmd
	off       func() // ends the host, and its mounts with it
	dir, file string
	device    string
	as        []string // the command that runs containers, if any
}

// newWorld makes a world with a volume of some MiB.
func newWorld(t *testing.T, size int64) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP: loop devices and mount namespaces need root")
	}
	w := &world{t: t, dir: t.TempDir()}
	w.file = filepath.Join(w.dir, "disk")
	if err := os.WriteFile(w.file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(w.file, size<<20); err != nil {
		t.Fatal(err)
	}
	w.device = strings.TrimSpace(w.command("losetup", "--show", "-f", w.file))
	t.Cleanup(func() { w.command("losetup", "-d", w.device) })
	if err := os.Mkdir(filepath.Join(w.dir, "mnt"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.boot()
	return w
}

// boot starts the machine, again if it runs.
func (w *world) boot() {
	if w.off != nil {
		w.off()
	}
	w.host = exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c",
		`mount --bind "$0" /mnt && echo up && exec cat`, filepath.Join(w.dir, "mnt"))
	in, err := w.host.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := w.host.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := testchild.Start(w.host); err != nil {
		w.t.Fatal(err)
	}
	host := w.host
	w.off = sync.OnceFunc(func() { in.Close(); host.Wait() })
	w.t.Cleanup(w.off)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		w.t.Fatalf("the host says %q, %v", line, err)
	}
}

func (w *world) command(name string, args ...string) string {
	w.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// onHost runs a command in the host's namespace.
func (w *world) onHost(name string, args ...string) string {
	w.t.Helper()
	return w.command("nsenter", append([]string{"-m", "-t", fmt.Sprint(w.host.Process.Pid), name}, args...)...)
}

// write writes on the volume.
func (w *world) write(at int64, what []byte) {
	w.t.Helper()
	f, err := os.OpenFile(w.device, os.O_WRONLY|os.O_SYNC, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(what, at); err != nil {
		w.t.Fatal(err)
	}
}

// mount calls Mount in a new container and returns what the container saw in
// the data directory, in which it then writes a file.
func (w *world) mount(env ...string) (string, error) {
	cmd := exec.Command("nsenter", "-m", "-t", fmt.Sprint(w.host.Process.Pid), "unshare", "-m", "--propagation",
		"private", "/proc/self/exe")
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd.Args = append(append(cmd.Args[:len(cmd.Args)-1], w.as...), exe)
	cmd.Args = append(cmd.Args, "container", fmt.Sprint(w.host.Process.Pid), w.device)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (w *world) mounts(want string) string {
	w.t.Helper()
	out, err := w.mount()
	if err != nil || !strings.Contains(out, want) {
		w.t.Fatalf("mount: %v\n%s\nwant %q", err, out, want)
	}
	return out
}

func (w *world) refuses(want ...string) {
	w.t.Helper()
	before, err := os.ReadFile(w.file)
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := w.mount()
	if err == nil {
		w.t.Fatalf("mounted:\n%s", out)
	}
	for _, s := range want {
		if !strings.Contains(out, s) {
			w.t.Errorf("refused with %q, want %q", out, s)
		}
	}
	if after, err := os.ReadFile(w.file); err != nil || string(after) != string(before) {
		w.t.Errorf("the device was written (%v)", err)
	}
}

// inContainer is the container's program: its root has the host's file system
// at a directory, as it was when the container began.
func inContainer(args []string) {
	runtime.LockOSThread()
	err := func() error {
		root, err := os.MkdirTemp("", "rootfs")
		if err != nil {
			return err
		}
		defer os.Remove(root)
		if err := unix.Mount("/", root, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
		if err := unix.Mount("", root, "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
			return err
		}
		defer unix.Unmount(root, unix.MNT_DETACH)
		h := Host{Root: root}
		if _, err := fmt.Sscan(args[0], &h.Process); err != nil {
			return err
		}
		v := Volume{
			ID: "vol-1", UID: "uid-1", MountName: "master-vol-1", Devices: []string{"/dev/no-such-device", args[1]},
		}
		dir, err := h.Mount(context.Background(), v, slog.New(slog.NewTextHandler(os.Stdout, nil)), func(string) {})
		if err != nil {
			return err
		}
		want := root + "/mnt/master-vol-1"
		if _, err := os.Stat(root + "/mnt/disks"); err == nil {
			want = root + "/mnt/disks/master-vol-1"
		}
		if dir != want {
			return fmt.Errorf("data directory %s, want %s", dir, want)
		}
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return err
		}
		old, _ := os.ReadFile(filepath.Join(dir, "written"))
		fmt.Printf("mounted, %d MiB, found %q\n", int64(st.Blocks)*st.Bsize>>20, old)
		return os.WriteFile(filepath.Join(dir, "written"), []byte("by the container before"), 0o600)
	}()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// On Container-Optimized OS /mnt is read-only, and /mnt/disks is a file system in memory: a
// volume is mounted there, on the machine and in each container.
func TestWhereMntIsReadOnlyVolumesAreInDisks(t *testing.T) {
	w := newWorld(t, 64)
	readOnly := func() {
		w.onHost("mkdir", "-p", "/mnt/disks")
		w.onHost("mount", "-t", "tmpfs", "disks", "/mnt/disks")
		w.onHost("mount", "-o", "remount,bind,ro", "/mnt")
	}
	readOnly()
	w.mounts(`found ""`)
	if out := w.onHost("cat", "/mnt/disks/master-vol-1/written"); out != "by the container before" {
		t.Errorf("the host sees %q", out)
	}
	w.mounts(`found "by the container before"`) // a new container, the volume is mounted on the host
	w.boot()
	readOnly()
	w.mounts(`found "by the container before"`)
}

func TestANewVolumeIsFormattedOnceAndMountedAgain(t *testing.T) {
	w := newWorld(t, 64)
	w.mounts(`found ""`)
	if out := w.onHost("cat", "/mnt/master-vol-1/written"); out != "by the container before" {
		t.Errorf("the host sees %q", out)
	}
	w.mounts(`found "by the container before"`) // the container again, the host's mount stands
	w.onHost("umount", "/mnt/master-vol-1")
	w.mounts(`found "by the container before"`) // the machine again
	if out := w.onHost("stat", "-c", "%a", "/mnt/master-vol-1"); strings.TrimSpace(out) == "" {
		t.Error("no directory")
	}
}

// grow has a volume with a file system of 64 MiB become one of 256 MiB.
func (w *world) grow() {
	w.t.Helper()
	w.mounts("mounted, 5")
	if err := os.Truncate(w.file, 256<<20); err != nil {
		w.t.Fatal(err)
	}
	w.command("losetup", "-c", w.device)
}

func TestAGrownVolumeGrows(t *testing.T) {
	w := newWorld(t, 64)
	if !mayGrow(t) {
		t.Skip("the kernel lets no process without CAP_SYS_RESOURCE change the size of a mounted ext4")
	}
	w.grow()
	w.mounts("mounted, 2")
	w.mounts(`found "by the container before"`) // it has its full size, and what was in it
}

// A volume whose file system cannot grow is mounted, and the member has its data.
func TestAVolumeThatCannotGrowIsMounted(t *testing.T) {
	w := newWorld(t, 64)
	w.grow()
	w.as = []string{"setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource"}
	out := w.mounts("the file system cannot grow to the volume's size")
	for _, want := range []string{"Permission denied to resize filesystem", `found "by the container before"`} {
		if !strings.Contains(out, want) {
			t.Errorf("it says %s\nwant %q", out, want)
		}
	}
}

// mayGrow says whether this process may change the size of mounted file systems.
func mayGrow(t *testing.T) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "CapEff:\t")
	var caps uint64
	if _, err := fmt.Sscanf(rest, "%x", &caps); err != nil {
		t.Fatal(err)
	}
	return caps&(1<<unix.CAP_SYS_RESOURCE) != 0
}

func TestAPartitionTableIsNotFormatted(t *testing.T) {
	w := newWorld(t, 64)
	sector := make([]byte, 512)
	// One Linux partition from sector 2048 on, 4096 sectors long.
	copy(sector[446:], []byte{0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 16, 0, 0})
	copy(sector[510:], []byte{0x55, 0xaa})
	w.write(0, sector)
	w.refuses("partition table (dos)", "wipefs")
}

func TestUnknownContentIsNotFormatted(t *testing.T) {
	for _, tc := range []struct {
		name string
		at   int64
	}{{"at the beginning", 5 << 20}, {"at the end", 64<<20 - 100}} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 64)
			w.write(tc.at, []byte{7})
			w.refuses(fmt.Sprintf("holds data at byte %d", tc.at), "mkfs.ext4 -F -m0 "+w.device)
		})
	}
}

func TestACorruptFileSystemIsNeitherMountedNorFormatted(t *testing.T) {
	w := newWorld(t, 64)
	w.command("mkfs.ext4", "-q", "-F", w.device)
	// The root directory is no directory, which fsck does not repair unasked.
	w.command("debugfs", "-w", "-R", "set_inode_field / mode 0100644", w.device)
	w.command("tune2fs", "-E", "force_fsck", w.device)
	out, err := w.mount()
	if err == nil || !strings.Contains(out, "cannot be corrected") || !strings.Contains(out, "fsck "+w.device) {
		t.Errorf("%v: %s", err, out)
	}
}

// A container that was killed while the file system was being made left half
// of one, and the note of it.
func TestFormattingThatWasCutOffIsTakenUpAgain(t *testing.T) {
	w := newWorld(t, 64)
	at := filepath.Join(w.dir, "mnt/master-vol-1")
	if err := os.Mkdir(at, 0o750); err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(at, ".mkfs-of-an-empty-device")
	w.write(1<<20, []byte("half"))
	// Another volume had the same mount point, as one with a name that is used again.
	for _, other := range []string{"", "vol-1\n", "vol-1 uid-0\n", "vol-0 uid-1\n"} {
		if err := os.WriteFile(mark, []byte(other), 0o600); err != nil {
			t.Fatal(err)
		}
		w.refuses("holds data at byte 1048576")
	}
	if err := os.WriteFile(mark, []byte("vol-1 uid-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.mounts(`found ""`)
	w.onHost("umount", "/mnt/master-vol-1")
	if _, err := os.Stat(mark); err == nil {
		t.Error("the note is still there")
	}
	w.command("wipefs", "-a", w.device)
	w.refuses("holds data at byte")
}

// What is recorded before a file system is made is what counts afterwards.
func TestTheNoteNamesTheVolume(t *testing.T) {
	m := &mounting{
		h: Host{Root: t.TempDir()}, point: "/", device: "/no-such-device", volume: "a volume with a longer name\n",
	}
	if err := m.mark(); err != nil {
		t.Fatal(err)
	}
	m.volume = "vol-2 uid-2\n"
	if err := m.blank(); err == nil || !strings.Contains(err.Error(), "/no-such-device") {
		t.Errorf("another volume's note counts: %v", err)
	}
	if err := m.mark(); err != nil {
		t.Fatal(err)
	}
	if err := m.blank(); err != nil {
		t.Errorf("its own note does not count: %v", err)
	}
}

func TestAnotherDeviceAtTheMountPointIsAnError(t *testing.T) {
	w := newWorld(t, 64)
	w.onHost("mkdir", "/mnt/master-vol-1")
	w.onHost("mount", "-t", "tmpfs", "tmpfs", "/mnt/master-vol-1")
	w.refuses("is mounted at /mnt/master-vol-1 where "+w.device+" belongs", "umount /mnt/master-vol-1")
}

func TestACommandThatTheHostLacks(t *testing.T) {
	w := newWorld(t, 1)
	h := Host{Root: w.dir, Process: w.host.Process.Pid}
	if err := os.MkdirAll(filepath.Dir(h.proc("ns/mnt")), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(fmt.Sprintf("/proc/%d/ns/mnt", w.host.Process.Pid), h.proc("ns/mnt")); err != nil {
		t.Fatal(err)
	}
	_, _, err := h.run(t.Context(), "no-such-command")
	if err == nil || !strings.Contains(err.Error(), "the host has no command no-such-command") {
		t.Error(err)
	}
	out, code, err := h.run(t.Context(), "sh", "-c", "echo out; exit 3")
	if err != nil || code != 3 || out != "out\n" {
		t.Errorf("%q, %d, %v", out, code, err)
	}
}
