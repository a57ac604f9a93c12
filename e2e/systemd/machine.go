//go:build e2e

package systemd

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A Machine is one machine. Its methods end the test when the machine does not
// do its part.
type Machine struct {
	// Name is the host name, which the other machines can resolve.
	Name string
	// IP is the address of the default route. IP6 is empty where the host has no
	// IPv6.
	IP, IP6 string

	t  testing.TB
	id string
}

// Run runs a script of sh as root, in a bare environment and without a
// terminal.
func (m *Machine) Run(ctx context.Context, script string) Result {
	m.t.Helper()
	ctx, stop := context.WithTimeout(ctx, runTime)
	defer stop()
	r, err := run(ctx, nil, "exec", "--workdir=/root", m.id, "sh", "-c", script)
	if err != nil {
		m.t.Fatalf("%s: %v\nin: %s", m.Name, err, script)
	}
	if r.Code != 0 && strings.HasPrefix(r.Stderr, "Error response from daemon") {
		m.t.Fatalf("%s: %s\nin: %s", m.Name, r.Stderr, script)
	}
	return r
}

// notLast matches a command that must fail and is not the last one of its script: the shell goes on
// where it succeeds.
var notLast = regexp.MustCompile(`(^|[;\n])\s*! [^;\n]*[;\n]\s*\S`)

// Do runs a script that has to succeed, stopping at its first error, and
// returns what it wrote to standard output without the last newline.
func (m *Machine) Do(script string) string {
	m.t.Helper()
	if notLast.MatchString(script) {
		m.t.Fatalf("a command after ! is not the last one, so that nothing notices its success: %s", script)
	}
	r := m.Run(m.t.Context(), "set -e\n"+script)
	if r.Code != 0 {
		m.t.Fatalf("%s: %s\n%s", m.Name, script, r)
	}
	return strings.TrimSuffix(r.Stdout, "\n")
}

// Fails runs a script that has to fail with one of etcdadm's exit codes, and
// returns what it left.
func (m *Machine) Fails(script string) Result {
	m.t.Helper()
	r := m.Run(m.t.Context(), script)
	if r.Code == 0 || r.Code > 100 {
		m.t.Fatalf("%s: should fail: %s\n%s", m.Name, script, r)
	}
	return r
}

// Await runs a script again and again until it succeeds, and returns what it
// wrote then.
func (m *Machine) Await(within time.Duration, script string) string {
	m.t.Helper()
	ctx, stop := context.WithTimeout(m.t.Context(), within)
	defer stop()
	var r Result
	err := poll(ctx, func() (bool, error) {
		var err error
		r, err = run(ctx, nil, "exec", "--workdir=/root", m.id, "sh", "-c", script)
		return r.Code == 0, err
	})
	if err != nil {
		m.t.Fatalf("%s: %v: %s\n%s", m.Name, err, script, r)
	}
	return strings.TrimSuffix(r.Stdout, "\n")
}

// Write writes a file of root's, and the directories above it.
func (m *Machine) Write(name, content string, mode os.FileMode) {
	m.t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	head := &tar.Header{Name: name[1:], Mode: int64(mode), Size: int64(len(content)), ModTime: time.Now(),
		Typeflag: tar.TypeReg}
	if err := w.WriteHeader(head); err != nil {
		m.t.Fatal(err)
	}
	if _, err := w.Write([]byte(content)); err != nil {
		m.t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		m.t.Fatal(err)
	}
	m.unpack(&b)
}

// Read returns the content of a file.
func (m *Machine) Read(name string) string {
	m.t.Helper()
	return m.Do("cat '" + name + "'\necho") // Do cuts one newline
}

// Give copies files to another machine as they are, as one does with a
// certificate authority.
func (m *Machine) Give(other *Machine, names ...string) {
	m.t.Helper()
	for _, name := range names {
		ctx, stop := context.WithTimeout(m.t.Context(), runTime)
		r, err := run(ctx, nil, "cp", "--archive", m.id+":"+name, "-")
		stop()
		if err != nil || r.Code != 0 {
			m.t.Fatalf("%s: copy %s: %v: %s", m.Name, name, err, r.Stderr)
		}
		other.Do("mkdir -p '" + path.Dir(name) + "'")
		other.unpackIn(path.Dir(name), strings.NewReader(r.Stdout))
	}
}

