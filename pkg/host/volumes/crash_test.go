//go:build crashpoints

package volumes

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
)

// firstPoints are where a daemon may be killed that is given an empty volume, laterPoints
// where one may be that is given a volume with data which is not mounted.
var (
	firstPoints = []string{
		"volume-mark.before", "volume-mkfs.before", "volume-mkfs.after", "volume-mount.before", "volume-grow.before",
		"volume-grow.after", "volume-mounted.after",
	}
	laterPoints = []string{
		"volume-fsck.before", "volume-mount.before", "volume-grow.before", "volume-grow.after", "volume-mounted.after",
	}
)

// killed calls Mount in a container that is killed at a point.
func (w *world) killed(point string) {
	w.t.Helper()
	out, err := w.mount(crashpoint.Variable + "=" + point)
	if err == nil || !strings.Contains(err.Error(), "signal: killed") {
		w.t.Fatalf("it was not killed at %s: %v\n%s", point, err, out)
	}
}

// The next container finishes what the one before was killed in, and what was written
// then stays, wherever the third one is killed.
func TestCrashAnywhere(t *testing.T) {
	for _, again := range []bool{false, true} {
		next := func(w *world) {
			if again {
				w.boot()
			}
		}
		for _, point := range firstPoints {
			t.Run(fmt.Sprintf("%s, machine again %t", point, again), func(t *testing.T) {
				w := newWorld(t, 64)
				w.killed(point)
				next(w)
				w.mounts(`found ""`)
			})
		}
		t.Run(fmt.Sprintf("with data, machine again %t", again), func(t *testing.T) {
			w := newWorld(t, 64)
			w.mounts(`found ""`)
			for _, point := range laterPoints {
				w.boot()
				w.killed(point)
				next(w)
				w.mounts(`found "by the container before"`)
			}
		})
	}
}

// The host's mkfs.ext4 is killed together with the container when it has written a part
// of the file system. It writes the superblock last, so blkid knows nothing of it.
func TestCrashInMkfs(t *testing.T) {
	real, err := os.ReadFile("/usr/sbin/mkfs.ext4")
	if err != nil {
		t.Skip(err)
	}
	for _, part := range []struct{ name, skip, count string }{
		{"nothing", "0", "0"}, {"the middle", "64", "4096"}, {"all but the superblock", "1", "16383"},
	} {
		t.Run(part.name, func(t *testing.T) {
			w := newWorld(t, 64)
			program := filepath.Join(w.dir, "mkfs.ext4")
			script := filepath.Join(w.dir, "mkfs.half")
			// dd counts blocks of 4 KiB.
			text := fmt.Sprintf("#!/bin/sh\nfor d; do :; done\ncp --sparse=always \"$d\" %[1]s.img\n%[1]s -q -F -m0 %[1]s.img\n"+
				"dd if=%[1]s.img of=\"$d\" bs=4096 conv=notrunc,fsync skip=%[2]s seek=%[2]s count=%[3]s\n"+
				"kill -9 $PPID $$\n", program, part.skip, part.count)
			for path, content := range map[string][]byte{program: real, script: []byte(text)} {
				if err := os.WriteFile(path, content, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			w.onHost("mount", "--bind", script, "/usr/sbin/mkfs.ext4")
			out, err := w.mount()
			if err == nil || !strings.Contains(err.Error(), "signal: killed") {
				t.Fatalf("%v\n%s", err, out)
			}
			written, err := os.ReadFile(w.file)
			if err != nil || (part.count == "0") != (len(bytes.Trim(written, "\x00")) == 0) {
				t.Fatalf("the test is wrong: the device is not as it was to be, %v", err)
			}
			w.onHost("umount", "/usr/sbin/mkfs.ext4")
			w.mounts(`found ""`)
			w.mounts(`found "by the container before"`)
		})
	}
}
