package plan_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// The language of the scenarios. One line is one fact; lines are read in order
// and a later line amends what an earlier one made.
//
//	cluster a b c               nodes a, b, c running members 1, 2, 3 of incarnation t1
//	nodes d e                   nodes with empty disks
//	node d ATTRIBUTE...         makes or amends a node, see nodeAttribute
//	member d ATTRIBUTE...       makes or amends a member, see memberAttribute
//	gone node d, gone member d  it is no longer known
//	leader a                    a leads; none: nobody does
//	backup age=2h               a backup in the store
//	backups every=1h for=40h    many; none: none (a running cluster has one of 5m)
//	damaged NAME                that backup is
//	seen 30m                    the newest backup that was ever seen
//	store unreachable           also: reachable, unread (no list of backups yet), emptied
//	created, incarnation 1 token=t1 voters=a,b,c
//	lease-voters a,b,c on=a,b       the newest lease voters' record, and who has it on disk
//	request r1 kind=pause by=eve, request r2 kind=restore backup=2h members=1 lost=b,c
//	source r2 version=3.5.1 revision=900 problem=words-of-it (one is made for each restore)
//	revision 1000               the highest that members report; mark 1000: the store's mark
//	observer a since=10m        who observes, and for how long it has
//	later 10m                   time passes
//	cluster-version 3.5.0       the highest that members report
//	spec-problem TEXT, spec-missing, records-problem TEXT, revision-problem TEXT, nonce n2, token t1
//	failed LINE, backing-up LINE
//
// A running cluster has its record, its marker and its lease voters unless a line
// says otherwise, or the line "bare" does.
type stage struct {
	spec  cluster.Spec
	obs   cluster.Observation
	lines []string // what "bare" and the defaults check
}

var (
	noon     = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	standard = etcdversion.Must("3.6.16")
)

func newStage() *stage {
	return &stage{
		spec: cluster.Spec{MemberCount: 3, EtcdVersion: standard},
		obs: cluster.Observation{
			Cluster: "test", At: noon, Observer: "a", Since: noon.Add(-time.Hour), Nonce: "n1",
			Store: cluster.Store{Reachable: true, BackupsKnown: true},
		},
	}
}

// observe replaces the observation by what the text says.
func (s *stage) observe(text string) error {
	s.obs, s.lines = newStage().obs, nil
	return s.amend(text)
}

// amend changes the observation by what the text says.
func (s *stage) amend(text string) error {
	var leader string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		s.lines = append(s.lines, words[0])
		if words[0] == "leader" {
			leader = words[1]
		}
		if err := s.fact(words[0], words[1:]); err != nil {
			return fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
		}
	}
	s.defaults()
	s.elect(leader)
	s.sort()
	return nil
}

func (s *stage) fact(kind string, args []string) error {
	store := &s.obs.Store
	switch kind {
	case "bare":
	case "cluster":
		for i, name := range args {
			id := strconv.Itoa(i + 1)
			if err := s.fact("node", []string{name, "data=" + id, "running"}); err != nil {
				return err
			}
			if err := s.fact("member", []string{name, "id=" + id}); err != nil {
				return err
			}
		}
	case "nodes":
		for _, name := range args {
			s.node(cluster.NodeName(name))
		}
	case "node":
		n := s.node(cluster.NodeName(args[0]))
		return each(args[1:], func(k, v string) error { return s.nodeAttribute(n, k, v) })
	case "member":
		m := s.member(cluster.NodeName(args[0]))
		return each(args[1:], func(k, v string) error { return s.memberAttribute(m, k, v) })
	case "gone":
		s.gone(args[0], cluster.NodeName(args[1]))
	case "leader", "observer", "nonce", "token", "later", "cluster-version", "downgrade":
		return s.circumstance(kind, args)
	case "lease-voters":
		return s.leaseVoters(args)
	case "revision":
		n, err := strconv.ParseInt(args[0], 10, 64)
		s.obs.Revision = cluster.Revision(n)
		return err
	case "spec-missing":
		store.SpecMissing = true
	case "records-problem":
		store.RecordsProblem = strings.Join(args, " ")
	case "backing-up":
		s.obs.BackingUp = strings.Join(args, " ")
	case "spec-problem":
		store.SpecProblem = strings.Join(args, " ")
	case "failed":
		s.obs.Failures = append(s.obs.Failures, cluster.Failure{
			Line: strings.Join(args, " "), Text: "it broke", Retry: s.obs.At.Add(time.Minute),
		})
	default:
		return s.storeFact(kind, args)
	}
	return nil
}

func (s *stage) circumstance(kind string, args []string) (err error) {
	var d time.Duration
	switch kind {
	case "observer":
		s.obs.Observer = cluster.NodeName(args[0])
		return each(args[1:], func(_, v string) error {
			d, err = time.ParseDuration(v)
			s.obs.Since = s.obs.At.Add(-d)
			return err
		})
	case "nonce":
		s.obs.Nonce = cluster.Token(args[0])
	case "token":
		s.obs.Token = cluster.Token(args[0])
	case "cluster-version":
		s.obs.ClusterVersion, err = etcdversion.Parse(args[0])
	case "downgrade": // that etcd has enabled
		s.obs.Downgrade, err = etcdversion.Parse(args[0])
	case "later":
		d, err = time.ParseDuration(args[0])
		s.obs.At = s.obs.At.Add(d)
	}
	return err
}

