package machine

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
)

// A Finding is one thing that a preflight check found.
type Finding struct {
	// ID names the check, for --ignore-preflight-errors. The names are kubeadm's
	// where it has the same check.
	ID string `json:"id"`
	// Fatal distinguishes an error from a warning.
	Fatal bool   `json:"fatal"`
	Text  string `json:"text"`
	Next  string `json:"next,omitempty"`
}

// Named says whether a name of --ignore-preflight-errors means the finding. Port means
// each port.
func (f Finding) Named(id string) bool {
	return strings.EqualFold(id, "all") || strings.EqualFold(id, f.ID) ||
		strings.EqualFold(id, "Port") && strings.HasPrefix(f.ID, "Port-")
}

// A Check is one thing that is checked before a machine is changed.
type Check struct {
	ID string
	// What says what is checked.
	What string
	find func(*planner) []Finding
}

// Checks returns everything that is checked.
func Checks() []Check { return checks }

// IsCheck says whether --ignore-preflight-errors knows a name: that of a check, of a port,
// or all.
func IsCheck(id string) bool {
	id = strings.ToLower(id)
	if port, ok := strings.CutPrefix(id, "port-"); ok {
		_, err := strconv.ParseUint(port, 10, 16)
		return err == nil
	}
	return id == "all" || slices.ContainsFunc(checks, func(c Check) bool { return strings.ToLower(c.ID) == id })
}

// Preflight returns what would stand in the way, or go wrong later.
func Preflight(goal Goal, cfg Config, obs Observation) []Finding {
	p := &planner{goal: goal, cfg: cfg, obs: obs}
	var found []Finding
	for _, c := range checks {
		for _, f := range c.find(p) {
			if f.ID == "" {
				f.ID = c.ID
			}
			if !slices.Contains(found, f) { // a port may be taken at two addresses
				found = append(found, f)
			}
		}
	}
	return found
}

// JudgedByAll leaves out what only follows from a command that does not run as root, where that is
// an error: root can write there, and read it. A disk that is mounted read-only stays, which root cannot
// write either.
func JudgedByAll(found []Finding) []Finding {
	if !slices.ContainsFunc(found, func(f Finding) bool { return f.Fatal && f.ID == "IsPrivilegedUser" }) {
		return found
	}
	return slices.DeleteFunc(slices.Clone(found), func(f Finding) bool {
		return strings.Contains(f.Text, denied)
	})
}

// denied is what the system says of a file that root could read or write.
const denied = "permission denied"

// holder says who has a port, or how to find out.
func (p *planner) holder(port int) string {
	if p.obs.Host.Manager != "" {
		return "an etcd-manager with its data in " + p.obs.Host.Manager + " runs the etcd of this machine"
	}
	return "ss -ltnp 'sport = :" + strconv.Itoa(port) + "' shows which process has it"
}

func fatal(next, format string, args ...any) []Finding {
	return []Finding{{Fatal: true, Text: fmt.Sprintf(format, args...), Next: next}}
}

func warning(next, format string, args ...any) []Finding {
	return []Finding{{Text: fmt.Sprintf(format, args...), Next: next}}
}

// The bounds of the checks. A write to disk that takes longer than 10 ms is what
// etcd's documentation calls too slow; 100 MiB is about what an etcd without data
// needs; 2 GiB is etcd's default quota.
const (
	slowSyncLatency = 10 * time.Millisecond
	leastMemory     = 1 << 30
	leastFree       = 100 << 20
	roomyFree       = 2 << 30
	largeSkew       = time.Second
)

