package initfiles

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// UnitOptions say what the systemd unit runs, and how.
type UnitOptions struct {
	// Etcd is the path of the program, which User must be able to execute, and
	// EnvFile that of its environment file, which only systemd reads.
	Etcd, EnvFile string
	// DataDir is etcd's data directory. It must exist and belong to User when the
	// unit starts: the unit lets etcd write there and nowhere else, and does not
	// make it, so that a disk that is not mounted does not become an empty member.
	DataDir string
	// Marker is a file in DataDir without which etcd is not started, empty for
	// none: it is missing where the disk of DataDir is not mounted.
	Marker string
	// ReadDirs are directories that etcd reads (certificates), WriteDirs those
	// that it writes besides DataDir (logs, a WAL of its own).
	ReadDirs, WriteDirs []string
	// User and Group run etcd; empty means root, and the group of User.
	User, Group string
	// Priorities are lines for the section [Service], as KEY=VALUE. They come
	// last and so go before what the unit says itself. Empty ones are left out.
	Priorities []string
	// LowPort says that etcd listens on a port below 1024.
	LowPort bool
	// HardeningOff leaves the protections out.
	HardeningOff bool
}

// oomScore is what the kubelet gives to containers that the node needs
// (guaranteedOOMScoreAdj): the kernel kills nearly everything else first.
const oomScore = "-997"

// Unit returns etcd.service.
//
// Two settings look odd and are meant. TimeoutStartSec=infinity: etcd reports
// systemd that it is ready only when the cluster has a quorum, and a member
// that waits for the others, or that copies a large snapshot, must not be
// killed for it; whoever starts the unit therefore does so with --no-block and
// waits with a deadline of its own. StartLimitIntervalSec=0: systemd otherwise
// gives up on a unit for good that was started five times in ten seconds, by
// whomever.
func Unit(o UnitOptions) (string, error) {
	if err := o.validate(); err != nil {
		return "", fmt.Errorf("unit %s: %w", UnitName, err)
	}
	b := unitWriter{}
	b.WriteString(header + "# Own settings go into a drop-in: systemctl edit etcd\n")
	unit := []string{
		"Description=etcd",
		"Documentation=https://etcd.io/docs/",
		"Wants=network-online.target",
		"After=network-online.target",
		"RequiresMountsFor=" + pathWords(slices.Concat([]string{o.DataDir}, o.WriteDirs)),
		"Conflicts=etcd-member.service etcd2.service",
		"# systemd never gives up on it.",
		"StartLimitIntervalSec=0",
	}
	if o.Marker != "" {
		unit = append(unit, "# Without it the disk of the data is not there.", "AssertPathExists="+percent(o.Marker))
	}
	b.section("Unit", unit...)
	b.section("Service",
		unitMark,
		"Type=notify",
		"# etcd says that it is ready when the cluster has a quorum, however late.",
		"TimeoutStartSec=infinity",
		// This one takes the rest of its line as it is, with blanks and quotes.
		"EnvironmentFile="+percent(o.EnvFile),
		"ExecStart="+pathWords([]string{o.Etcd}),
		"Restart=on-failure",
		"RestartSec=5s",
		"LimitNOFILE=65536",
		"MemoryLow=200M",
		"OOMScoreAdjust="+oomScore,
	)
	b.setting("User", o.User)
	b.setting("Group", o.Group)
	b.lines(o.capabilities()...)
	if !o.HardeningOff {
		b.lines(o.hardening()...)
	}
	b.lines(o.priorities()...)
	b.section("Install", "WantedBy=multi-user.target")
	sum := sha256.Sum256([]byte(b.String()))
	return strings.Replace(b.String(), unitMark, unitMark+hex.EncodeToString(sum[:8]), 1), nil
}

// unitMark begins the line that distinguishes a process of this unit from one of the
// unit as it was before: it is in the environment of the process.
const unitMark = "Environment=" + UnitVariable + "="

// UnitVariable is in the environment of a process that a unit of this package
// started; see [UnitMark].
const UnitVariable = "ETCDADM_UNIT"

// UnitMark returns the value of [UnitVariable] in the processes of a unit, ""
// for units that others wrote.
func UnitMark(unit string) string {
	for line := range strings.Lines(unit) {
		if mark, ok := strings.CutPrefix(line, unitMark); ok {
			return strings.TrimSpace(mark)
		}
	}
	return ""
}

// capabilities are what root has left, and what another user gets. Root keeps
// the one that lets it read files of others: data and certificates may come
// from elsewhere.
func (o UnitOptions) capabilities() []string {
	var bound, ambient []string
	if o.root() {
		bound = append(bound, "CAP_DAC_OVERRIDE")
	}
	if o.LowPort {
		bound = append(bound, "CAP_NET_BIND_SERVICE")
		ambient = append(ambient, "CAP_NET_BIND_SERVICE")
	}
	var lines []string
	if !o.HardeningOff {
		lines = append(lines, "CapabilityBoundingSet="+strings.Join(bound, " "))
	}
	if len(ambient) > 0 && !o.root() {
		lines = append(lines, "AmbientCapabilities="+strings.Join(ambient, " "))
	}
	return lines
}