func (s *stage) storeFact(kind string, args []string) error {
	store := &s.obs.Store
	switch kind {
	case "store":
		switch args[0] {
		case "unreachable":
			store.Reachable = false
			s.obs.Gaps = []cluster.Gap{{Source: "store", Text: "connection refused"}}
		case "reachable":
			store.Reachable, s.obs.Gaps = true, nil
		case "unread":
			store.BackupsKnown = false
		case "emptied":
			s.lines = append(s.lines, "bare")
			*store = cluster.Store{Reachable: true, BackupsKnown: true}
		default:
			return fmt.Errorf("a store cannot be %q", args[0])
		}
	case "created":
		store.Created = s.obs.At.Add(-24 * time.Hour)
		if len(args) > 0 && args[0] == "unknown" {
			store.Created = cluster.MarkerUnknown
		}
	case "incarnation":
		i := cluster.Incarnation{Token: "t1", Version: standard, At: s.obs.At.Add(-24 * time.Hour), By: "a"}
		i.Number, _ = strconv.Atoi(args[0])
		err := each(args[1:], func(k, v string) error {
			switch k {
			case "token":
				i.Token = cluster.Token(v)
			case "voters":
				i.Voters = s.initialMembers(v)
			case "age":
				d, err := time.ParseDuration(v)
				i.At = s.obs.At.Add(-d)
				return err
			case "before":
				for _, name := range strings.Split(v, ",") {
					i.Restored.Before = append(i.Restored.Before, cluster.NodeName(name))
				}
			case "restored":
				i.Restored = &cluster.Restored{Request: v, Backup: backupOf(s.obs.At, "1h"), Revision: 1_000_000_900}
			}
			return nil
		})
		store.Incarnations = append(store.Incarnations, i)
		return err
	case "backup":
		for _, v := range args {
			if err := s.backup(strings.TrimPrefix(v, "age=")); err != nil {
				return err
			}
		}
		return nil
	case "backups":
		if args[0] == "none" {
			store.Backups = nil
			return nil
		}
		return s.backups(args)
	case "leftovers":
		store.Leftovers = args
	case "uncounted": // the newest first, all for one reason
		for _, name := range args {
			store.Uncounted = append(store.Uncounted, cluster.Uncounted{Name: name, Why: "it is not signed"})
		}
	case "seen":
		age, err := time.ParseDuration(args[0])
		store.NewestSeen = retention.Name(s.obs.At.Add(-age), 1)
		return err
	case "damaged":
		for i := range store.Backups {
			store.Backups[i].Damaged = store.Backups[i].Damaged || store.Backups[i].Name == args[0]
		}
	case "foreign": // of the cluster "other", of that age
		for i := range store.Backups {
			if store.Backups[i].Name == backupOf(s.obs.At, args[0]) {
				store.Backups[i].Foreign = "other"
			}
		}
	default:
		return s.restoreFact(kind, args)
	}
	return nil
}

func (s *stage) backup(age string) error {
	d, err := time.ParseDuration(age)
	at := s.obs.At.Add(-d)
	s.obs.Store.Backups = append(s.obs.Store.Backups, cluster.Backup{Name: retention.Name(at, 1), At: at})
	return err
}

func (s *stage) backups(args []string) error {
	var every, span time.Duration
	err := each(args, func(k, v string) (err error) {
		if k == "every" {
			every, err = time.ParseDuration(v)
		} else {
			span, err = time.ParseDuration(v)
		}
		return err
	})
	for age := every; age <= span; age += every {
		if err := s.backup(age.String()); err != nil {
			return err
		}
	}
	return err
}

func (s *stage) leaseVoters(args []string) error {
	e := cluster.LeaseVoters{Token: s.orToken(""), Term: s.obs.LeaseVoters.Term, Seq: s.obs.LeaseVoters.Seq + 1}
	on := ""
	for _, name := range strings.Split(args[0], ",") {
		e.Names = append(e.Names, cluster.NodeName(name))
	}
	err := each(args[1:], func(k, v string) error {
		switch k {
		case "token":
			e.Token = cluster.Token(v)
		case "on":
			on = v
		}
		return nil
	})
	s.obs.LeaseVoters = e
	for i := range s.obs.Nodes {
		if on == "" || slices.Contains(strings.Split(on, ","), string(s.obs.Nodes[i].Name)) {
			s.obs.Nodes[i].LeaseVoters = e
		} else if n := &s.obs.Nodes[i]; n.Assigned != nil &&
			(n.LeaseVoters.Token == "" || slices.Contains(n.LeaseVoters.Names, "older")) {
			n.LeaseVoters = older(n.Assigned.Token, e.Names...)
		}
	}
	return err
}

