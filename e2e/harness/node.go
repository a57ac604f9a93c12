package harness

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The ports of every node, but for those of a [Machine].
const (
	DaemonPort     = 8000
	ClientPort     = 4001
	QuarantinePort = 8001
	PeerPort       = 2380
)

// A Node is a machine: an address, a disk, and a daemon that may run. Its
// exported fields may be changed while it does not run.
type Node struct {
	Name, Address string
	// Host is what clients call the member, Address where it is empty.
	Host string
	// Dir is the data directory.
	Dir string
	// Store is the value of --backup-store, Cluster that of --cluster-name.
	Store, Cluster string
	// PKIDir is the PKI directory; the node gets its own copy of the cluster's
	// CAs in Dir-pki if it is empty.
	PKIDir string
	// Bin and EtcdDirs are as in [Options].
	Bin, EtcdDirs string
	// Flags and Env come after those of the cluster.
	Flags, Env []string
	// Log collects what the daemon writes, over all its runs.
	Log string
	// MayEnd says that the daemon may end by itself.
	MayEnd bool
	// Port is where clients are served, [ClientPort] where it is 0.
	Port atomic.Int32
	// EtcdInsecure says that etcd has no TLS while the daemon has. Clients of the cluster
	// follow it.
	EtcdInsecure atomic.Bool

	c *Cluster
	// pod is the command that runs the daemon in its container, if there is one.
	pod []string
	// dataDir returns the data directory in the container.
	dataDir func() string

	// place is for space and Address.
	place sync.Mutex
	space *space

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
	paused bool
	other  bool
	client *clientv3.Client
}

// scheme returns http or https.
func (n *Node) scheme() string {
	if n.c.Insecure || n.EtcdInsecure.Load() {
		return "http"
	}
	return "https"
}

// ClientURL returns where the member serves its clients.
func (n *Node) ClientURL() string {
	host := n.Host
	if host == "" {
		_, host = n.where()
	}
	return n.scheme() + "://" + net.JoinHostPort(host, strconv.Itoa(int(cmp.Or(n.Port.Load(), ClientPort))))
}

// Endpoint returns host and port of the daemon.
func (n *Node) Endpoint() string { return net.JoinHostPort(n.Address, strconv.Itoa(DaemonPort)) }

// Args returns the daemon's command line.
func (n *Node) Args() []string {
	url := func(port int) string { return fmt.Sprintf("%s://__address__:%d", n.scheme(), port) }
	args := []string{
		"--cluster-name=" + n.Cluster, "--backup-store=" + n.Store, "--data-dir=" + n.Dir, "--node-name=" + n.Name,
		"--address=" + n.Address, "--etcd-address=" + n.Address, fmt.Sprintf("--grpc-port=%d", DaemonPort),
		"--client-urls=" + url(ClientPort), "--quarantine-client-urls=" + url(QuarantinePort), "--peer-urls=" + url(PeerPort),
		"--discovery-poll-interval=2s", "--etcd-log=output", // what etcd says, and when, is compared with what they say
	}
	for dir := range strings.SplitSeq(n.EtcdDirs, ":") {
		args = append(args, "--etcd-dir="+dir)
	}
	if n.c.Insecure {
		args = append(args, "--insecure", "--etcd-insecure")
	} else {
		args = append(args, "--pki-dir="+n.pki())
		if n.EtcdInsecure.Load() {
			args = append(args, "--etcd-insecure")
		}
	}
	args = append(args, n.c.Flags...)
	return append(args, n.Flags...)
}

func (n *Node) pki() string {
	if n.PKIDir != "" {
		return n.PKIDir
	}
	return n.Dir + "-pki"
}

// Start starts the daemon, which must not run.
func (n *Node) Start() {
	n.c.t.Helper()
	n.InstallPKI()
	n.Run(n.Args()...)
}

// InstallPKI gives the node its copy of the CAs, and returns where that is.
func (n *Node) InstallPKI() string {
	n.c.t.Helper()
	if n.c.PKI != nil && n.PKIDir == "" {
		n.c.must(n.c.PKI.Install(n.pki()), "install the CAs on "+n.Name)
	}
	return n.pki()
}

