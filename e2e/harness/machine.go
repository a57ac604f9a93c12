package harness

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/etcdadm/etcdadm/pkg/testing/testchild"
)

// A Machine is a control-plane machine as kops has it, on which its pod of etcd-manager
// runs: a mount namespace, process numbers and a network of its own, and for each run of
// the daemon a container with a file system of its own, in which nothing of what is mounted
// on the machine later can be seen. The daemon runs below the log runner of the image.
type Machine struct {
	*Node
	// Volume is the disk that the cloud has for the machine, nil for none.
	Volume *Volume
	// ImageVolumes are the volumes that the machine has of images: the directory with etcd
	// for each place in the container.
	ImageVolumes map[string]string
	// Shell has the daemon run as kops up to 1.34 does, by a shell in place of the log runner.
	Shell bool
	// HostsLines are in the machine's hosts file, and so in each new one of a container.
	HostsLines string

	dir  string
	said bytes.Buffer // the standard error of host

	// power is for host and in: a cloud plugs volumes while a machine goes off.
	power sync.Mutex
	host  *exec.Cmd // nil for a machine that is off
	in    io.Closer
}

//go:embed machine.sh
var machineScript string

//go:embed pod.sh
var podScript string

// NewMachine has a node, which has not run yet, run as a pod on a machine. The cluster has
// a network, and a log runner.
func (c *Cluster) NewMachine(n *Node, v *Volume) *Machine {
	c.t.Helper()
	m := &Machine{Node: n, Volume: v, dir: filepath.Join(c.Dir, "machine-"+n.Name), ImageVolumes: map[string]string{}}
	for _, dir := range []string{"mnt", "opt", "dev", "pki", "log", "container", "certs"} {
		c.must(os.MkdirAll(filepath.Join(m.dir, dir), 0o755), "make a machine")
	}
	c.machines = append(c.machines, m)
	if v != nil {
		m.dataDir = func() string { return m.Seen("/rootfs/mnt/" + v.mount) }
	}
	m.equip()
	m.Boot()
	return m
}

// equip puts the CAs on the machine, and nothing else that a daemon reads.
func (m *Machine) equip() {
	m.c.t.Helper()
	pki := filepath.Join(m.dir, "pki")
	m.c.must(os.RemoveAll(pki), "make a machine")
	m.c.must(m.c.PKI.Install(pki), "install the CAs")
}

// Replace has a new machine take the place of this one, with its volume and its address.
func (m *Machine) Replace() {
	m.c.t.Helper()
	m.Off()
	m.renew()
}

func (m *Machine) renew() {
	m.c.t.Helper()
	m.c.must(os.RemoveAll(filepath.Join(m.dir, "mnt")), "make a machine")
	m.c.must(os.Mkdir(filepath.Join(m.dir, "mnt"), 0o755), "make a machine")
	m.equip()
	m.Boot()
}

// ReplaceInstance does as kops in a rolling update: the machine goes, and another one, with
// another address, is to attach the volume, which is free some time later.
func (m *Machine) ReplaceInstance() {
	m.c.t.Helper()
	m.c.Net.unplug(m.space)
	m.Off()
	space := m.c.Net.add()
	m.Volume.ec2.replace(m, func() {
		m.place.Lock()
		defer m.place.Unlock()
		m.space, m.Address = space, space.address
	})
	m.closeClient()
	m.renew()
}

// Etcd gives the machine an image volume with a version of etcd, for these patches.
func (m *Machine) Etcd(version string, patches ...string) {
	m.c.t.Helper()
	binary, err := EtcdBinary(m.EtcdDirs, version, "etcd")
	m.c.must(err, "find etcd")
	for _, patch := range append(patches, version) {
		m.ImageVolumes["/opt/etcd-v"+patch+"/usr/local/bin"] = filepath.Dir(binary)
	}
}

// Boot starts the machine, which is off.
func (m *Machine) Boot() {
	m.c.t.Helper()
	device := ""
	if m.Volume != nil {
		device = m.Volume.loop
	}
	host := exec.Command("unshare", "-p", "-f", "-m", "--mount-proc", "--propagation", "private", "--kill-child",
		"sh", "-ec", machineScript, "machine", m.dir, device)
	in, err := host.StdinPipe()
	m.c.must(err, "boot a machine")
	out, err := host.StdoutPipe()
	m.c.must(err, "boot a machine")
	host.Stderr = &m.said
	m.c.must(testchild.Start(host), "boot a machine")
	m.power.Lock()
	m.host, m.in = host, in
	m.power.Unlock()
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "up\n" {
		m.halt()
		m.c.t.Fatalf("machine %s says %q, %v: %s", m.Name, line, err, &m.said)
	}
	if m.Volume != nil && m.Volume.attached(m) {
		m.c.must(m.plug(), "plug a volume")
	}
}

// Off cuts the machine from its power: all that runs on it ends, the disk stays.
func (m *Machine) Off() {
	m.c.t.Helper()
	if m.Running() {
		m.Kill()
	}
	m.halt()
}

