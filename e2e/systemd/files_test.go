//go:build e2e

package systemd

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
)

// odd are values that something between a configuration and a process could
// take for something else.
var odd = map[string]string{
	"EMPTY":     "",
	"BLANKS":    "  two  inside and around  ",
	"TAB":       "a\tb",
	"QUOTES":    `"double" and 'single'`,
	"BACKSLASH": `C:\new\table\`,
	"DOLLAR":    "$HOME ${HOME} $(id) $$ `id`",
	"PERCENT":   "%H %% %n 100%",
	"HASH":      "#no comment; nor this",
	"EQUALS":    "a=b==c",
	"HTML":      `<a href="x">R&D</a>`,
	"GLOB":      "* ? [a-z] ~ !x {1,2}",
	"UNICODE":   "Zürich 東京 🦀",
	"LONG":      strings.Repeat("0123456789", 5000),
}

// What the unit's process gets is what the file was written for, and so is what
// sh takes from it.
func TestEnvironmentFileArrivesAsItIs(t *testing.T) {
	t.Parallel()
	m := Start(t, 1)[0]
	var env []string
	for _, k := range slices.Sorted(maps.Keys(odd)) {
		env = append(env, k+"="+odd[k])
	}
	const path = "/etc/odd 100%/etcd.env"
	file, err := initfiles.EnvFile(env)
	if err != nil {
		t.Fatal(err)
	}
	unit, err := initfiles.Unit(initfiles.UnitOptions{
		Etcd: "/usr/local/bin/etcd", EnvFile: path, DataDir: "/var/lib/etcd",
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Write(path, file, 0o600)
	m.Write("/etc/systemd/system/etcd.service", unit, 0o644)
	m.Write("/usr/local/bin/etcd",
		"#!/bin/sh\ncat /proc/self/environ >/var/lib/etcd/new && mv /var/lib/etcd/new /var/lib/etcd/environ\n", 0o755)
	m.Do("mkdir /var/lib/etcd; systemctl daemon-reload; systemctl start --no-block etcd.service")
	for reader, got := range map[string]string{
		"systemd": m.Await(runTime, "cat /var/lib/etcd/environ"),
		"sh":      m.Do("set -a; . '" + path + "'; cat /proc/self/environ"),
	} {
		for _, line := range env {
			if !slices.Contains(strings.Split(got, "\x00"), line) {
				t.Errorf("%s: %.80q is not in the environment", reader, line)
			}
		}
	}
}

// systemd understands every line of the unit, whatever is asked of it.
func TestUnitIsUnderstood(t *testing.T) {
	t.Parallel()
	m := Start(t, 1)[0]
	m.Do("useradd --system etcd; mkdir -p '/srv/my data 100%' /var/lib/etcd; printf '#!/bin/sh\\nexec sleep 1000\\n' " +
		">/usr/local/bin/etcd; chmod 755 /usr/local/bin/etcd")
	m.Write("/etc/etcd/etcd.env", "A=b\n", 0o600)
	plain := initfiles.UnitOptions{Etcd: "/usr/local/bin/etcd", EnvFile: "/etc/etcd/etcd.env", DataDir: "/var/lib/etcd"}
	for name, change := range map[string]func(*initfiles.UnitOptions){
		"as it comes":   func(*initfiles.UnitOptions) {},
		"without root":  func(o *initfiles.UnitOptions) { o.User, o.Group = "etcd", "etcd" },
		"low port":      func(o *initfiles.UnitOptions) { o.User, o.LowPort = "etcd", true },
		"no protection": func(o *initfiles.UnitOptions) { o.HardeningOff = true },
		"odd paths":     func(o *initfiles.UnitOptions) { o.DataDir = "/srv/my data 100%"; o.WriteDirs = []string{"/tmp"} },
		"priorities": func(o *initfiles.UnitOptions) {
			o.Priorities = []string{"Nice=-10", "IOSchedulingClass=best-effort", "IOSchedulingPriority=2"}
		},
	} {
		o := plain
		change(&o)
		unit, err := initfiles.Unit(o)
		if err != nil {
			t.Fatal(err)
		}
		m.Write("/etc/systemd/system/etcd.service", unit, 0o644)
		if r := m.Run(t.Context(), "systemd-analyze verify etcd.service"); r.Code != 0 || r.Stdout+r.Stderr != "" {
			t.Errorf("%s: %s\n%s", name, r, unit)
		}
		// Type=notify: the stand-in never says that it is ready, but it runs.
		m.Do("systemctl daemon-reload; systemctl start --no-block etcd.service")
		m.Await(runTime, "test $(systemctl show -P MainPID etcd.service) -gt 0")
		if o.DataDir != plain.DataDir {
			m.Do(`nsenter --mount --target=$(systemctl show -P MainPID etcd.service) touch '/srv/my data 100%/x'`)
		}
		m.Do("systemctl stop etcd.service")
	}
}
