package initfiles

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// A ProgramUnit is a systemd unit that runs one of this project's programs.
type ProgramUnit struct {
	// Description is a line about it, Page the address of its documentation.
	Description, Page string
	// Program is the path of the program, Args are its flags.
	Program string
	Args    []string
	// EnvFile is a file of variables that need not exist.
	EnvFile string
	// StateDir is below /var/lib and is made by systemd, empty for none. WriteDirs
	// have to exist when the unit starts: one of a disk that is not mounted keeps
	// the program from starting.
	StateDir  string
	WriteDirs []string
	// Host says that the program mounts file systems of the machine, so nothing of
	// it is hidden from the program.
	Host bool
	// Background says that the program gives way to all else on the machine, and
	// runs no etcd. ReadFiles are what it reads with no right but that of their
	// owner, root.
	Background bool
	ReadFiles  []string
}

// Unit returns the unit's text.
//
// KillMode=mixed: systemd's SIGTERM goes to the program alone, which hands over
// what its children do and ends them itself. The rest gets SIGKILL when it has
// ended, or after TimeoutStopSec.
func (u ProgramUnit) Unit() (string, error) {
	for what, p := range map[string]string{"program": u.Program, "environment file": u.EnvFile} {
		if err := checkPath(what, p); err != nil {
			return "", fmt.Errorf("unit: %w", err)
		}
	}
	for _, p := range slices.Concat(u.WriteDirs, u.ReadFiles) {
		if err := checkPath("path", p); err != nil {
			return "", fmt.Errorf("unit: %w", err)
		}
	}
	b := unitWriter{}
	unit := []string{
		"Description=" + percent(u.Description),
		"Documentation=" + percent(u.Page),
		"Wants=network-online.target",
		"After=" + u.after(),
		"StartLimitIntervalSec=0",
	}
	if dirs := u.dirs(); len(dirs) > 0 {
		unit = append(unit, "RequiresMountsFor="+pathWords(dirs))
	}
	b.WriteString("[Unit]\n")
	b.lines(unit...)
	start := []string{percent(u.Program)}
	for _, arg := range u.Args {
		if err := checkText("argument", arg); err != nil {
			return "", fmt.Errorf("unit: %w", err)
		}
		start = append(start, execWord(arg))
	}
	b.section("Service", "EnvironmentFile=-"+percent(u.EnvFile), "ExecStart="+strings.Join(start, " \\\n  "))
	b.lines(u.service()...)
	if u.StateDir != "" {
		b.lines("StateDirectory="+percent(strings.TrimPrefix(u.StateDir, stateRoot)), "StateDirectoryMode=0700")
	}
	if !u.Host {
		b.lines(u.hardening()...)
	}
	b.section("Install", "WantedBy=multi-user.target")
	return b.String(), nil
}

func (u ProgramUnit) after() string {
	if u.Background {
		return "network-online.target etcd.service"
	}
	return "network-online.target"
}

// service says how the program is run and ended.
func (u ProgramUnit) service() []string {
	if u.Background {
		return []string{
			"Restart=always",
			"RestartSec=5s",
			"# Time to break off what is under way.",
			"TimeoutStopSec=60s",
			"MemoryHigh=256M",
			"# It must never slow etcd down.",
			"Nice=10",
			"IOSchedulingClass=best-effort",
			"IOSchedulingPriority=7",
		}
	}
	return []string{
		"Restart=always",
		"RestartSec=1s",
		"KillMode=mixed",
		"TimeoutStopSec=90s",
		"LimitNOFILE=65536",
		"MemoryLow=200M",
		"OOMScoreAdjust=" + oomScore,
		"# An etcd that is killed for memory is started again by its daemon, which systemd",
		"# would stop otherwise.",
		"OOMPolicy=continue",
	}
}

// stateRoot is where systemd makes the directories of StateDirectory.
const stateRoot = "/var/lib/"

// StateDir reports whether systemd can make dir as a StateDirectory.
func StateDir(dir string) bool {
	return strings.HasPrefix(dir, stateRoot) && path.Clean(dir) == dir && !strings.Contains(dir, " ")
}

func (u ProgramUnit) dirs() []string {
	dirs := slices.Clone(u.WriteDirs)
	if u.StateDir != "" {
		dirs = append(dirs, u.StateDir)
	}
	return dirs
}

func (u ProgramUnit) hardening() []string {
	lines := []string{"NoNewPrivileges=yes", "CapabilityBoundingSet=" + u.capabilities(), "ProtectSystem=strict"}
	if u.Background && !slices.ContainsFunc(slices.Concat(u.ReadFiles, u.WriteDirs), atHome) {
		lines = append(lines, "ProtectHome=yes")
	}
	if len(u.WriteDirs) > 0 {
		lines = append(lines, "ReadWritePaths="+pathWords(u.WriteDirs))
	}
	return append(lines,
		"PrivateTmp=yes",
		"PrivateDevices=yes",
		"ProtectControlGroups=yes",
		"ProtectKernelLogs=yes",
		"ProtectKernelModules=yes",
		"ProtectKernelTunables=yes",
		"LockPersonality=yes",
		"RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK",
		"RestrictRealtime=yes",
		"RestrictSUIDSGID=yes",
		"SystemCallArchitectures=native",
	)
}

func (u ProgramUnit) capabilities() string {
	if u.Background {
		return ""
	}
	return "CAP_DAC_OVERRIDE CAP_NET_BIND_SERVICE"
}

// atHome reports whether ProtectHome would hide a path.
func atHome(p string) bool {
	return slices.ContainsFunc([]string{"/home", "/root", "/run/user"}, func(home string) bool {
		return p == home || strings.HasPrefix(p, home+"/")
	})
}

// execWord writes a word of ExecStart, in which systemd replaces %x and $NAME.
func execWord(s string) string {
	s = strings.ReplaceAll(percent(s), "$", "$$")
	if strings.ContainsAny(s, " \t\"'\\;") || s == "" {
		s = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
	}
	return s
}