// older is an earlier record than the newest one, in which these were too.
func older(token cluster.Token, names ...cluster.NodeName) cluster.LeaseVoters {
	return cluster.LeaseVoters{Token: token, Names: append([]cluster.NodeName{"older"}, names...)}
}

func (s *stage) node(name cluster.NodeName) *cluster.Node {
	for i := range s.obs.Nodes {
		if s.obs.Nodes[i].Name == name {
			return &s.obs.Nodes[i]
		}
	}
	s.obs.Nodes = append(s.obs.Nodes, cluster.Node{
		Name: name, Address: fmt.Sprintf("10.0.0.%d:3996", len(s.obs.Nodes)+1), Reachable: true, LastSeen: s.obs.At,
		Boot: "boot-" + cluster.Token(name), Published: true,
		URLs: cluster.URLs{Peer: []string{"https://" + string(name) + ":2380"}, Client: []string{
			"https://" + string(name) + ":4001",
		}, Quarantine: []string{"https://" + string(name) + ":8001"}},
		Disk:     cluster.Disk{State: cluster.DiskEmpty},
		Process:  cluster.Process{State: cluster.ProcessStopped},
		Versions: []etcdversion.Version{standard},
		PeerKeys: true,
	})
	return &s.obs.Nodes[len(s.obs.Nodes)-1]
}

func (s *stage) member(name cluster.NodeName) *cluster.Member {
	url := "https://" + string(name) + ":2380"
	for i := range s.obs.Members {
		if s.obs.Members[i].PeerURLs[0] == url {
			return &s.obs.Members[i]
		}
	}
	s.obs.Members = append(s.obs.Members, cluster.Member{
		Name: name, PeerURLs: []string{url}, ClientURLs: []string{"https://" + string(name) + ":4001"}, Healthy: true,
		Applied: 100,
	})
	return &s.obs.Members[len(s.obs.Members)-1]
}

func (s *stage) gone(kind string, name cluster.NodeName) {
	if kind == "node" {
		s.obs.Nodes = slices.DeleteFunc(s.obs.Nodes, func(n cluster.Node) bool { return n.Name == name })
		return
	}
	id := s.member(name).ID
	s.obs.Members = slices.DeleteFunc(s.obs.Members, func(m cluster.Member) bool { return m.ID == id })
}

func (s *stage) initialMembers(list string) []cluster.InitialMember {
	var initialMembers []cluster.InitialMember
	for _, name := range strings.Split(list, ",") {
		initialMembers = append(initialMembers, cluster.InitialMember{
			Name: cluster.NodeName(name), PeerURLs: []string{"https://" + name + ":2380"},
		})
	}
	return initialMembers
}

func (s *stage) orToken(v string) cluster.Token {
	switch {
	case v != "":
		return cluster.Token(v)
	case s.obs.Token != "":
		return s.obs.Token
	}
	return "t1"
}

func (s *stage) memberAttribute(m *cluster.Member, key, value string) (err error) {
	var d time.Duration
	switch key {
	case "id":
		m.ID, err = cluster.ParseMemberID(value)
	case "down":
		m.Healthy, m.UnhealthySince = false, time.Time{}
		if value != "" {
			d, err = time.ParseDuration(value)
			m.UnhealthySince = s.obs.At.Add(-d)
		}
	case "up":
		m.Healthy, m.UnhealthySince, m.Condition, m.Why = true, time.Time{}, "", ""
	case "peer":
		m.PeerURLs = strings.Split(value, ",")
	case "served": // a read through the quorum
		m.Served = true
	case "hung", "stuck", "late", "slow":
		return s.gray(m, cluster.Condition(key), value)
	case "db":
		var mb int64
		mb, err = strconv.ParseInt(value, 10, 64)
		m.DBSize = mb << 20
	case "learner": // since when nobody has written down, where there is no value
		if m.Learner = true; value != "" {
			d, err = time.ParseDuration(value)
			m.LearnerSince = s.obs.At.Add(-d)
		}
	case "voter":
		m.Learner, m.LearnerSince = false, time.Time{}
	case "unnamed": // added and never started
		m.Name, m.ClientURLs, m.Applied, m.Healthy, m.UnhealthySince, m.Condition = "", nil, 0, false, m.LearnerSince,
			cluster.Unstarted
	case "unstarted": // a bootstrap voter that has never started
		m.ClientURLs, m.Applied = nil, 0
	case "applied":
		m.Applied, err = strconv.ParseUint(value, 10, 64)
	case "runs": // by its own word
		m.Version, err = etcdversion.Parse(value)
	case "storage": // its data is of that version
		m.Storage, err = etcdversion.Parse(value)
	case "alarm":
		m.Alarms = append(m.Alarms, value)
	default:
		return fmt.Errorf("a member has no attribute %q", key)
	}
	return err
}

// each calls f with every word, cut at its "=".
func each(words []string, f func(key, value string) error) error {
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		if err := f(key, value); err != nil {
			return err
		}
	}
	return nil
}
