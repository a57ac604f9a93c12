package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Volume is a disk of a cloud: a loop device.
type Volume struct {
	ID   string
	Tags map[string]string

	// mount is the name of the directory below /mnt, link where machines have the device.
	mount, link string
	// attached says whether a machine has it.
	attached func(m *Machine) bool
	loop     string
	open     *os.File // the loop device, which the kernel frees when nobody has it open any more

	ec2 *EC2   // nil for another cloud's
	at  string // the instance of ec2 that it is attached to
}

// volume makes a disk of that many MiB.
func (c *Cluster) volume(id string, mib int64) *Volume {
	c.t.Helper()
	v := &Volume{ID: id}
	file := filepath.Join(c.Dir, filepath.Base(id))
	c.must(os.WriteFile(file, nil, 0o600), "make a volume")
	c.must(os.Truncate(file, mib<<20), "make a volume")
	out, err := exec.Command("losetup", "--show", "-f", file).CombinedOutput()
	c.must(err, "make a loop device: "+string(out))
	v.loop = strings.TrimSpace(string(out))
	v.open, err = os.Open(v.loop)
	c.must(err, "open a loop device")
	c.must(run("losetup", "-d", v.loop), "have the kernel free a loop device")
	return v
}

func (v *Volume) release(c *Cluster) {
	if err := v.open.Close(); err != nil {
		c.t.Errorf("%v", err)
	}
}