// NewHosts gives the node a new hosts file, as a new container gets one, and
// returns its path. The node has a network of its own.
func (n *Node) NewHosts() string {
	n.c.t.Helper()
	path := filepath.Join("/etc/netns", n.space.name, "hosts")
	n.c.must(os.MkdirAll(filepath.Dir(path), 0o755), "make a directory for the hosts file of "+n.Name)
	n.c.must(os.WriteFile(path, []byte("127.0.0.1\tlocalhost\n"), 0o644), "make the hosts file of "+n.Name)
	return path
}

// Run starts the daemon with a command line of its own.
func (n *Node) Run(args ...string) {
	n.c.t.Helper()
	program := []string{filepath.Join(n.Bin, "etcd-manager")}
	if n.pod != nil {
		program = slices.Clone(n.pod)
	}
	n.run("", append(program, args...))
}

// RunOther starts another program in place of the daemon, with one more variable. It is
// killed, with all that it has started.
func (n *Node) RunOther(variable string, argv ...string) {
	n.c.t.Helper()
	n.run(variable, argv)
}

func (n *Node) run(variable string, argv []string) {
	n.c.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		n.c.t.Fatalf("start %s: it runs already", n.Name)
	}
	n.c.must(os.MkdirAll(filepath.Dir(n.Dir), 0o755), "make a directory")
	log, err := os.OpenFile(n.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	n.c.must(err, "open the log of "+n.Name)
	if n.space != nil && n.pod == nil {
		argv = append([]string{"ip", "netns", "exec", n.space.name}, argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	// Only what the node is given: a variable of the test is not for it.
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}, append(n.c.Env, n.Env...)...)
	if n.other = variable != ""; n.other {
		cmd.Env = append(cmd.Env, variable)
	}
	cmd.Stdout, cmd.Stderr = log, log
	// In a process group of its own: an interrupt from the terminal is for the
	// harness, which then stops the daemons in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if !n.c.Keep {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL // no daemon outlives a killed test
	}
	fmt.Fprintf(log, "---- %s start %s\n", time.Now().Format(time.RFC3339Nano), strings.Join(argv, " "))
	started, exited := make(chan error), make(chan struct{})
	go func() {
		// The death signal comes when the thread ends that started the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(exited)
		defer log.Close()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // ProcessState says how it ended
		fmt.Fprintf(log, "---- %s ended: %s\n", time.Now().Format(time.RFC3339Nano), cmd.ProcessState)
	}()
	n.c.must(<-started, "start "+n.Name)
	n.cmd, n.exited, n.paused = cmd, exited, false
}

// Ended says whether the daemon has ended by itself, and how.
func (n *Node) Ended() (*os.ProcessState, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return nil, false
	}
	select {
	case <-n.exited:
		return n.cmd.ProcessState, true
	default:
		return nil, false
	}
}

// Running says whether the daemon runs.
func (n *Node) Running() bool {
	n.mu.Lock()
	cmd := n.cmd
	n.mu.Unlock()
	_, ended := n.Ended()
	return cmd != nil && !ended
}

// PID returns the daemon's process number, 0 if it does not run.
func (n *Node) PID() int {
	if !n.Running() {
		return 0
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pod != nil {
		return daemonBelow(n.cmd.Process.Pid)
	}
	return n.cmd.Process.Pid
}

// WaitExit waits until the daemon ends by itself, and returns its exit code.
func (n *Node) WaitExit(within time.Duration) int {
	n.c.t.Helper()
	n.mu.Lock()
	cmd, exited := n.cmd, n.exited
	n.mu.Unlock()
	select {
	case <-exited:
	case <-time.After(within):
		n.c.t.Fatalf("daemon %s has not ended within %s", n.Name, within)
	}
	n.mu.Lock()
	n.cmd = nil
	n.mu.Unlock()
	return cmd.ProcessState.ExitCode()
}

func (n *Node) signal(sig syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return errors.New("it does not run")
	}
	n.paused = sig == syscall.SIGSTOP || n.paused && sig != syscall.SIGCONT
	return n.cmd.Process.Signal(sig)
}

