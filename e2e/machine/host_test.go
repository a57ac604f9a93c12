package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// commandTime bounds one command. It is for machines that do other things too.
const commandTime = 3 * time.Minute

// A host is one machine. Its fields may be changed before a command.
type host struct {
	t *testing.T
	// name of the member, and the directory that all paths are below.
	name, root string
	// address is an IP address of the loopback.
	address              string
	clientPort, peerPort int
	// version of etcd, and the directory that it is taken from.
	version, binaries string
	// program is the path of etcdadm.
	program string
	// vars are further variables, and go before the host's own; an empty value
	// takes a variable away.
	vars map[string]string
	// moved are directories that are not where they are by default: see path.
	moved map[string]string
	// began is called with the process of each command, if it is not nil.
	began func(*os.Process)
	// space is what the host is in, nil for what the test is in.
	space *space
}

// newHost returns a machine with nothing on it. At the end of the test its
// processes are ended, and it is a failure if some were left that its status files
// do not report.
func newHost(t *testing.T, name, version string) *host {
	t.Helper()
	return newHostAt(t, name, version, "127.0.0.1")
}

// newHostAt returns a machine with that address of the loopback.
func newHostAt(t *testing.T, name, version, address string) *host {
	t.Helper()
	h := &host{
		t: t, name: name, address: address, version: version, binaries: etcdDir(t, version), program: program(t),
		vars: map[string]string{},
		root: filepath.Join(t.TempDir(), name), clientPort: testport.FreeOf(t, address),
		peerPort: testport.FreeOf(t, address),
	}
	if err := os.MkdirAll(h.root, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.end)
	return h
}

// defaults are where things are by default.
var defaults = map[string]string{
	"data": "var/lib/etcd", "pki": "etc/etcd/pki", "bin": "opt/bin", "cache": "var/cache/etcdadm", "etc": "etc/etcd",
	"units": "etc/systemd/system", "manifests": "etc/kubernetes/manifests",
}

// path returns a path of the host: of one of the directories above, or below
// it.
func (h *host) path(first string, parts ...string) string {
	switch {
	case h.moved[first] != "":
		first = h.moved[first]
	case h.space != nil && defaults[first] != "":
		first = defaults[first]
	}
	return filepath.Join(append([]string{h.root, first}, parts...)...)
}

func (h *host) clientURL() string { return h.url(h.clientPort) }
func (h *host) peerURL() string   { return h.url(h.peerPort) }
func (h *host) url(port int) string {
	return "https://" + net.JoinHostPort(h.address, strconv.Itoa(port))
}

// env returns the variables of the host's commands.
func (h *host) env() []string {
	vars := map[string]string{
		"PATH": h.path("fake") + ":" + filepath.Dir(h.program) + ":" + os.Getenv("PATH"), "HOME": h.root,
		"TMPDIR": os.TempDir(), "HOST_OF_TEST": h.root + "/",
	}
	if h.space == nil {
		maps.Copy(vars, h.placed())
	}
	maps.Copy(vars, h.vars)
	var env []string
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		if vars[k] != "" {
			env = append(env, k+"="+vars[k])
		}
	}
	return env
}

// placed are the variables that make etcdadm work below the host's directory.
func (h *host) placed() map[string]string {
	return map[string]string{
		"ETCDADM_NAME": h.name, "ETCDADM_VERSION": h.version, "ETCDADM_BINARIES_DIR": h.binaries,
		"ETCDADM_BIND_ADDRESS": h.address, "ETCDADM_CLIENT_PORT": strconv.Itoa(h.clientPort),
		"ETCDADM_PEER_PORT": strconv.Itoa(h.peerPort),
		"ETCDADM_DATA_DIR":  h.path("data"), "ETCDADM_CERTS_DIR": h.path("pki"), "ETCDADM_INSTALL_DIR": h.path("bin"),
		"ETCDADM_CACHE_DIR": h.path("cache"), "ETCDADM_ENVIRONMENT_DIR": h.path("etc"), "ETCDADM_UNIT_DIR": h.path("units"),
		"ETCDADM_KUBELET_POD_MANIFEST_PATH": h.path("manifests"), "ETCDADM_INIT_SYSTEM": "process",
		"ETCDADM_START_TIMEOUT": "60s", "ETCDADM_MEMBERSHIP_TIMEOUT": "60s", "ETCDADM_PROMOTION_TIMEOUT": "60s",
	}
}

