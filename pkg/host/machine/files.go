package machine

import (
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
)

// URLs returns the addresses at which the machine's member is found. The
// scheme is always https.
func URLs(cfg Config) cluster.URLs {
	at := func(port int) []string {
		return []string{"https://" + net.JoinHostPort(cfg.Listen.Address, strconv.Itoa(port))}
	}
	return cluster.URLs{Peer: at(cfg.Listen.PeerPort), Client: at(cfg.Listen.ClientPort)}
}

func initialMember(cfg Config) cluster.InitialMember {
	return cluster.InitialMember{Name: cfg.Name, PeerURLs: URLs(cfg).Peer}
}

// listenClient returns what etcd binds to for clients: its address, and
// loopback, over which the tools on the machine reach it.
func listenClient(cfg Config) []string {
	if len(cfg.Listen.ClientURLs) > 0 {
		return cfg.Listen.ClientURLs
	}
	list := URLs(cfg).Client
	loopback := "127.0.0.1"
	if strings.Contains(cfg.Listen.Address, ":") {
		loopback = "::1"
	}
	if u := "https://" + net.JoinHostPort(loopback, strconv.Itoa(cfg.Listen.ClientPort)); u != list[0] {
		list = append(list, u)
	}
	return list
}

// Listeners returns the addresses that etcd will bind to.
func Listeners(cfg Config) []netip.AddrPort {
	peers := cfg.Listen.PeerURLs
	if len(peers) == 0 {
		peers = URLs(cfg).Peer
	}
	var list []netip.AddrPort
	for _, text := range slices.Concat(listenClient(cfg), peers, metrics(cfg)) {
		u, err := url.Parse(text)
		if err != nil {
			continue
		}
		if at, err := netip.ParseAddrPort(u.Host); err == nil && !slices.Contains(list, at) {
			list = append(list, at)
		}
	}
	return list
}

// Endpoints returns the client URLs that an etcd's variables have: its own,
// and those of the members that it began with. These are in the variables by
// their peer URLs; their client port is taken to be the same as here.
func Endpoints(vars map[string]string) []string {
	var list []string
	add := func(u string) {
		if u != "" && !slices.Contains(list, u) {
			list = append(list, u)
		}
	}
	for u := range strings.SplitSeq(vars["ETCD_ADVERTISE_CLIENT_URLS"], ",") {
		add(strings.TrimSuffix(strings.TrimSpace(u), "/"))
	}
	if len(list) == 0 {
		return nil
	}
	own, err := url.Parse(list[0])
	if err != nil || own.Port() == "" {
		return list
	}
	for _, initialMember := range parseInitialMembers(vars["ETCD_INITIAL_CLUSTER"]) {
		if u, err := url.Parse(initialMember.PeerURLs[0]); err == nil && u.Hostname() != "" &&
			string(initialMember.Name) != vars["ETCD_NAME"] {
			add(own.Scheme + "://" + net.JoinHostPort(u.Hostname(), own.Port()))
		}
	}
	return list
}

// probeURL is where the kubelet checks the health of a static pod.
const probeURL = "http://127.0.0.1:2381"

func metrics(cfg Config) []string {
	if len(cfg.Listen.MetricsURLs) == 0 && cfg.Service.InitSystem == Kubelet {
		return []string{probeURL}
	}
	return cfg.Listen.MetricsURLs
}

// parseInitialMembers reads etcd's list name=url,name=url; what is not of that form is left
// out.
func parseInitialMembers(initialCluster string) []cluster.InitialMember {
	var initialMembers []cluster.InitialMember
	for word := range strings.SplitSeq(initialCluster, ",") {
		name, u, ok := strings.Cut(word, "=")
		if !ok {
			continue
		}
		if i := slices.IndexFunc(initialMembers, func(s cluster.InitialMember) bool {
			return string(s.Name) == name
		}); i >= 0 {
			initialMembers[i].PeerURLs = append(initialMembers[i].PeerURLs, u)
			continue
		}
		initialMembers = append(initialMembers, cluster.InitialMember{Name: cluster.NodeName(name), PeerURLs: []string{u}})
	}
	return initialMembers
}

