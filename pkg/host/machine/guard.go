package machine

import (
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// bootstrapped says whether the data was bootstrapped here by an earlier init with this
// name: so an init is repeated, and not done over another member. The retired
// etcdadm leaves no record, but its environment file says the same.
func (w *world) bootstrapped() bool {
	if w.obs.Record.Action == Init {
		return true
	}
	return w.obs.Written["ETCD_INITIAL_CLUSTER_STATE"] == "new" && w.obs.Written["ETCD_NAME"] == string(w.cfg.Name)
}

// untouched holds what would be built over, or beside, a member that is or was
// on this machine.
func (w *world) untouched() *Hold {
	if why := w.elsewhere(); why != nil {
		return why
	}
	d := w.obs.Data
	switch {
	case w.obs.Record.Action == Reset && w.goal.Action != Reset:
		return hold(ResetUnfinished, "etcdadm reset", "a reset of this machine was begun but not finished")
	case d.State == cluster.DiskEmpty && w.goal.Action == Init && w.hadMember():
		return hold(DataLost, "check whether a volume is missing; if the data is gone: etcdadm reset, then join the other "+
			"members or init again",
			"a member has run on this machine, but %s is empty: init would make a second cluster beside the rest of "+
				"its own", w.cfg.Paths.Data)
	case w.neverCommitted() && !w.obs.Service.Active():
		return nil
	case d.State == cluster.DiskUnreadable && w.obs.Service.State == ServiceCrashing &&
		w.obs.Record.Action == w.goal.Action:
		return nil // etcd cannot even begin; it says why itself
	case d.State == cluster.DiskUnreadable:
		h := hold(DataUnreadable, "check the directory; etcdadm reset moves its content aside",
			"%s cannot be read: %s", w.cfg.Paths.Data, d.Problem)
		h.Wait = w.obs.Service.Active() // etcd may be about to write its first log
		return h
	case d.State == cluster.DiskData && w.goal.Action == Init && !w.bootstrapped():
		return hold(DataPresent, "if the member is no longer needed: etcdadm reset, which moves its data aside",
			"%s holds the data of %s of cluster %s, which a new cluster would not have", w.cfg.Paths.Data,
			ofMember(d.MemberID), d.ClusterID)
	}
	return nil
}

// hadMember says whether a member has run on this machine before. Files that
// others have written count: an init that was cut off has a record.
func (w *world) hadMember() bool {
	r := w.obs.Record
	return r.Served || r.Action == Join || r.Action != Init && len(w.obs.Written) > 0
}

// elsewhere holds a member beside another one of the same machine: one whose
// data is in another directory, or one that somebody else keeps running.
func (w *world) elsewhere() *Hold {
	name, s := w.obs.Written["ETCD_NAME"], w.obs.Service
	if m, ok := w.self(); ok && m.Name != "" {
		name = string(m.Name) // whatever somebody has made of the file
	}
	switch {
	case name != "" && name != string(w.cfg.Name) && w.obs.Data.State == cluster.DiskData:
		return hold(DataPresent, "--name="+name, "the name of this machine's member is %s, not %s", name, w.cfg.Name)
	case w.dataElsewhere() != nil:
		return w.dataElsewhere()
	case s.Foreign != "" && (s.Active() || s.Enabled):
		return hold(ServiceForeign, "if it is not needed: systemctl disable --now etcd.service",
			"an etcd that etcdadm did not set up runs on this machine: the unit %s", s.Foreign)
	case w.goal.Action == Init && w.obs.Data.State == cluster.DiskEmpty && w.obs.Local != nil:
		return hold(DataElsewhere, "find the process: ss -ltnp", "an etcd answers at %s, but %s is empty",
			strings.Join(URLs(w.cfg).Client, ","), w.cfg.Paths.Data)
	}
	return nil
}

// dataElsewhere holds what is done to another directory than that of this machine's etcd.
func (w *world) dataElsewhere() *Hold {
	if dir := w.obs.Written["ETCD_DATA_DIR"]; dir != "" && dir != w.cfg.Paths.Data {
		return hold(DataElsewhere, "--data-dir="+dir, "this machine's etcd has its data in %s, not in %s", dir,
			w.cfg.Paths.Data)
	}
	return nil
}

// running holds what is done to data while an etcd may be writing it.
func (w *world) running() *Hold {
	if w.obs.Local == nil {
		return nil
	}
	h := hold(StillRunning, "find the process: ss -ltnp", "an etcd still answers at %s",
		strings.Join(URLs(w.cfg).Client, ","))
	h.Wait = true // it may be about to end
	return h
}
