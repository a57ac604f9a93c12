package plan

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// enableDowngrade makes sure that the spec wants it, that every member can follow,
// and that the cluster is well: what is prepared for an older version cannot take a
// member that does not know that.
func (c checker) enableDowngrade(spec cluster.Spec, op *DowngradeEnable) error {
	known := c.obs.ClusterVersion
	switch {
	case c.obs.Downgrade == op.To:
		return nil // nothing to do
	case !c.obs.Downgrade.IsZero():
		return &StaleError{Want: "no downgrade under way", Got: "one to etcd " + c.obs.Downgrade.String()}
	case minorOf(known) != op.ExpectClusterVersion:
		return &StaleError{Want: "cluster version " + op.ExpectClusterVersion.String(), Got: known.String()}
	case op.To != minorOf(op.To) || op.To.Major != known.Major || op.To.Minor != known.Minor-1 ||
		op.To.Compare(oldestDowngrade) < 0:
		return unsafe("version", "a cluster of version %d.%d is not downgraded to %s", known.Major, known.Minor, op.To)
	case spec.EtcdVersion.Minor > op.To.Minor:
		return unsafe("version", "the spec asks for etcd %s", spec.EtcdVersion)
	}
	for _, m := range c.obs.Members {
		if v := c.versionOf(m); v.Minor != known.Minor {
			return unsafe("version", "%s runs etcd %s, and the cluster version is %d.%d", m.Name, v, known.Major, known.Minor)
		}
		host := slices.IndexFunc(c.obs.Nodes, func(n cluster.Node) bool { h, ok := c.hosted(n); return ok && h.ID == m.ID })
		if host < 0 || !slices.ContainsFunc(c.obs.Nodes[host].Versions, func(v etcdversion.Version) bool {
			return minorOf(v) == op.To
		}) {
			return unsafe("version", "%s has no binaries of etcd %d.%d", m.Name, op.To.Major, op.To.Minor)
		}
	}
	if err := c.reaches(spec, known, op.To); err != nil {
		return err
	}
	if err := c.spares(spec, cluster.Member{}, etcdversion.Version{}); err != nil {
		return err
	}
	return c.backup("a downgrade")
}

// cancelDowngrade makes sure that no member is just being changed: the cluster version
// may rise.
func (c checker) cancelDowngrade(op *DowngradeCancel) error {
	if c.obs.Downgrade.IsZero() {
		return nil // nothing to do
	}
	if c.obs.Downgrade != op.ExpectTo {
		return &StaleError{Want: "a downgrade to etcd " + op.ExpectTo.String(), Got: "one to " + c.obs.Downgrade.String()}
	}
	for _, n := range c.obs.Nodes {
		if _, ok := c.hosted(n); ok && n.Change.Pending() && n.Change.Token == c.obs.Token {
			return unsafe("one-change", "%s is between etcd %s and %s", n.Name, n.Change.From, n.Change.To)
		}
	}
	return nil
}

// older makes sure that no etcd of an earlier minor version is started on data that is
// not its own: another voter runs it, so that the cluster version is still the old one,
// or etcd has prepared the data of all members for it.
func (c checker) older(target cluster.Member, to etcdversion.Version, others int) error {
	prepared := c.obs.Downgrade == minorOf(to) && minorOf(c.obs.ClusterVersion) == minorOf(to)
	for _, m := range c.obs.Members {
		own := minorOf(m.Storage)
		later := c.versionOf(m).Minor > to.Minor
		if m.ID == target.ID && own.Compare(minorOf(to)) > 0 {
			return unsafe("version", "the data of %s is of etcd %d.%d", m.Name, own.Major, own.Minor)
		}
		prepared = prepared && (!later || !own.IsZero() && own.Compare(minorOf(to)) <= 0)
	}
	if others == 0 && !prepared {
		return unsafe("version", "no other voter runs etcd %d.%d, and etcd has not prepared the members' data for it",
			to.Major, to.Minor)
	}
	return nil
}
