package initfiles

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// usual are the options of a machine with the defaults.
func usual() UnitOptions {
	return UnitOptions{
		Etcd: "/opt/bin/etcd", EnvFile: "/etc/etcd/etcd.env", DataDir: "/var/lib/etcd", ReadDirs: []string{"/etc/etcd/pki"},
		Priorities: []string{"Nice=-10", "IOSchedulingClass=best-effort", "IOSchedulingPriority=2"},
	}
}

// units are the units that have golden files.
func units() map[string]UnitOptions {
	user := usual()
	user.User, user.Group, user.LowPort, user.WriteDirs = "etcd", "etcd", true, []string{"/var/log/etcd"}
	bare := usual()
	bare.HardeningOff, bare.Priorities = true, []string{""}
	odd := usual()
	odd.Etcd, odd.EnvFile, odd.DataDir = "/root/my tools/100%/etcd", "/etc/my etcd/50%.env", "/tmp/data dir/%H"
	return map[string]UnitOptions{"default": usual(), "user": user, "bare": bare, "odd-paths": odd}
}

func TestUnits(t *testing.T) {
	for name, o := range units() {
		golden(t, name+".service", must[string](t)(Unit(o)))
	}
}

// TestUnitsMeanSomething lets systemd judge every line, where it is installed.
func TestUnitsMeanSomething(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	for name, o := range units() {
		t.Run(name, func(t *testing.T) {
			// systemd-analyze wants the programs to be there.
			dir := t.TempDir()
			o.Etcd = dir + o.Etcd
			if err := os.MkdirAll(filepath.Dir(o.Etcd), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(o.Etcd, nil, 0o755); err != nil {
				t.Fatal(err)
			}
			if o.User != "" {
				o.User, o.Group = "daemon", "daemon"
			}
			path := filepath.Join(dir, UnitName)
			if err := os.WriteFile(path, []byte(must[string](t)(Unit(o))), 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(analyze, "verify", "--man=no", "--recursive-errors=no", path).CombinedOutput()
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, UnitName) || strings.Contains(line, path) {
					t.Errorf("systemd-analyze: %s", line)
				}
			}
			if err != nil {
				t.Errorf("systemd-analyze: %v\n%s", err, out)
			}
		})
	}
}

func TestUnitKeepsWhatOthersRelyOn(t *testing.T) {
	unit := must[string](t)(Unit(usual()))
	for _, line := range []string{
		"Description=etcd", "Conflicts=etcd-member.service etcd2.service", "EnvironmentFile=/etc/etcd/etcd.env",
		"ExecStart=/opt/bin/etcd", "Type=notify", "Restart=on-failure", "RestartSec=5s", "LimitNOFILE=65536",
		"Nice=-10", "IOSchedulingClass=best-effort", "IOSchedulingPriority=2", "MemoryLow=200M", "WantedBy=multi-user.target",
		// and what the retired etcdadm lacked
		"After=network-online.target", "Wants=network-online.target", "RequiresMountsFor=/var/lib/etcd",
		"NoNewPrivileges=yes",
	} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the unit has no line %s", line)
		}
	}
}

func TestHardeningFollowsThePaths(t *testing.T) {
	tests := []struct {
		name   string
		change func(o *UnitOptions)
		has    string
		not    string
	}{
		{"nothing at home", func(*UnitOptions) {}, "ProtectHome=yes", "ProtectHome=read-only"},
		{"data at home", func(o *UnitOptions) { o.DataDir = "/home" }, "ProtectHome=read-only", "ProtectHome=yes"},
		{"program at root's home", func(o *UnitOptions) { o.Etcd = "/root/bin/etcd" }, "ProtectHome=read-only",
			"ProtectHome=yes"},
		{"homework is no home", func(o *UnitOptions) { o.DataDir = "/homework" }, "ProtectHome=yes", "read-only"},
		{"nothing in /tmp", func(*UnitOptions) {}, "PrivateTmp=yes", "?"},
		{"certificates in /tmp", func(o *UnitOptions) { o.ReadDirs = []string{"/tmp"} }, "ProtectSystem=strict",
			"PrivateTmp"},
		{"logs in /var/tmp", func(o *UnitOptions) { o.WriteDirs = []string{"/var/tmp/x"} },
			"ReadWritePaths=/var/lib/etcd /var/tmp/x", "PrivateTmp"},
		{"root reads what is not its own", func(*UnitOptions) {}, "CapabilityBoundingSet=CAP_DAC_OVERRIDE\n", "Ambient"},
		{"another user has no capabilities", func(o *UnitOptions) { o.User = "etcd" }, "CapabilityBoundingSet=\n", "Ambient"},
		{"except for a low port", func(o *UnitOptions) { o.User, o.LowPort = "etcd", true },
			"\nAmbientCapabilities=CAP_NET_BIND_SERVICE\n", "DAC"},
		{"also without hardening", func(o *UnitOptions) { o.User, o.LowPort, o.HardeningOff = "etcd", true, true },
			"\nAmbientCapabilities=CAP_NET_BIND_SERVICE\n", "Bounding"},
		{"off", func(o *UnitOptions) { o.HardeningOff = true }, "OOMScoreAdjust=-997", "Protect"},
	}
	for _, tt := range tests {
		o := usual()
		tt.change(&o)
		unit := must[string](t)(Unit(o))
		if !strings.Contains(unit, tt.has) || strings.Contains(unit, tt.not) {
			t.Errorf("%s: want %q and not %q in\n%s", tt.name, tt.has, tt.not, unit)
		}
	}
}