// member returns what etcd is given.
func (p *planner) member() (etcdconf.Member, *Hold) {
	cfg := p.cfg
	file := func(pair string) etcdconf.Files {
		at := cfg.Paths.Certificate
		return etcdconf.Files{CA: at("ca.crt"), Cert: at(pair + ".crt"), Key: at(pair + ".key")}
	}
	m := etcdconf.Member{
		Name: cfg.Name, Version: cfg.Version, DataDir: cfg.Paths.Data, URLs: URLs(cfg),
		ListenClientURLs: listenClient(cfg), ListenPeerURLs: cfg.Listen.PeerURLs, MetricsURLs: metrics(cfg),
		TLS: &etcdconf.TLS{Peer: file("peer"), Client: file("server")}, User: userVariables(cfg),
	}
	if len(m.ListenPeerURLs) == 0 {
		m.ListenPeerURLs = m.URLs.Peer
	}
	// Once there is data, etcd no longer checks how it began, so what is
	// written stays as it is.
	if initialMembers := parseInitialMembers(p.obs.Written["ETCD_INITIAL_CLUSTER"]); len(initialMembers) > 0 &&
		p.obs.Data.State == cluster.DiskData {
		m.Peers, m.State = initialMembers, etcdconf.State(p.obs.Written["ETCD_INITIAL_CLUSTER_STATE"])
		m.Token = cluster.Token(p.obs.Written["ETCD_INITIAL_CLUSTER_TOKEN"])
		if own := initialMemberOf(initialMembers, cfg.Name); own == nil || m.Token.Validate() != nil {
			m.Peers = nil
		}
	}
	if m.Peers != nil {
		return m, nil
	}
	if p.goal.Action == Init {
		m.State, m.Token, m.Peers = etcdconf.StateNew, p.token(), []cluster.InitialMember{initialMember(cfg)}
		return m, nil
	}
	if !p.obs.Remote.Answered {
		return m, p.unreachable()
	}
	m.State, m.Token, m.Peers = etcdconf.StateExisting, cluster.Token(p.obs.Remote.ClusterID.String()), p.peers()
	if initialMemberOf(m.Peers, cfg.Name) == nil {
		return m, hold(NotConfigured, p.again("membership"), "the cluster has no member with the peer URL %s",
			m.URLs.Peer[0])
	}
	return m, nil
}

func initialMemberOf(initialMembers []cluster.InitialMember, name cluster.NodeName) *cluster.InitialMember {
	for i := range initialMembers {
		if initialMembers[i].Name == name {
			return &initialMembers[i]
		}
	}
	return nil
}

// peers returns the member list as etcd wants it from a member that joins: the
// same peer URLs, each under a name. A member that has not started has none; the
// machine's own gets the right one, another one something to stand for it.
func (p *planner) peers() []cluster.InitialMember {
	var initialMembers []cluster.InitialMember
	self, joined := p.self()
	for _, m := range p.obs.Remote.Members {
		s := cluster.InitialMember{Name: m.Name, PeerURLs: m.PeerURLs}
		switch {
		case joined && m.ID == self.ID:
			s.Name = p.cfg.Name
		case m.Name == "":
			s.Name = cluster.NodeName("unstarted-" + m.ID.String())
		}
		initialMembers = append(initialMembers, s)
	}
	return initialMembers
}

func userVariables(cfg Config) map[string]string {
	vars := etcdconf.FlagsEnv(cfg.Etcd.Flags)
	if vars == nil {
		vars = map[string]string{}
	}
	for k, v := range cfg.Etcd.Environment {
		if strings.HasPrefix(k, "ETCD_") {
			vars[k] = v
		}
	}
	if len(cfg.Etcd.CipherSuites) > 0 {
		vars["ETCD_CIPHER_SUITES"] = strings.Join(cfg.Etcd.CipherSuites, ",")
	}
	if cfg.Etcd.QuotaBytes > 0 {
		vars["ETCD_QUOTA_BACKEND_BYTES"] = strconv.FormatInt(cfg.Etcd.QuotaBytes, 10)
	}
	return vars
}

// env returns the environment of the etcd process.
func (p *planner) env() ([]string, *Hold) {
	m, why := p.member()
	if why != nil {
		return nil, why
	}
	env, err := etcdconf.Env(m)
	if err != nil {
		return nil, invalid(err)
	}
	for _, k := range slices.Sorted(maps.Keys(p.cfg.Etcd.Environment)) {
		if !strings.HasPrefix(k, "ETCD_") {
			env = append(env, k+"="+p.cfg.Etcd.Environment[k])
		}
	}
	slices.Sort(env)
	return env, nil
}

