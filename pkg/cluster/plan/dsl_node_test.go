package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// nodeAttribute amends one fact of a node.
//
//	data=3, data=3/t0      its disk has the data of member 3 (of incarnation t0)
//	empty, unreadable      its disk has nothing, or nothing that can be read
//	running, stopped, crashing
//	ends                   its etcd ends at each start, and says why
//	halted                 an operation stopped it
//	assigned, unassigned   its state file
//	version=3.5.21         of its assignment; versions=... of its binaries
//	broken=3.6.16          a binary that cannot run
//	fetches=3.6.16         a version that it gets itself
//	loses=3.6.0            a setting of its member is gone there
//	log=present            entries that 3.7 cannot read are in it (absent where all run 3.6)
//	changes=3.6.16         from the version of its assignment; failed=... and back again, stuck=... and not back
//	promised=n1:a,b,c      a promise to bootstrap
//	down, down=unknown     it does not answer (and never did); up
//	blank                  it has lost its lease voters' record
//	unpublished, conflict=ADDRESS, skew=20s, quarantined, hosts=10.0.0.3=c.x
//	aside=192h,24h         old data; aside=t1:24h of incarnation t1
//	address=10.0.0.9:3996
//	foreign=prod           its daemon belongs to a cluster of that name
//	peer=https://x:2380    the peer URLs that it serves
//	keyless                its member was started without keys for its peers
//	quarantine=https://x:1 the URL on which it serves when it is closed to clients; quarantine for none
//	staged=n1/r1:a,b,c     it restores for a request, and is ready, refused=WHY, staging=WHY, fetched=MiB
//	restored=n1/r1:a,b,c   it has changed over to what it had staged
//	free=MiB, mark=REVISION
//	disk=hung              writes to its disk do not end; also: good, slow, failing, pending (for 3 s),
//	                       recovering (from a hang, just now)
//	read=3s                it read its disk that long ago
//	denied=USER            its etcd denies the daemon; denied without a certificate
//	refused, timeout       its etcd runs and gives no report
//	link=3, link=3:untried it reaches the peer port of member 3, has not tried it yet, or
//	link=3:down            does not reach it for a minute; link=3:5s for that long
//	differs                its data is not that of the others
//	comparing              its data has not been compared with that of the others yet
//	listened               it would have heard of a daemon of the existing tool
//	existing=x, unreachable=1.2.3.4:3996  it has heard one, or nobody answers at an address
//	hazard=members         its data has that, and nothing else; hazard=none, hazard=unknown,
//	                       hazard=pending; hazard=deleted are keys of the v2 store that
//	                       the log deletes
func (s *stage) nodeAttribute(n *cluster.Node, key, value string) error {
	switch key {
	case "data":
		id, token, _ := strings.Cut(value, "/")
		m, err := cluster.ParseMemberID(id)
		if err != nil {
			return err
		}
		n.Disk = cluster.Disk{State: cluster.DiskData, MemberID: m, Token: s.orToken(token)}
		n.Assigned = &cluster.Assigned{Token: n.Disk.Token, Version: standard}
	case "empty":
		n.Disk, n.Prepared = cluster.Disk{State: cluster.DiskEmpty}, nil
	case "unreadable":
		n.Disk = cluster.Disk{State: cluster.DiskUnreadable, Problem: "two incarnations"}
	case "assigned":
		n.Assigned = &cluster.Assigned{Token: s.orToken(value), Version: standard}
	case "unassigned":
		n.Assigned = nil
	case "running", "stopped", "crashing":
		n.Process = cluster.Process{State: cluster.ProcessState(key)}
		if age, err := time.ParseDuration(value); err == nil {
			n.Process.Since = s.obs.At.Add(-age)
		}
		if n.Assigned != nil && n.LeaseVoters.Token == "" {
			n.LeaseVoters = older(n.Assigned.Token)
		}
	case "ends": // at each start, because of its port
		n.Process = cluster.Process{State: cluster.ProcessCrashing, LastExit: "exit status 1", LastLines: []string{
			`{"level":"info","msg":"recognized and used environment variable"}`,
			`{"level":"fatal","msg":"discovery failed","error":"listen tcp 0.0.0.0:2380: bind: address already in use"}`,
		}}
	case "blank": // it has lost its record
		n.LeaseVoters = cluster.LeaseVoters{}
	case "halted":
		n.Process = cluster.Process{State: cluster.ProcessStopped}
		n.Assigned.Stopped = true
	case "open":
		n.Assigned.Quarantined = false
	case "quarantined":
		n.Assigned.Quarantined = true
	case "version":
		n.Assigned.Version = etcdversion.Must(value)
		if n.OldLog = (cluster.Hazard{}); n.Assigned.Version.Minor == 6 {
			n.OldLog.State = cluster.HazardAbsent
		}
	case "log":
		n.OldLog = cluster.Hazard{Kind: cluster.HazardOldLog, State: cluster.HazardState(value)}
		if n.OldLog.State == cluster.HazardUnknown {
			n.OldLog.What = "read the log: bad checksum"
		}
	case "changes", "failed", "stuck": // to the version, from the one that it is assigned, or back to that
		n.Change = &cluster.VersionChange{Token: n.Assigned.Token, From: n.Assigned.Version, To: etcdversion.Must(value)}
		if key == "failed" || key == "stuck" {
			n.Change.Failed, n.Change.Back = "exit status 1: panic: no luck", key == "failed"
		}
		if key != "failed" {
			n.Assigned.Version = n.Change.To
		}
	case "versions":
		n.Versions = nil
		for _, v := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' }) {
			n.Versions = append(n.Versions, etcdversion.Must(v))
		}
	case "broken": // a binary that is there
		n.Broken = append(n.Broken, cluster.BrokenBinary{
			Version: etcdversion.Must(value), Why: "/opt/etcd cannot run: no luck",
		})
	case "fetches": // a binary that is to come
		n.Broken = append(n.Broken, cluster.BrokenBinary{
			Version: etcdversion.Must(value), Why: "is being fetched from https://mirror", Fetch: true,
		})
	case "loses": // a setting with that minor version
		n.Lost = append(n.Lost, cluster.LostSettings{Version: etcdversion.Must(value), What: []string{
			"ETCD_ENABLE_V2=true is gone",
		}})
	case "promised":
		token, voters, _ := strings.Cut(value, ":")
		n.Prepared = &cluster.Prepared{Token: cluster.Token(token), Version: standard, Voters: s.initialMembers(voters)}
		n.LeaseVoters = cluster.LeaseVoters{Token: n.Prepared.Token}
		for _, initialMember := range n.Prepared.Voters {
			n.LeaseVoters.Names = append(n.LeaseVoters.Names, initialMember.Name)
		}
		if len(s.obs.LeaseVoters.Names) == 0 {
			s.obs.LeaseVoters = n.LeaseVoters
		}
	case "earlier":
		n.Prepared.Earlier = append(n.Prepared.Earlier, cluster.Token(value))
	default:
		return s.nodeCircumstance(n, key, value)
	}
	return nil
}

