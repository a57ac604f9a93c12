package volumes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// devicePause is the time between two tries to find a device that is to appear.
const devicePause = 200 * time.Millisecond

// Mount makes a volume's file system available and returns the directory where
// it is for this process. It waits for the device, makes a file system where
// there is nothing at all on it, checks it, mounts it on the host, lets it grow
// to the device's size, and mounts it in the container. What is done already is
// left as it is, so it may be ended at any point and called again.
func (h Host) Mount(ctx context.Context, v Volume, log *slog.Logger, waiting func(string)) (string, error) {
	device, err := h.await(ctx, v, log, waiting)
	if err != nil {
		return "", err
	}
	m := &mounting{h: h, log: log, device: device, point: h.mountPoint(v.MountName),
		volume: strings.TrimSpace(v.ID+" "+v.UID) + "\n"}
	number, err := h.number(device)
	if err != nil {
		return "", err
	}
	m.number = number
	kind, err := m.onHost(ctx)
	if err != nil {
		return "", err
	}
	crashpoint.Hit("volume-grow.before")
	m.grow(ctx, kind)
	crashpoint.Hit("volume-grow.after")
	if h.contained() {
		if err := m.inContainer(kind); err != nil {
			return "", err
		}
	}
	crashpoint.Hit("volume-mounted.after")
	return h.path(m.point), nil
}

// await returns the path on the host of the volume's device, links followed,
// as soon as it is there.
func (h Host) await(ctx context.Context, v Volume, log *slog.Logger, waiting func(string)) (string, error) {
	if len(v.Devices) == 0 {
		return "", fmt.Errorf("volume %s: its device is unknown", v.ID)
	}
	defer waiting("")
	for tries := 0; ; tries++ {
		for _, d := range v.Devices {
			real, err := filepath.EvalSymlinks(h.path(d))
			if err != nil {
				continue
			}
			if st, err := os.Stat(real); err == nil && st.Mode()&fs.ModeDevice != 0 {
				return "/" + strings.TrimPrefix(strings.TrimPrefix(real, h.path("/")), "/"), nil
			}
		}
		if tries == 0 {
			waiting("volume " + v.ID + " is attached, its device " + v.Devices[0] + " is not there yet")
		}
		if v.Rescan && tries%rescanEvery == rescanFirst {
			h.rescan(ctx, log)
		}
		if err := wait.For(ctx, devicePause); err != nil {
			return "", err
		}
	}
}

// mountPoint returns where on the host a volume belongs. On an operating system
// whose /mnt is read-only there is /mnt/disks.
func (h Host) mountPoint(name string) string {
	if st, err := os.Stat(h.path("/mnt/disks")); err == nil && st.IsDir() {
		return "/mnt/disks/" + name
	}
	return "/mnt/" + name
}

// number returns major:minor of a device.
func (h Host) number(device string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(h.path(device), &st); err != nil {
		return "", fmt.Errorf("device %s: %w", device, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return "", fmt.Errorf("%s is not a block device", device)
	}
	return fmt.Sprintf("%d:%d", unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev))), nil
}

// A mounting is the work of [Host.Mount].
type mounting struct {
	h      Host
	log    *slog.Logger
	device string
	number string
	point  string
	// volume is what distinguishes the volume from all others.
	volume string
}

// mounted returns the type of the file system that a table of mounts has at a
// mount point, "" for none. Something else than the device there is an error.
func (m *mounting) mounted(table, point string) (string, error) {
	text, err := os.ReadFile(table)
	if err != nil {
		return "", fmt.Errorf("read what is mounted: %w", err)
	}
	kind := ""
	for line := range strings.Lines(string(text)) {
		left, right, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(left), strings.Fields(right)
		if !ok || len(f) < 5 || len(g) < 2 || unescape(f[4]) != point {
			continue
		}
		// btrfs has a number of its own and names the device beside it.
		if f[2] != m.number && !(g[0] == "btrfs" && unescape(g[1]) == m.device) {
			return "", fmt.Errorf("%s (%s) is mounted at %s where %s belongs; unmount it: umount %s",
				g[1], f[2], point, m.device, point)
		}
		kind = g[0]
	}
	return kind, nil
}

// unescape undoes the kernel's writing of blanks in the table of mounts.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// onHost mounts the device on the host and returns its file system's type.
func (m *mounting) onHost(ctx context.Context) (string, error) {
	kind, err := m.mounted(m.h.proc("mountinfo"), m.point)
	if kind != "" || err != nil {
		return kind, err
	}
	if err := m.must(ctx, "mkdir", "-p", "-m", "0750", m.point); err != nil {
		return "", err
	}
	if kind, err = m.fileSystem(ctx); err != nil {
		return "", err
	}
	crashpoint.Hit("volume-mount.before")
	m.log.Info("mount volume", "device", m.device, "at", m.point, "type", kind)
	return kind, m.must(ctx, "mount", "-t", kind, "-o", "defaults", m.device, m.point)
}