func invalid(err error) *Hold {
	return hold(SettingsInvalid, "etcdadm config validate", "%v", err)
}

// files returns the files that systemd, or etcdadm run, start etcd from.
func (p *planner) files() ([]initfiles.File, *Hold) {
	env, why := p.env()
	if why != nil {
		return nil, why
	}
	content, err := initfiles.EnvFile(env)
	if err != nil {
		return nil, invalid(err)
	}
	files := []initfiles.File{{Path: p.cfg.Paths.EnvFile(), Mode: initfiles.EnvMode, Content: content}}
	if p.cfg.Service.InitSystem != Systemd {
		return files, nil
	}
	s := p.cfg.Service
	unit, err := initfiles.Unit(initfiles.UnitOptions{
		Etcd: p.cfg.Paths.Binary("etcd"), EnvFile: p.cfg.Paths.EnvFile(), DataDir: p.cfg.Paths.Data,
		Marker: p.cfg.Paths.Marker(), ReadDirs: []string{p.cfg.Paths.Certificates}, User: s.User, Group: s.Group,
		Priorities: s.Priorities,
		LowPort:    lowPort(p.cfg), HardeningOff: s.HardeningOff,
	})
	if err != nil {
		return nil, invalid(err)
	}
	return append(files, initfiles.File{Path: p.cfg.Paths.Unit(), Mode: initfiles.UnitMode, Content: unit}), nil
}

func lowPort(cfg Config) bool { return cfg.Listen.ClientPort < 1024 || cfg.Listen.PeerPort < 1024 }

// manifest returns the static pod, empty for the other init systems.
func (p *planner) manifest() (string, *Hold) {
	if p.cfg.Service.InitSystem != Kubelet {
		return "", nil
	}
	env, why := p.env()
	if why != nil {
		return "", why
	}
	s := p.cfg.Service
	pod, err := initfiles.Manifest(initfiles.PodOptions{
		Repository: s.ImageRepository, Version: p.cfg.Version, Env: env,
		CertsDir: p.cfg.Paths.Certificates, DataDir: p.cfg.Paths.Data, Marker: p.cfg.Paths.Marker(),
		ProbeURL: metrics(p.cfg)[0],
		CPU:      s.CPU, Memory: s.Memory, UID: p.obs.Host.UID, GID: p.obs.Host.GID,
		LowPort: lowPort(p.cfg), HardeningOff: s.HardeningOff,
	})
	if err != nil {
		return "", invalid(err)
	}
	return pod, nil
}

// controlFiles returns the environment and the wrapper of etcdctl.
func (p *planner) controlFiles() ([]initfiles.File, *Hold) {
	cfg := p.cfg
	at := cfg.Paths.Certificate
	env, err := initfiles.ControlEnv(initfiles.ControlOptions{
		Version: cfg.Version, CA: at("ca.crt"), Cert: at("etcdctl-etcd-client.crt"), Key: at("etcdctl-etcd-client.key"),
		Endpoints: listenClient(cfg)[len(listenClient(cfg))-1:],
	})
	if err != nil {
		return nil, invalid(err)
	}
	return []initfiles.File{
		{Path: cfg.Paths.ControlEnv(), Mode: initfiles.ControlEnvMode, Content: env},
		{Path: cfg.Paths.ControlScript(), Mode: initfiles.ScriptMode,
			Content: initfiles.ControlScript(cfg.Paths.ControlEnv(), cfg.Paths.Binary("etcdctl"))},
	}, nil
}

// IsLearner says whether the list that was seen last has this machine's member
// as a learner.
func IsLearner(cfg Config, obs Observation) bool {
	m, ok := (&planner{cfg: cfg, obs: obs}).self()
	return ok && m.Learner
}

// IsVoter says whether the list that was seen last has this machine's member with a vote.
func IsVoter(cfg Config, obs Observation) bool {
	m, ok := (&planner{cfg: cfg, obs: obs}).self()
	return ok && !m.Learner && obs.Remote.Answered
}