func (s *stage) nodeCircumstance(n *cluster.Node, key, value string) (err error) {
	switch key {
	case "down":
		n.Reachable, n.LastSeen = false, s.obs.At.Add(-5*time.Minute)
		if value == "unknown" {
			*n = cluster.Node{Name: n.Name, Address: n.Address}
		}
	case "up":
		n.Reachable, n.LastSeen = true, s.obs.At
	case "link":
		id, how, _ := strings.Cut(value, ":")
		link := cluster.Link{Tried: how != "untried"}
		if link.Member, err = cluster.ParseMemberID(id); how == "down" {
			link.Down, link.Why = time.Minute, "connection refused"
		} else if d, notTime := time.ParseDuration(how); notTime == nil {
			link.Down, link.Why = d, "connection refused"
		}
		n.Links = append(slices.DeleteFunc(n.Links, func(l cluster.Link) bool { return l.Member == link.Member }), link)
	case "quarantine":
		n.URLs.Quarantine = strings.Fields(value)
	case "serving":
		n.Serving = strings.Split(value, ",")
	case "keyless":
		n.PeerKeys = false
	case "newcluster":
		n.NewCluster = true
	case "unpublished":
		n.Published = false
	case "conflict":
		n.Conflict = value
	case "skew":
		n.ClockSkew, err = time.ParseDuration(value)
	case "address":
		n.Address = value
	case "foreign":
		*n = cluster.Node{Name: n.Name, Address: n.Address, OtherCluster: value}
	case "peer":
		n.URLs.Peer = strings.Split(value, ",")
	case "disk":
		n.Storage = cluster.Storage{State: cluster.StorageState(value), Path: "/data", Latency: time.Millisecond}
		switch n.Storage.State {
		case "pending":
			n.Storage.State, n.Storage.Pending = cluster.StorageGood, 3*time.Second
		case "recovering":
			n.Storage.State = cluster.StorageHung
		case cluster.StorageHung:
			n.Storage.Pending = 40 * time.Second
		case cluster.StorageFailing:
			n.Storage.Problem = "input/output error"
		case cluster.StorageSlow:
			n.Storage.Latency = 700 * time.Millisecond
		}
	case "read": // its facts are that old
		n.FactsAge, err = time.ParseDuration(value)
	case "denied":
		n.Process.NoReport = &cluster.NoReport{Cause: cluster.CauseAuth, Text: "etcd denies access", User: value}
	case "noroot": // authentication is on
		n.Process.NoRoot = &cluster.NoRoot{User: value, On: true}
	case "noroot-ahead":
		n.Process.NoRoot = &cluster.NoRoot{User: value}
	case "timeout":
		n.Process.NoReport = &cluster.NoReport{Cause: cluster.CauseTimeout, Text: "it did not answer in time"}
	case "hazard":
		n.Hazards = cluster.NoHazards()
		for i, h := range n.Hazards {
			if value == "deleted" && h.Kind == cluster.HazardV2Content {
				n.Hazards[i] = cluster.Hazard{Kind: h.Kind, State: cluster.HazardPresent, What: "it is there", Deleted: true}
			}
			switch value {
			case string(h.Kind):
				n.Hazards[i].State, n.Hazards[i].What = cluster.HazardPresent, "it is there"
			case "unknown":
				n.Hazards[i].State, n.Hazards[i].What = cluster.HazardUnknown, "the log is damaged"
			case "pending":
				n.Hazards[i].State, n.Hazards[i].What = cluster.HazardPending, "the node is still checking"
			}
		}
	case "comparing":
		n.Comparing = true
	case "listened":
		n.Neighbours.Listened = true
	case "existing":
		n.Neighbours.Existing = append(n.Neighbours.Existing, value)
	case "unreachable":
		n.Neighbours.Unreachable = append(n.Neighbours.Unreachable, value)
	case "differs":
		n.Differs = "its data differs from that of a and b, a majority, at revision 7"
	case "term":
		_, err = fmt.Sscan(value, &n.Lease.Term)
	case "aside":
		for i, age := range strings.Split(value, ",") {
			name := fmt.Sprintf("old-%d", i+1)
			if token, rest, ok := strings.Cut(age, ":"); ok {
				name, age = token, rest
			}
			var d time.Duration
			if d, err = time.ParseDuration(age); err != nil {
				return err
			}
			n.SetAside = append(n.SetAside, cluster.SetAside{Name: name, At: s.obs.At.Add(-d), Bytes: 1 << 20})
		}
	default:
		return s.staged(n, key, value)
	}
	return err
}