func TestPrioritiesGoBeforeTheUnit(t *testing.T) {
	o := usual()
	o.Priorities = []string{" MemoryLow=1G "}
	unit := must[string](t)(Unit(o))
	if strings.LastIndex(unit, "\nMemoryLow=1G\n") < strings.Index(unit, "\nMemoryLow=200M\n") {
		t.Errorf("the line of the operator does not come last:\n%s", unit)
	}
}

func TestUnitRefuses(t *testing.T) {
	tests := []struct {
		name   string
		change func(o *UnitOptions)
		want   string
	}{
		{"no program", func(o *UnitOptions) { o.Etcd = "" }, "etcd is missing"},
		{"relative program", func(o *UnitOptions) { o.Etcd = "bin/etcd" }, "not an absolute path"},
		{"a path with a quote", func(o *UnitOptions) { o.DataDir = `/var/"x` }, `has the character '"'`},
		{"a path with a new line", func(o *UnitOptions) { o.EnvFile = "/etc/x\nExecStartPre=/bin/rm" },
			`has the character '\n'`},
		{"a path that is a glob", func(o *UnitOptions) { o.EnvFile = "/etc/*.env" }, "has the character '*'"},
		{"another directory's path", func(o *UnitOptions) { o.ReadDirs = []string{"pki"} }, "not an absolute path"},
		{"a user that is a specifier", func(o *UnitOptions) { o.User = "%H" }, "is not a name that systemd accepts"},
		{"a group with a blank", func(o *UnitOptions) { o.Group = "a b" }, "is not a name that systemd accepts"},
		{"a priority without a value", func(o *UnitOptions) { o.Priorities = []string{"Nice"} }, "not of the form KEY=VALUE"},
		{"a section", func(o *UnitOptions) { o.Priorities = []string{"[Install]=x"} }, "not of the form KEY=VALUE"},
		{"two lines in one", func(o *UnitOptions) { o.Priorities = []string{"Nice=1\nUser=x"} }, `has the character '\n'`},
		{"a line that goes on", func(o *UnitOptions) { o.Priorities = []string{`Nice=1\`} }, "ends with a backslash"},
		{"another program", func(o *UnitOptions) { o.Priorities = []string{"ExecStartPre=/bin/true"} }, "sets what is run"},
		{"another user", func(o *UnitOptions) { o.Priorities = []string{"User=x"} }, "sets what is run"},
	}
	for _, tt := range tests {
		o := usual()
		tt.change(&o)
		if _, err := Unit(o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want ... %s", tt.name, err, tt.want)
		}
	}
}

func TestUnitAsksForItsMarker(t *testing.T) {
	o := UnitOptions{Etcd: "/opt/bin/etcd", EnvFile: "/etc/etcd/etcd.env", DataDir: "/var/lib/etcd",
		Marker: "/var/lib/etcd/50% full/.etcdadm"}
	text, err := Unit(o)
	if err != nil || !strings.Contains(text, "\nAssertPathExists=/var/lib/etcd/50%% full/.etcdadm\n") {
		t.Errorf("%v in\n%s", err, text)
	}
	if o.Marker = ""; err == nil {
		text, err = Unit(o)
	}
	if err != nil || strings.Contains(text, "Assert") {
		t.Errorf("without a marker: %v in\n%s", err, text)
	}
}
