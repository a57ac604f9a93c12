package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// The requests of ioctl_fsfreeze: _IOWR('X', 119, int) and 120.
const (
	fiFreeze = 0xC0045877
	fiThaw   = 0xC0045878
)

// A Disk is a file system of a node's own, which can be frozen: what writes to it
// hangs, and what reads it from memory goes on.
type Disk struct {
	c         *Cluster
	dir, file string

	mu     sync.Mutex
	frozen bool
}

// DiskError says why there can be no disks: they are loop devices, which take
// root. It is nil where they can be had.
func DiskError() error {
	if os.Geteuid() != 0 {
		return errors.New("a loop device takes root")
	}
	for _, program := range []string{"mkfs.ext4", "mount", "umount"} {
		if _, err := exec.LookPath(program); err != nil {
			return err
		}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return err
	}
	return nil
}

// NewDisk puts the data directory of n, which has not run yet, on a disk of that
// many megabytes. It is unfrozen and unmounted at the end of the test.
func (c *Cluster) NewDisk(n *Node, megabytes int) *Disk {
	c.t.Helper()
	d := &Disk{c: c, dir: filepath.Join(c.Dir, "disk-"+n.Name), file: filepath.Join(c.Dir, n.Name+".img")}
	f, err := os.Create(d.file)
	c.must(err, "make a disk")
	c.must(f.Truncate(int64(megabytes)<<20), "make a disk")
	c.must(f.Close(), "make a disk")
	c.must(os.MkdirAll(d.dir, 0o755), "make a directory")
	c.must(run("mkfs.ext4", "-q", d.file), "make a file system")
	c.must(run("mount", "-o", "loop", d.file, d.dir), "mount a disk")
	c.disks = append(c.disks, d)
	n.Dir = filepath.Join(d.dir, "data")
	return d
}

// Freeze has all writes hang.
func (d *Disk) Freeze() {
	d.c.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.c.must(d.control(fiFreeze), "freeze "+d.dir)
	d.frozen = true
}

// Thaw has them go on.
func (d *Disk) Thaw() {
	d.c.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.frozen {
		d.c.must(d.control(fiThaw), "thaw "+d.dir)
		d.frozen = false
	}
}

func (d *Disk) control(request uint) error {
	f, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.IoctlSetInt(int(f.Fd()), request, 0)
}

// unmount comes after the last process that uses the disk.
func (d *Disk) unmount() {
	if err := run("umount", d.dir); err != nil {
		d.c.t.Errorf("%v", err)
	}
}

func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