// A result is how a command ended.
type result struct {
	line           string
	stdout, stderr string
	code           int
}

func (r result) String() string {
	return fmt.Sprintf("$ %s\n(exit %d) stdout:\n%s\nstderr:\n%s", r.line, r.code, r.stdout, r.stderr)
}

// run runs etcdadm to its end.
func (h *host) run(args ...string) result {
	h.t.Helper()
	return h.exec(h.program, args...)
}

// ok runs etcdadm, which must succeed, and returns what it printed.
func (h *host) ok(args ...string) string {
	h.t.Helper()
	r := h.run(args...)
	if r.code != 0 {
		h.t.Fatalf("%s: %s", h.name, r)
	}
	return r.stdout
}

// fails runs etcdadm, which must end with code and say all of the words.
func (h *host) fails(code int, words []string, args ...string) result {
	h.t.Helper()
	r := h.run(args...)
	if r.code != code {
		h.t.Fatalf("%s: the exit code is not %d: %s", h.name, code, r)
	}
	for _, w := range words {
		if !strings.Contains(r.stdout+r.stderr, w) {
			h.t.Errorf("%s: does not say %q: %s", h.name, w, r)
		}
	}
	return r
}

// exec runs any program to its end, with the host's variables.
func (h *host) exec(name string, args ...string) result {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), commandTime)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := h.command(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err := h.start(cmd)
	if err == nil {
		if h.began != nil {
			h.began(cmd.Process)
		}
		err = cmd.Wait()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		h.t.Fatalf("%s: %s %q: %v, %v\n%s\n%s", h.name, name, args, err, ctx.Err(), &stdout, &stderr)
	}
	line := strings.Join(append([]string{filepath.Base(name)}, args...), " ")
	h.t.Logf("%s$ %s (exit %d after %s)", h.name, line, cmd.ProcessState.ExitCode(),
		time.Since(began).Round(time.Millisecond))
	return result{line, stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// interrupt runs etcdadm until ok says true, and then sends it what Ctrl-C
// sends.
func (h *host) interrupt(ok func() bool, args ...string) result {
	h.t.Helper()
	done := make(chan struct{})
	h.began = func(p *os.Process) {
		go func() {
			defer close(done)
			_ = poll(commandTime, func() error {
				if !ok() {
					return errors.New("not yet")
				}
				return nil
			})
			_ = p.Signal(os.Interrupt)
		}()
	}
	r := h.run(args...)
	h.began = nil
	<-done
	return r
}

// command prepares a command of the host for [host.start].
func (h *host) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = h.env(), h.root, 10*time.Second
	// At its deadline it is ended with its children.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// start starts a command in the host's network.
func (h *host) start(cmd *exec.Cmd) error {
	if h.space == nil {
		return cmd.Start()
	}
	return h.space.do(cmd.Start)
}

// shell runs lines of sh, with etcdadm in the PATH.
func (h *host) shell(lines string) result {
	h.t.Helper()
	return h.exec("sh", "-ec", lines)
}

// copyCA copies the certificate authority of another machine to this one, as
// people do before a join.
func (h *host) copyCA(from *host) {
	h.t.Helper()
	for name, mode := range map[string]os.FileMode{"ca.crt": 0o644, "ca.key": 0o600} {
		h.write(h.path("pki", name), from.read(from.path("pki", name)), mode)
	}
}

func (h *host) read(path string) string {
	h.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(b)
}

func (h *host) write(path, text string, mode os.FileMode) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		h.t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