// gray makes m one that is neither well nor gone, for the given time.
func (s *stage) gray(m *cluster.Member, c cluster.Condition, since string) error {
	m.Condition, m.Healthy = c, c == cluster.Late || c == cluster.Slow
	m.Why = "it answers, but serves no linearizable read"
	if c == cluster.Hung || c == cluster.Slow {
		n := s.node(m.Name)
		if err := s.nodeCircumstance(n, "disk", string(c)); err != nil {
			return err
		}
		m.Why = n.Storage.String()
	}
	if m.Healthy {
		return nil
	}
	d, err := time.ParseDuration(since)
	m.UnhealthySince = s.obs.At.Add(-d)
	return err
}

// defaults gives a running cluster what every running cluster has.
func (s *stage) defaults() {
	says := func(word string) bool { return slices.Contains(s.lines, word) }
	if len(s.obs.Members) > 0 && s.obs.Token == "" {
		s.obs.Token = "t1"
	}
	var voters []string
	for _, m := range s.obs.Members {
		if !m.Learner && m.Name != "" {
			voters = append(voters, string(m.Name))
		}
	}
	slices.Sort(voters)
	if len(voters) == 0 || says("bare") {
		return
	}
	store, list := &s.obs.Store, strings.Join(voters, ",")
	if len(store.Backups) == 0 && !says("backup") && !says("backups") {
		if err := s.backup("5m"); err != nil {
			panic(err)
		}
	}
	if store.Created.IsZero() && !says("incarnation") {
		store.Created = s.obs.At.Add(-24 * time.Hour)
	}
	if len(store.Incarnations) == 0 {
		store.Incarnations = []cluster.Incarnation{
			{Number: 1, Token: s.obs.Token, Version: standard, Voters: s.initialMembers(list), At: s.obs.At.Add(-24 * time.Hour),
				By: "a"},
		}
	}
	if !says("lease-voters") && len(s.obs.LeaseVoters.Names) == 0 {
		if err := s.leaseVoters([]string{list, "on=" + list}); err != nil {
			panic(err)
		}
	}
}