// Stop ends the daemon with SIGTERM and waits. It must end in order.
func (n *Node) Stop() {
	n.c.t.Helper()
	n.mu.Lock()
	cmd, exited, paused, other := n.cmd, n.exited, n.paused, n.other
	if cmd != nil && other {
		n.mu.Unlock()
		n.Kill()
		return
	}
	n.cmd = nil
	n.mu.Unlock()
	if cmd == nil {
		return
	}
	select {
	case <-exited:
		if !n.MayEnd {
			n.c.t.Errorf("daemon %s ended by itself: %s", n.Name, cmd.ProcessState)
		}
		return
	default:
	}
	if n.pod != nil {
		terminatePod(cmd.Process.Pid)
	} else {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	if paused {
		_ = cmd.Process.Signal(syscall.SIGCONT)
	}
	select {
	case <-exited:
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			n.c.t.Errorf("daemon %s ended with %s after SIGTERM", n.Name, cmd.ProcessState)
		}
	case <-time.After(stopTime):
		n.c.t.Errorf("daemon %s has not ended %s after SIGTERM", n.Name, stopTime)
		_ = cmd.Process.Kill()
		<-exited
	}
}

// Kill ends the daemon with SIGKILL and waits.
func (n *Node) Kill() {
	n.c.t.Helper()
	n.mu.Lock()
	cmd, exited, other := n.cmd, n.exited, n.other
	n.cmd = nil
	n.mu.Unlock()
	if cmd == nil {
		n.c.t.Fatalf("kill %s: it does not run", n.Name)
	}
	if other {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	} else if n.pod != nil {
		killPod(cmd.Process.Pid)
	}
	_ = cmd.Process.Kill()
	<-exited
}

// Pause stops the daemon in its tracks, its etcd runs on.
func (n *Node) Pause() {
	n.c.t.Helper()
	n.c.must(n.signal(syscall.SIGSTOP), "pause "+n.Name)
}

// Continue lets a paused daemon go on.
func (n *Node) Continue() {
	n.c.t.Helper()
	n.c.must(n.signal(syscall.SIGCONT), "continue "+n.Name)
}

// EtcdPID returns the process number of the node's etcd, 0 if there is none.
func (n *Node) EtcdPID() int {
	if pid := n.PID(); pid != 0 {
		return etcdOf(pid)
	}
	return 0
}

// EtcdProgram returns the program that the node's etcd is, "" if there is none.
func (n *Node) EtcdProgram() string {
	if pid := n.PID(); pid != 0 {
		if p := etcdProcess(pid); p.pid != 0 {
			return p.argv[0]
		}
	}
	return ""
}

// KillEtcd kills the node's etcd with SIGKILL and returns the number it had.
func (n *Node) KillEtcd() int {
	n.c.t.Helper()
	return n.killOne(n.EtcdPID(), "etcd")
}

// KillDaemon kills the daemon alone with SIGKILL, and nothing else of its container.
func (n *Node) KillDaemon() {
	n.c.t.Helper()
	n.killOne(n.PID(), "daemon")
}

// killOne kills one process and returns its number, which is 0 where there is none.
func (n *Node) killOne(pid int, what string) int {
	n.c.t.Helper()
	if pid == 0 { // for the kernel: all of the test's own group
		n.c.t.Fatalf("kill the %s of %s: there is none", what, n.Name)
	}
	n.c.must(syscall.Kill(pid, syscall.SIGKILL), "kill the "+what+" of "+n.Name)
	return pid
}

// LoseDisk kills the daemon and its etcd and deletes all the node had on disk.
// The name stays: it is given by a flag.
func (n *Node) LoseDisk() {
	n.c.t.Helper()
	n.Kill()
	n.c.must(n.c.deleteAll(n.Dir), "lose the disk of "+n.Name)
}
