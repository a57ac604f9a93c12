//go:build e2e

package systemd

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
)

// The two logs of cloud-init's last stage, in which runcmd is.
const (
	cloudOutput = "/var/log/cloud-init-output.log"
	cloudErrors = "/var/log/cloud-init-errors.log"
)

// CloudInit gives the machine a script for its next boot, boots it, and waits
// for the script to end. The script runs as cloud-init runs the commands of
// runcmd: one after the other, whatever becomes of them.
func (m *Machine) CloudInit(script string) Result {
	m.t.Helper()
	m.PrepareCloudInit(script)
	m.Reboot()
	return m.CloudInitResult()
}

// A cloudFile is a file that cloud-init writes before runcmd.
type cloudFile struct {
	Path        string `json:"path"`
	Owner       string `json:"owner"`
	Permissions string `json:"permissions"`
	Content     string `json:"content"`
}

// PrepareCloudInit gives the machine user data for its next boot, in which
// cloud-init has it run for the first time: files to write, and each line of the
// script as a command. It is in the form in which Cluster API providers have it.
func (m *Machine) PrepareCloudInit(script string, files ...cloudFile) {
	m.t.Helper()
	commands, err := json.Marshal(strings.Split(script, "\n"))
	if err != nil {
		m.t.Fatal(err)
	}
	written, err := json.Marshal(append([]cloudFile{}, files...))
	if err != nil {
		m.t.Fatal(err)
	}
	// JSON is YAML.
	data := "## template: jinja\n#cloud-config\n\nwrite_files: " + string(written) + "\nruncmd: " + string(commands) + "\n"
	instance := fmt.Sprintf("instance-id: i-%.8x\n", sha256.Sum256([]byte(data)))
	m.Write("/var/lib/cloud/seed/nocloud/user-data", data, 0o600)
	m.Write("/var/lib/cloud/seed/nocloud/meta-data", instance, 0o644)
	m.Do("rm -f /var/log/cloud-init*.log /etc/cloud/cloud-init.disabled")
}

// CloudInitResult returns what the script left. No later boot runs it again.
func (m *Machine) CloudInitResult() Result {
	m.t.Helper()
	code := m.Do("systemctl show --property=ExecMainStatus --value cloud-final.service")
	r := Result{Stdout: m.Read(cloudOutput), Stderr: m.Read(cloudErrors)}
	for _, c := range strings.TrimSpace(code) {
		r.Code = r.Code*10 + int(c-'0')
	}
	m.Do(": >/etc/cloud/cloud-init.disabled")
	return r
}