// halt ends the machine's first process, and with it all others.
func (m *Machine) halt() {
	m.power.Lock()
	defer m.power.Unlock()
	if m.host == nil {
		return
	}
	for _, p := range below(m.host.Process.Pid) {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
	_ = m.in.Close()
	_ = m.host.Wait()
	m.host = nil
}

// inside returns the command that runs another one on the machine, which is on, and not in
// a container.
func (m *Machine) inside(argv ...string) ([]string, error) {
	all := below(m.host.Process.Pid)
	if len(all) == 0 {
		return nil, fmt.Errorf("machine %s has ended", m.Name)
	}
	return append([]string{"nsenter", "-t", strconv.Itoa(all[0].pid), "-m", "-p",
		"--net=/run/netns/" + m.space.name, "--"}, argv...), nil
}

// plug makes the volume's device appear where machines of AWS have it. One that is off
// has it when it boots.
func (m *Machine) plug() error {
	m.power.Lock()
	defer m.power.Unlock()
	if m.host == nil {
		return nil
	}
	argv, err := m.inside("sh", "-ec", `mkdir -p "${2%/*}" && ln -sfn "$1" "$2"`, "plug", m.Volume.loop, m.Volume.link)
	if err != nil {
		return err
	}
	return run(argv[0], argv[1:]...)
}

// Pod starts the daemon in a new container with this command line: its hosts file is new,
// and what it has mounted and written outside of its volumes is gone.
func (m *Machine) Pod(args ...string) {
	m.c.t.Helper()
	runner := m.c.LogRunner
	if m.Shell {
		runner = "shell"
	}
	m.contain(filepath.Join(m.Bin, "etcd-manager"), runner)
	m.Run(args...)
}

// PodOther starts another program in place of the daemon, with one more variable, by a shell.
func (m *Machine) PodOther(program, variable string, args ...string) {
	m.c.t.Helper()
	m.contain(program, "shell")
	m.RunOther(variable, append(slices.Clone(m.pod), args...)...)
}

// contain makes what a new container needs, in which this program is the daemon.
func (m *Machine) contain(program, runner string) {
	m.c.t.Helper()
	c := m.c
	c.must(os.WriteFile(m.Hosts(), []byte("127.0.0.1\tlocalhost\n"+m.HostsLines), 0o644), "make the hosts file")
	log, err := os.OpenFile(m.EtcdLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	c.must(err, "make the log file")
	c.must(log.Close(), "make the log file")
	script := []string{"unshare", "-m", "--propagation", "private", "sh", "-ec", podScript, "pod", m.dir, program, runner}
	var volumes []string
	for place, from := range m.ImageVolumes {
		volumes = append(volumes, from+":"+place)
	}
	slices.Sort(volumes)
	pod, err := m.inside(append(script, cmp.Or(strings.Join(volumes, " "), "none"))...)
	c.must(err, "start a pod")
	m.pod = pod
}

// Hosts returns the path of the container's hosts file.
func (m *Machine) Hosts() string { return filepath.Join(m.dir, "hosts") }

// EtcdLog returns the path of the container's log file.
func (m *Machine) EtcdLog() string { return filepath.Join(m.dir, "log/etcd.log") }

// Ports returns the ports at which the machine can be reached from outside of it: those of
// TCP, and of UDP with "udp" before.
func (m *Machine) Ports() ([]string, error) {
	ports := map[string]bool{}
	for _, name := range []string{"tcp", "tcp6", "udp", "udp6"} {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(m.PID()), "net", name))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			udp := strings.HasPrefix(name, "udp")
			if len(f) < 4 || f[3] != "0A" && !(udp && f[3] == "07") {
				continue // neither listens nor waits for anybody
			}
			address, port, _ := strings.Cut(f[1], ":")
			number, err := strconv.ParseUint(port, 16, 16)
			if err != nil {
				return nil, err
			}
			if slices.Contains(unreached, address) {
				continue
			}
			ports[strings.TrimSuffix(strings.TrimSuffix(name, "6"), "tcp")+strconv.FormatUint(number, 10)] = true
		}
	}
	return slices.Sorted(maps.Keys(ports)), nil
}

// unreached are the addresses of loopback and of metadata as the kernel writes them.
var unreached = []string{"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F", "FEA9FEA9",
	"0000000000000000FFFF0000FEA9FEA9"}

// HTTP returns a client on the machine.
func (m *Machine) HTTP() *http.Client {
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) { return m.space.dial(ctx, addr) }
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: askTime}
}

// File returns the path of a file of the machine's /mnt.
func (m *Machine) File(path string) string { return filepath.Join(m.dir, "mnt", path) }

// Seen returns the path, for who is on no machine, of a file as the daemon sees it.
func (m *Machine) Seen(path string) string {
	return filepath.Join("/proc", strconv.Itoa(m.PID()), "root", path)
}

// Others returns how many processes there are on the machine besides its first.
func (m *Machine) Others() int { return len(below(m.host.Process.Pid)) - 1 }

// close comes when no daemon runs any more.
func (m *Machine) close() {
	m.halt()
	if m.Volume != nil {
		m.Volume.release(m.c)
	}
}