// fileSystem returns the type of the device's file system, sound. It makes one
// where there is nothing.
func (m *mounting) fileSystem(ctx context.Context) (string, error) {
	kind, err := m.probe(ctx)
	if err != nil {
		return "", err
	}
	if kind != "" {
		if err := m.unmark(); err != nil {
			return "", err
		}
		crashpoint.Hit("volume-fsck.before")
		out, code, err := m.h.run(ctx, "fsck", "-a", m.device)
		if err == nil && code > 1 {
			err = fmt.Errorf("the file system on %s has errors that cannot be corrected automatically (exit code %d): %s; "+
				"check it on the machine: fsck %s", m.device, code, strings.TrimSpace(out), m.device)
		}
		return kind, err
	}
	if err := m.blank(); err != nil {
		return "", err
	}
	crashpoint.Hit("volume-mark.before")
	if err := m.mark(); err != nil {
		return "", err
	}
	crashpoint.Hit("volume-mkfs.before")
	m.log.Info("make a file system on the empty volume", "device", m.device)
	if err := m.must(ctx, "mkfs.ext4", "-F", "-m0", m.device); err != nil {
		return "", err
	}
	crashpoint.Hit("volume-mkfs.after")
	return "ext4", m.unmark()
}

// probe asks the host what is on the device, and returns the type of the file
// system, "" if blkid knows nothing of it.
func (m *mounting) probe(ctx context.Context) (string, error) {
	out, code, err := m.h.run(ctx, "blkid", "-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", m.device)
	if err != nil {
		return "", err
	}
	if code != 0 && code != 2 || code == 2 && strings.Contains(out, "=") {
		return "", fmt.Errorf("blkid cannot determine what is on %s (exit code %d): %s; nothing is formatted",
			m.device, code, strings.TrimSpace(out))
	}
	kind := ""
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "PTTYPE":
			return "", fmt.Errorf("%s has a partition table (%s); a volume is used as a whole; if nothing on it is "+
				"needed: wipefs -a %s", m.device, value, m.device)
		case "TYPE":
			kind = value
		}
	}
	return kind, nil
}

// blankBytes is how much is read at the beginning and at the end of a device to
// see that nothing is on it.
const blankBytes = 8 << 20

// blank returns an error if there is anything on the device, unless it is what
// is left of a file system that was being made on this machine.
func (m *mounting) blank() error {
	if of, err := os.ReadFile(m.markFile()); err == nil && string(of) == m.volume {
		return nil
	}
	f, err := os.Open(m.h.path(m.device))
	if err != nil {
		return fmt.Errorf("look at what is on %s: %w", m.device, err)
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("size of %s: %w", m.device, err)
	}
	buf := make([]byte, min(size, blankBytes))
	for _, at := range []int64{0, size - int64(len(buf))} {
		if _, err := f.ReadAt(buf, at); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s: %w", m.device, err)
		}
		if i := slices.IndexFunc(buf, func(b byte) bool { return b != 0 }); i >= 0 {
			return fmt.Errorf("%s has no known file system, but holds data at byte %d; it is not formatted; "+
				"if nothing on it is needed: mkfs.ext4 -F -m0 %s", m.device, at+int64(i), m.device)
		}
	}
	return nil
}

// markFile is below the mount point, so that it is hidden once the volume is
// mounted. It says that the device was empty when a file system began to be
// made: what is on it is half of that. It has the volume in it, since another
// one may have the same mount point later.
func (m *mounting) markFile() string {
	return filepath.Join(m.h.path(m.point), ".mkfs-of-an-empty-device")
}

func (m *mounting) mark() error {
	f, err := os.OpenFile(m.markFile(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("record that a file system is being made: %w", err)
	}
	_, err = f.WriteString(m.volume)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("record that a file system is being made: %w", err)
	}
	return nil
}

func (m *mounting) unmark() error {
	if err := os.Remove(m.markFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("record that a file system is made: %w", err)
	}
	return nil
}

// grow lets the file system take the whole device. Where it cannot, the member
// runs all the same.
func (m *mounting) grow(ctx context.Context, kind string) {
	var cmd []string
	switch kind {
	case "ext2", "ext3", "ext4":
		cmd = []string{"resize2fs", m.device}
	case "xfs":
		cmd = []string{"xfs_growfs", m.point}
	case "btrfs":
		cmd = []string{"btrfs", "filesystem", "resize", "max", m.point}
	default:
		return
	}
	if err := m.must(ctx, cmd[0], cmd[1:]...); err != nil {
		m.log.Warn("the file system cannot grow to the volume's size", "device", m.device, "error", err)
	}
}

// inContainer mounts the device where the host has it, below the host's root
// in the container: what is mounted on the host later is not seen here.
func (m *mounting) inContainer(kind string) error {
	at := m.h.path(m.point)
	if have, err := m.mounted("/proc/self/mountinfo", at); have != "" || err != nil {
		return err
	}
	if err := os.MkdirAll(at, 0o750); err != nil {
		return fmt.Errorf("mount in the container: %w", err)
	}
	if err := unix.Mount(m.h.path(m.device), at, kind, 0, ""); err != nil {
		return fmt.Errorf("mount %s in the container at %s: %w", m.device, at, err)
	}
	return nil
}

func (m *mounting) must(ctx context.Context, name string, args ...string) error {
	out, code, err := m.h.run(ctx, name, args...)
	if err == nil && code != 0 {
		err = fmt.Errorf("%s %s on the host (exit code %d): %s", name, strings.Join(args, " "), code,
			strings.TrimSpace(out))
	}
	return err
}
