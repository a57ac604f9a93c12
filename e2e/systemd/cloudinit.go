//go:build e2e

package systemd

import "strings"

// cloudFinal is the unit in which cloud-init runs its last stage, and so
// runcmd: while the machine boots, without a terminal, with HOME unset.
const cloudFinal = `[Unit]
Description=Execute cloud user/final scripts
After=network-online.target multi-user.target
Wants=network-online.target

[Service]
Type=oneshot
ExecStart=/var/lib/cloud/instance/scripts/runcmd
RemainAfterExit=yes
TimeoutSec=0
KillMode=process
TasksMax=infinity
StandardOutput=file:/var/log/cloud-init-output.log
StandardError=file:/var/log/cloud-init-errors.log

[Install]
WantedBy=cloud-init.target
`

// cloudInit is the target that the system's start waits for.
const cloudInit = `[Unit]
Description=Cloud-init target
After=multi-user.target

[Install]
WantedBy=multi-user.target
`

// CloudInit gives the machine a script for its next boot, boots it, and waits
// for the script to end. The script runs as cloud-init runs the commands of
// runcmd: one after the other, whatever becomes of them.
func (m *Machine) CloudInit(script string) Result {
	m.t.Helper()
	m.PrepareCloudInit(script)
	m.Reboot()
	return m.CloudInitResult()
}

// PrepareCloudInit gives the machine a script for its next boot.
func (m *Machine) PrepareCloudInit(script string) {
	m.t.Helper()
	m.Write("/etc/systemd/system/cloud-final.service", cloudFinal, 0o644)
	m.Write("/etc/systemd/system/cloud-init.target", cloudInit, 0o644)
	m.Write("/var/lib/cloud/instance/scripts/runcmd", "#!/bin/sh\n"+script+"\n", 0o700)
	m.Do("rm -f /var/log/cloud-init-*.log\nsystemctl --quiet enable cloud-init.target cloud-final.service")
}

// CloudInitResult returns what the script left. No later boot runs it again.
func (m *Machine) CloudInitResult() Result {
	m.t.Helper()
	code := m.Do("systemctl show --property=ExecMainStatus --value cloud-final.service")
	r := Result{Stdout: m.Read("/var/log/cloud-init-output.log"), Stderr: m.Read("/var/log/cloud-init-errors.log")}
	for _, c := range strings.TrimSpace(code) {
		r.Code = r.Code*10 + int(c-'0')
	}
	m.Do("systemctl --quiet disable cloud-final.service cloud-init.target")
	return r
}