// hardening is what etcd can live with. It listens, dials, writes its data
// directory, and asks the kernel for the routes at its start (AF_NETLINK).
func (o UnitOptions) hardening() []string {
	lines := []string{
		"NoNewPrivileges=yes",
		"ProtectSystem=strict",
		"ReadWritePaths=" + pathWords(slices.Concat([]string{o.DataDir}, o.WriteDirs)),
		"ProtectHome=" + o.protectHome(),
	}
	if !o.anyBelow("/tmp", "/var/tmp") {
		lines = append(lines, "PrivateTmp=yes")
	}
	return append(lines,
		"PrivateDevices=yes",
		"ProtectClock=yes",
		"ProtectControlGroups=yes",
		"ProtectHostname=yes",
		"ProtectKernelLogs=yes",
		"ProtectKernelModules=yes",
		"ProtectKernelTunables=yes",
		"LockPersonality=yes",
		"MemoryDenyWriteExecute=yes",
		"RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK",
		"RestrictNamespaces=yes",
		"RestrictRealtime=yes",
		"RestrictSUIDSGID=yes",
		"SystemCallArchitectures=native",
		"SystemCallFilter=@system-service",
		"SystemCallErrorNumber=EPERM",
	)
}

// protectHome hides the homes, unless something that etcd needs is there.
func (o UnitOptions) protectHome() string {
	if o.anyBelow("/home", "/root", "/run/user") {
		return "read-only" // ReadWritePaths goes before it
	}
	return "yes"
}

func (o UnitOptions) anyBelow(dirs ...string) bool {
	for _, p := range slices.Concat([]string{o.Etcd, o.DataDir}, o.ReadDirs, o.WriteDirs) {
		for _, d := range dirs {
			if p == d || strings.HasPrefix(p, d+"/") {
				return true
			}
		}
	}
	return false
}

func (o UnitOptions) root() bool { return o.User == "" || o.User == "root" || o.User == "0" }

func (o UnitOptions) priorities() []string {
	var lines []string
	for _, p := range o.Priorities {
		if p = strings.TrimSpace(p); p != "" {
			lines = append(lines, p)
		}
	}
	return lines
}

// account is a user's or group's name that every systemd takes (strict mode
// of its user names, and numbers).
var account = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_-]{0,30}|[0-9]{1,10})$`)

var directive = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// decisive settings say what is run and as whom, which is not for a line about
// priorities to say.
var decisive = []string{"Type", "User", "Group", "DynamicUser", "EnvironmentFile", "RootDirectory", "RootImage"}

func (o UnitOptions) validate() error {
	for what, p := range map[string]string{"etcd": o.Etcd, "environment file": o.EnvFile, "data directory": o.DataDir} {
		if err := checkPath(what, p); err != nil {
			return err
		}
	}
	for _, p := range slices.Concat(o.ReadDirs, o.WriteDirs) {
		if err := checkPath("directory", p); err != nil {
			return err
		}
	}
	for what, name := range map[string]string{"user": o.User, "group": o.Group} {
		if name != "" && !account.MatchString(name) {
			return fmt.Errorf("%s %q is not a name that systemd accepts", what, name)
		}
	}
	for _, p := range o.priorities() {
		if err := CheckPriority(p); err != nil {
			return err
		}
	}
	return nil
}

// CheckPriority says what is wrong with a line for the unit's section
// [Service]: it is not of the form KEY=VALUE, or it would change what is run.
func CheckPriority(line string) error {
	if err := checkText("priority", line); err != nil {
		return err
	}
	key, _, ok := strings.Cut(line, "=")
	switch {
	case !ok || !directive.MatchString(key):
		return fmt.Errorf("priority %q is not of the form KEY=VALUE, such as Nice=-10", line)
	case strings.HasSuffix(line, `\`):
		return fmt.Errorf("priority %q ends with a backslash, which would join it with the next line", line)
	case strings.HasPrefix(key, "Exec") || slices.Contains(decisive, key):
		return fmt.Errorf("priority %q: %s sets what is run; put it into a drop-in (systemctl edit etcd)", line, key)
	}
	return nil
}

// A unitWriter writes a unit file.
type unitWriter struct{ strings.Builder }

func (b *unitWriter) section(name string, lines ...string) {
	b.lines("", "["+name+"]")
	b.lines(lines...)
}

func (b *unitWriter) setting(key, value string) {
	if value != "" {
		b.lines(key + "=" + value)
	}
}

func (b *unitWriter) lines(lines ...string) {
	for _, l := range lines {
		b.WriteString(l + "\n")
	}
}

// percent escapes what systemd would replace ("%H" is the host's name).
func percent(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// pathWords writes paths as words of a setting.
func pathWords(paths []string) string {
	words := make([]string, len(paths))
	for i, p := range paths {
		words[i] = percent(p)
		if strings.Contains(p, " ") {
			words[i] = `"` + words[i] + `"`
		}
	}
	return strings.Join(words, " ")
}