var checks = []Check{
	{"IsPrivilegedUser", "the command runs as root", func(p *planner) []Finding {
		if p.obs.Host.Root {
			return nil
		}
		return fatal("sudo etcdadm ...", "not running as root")
	}},
	{"OS", "etcd runs on this operating system and processor", func(p *planner) []Finding {
		h := p.obs.Host
		if h.OS == "linux" && slices.Contains([]string{"amd64", "arm64", "ppc64le", "s390x", "riscv64"}, h.Arch) {
			return nil
		}
		return fatal("", "etcd has no release for %s/%s", h.OS, h.Arch)
	}},
	{"InitSystem", "the init system exists", func(p *planner) []Finding {
		if p.obs.Host.InitSystem {
			return nil
		}
		return fatal(OtherInitSystems, "the machine has no %s: %s", p.cfg.Service.InitSystem,
			p.obs.Service.Detail)
	}},
	{"Account", "etcd can run as the requested user", func(p *planner) []Finding {
		if p.cfg.Service.InitSystem != Process || p.cfg.Service.User == "" && p.cfg.Service.Group == "" {
			return nil
		}
		return fatal("run the command as that user, or choose another --init-system",
			"with the init system process, etcd runs as the user who starts it")
	}},
	{"ReleaseURL", "etcd is downloaded over an encrypted connection", func(p *planner) []Finding {
		if !PlainHTTP(p.cfg.Binaries.ReleaseURL) {
			return nil
		}
		return warning("use https", PlainHTTPWarning)
	}},
	{"Hostname", "the name can be in a certificate", func(p *planner) []Finding {
		if hostName.MatchString(string(p.cfg.Name)) {
			return nil
		}
		return warning("--name", "the name %s is not a host name, so the certificates have it in another form", p.cfg.Name)
	}},
	{"BindAddress", "the address is one of this machine's", func(p *planner) []Finding {
		at, err := netip.ParseAddr(p.cfg.Listen.Address)
		// All of 127.0.0.0/8 is the machine's own, and an interface has one address of it.
		if slices.Contains(p.obs.Host.Addresses, p.cfg.Listen.Address) || err == nil && at.Is4() && at.IsLoopback() {
			return nil
		}
		return fatal("--bind-address", "no interface of this machine has the address %s", p.cfg.Listen.Address)
	}},
	{"Port", "the ports are free, or used by the machine's own etcd", func(p *planner) []Finding {
		var found []Finding
		for _, port := range p.obs.Host.Ports {
			if !port.Ours {
				f := fatal(p.holder(port.Port), "port %d is in use", port.Port)
				f[0].ID = "Port-" + strconv.Itoa(port.Port)
				found = append(found, f...)
			}
		}
		return found
	}},
	{"DataDir", "the data directory has no data that would prevent it", func(p *planner) []Finding {
		if p.obs.Data.State == cluster.DiskUnreadable && !p.neverCommitted() {
			return fatal("move it aside: etcdadm reset", "%s cannot be read: %s", p.cfg.Paths.Data, p.obs.Data.Problem)
		}
		return nil
	}},
	{"Snapshot", "the snapshot to start from is whole", func(p *planner) []Finding {
		if p.obs.Host.SnapshotProblem == "" {
			return nil
		}
		return fatal("check it: etcdadm snapshot status FILE; accept a copied database file with --skip-hash-check", "%s",
			p.obs.Host.SnapshotProblem)
	}},
	{"DiskSpace", "there is space for the data", func(p *planner) []Finding {
		free := p.obs.Host.FreeBytes
		switch {
		case free == 0 || free >= roomyFree:
			return nil
		case free < leastFree:
			return fatal("", "%d MiB are free for %s", free>>20, p.cfg.Paths.Data)
		}
		return warning("", "%d MiB are free for %s, less than etcd's default quota of 2 GiB", free>>20, p.cfg.Paths.Data)
	}},
	{"DiskSync", "the disk is fast enough", func(p *planner) []Finding {
		if p.obs.Host.SyncTime <= slowSyncLatency {
			return nil
		}
		return warning("give etcd a fast disk of its own",
			"a write to the disk of %s takes %s; above %s etcd is slow, or loses its leader", p.cfg.Paths.Data,
			p.obs.Host.SyncTime.Round(time.Millisecond), slowSyncLatency)
	}},
	{"Mem", "there is enough memory", func(p *planner) []Finding {
		if m := p.obs.Host.MemoryBytes; m == 0 || m >= leastMemory {
			return nil
		}
		return warning("", "the machine has %d MiB of memory", p.obs.Host.MemoryBytes>>20)
	}},
	{"Writable", "the directories are writable", func(p *planner) []Finding {
		var found []Finding
		for _, dir := range p.obs.Host.ReadOnly {
			next, why := "mount it writable, or choose another directory", ""
			if slices.Contains(p.obs.Host.Forbidden, dir) {
				next, why = "let this user write there, or choose another directory", ": "+denied
			}
			found = append(found, fatal(next, "%s cannot be written%s", dir, why)...)
		}
		return found
	}},
	{"Leftovers", "nothing else on the machine runs an etcd", func(p *planner) []Finding {
		var found []Finding
		for _, l := range p.obs.Host.Leftovers {
			found = append(found, warning("disable it, or it will start a second etcd", "%s exists", l)...)
		}
		return found
	}},
	{"CertificateNames", "the names fit into the certificates", func(p *planner) []Finding {
		var found []Finding
		for _, text := range p.obs.PKI.Warnings {
			found = append(found, warning("", "%s", text)...)
		}
		return found
	}},
	{"EtcdFlags", "this version of etcd knows the given flags", func(p *planner) []Finding {
		if len(p.cfg.Etcd.Flags) == 0 || etcdconf.FlagsKnown(p.cfg.Version) {
			return nil
		}
		return warning("", "the flags of etcd %s are unknown; they were checked against those of an earlier version",
			p.cfg.Version)
	}},
	{"EtcdVersion", "a machine that joins brings no other version of etcd than the members run", (*planner).otherVersion},
	{"EtcdPatch", "the cluster runs the patch that etcd advises before this upgrade", (*planner).belowFloor},
	{"EtcdBackup", "a member that changes its version has a fresh backup", (*planner).unsaved},
	{"LeaderLast", "a member that leads changes its version last", (*planner).leaderLast},
	{"CipherSuites", "the cipher suites fit the keys", (*planner).suites},
	{"CAValidity", "the certificate authority is usable, and valid for long enough", func(p *planner) []Finding {
		end := p.obs.PKI.NotAfter
		switch left := end.Sub(p.obs.At); {
		case p.obs.PKI.CA == CABad && !p.obs.PKI.ValidFrom.IsZero():
			return warning("set the machine's clock", "the certificate authority in %s cannot be used yet: %s",
				p.cfg.Paths.Certificates, p.obs.PKI.Problem)
		case p.obs.PKI.CA == CABad:
			return fatal("install the right ca.crt and ca.key there",
				"the certificate authority in %s cannot be used: %s", p.cfg.Paths.Certificates, p.obs.PKI.Problem)
		case end.IsZero():
			return nil
		case left < 0:
			return fatal("etcdadm certs rotate-ca", "the certificate authority has expired on %s",
				end.UTC().Format(time.DateOnly))
		case left < time.Duration(p.cfg.Certificates.Lifetime):
			return warning("etcdadm certs rotate-ca", "the certificate authority expires on %s, and all certificates with it",
				end.UTC().Format(time.DateOnly))
		}
		return nil
	}},
	{"ClockSkew", "the clock agrees with the cluster's", func(p *planner) []Finding {
		skew := p.obs.Remote.ClockSkew
		if skew.Abs() <= largeSkew {
			return nil
		}
		return warning("run a time daemon on every machine", "the machine's clock differs from the cluster's by %s",
			skew.Round(time.Millisecond))
	}},
	{"MemberCount", "the number of members makes sense", func(p *planner) []Finding {
		voters, healthy := p.obs.Remote.voters()
		_, member := p.self()
		switch {
		case p.goal.Action != Join || !p.obs.Remote.Answered:
			return nil
		case healthy < voters:
			return warning("etcdadm status", "%d of %d voters are healthy", healthy, voters)
		case voters%2 == 1 && voters > 1 && !member:
			return warning("join one more", "with this member there are %d, which tolerate no more failures than %d", voters+1,
				voters)
		}
		return nil
	}},
	{"Endpoint", "the endpoints answer", func(p *planner) (found []Finding) {
		for _, e := range p.obs.Remote.Unreachable {
			found = append(found, warning("name endpoints that answer",
				"%s does not say which cluster it belongs to, and the others are used: %s", e.URL, e.Why)...)
		}
		return found
	}},
	{"PeerPorts", "this machine reaches the peer ports of the members, and they each other's", func(p *planner) (found []Finding) {
		for _, peer := range p.obs.Remote.ClosedPeers {
			found = append(found, warning(OpenPeerPorts,
				"this machine does not reach the peer port of member %s: %s", peer.Name, peer.Why)...)
		}
		for _, pair := range p.obs.Remote.Apart {
			found = append(found, warning(OpenPeerPorts, "%s", pair)...)
		}
		return found
	}},
	{"Cluster", "the cluster answers", func(p *planner) []Finding {
		if p.goal.Action != Join || p.obs.Remote.Answered || p.obs.PKI.CA == CAAbsent {
			return nil
		}
		why := p.unreachable()
		if !why.Wait && !p.obs.Remote.Untrusted {
			return fatal(why.Next, "%s", why.Text)
		}
		// A join asks again for a while, or ends with this as its own reason.
		return warning(why.Next, "%s", why.Text)
	}},
}

// OtherInitSystems is what to do on a machine without systemd.
const OtherInitSystems = "use --init-system=kubelet on a machine with a kubelet, or --init-system=process if " +
	"there is neither"

// OpenPeerPorts is what to do about a peer port that is not reached.
const OpenPeerPorts = "open the peer port between all members, in both directions"

var hostName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// suites finds keys for which no cipher suite is.
func (p *planner) suites() (found []Finding) {
	for _, pair := range p.obs.PKI.Wrong {
		if pair.OtherKey && p.obs.PKI.CA == CAReady {
			found = append(found, warning("", "the certificate %s is issued again with another key: %s", pair.Name, pair.Why)...)
		}
	}
	ecdsa := func(s string) bool { return strings.Contains(s, "_ECDSA_") }
	if suites := p.cfg.Etcd.CipherSuites; len(suites) == 0 || p.cfg.Certificates.KeyAlgorithm == RSA ||
		slices.ContainsFunc(suites, ecdsa) {
		return found
	}
	return append(found, warning("--key-algorithm=RSA-2048",
		"none of the cipher suites is for ECDSA keys, so that only clients with TLS 1.3 can connect")...)
}
