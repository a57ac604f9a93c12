package machine

import (
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
)

// described holds a member that etcdadm runs to what a handover needs, and
// describes it. It is a function of values.
func described(cfg Config, obs Observation) (*Journal, *Hold) {
	local, remote := obs.Local, obs.Remote
	switch {
	case local == nil:
		return nil, hold(NotRunning, "etcdadm status", "this machine's etcd does not answer: its service is %s",
			obs.Service.State)
	case obs.Data.State != cluster.DiskData || obs.Data.MemberID != local.ID || obs.Data.ClusterID != local.ClusterID:
		return nil, hold(DataForeign, "name the member's directory with --data-dir",
			"%s does not hold the data of member %s, which answers at %s",
			cfg.Paths.Data, local.ID, strings.Join(URLs(cfg).Client, ", "))
	case !remote.Answered:
		return nil, hold(ClusterUnreachable, "etcdadm status", "no member serves a linearizable member list: %s",
			remote.Problem)
	case remote.ClusterID != local.ClusterID:
		return nil, hold(DataForeign, "etcdadm status",
			"the members that answer belong to cluster %s, this machine's to %s", remote.ClusterID, local.ClusterID)
	}
	if why := settled(remote.Members); why != nil {
		return nil, why
	}
	i := slices.IndexFunc(remote.Members, func(m cluster.Member) bool { return m.ID == local.ID })
	if i < 0 {
		return nil, hold(NotVoter, "etcdadm status", "member %s is not in the list of its cluster", local.ID)
	}
	self := remote.Members[i]
	if why := fit(cfg, self, obs.Written); why != nil {
		return nil, why
	}
	j := &Journal{
		Direction: ToManager, Node: self.Name, MemberID: local.ID, ClusterID: local.ClusterID, Version: local.Version,
		URLs:        cluster.URLs{Peer: self.PeerURLs, Client: self.ClientURLs},
		MetricsURLs: split(obs.Written["ETCD_LISTEN_METRICS_URLS"]),
		Environment: operators(obs.Written, local), EtcdAddress: listenAt(cfg),
	}
	for _, m := range remote.Members {
		j.Peers = append(j.Peers, cluster.InitialMember{Name: m.Name, PeerURLs: m.PeerURLs})
		if m.ID != self.ID {
			j.Others = append(j.Others, m.ClientURLs...)
		}
	}
	slices.SortFunc(j.Peers, func(a, b cluster.InitialMember) int {
		return strings.Compare(string(a.Name), string(b.Name))
	})
	return j, nil
}

// settled makes sure that the list is one to name the lease voters by, and that a
// member of it may be away for a moment: in a healthy cluster that is what etcd
// is made for, also where there are only one or two.
func settled(members []cluster.Member) *Hold {
	names := map[cluster.NodeName]bool{}
	for _, m := range members {
		switch {
		case m.Learner:
			return hold(MembersUnsettled, "wait until it is a voter, or etcdadm remove "+m.ID.String(),
				"member %s is a learner", m.ID)
		case m.Name == "":
			return hold(MembersUnsettled, "start it, or etcdadm remove "+m.ID.String(), "member %s (%s) has never started", m.ID,
				strings.Join(m.PeerURLs, ", "))
		case m.Name.Validate() != nil:
			return hold(NameUnfit, "remove the member, and add it again under another --name", "member %s: %v", m.ID,
				m.Name.Validate())
		case names[m.Name]:
			return hold(NameUnfit, "remove one of them, and add it again under another --name",
				"two members have the name %s, but the daemons need unique names", m.Name)
		case !m.Healthy:
			return hold(QuorumMargin, "bring it back first, or remove it: etcdadm remove "+m.ID.String(),
				"member %s is not healthy; if this machine's member is down too, the cluster may lose its quorum", m.Name)
		}
		names[m.Name] = true
	}
	return nil
}

// fit holds what the daemon could not run as it is.
func fit(cfg Config, self cluster.Member, written map[string]string) *Hold {
	for _, u := range slices.Concat(self.PeerURLs, self.ClientURLs) {
		if !strings.HasPrefix(u, "https://") {
			return hold(NameUnfit, "etcdadm join with https URLs",
				"member %s has the peer URL %s, but only a member with TLS can be handed over", self.Name, u)
		}
	}
	switch {
	case len(self.ClientURLs) == 0 || len(self.PeerURLs) == 0:
		return hold(NameUnfit, "etcdadm status", "member %s has no client URL", self.Name)
	case !overlap(self.PeerURLs, URLs(cfg).Peer):
		return hold(NameUnfit, "--bind-address and --peer-port", "member %s has the peer URL %s, but this machine's is %s",
			self.Name, strings.Join(self.PeerURLs, ", "), URLs(cfg).Peer[0])
	case written["ETCD_WAL_DIR"] != "":
		return hold(DataApart, "etcdadm reset and etcdadm join make a member with all of its data in one place",
			"the write-ahead log is in a directory of its own, %s, but the daemon keeps log and data in one", written["ETCD_WAL_DIR"])
	}
	return nil
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// decided are the variables, or beginnings and ends of them, that the daemon
// sets itself.
var decided = struct{ equal, begin, end []string }{
	[]string{"ETCD_NAME", "ETCD_DATA_DIR", "ETCD_STRICT_RECONFIG_CHECK", "ETCD_LOGGER", "ETCD_LOG_OUTPUTS",
		"ETCD_ENABLE_V2"},
	[]string{"ETCD_INITIAL_", "ETCD_ADVERTISE_", "ETCD_LISTEN_", "ETCD_MANAGER_"},
	[]string{"_CERT_FILE", "_KEY_FILE", "_TRUSTED_CA_FILE", "CLIENT_CERT_AUTH"},
}

// operators returns those of the variables with which etcd runs that the
// operator has set: quotas, cipher suites, feature gates. The daemon hands on to
// etcd what it finds of them in its own environment.
func operators(written map[string]string, local *cluster.Report) []string {
	// What every member of the version gets need not be said.
	common := map[string]string{}
	base, err := etcdconf.Env(etcdconf.Member{
		Name: "x", Version: local.Version, Token: "x", DataDir: "/x", State: etcdconf.StateExisting,
		URLs: cluster.URLs{Peer: []string{"https://127.0.0.1:1"}, Client: []string{"https://127.0.0.1:2"}},
	})
	if err == nil {
		common = etcdconf.User(base)
	}
	var list []string
	for _, k := range slices.Sorted(maps.Keys(written)) {
		match := func(list []string, f func(s, part string) bool) bool {
			return slices.ContainsFunc(list, func(part string) bool { return f(k, part) })
		}
		if !strings.HasPrefix(k, "ETCD_") || written[k] == common[k] ||
			slices.Contains(decided.equal, k) || match(decided.begin, strings.HasPrefix) ||
			match(decided.end, strings.HasSuffix) {
			continue
		}
		list = append(list, k+"="+written[k])
	}
	return list
}

// listenAt returns the address that etcd is to listen on: on all of the
// machine, as the daemon has it by default and as loopback needs it, unless the
// operator has chosen the addresses or there is loopback alone.
func listenAt(cfg Config) string {
	address, err := netip.ParseAddr(cfg.Listen.Address)
	switch {
	case err != nil || address.IsLoopback() || len(cfg.Listen.ClientURLs) > 0 || len(cfg.Listen.PeerURLs) > 0:
		return cfg.Listen.Address
	case address.Is6():
		return "::"
	}
	return "0.0.0.0"
}

func hostOf(u string) string {
	p, err := url.Parse(u)
	if err != nil {
		return ""
	}
	return p.Hostname()
}