// Copy copies a file of the host.
func (m *Machine) Copy(file, name string) {
	m.t.Helper()
	m.Do("mkdir -p '" + path.Dir(name) + "'")
	if _, err := docker(m.t.Context(), "cp", file, m.id+":"+name); err != nil {
		m.t.Fatalf("%s: copy %s: %v", m.Name, file, err)
	}
}

// Reboot stops all services in their order and boots again.
func (m *Machine) Reboot() {
	m.t.Helper()
	m.down()
	m.powerOn()
	m.awaitBoot()
}

// down shuts the machine down.
func (m *Machine) down() {
	m.t.Helper()
	ctx, stop := context.WithTimeout(m.t.Context(), downTime)
	defer stop()
	if _, err := run(ctx, nil, "exec", m.id, "systemctl", "reboot"); err != nil {
		m.t.Fatalf("%s: reboot: %v", m.Name, err)
	}
	if _, err := docker(ctx, "wait", m.id); err != nil {
		m.t.Fatalf("%s: does not go down: %v", m.Name, err)
	}
}

// Kill is a power cut.
func (m *Machine) Kill() {
	m.t.Helper()
	if _, err := docker(m.t.Context(), "kill", "--signal=KILL", m.id); err != nil {
		m.t.Fatalf("%s: kill: %v", m.Name, err)
	}
}

// Boot turns a machine on that was killed.
func (m *Machine) Boot() {
	m.t.Helper()
	m.powerOn()
	m.awaitBoot()
}

func (m *Machine) powerOn() {
	m.t.Helper()
	if _, err := docker(m.t.Context(), "start", m.id); err != nil {
		m.t.Fatalf("%s: does not start: %v", m.Name, err)
	}
}

// bootTries is how often a machine is turned on that ends while it boots.
const bootTries = 3

// awaitBoot waits until systemd has started all that belongs to the default
// target, or has given it up. A machine that ends meanwhile is turned on again:
// where many containers start at once the first process of one may end, which
// nothing on the machine has caused.
func (m *Machine) awaitBoot() {
	m.t.Helper()
	ctx, stop := context.WithTimeout(m.t.Context(), bootTime)
	defer stop()
	var r Result
	tries := 1
	err := poll(ctx, func() (bool, error) {
		var err error
		r, err = run(ctx, nil, "exec", m.id, "systemctl", "is-system-running", "--wait")
		if err == nil && strings.HasSuffix(r.Stderr, "is not running\n") && tries < bootTries {
			tries++
			logs, _ := run(ctx, nil, "logs", "--tail=20", m.id) //nolint:errcheck // what there is
			m.t.Logf("%s ended while it booted, and is turned on again: %s", m.Name, logs)
			m.powerOn()
		}
		state := strings.TrimSpace(r.Stdout)
		return state == "running" || state == "degraded", err
	})
	if err != nil {
		m.t.Fatalf("%s does not come up: %v\n%s", m.Name, err, r)
	}
}

func (m *Machine) unpack(archive *bytes.Buffer) {
	m.t.Helper()
	m.unpackIn("/", archive)
}

// unpackIn unpacks a tar archive with the machine's tar: Docker's copy does not
// reach what is mounted in a machine.
func (m *Machine) unpackIn(dir string, archive interface{ Read([]byte) (int, error) }) {
	m.t.Helper()
	ctx, stop := context.WithTimeout(m.t.Context(), runTime)
	defer stop()
	_, err := dockerWith(ctx, archive, "exec", "--interactive", m.id, "tar", "--extract", "--no-same-owner",
		"--directory="+dir)
	if err != nil {
		m.t.Fatal(fmt.Errorf("%s: write into %s: %w", m.Name, dir, err))
	}
}

// say writes a line of the test's scenario.
func say(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Logf("%s  %s", time.Now().Format("15:04:05.0"), fmt.Sprintf(format, args...))
}
