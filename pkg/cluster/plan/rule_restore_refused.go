package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// unreachableElsewhere returns the known nodes that do not answer, without those that
// are declared to be gone.
func (l *view) unreachableElsewhere(r cluster.Request) []cluster.NodeName {
	var list []cluster.NodeName
	for _, n := range l.obs.Nodes {
		if !n.Reachable && !slices.Contains(r.Lost, n.Name) {
			list = append(list, n.Name)
		}
	}
	return list
}

// refusal says why a request can never be carried out, empty if nothing speaks
// against it.
func (l *view) refusal(r cluster.Request) string {
	count, version := wanted(l.spec, r)
	if l.policy.FixedSpec && (count != l.spec.MemberCount || version != l.spec.EtcdVersion) {
		return "the spec comes from flags (--static-config), and a restore cannot change it"
	}
	if err := (cluster.Spec{MemberCount: count, EtcdVersion: version}).Validate(); err != nil {
		return err.Error()
	}
	if !version.Managed() {
		return fmt.Sprintf("etcd %s is too old to be managed", version)
	}
	if age := l.obs.At.Sub(r.At); age > maxRequestAge && l.stagedFor(r) == nil {
		return fmt.Sprintf("it was queued %s ago: request it again if you still want it", age.Round(time.Minute))
	}
	if rec := l.record(); rec != nil && l.firstRecord(rec.Token).At.After(r.At) {
		return fmt.Sprintf("it was queued before incarnation %d began: request it again if you still want it", rec.Number)
	}
	if n, token := l.begunSince(r); n != nil {
		return fmt.Sprintf("it was queued before %s set data aside for incarnation %s, of which the store has no record: "+
			"the store may be an older copy; request it again if you still want it", n.Name, token)
	}
	if !l.obs.Store.Reachable || !l.obs.Store.BackupsKnown || r.Backup == "" {
		return "" // a sealed one has no backup yet
	}
	src := l.obs.Store.Source
	described := src != nil && src.Request == r.Name
	if !slices.ContainsFunc(l.obs.Store.Backups, func(b cluster.Backup) bool { return b.Name == r.Backup }) &&
		l.stagedFor(r) == nil {
		for _, u := range l.obs.Store.Uncounted {
			if u.Name == r.Backup {
				return fmt.Sprintf("%s does not count as a backup: %s", r.Backup, u.Why)
			}
		}
		// A list that is not whole proves nothing, nor one that was read before the backup
		// was taken. The backup itself is read after the request was queued.
		if described && src.Problem != "" {
			return fmt.Sprintf("the store has no backup %s", r.Backup)
		}
	}
	if !described {
		return ""
	}
	if src.Problem != "" {
		return src.Problem
	}
	for _, v := range []etcdversion.Version{src.Version, src.Storage} {
		if !v.IsZero() && !cluster.Reads(version, v) {
			return fmt.Sprintf("the backup is of etcd %d.%d, which etcd %s cannot read", v.Major, v.Minor, version)
		}
	}
	return l.refusedByNodes(r)
}

// begunSince returns a node that has set data aside since the request was queued, and an
// incarnation that it is in and of which the store has no record; nil for none. A copy of
// the store from before that incarnation began has the requests of then: the one that it
// began by, too.
func (l *view) begunSince(r cluster.Request) (*cluster.Node, cluster.Token) {
	for i := range l.obs.Nodes {
		n := &l.obs.Nodes[i]
		after := func(s cluster.SetAside) bool { return s.At.After(r.At) }
		if !n.Reachable || !slices.ContainsFunc(n.SetAside, after) {
			continue
		}
		for _, token := range incarnationsOf(*n) {
			if !recordedToken(l.obs, token) {
				return n, token
			}
		}
	}
	return nil, ""
}

// incarnationsOf returns what n is to run, what its data is of, and what it has restored
// data to begin with: after a disk went back they are not the same.
func incarnationsOf(n cluster.Node) []cluster.Token {
	var list []cluster.Token
	if n.Assigned != nil {
		list = append(list, n.Assigned.Token)
	}
	if n.Prepared != nil && n.Prepared.Backup != "" {
		list = append(list, n.Prepared.Token)
	}
	if n.Disk.Token != "" {
		list = append(list, n.Disk.Token)
	}
	return list
}

// agreement is how many nodes have to find that a backup cannot be restored for
// that to be so: one may have a bad disk, or bad memory.
const agreement = 2

// refusedByNodes says why nodes refuse to restore, empty as long as one alone
// does and others can be asked.
func (l *view) refusedByNodes(r cluster.Request) string {
	var refused []string
	others := 0
	for i := range l.obs.Nodes {
		n := &l.obs.Nodes[i]
		switch s := n.Staged; {
		case slices.Contains(r.Lost, n.Name):
		case n.Reachable && s != nil && s.Request == r.Name && s.Refused:
			refused = append(refused, fmt.Sprintf("%s: %s", n.Name, s.Problem))
		default:
			others++
		}
	}
	if len(refused) == 0 || len(refused) < agreement && others > 0 {
		return ""
	}
	return strings.Join(refused, "; ")
}

// maxRequestAge is how old a request may be when work on it begins: a command
// that lay in a store for years, or came with a copy of another one, must not
// take a cluster back.
const maxRequestAge = 24 * time.Hour