// elect makes named the leader or, without a name, keeps the present one as
// long as it may lead, and takes the first voter that may otherwise. Without a
// leader nobody is healthy.
func (s *stage) elect(named string) {
	for i := range s.obs.Members {
		if m := &s.obs.Members[i]; m.Condition == cluster.Apart {
			m.Healthy, m.Condition, m.Why = true, "", ""
		}
	}
	old, voters, healthy, first := s.obs.Leader, 0, 0, cluster.MemberID(0)
	s.obs.Leader = 0
	for _, m := range s.obs.Members {
		if m.Learner {
			continue
		}
		voters++
		if m.Healthy {
			healthy++
			if first == 0 || m.ID == old {
				first = m.ID
			}
		}
		if string(m.Name) == named {
			s.obs.Leader = m.ID
		}
	}
	if named == "" && healthy >= cluster.Quorum(voters) {
		s.obs.Leader = first
	}
	for i := range s.obs.Members {
		if m := &s.obs.Members[i]; s.obs.Leader == 0 && m.Healthy {
			m.Healthy, m.Condition, m.Why = false, cluster.Apart, "it sees no leader"
		}
	}
}

func (s *stage) sort() {
	slices.SortFunc(s.obs.Nodes, func(a, b cluster.Node) int { return strings.Compare(string(a.Name), string(b.Name)) })
	slices.SortStableFunc(s.obs.Members, func(a, b cluster.Member) int {
		return strings.Compare(string(a.Name), string(b.Name))
	})
	slices.SortStableFunc(s.obs.Store.Backups, func(a, b cluster.Backup) int { return b.At.Compare(a.At) })
}

func setDuration(p *cluster.Policy, key, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil {
		return err
	}
	switch key {
	case "grace":
		p.Grace = d
	case "bootstrap-grace":
		p.BootstrapGrace = d
	case "learner-timeout":
		p.LearnerTimeout = d
	case "backup-interval":
		p.BackupInterval = d
	case "backup-fresh":
		p.BackupFresh = d
	default:
		return fmt.Errorf("a spec has no %q", key)
	}
	return nil
}
