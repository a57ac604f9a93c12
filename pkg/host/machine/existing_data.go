package machine

import (
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// bootstrapped says whether the data was bootstrapped here by an earlier init with this
// name: so an init is repeated, and not done over another member. The retired
// etcdadm leaves no record, but its environment file says the same.
func (p *planner) bootstrapped() bool {
	if p.obs.Record.Action == Init {
		return true
	}
	return p.obs.Written["ETCD_INITIAL_CLUSTER_STATE"] == "new" && p.obs.Written["ETCD_NAME"] == string(p.cfg.Name)
}

// untouched holds what would be built over, or beside, a member that is or was
// on this machine.
func (p *planner) untouched() *Hold {
	if why := p.elsewhere(); why != nil {
		return why
	}
	d := p.obs.Data
	switch {
	case p.obs.Record.Action == Reset && p.goal.Action != Reset:
		return hold(ResetUnfinished, "etcdadm reset", "a reset of this machine was begun but not finished")
	case d.State == cluster.DiskEmpty && p.goal.Action == Init && p.hadMember():
		return hold(DataLost, "check whether a volume is missing; if the data is gone: etcdadm reset, then join the other "+
			"members or init again",
			"a member has run on this machine, but %s is empty: init would make a second cluster beside the rest of "+
				"its own", p.cfg.Paths.Data)
	case p.neverCommitted() && !p.obs.Service.Active():
		return nil
	case d.State == cluster.DiskUnreadable && p.obs.Service.State == ServiceCrashing &&
		p.obs.Record.Action == p.goal.Action:
		return nil // etcd cannot even begin; it says why itself
	case d.State == cluster.DiskUnreadable:
		h := hold(DataUnreadable, "check the directory; etcdadm reset moves its content aside",
			"%s cannot be read: %s", p.cfg.Paths.Data, d.Problem)
		h.Wait = p.obs.Service.Active() // etcd may be about to write its first log
		return h
	case d.State == cluster.DiskData && p.goal.Action == Init && !p.bootstrapped():
		return hold(DataPresent, "if the member is no longer needed: etcdadm reset, which moves its data aside",
			"%s holds the data of %s of cluster %s, which a new cluster would not have", p.cfg.Paths.Data,
			ofMember(d.MemberID), d.ClusterID)
	}
	return nil
}

// hadMember says whether a member has run on this machine before. Files that
// others have written count: an init that was cut off has a record.
func (p *planner) hadMember() bool {
	r := p.obs.Record
	return r.Served || r.Action == Join || r.Action != Init && len(p.obs.Written) > 0
}

// elsewhere holds a member beside another one of the same machine: one whose
// data is in another directory, or one that somebody else keeps running.
func (p *planner) elsewhere() *Hold {
	name, s := p.obs.Written["ETCD_NAME"], p.obs.Service
	if m, ok := p.self(); ok && m.Name != "" {
		name = string(m.Name) // whatever somebody has made of the file
	}
	switch {
	case name != "" && name != string(p.cfg.Name) && p.obs.Data.State == cluster.DiskData:
		return hold(DataPresent, "--name="+name, "the name of this machine's member is %s, not %s", name, p.cfg.Name)
	case p.dataElsewhere() != nil:
		return p.dataElsewhere()
	case s.Foreign != "" && (s.Active() || s.Enabled):
		return hold(ServiceForeign, "if it is not needed: systemctl disable --now etcd.service",
			"an etcd that etcdadm did not set up runs on this machine: the unit %s", s.Foreign)
	case p.goal.Action == Init && p.obs.Data.State == cluster.DiskEmpty && p.obs.Local != nil:
		return hold(DataElsewhere, "find the process: ss -ltnp", "an etcd answers at %s, but %s is empty",
			strings.Join(URLs(p.cfg).Client, ","), p.cfg.Paths.Data)
	}
	return nil
}

// dataElsewhere holds what is done to another directory than that of this machine's etcd.
func (p *planner) dataElsewhere() *Hold {
	if dir := p.obs.Written["ETCD_DATA_DIR"]; dir != "" && dir != p.cfg.Paths.Data {
		return hold(DataElsewhere, "--data-dir="+dir, "this machine's etcd has its data in %s, not in %s", dir,
			p.cfg.Paths.Data)
	}
	return nil
}

// running holds what is done to data while an etcd may be writing it.
func (p *planner) running() *Hold {
	if p.obs.Local == nil {
		return nil
	}
	h := hold(StillRunning, "find the process: ss -ltnp", "an etcd still answers at %s",
		strings.Join(URLs(p.cfg).Client, ","))
	h.Wait = true // it may be about to end
	return h
}
