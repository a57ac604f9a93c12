package machine

import (
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// fits holds a version that the data on the disk itself is too new for, whoever answers
// and whatever is installed: a machine that was installed again has kept its data only.
// Where its own etcd answers, that is newer than what it has written.
func (w *world) fits(want etcdversion.Version) *Hold {
	why := w.unsupported(want)
	if why != nil {
		// An etcd that starts on a snapshot of a later version writes its own version
		// a moment after the first entry.
		why.Momentary = w.obs.Service.Active()
	}
	return why
}

func (w *world) unsupported(want etcdversion.Version) *Hold {
	d, low := w.obs.Data, w.before()
	if d.State != cluster.DiskData || w.obs.Remote.Answered && w.foreign() != "" {
		return nil
	}
	if l := w.obs.Local; l != nil && l.ID == d.MemberID && !l.DataVersion().IsZero() {
		return nil
	}
	switch is := d.Version; {
	case is.IsZero() && d.VersionProblem != "" && low.IsZero() && !want.AtLeast(3, 5) && w.goal.AcceptVersionRisk == "":
		return hold(VersionStep, "--version with the one that the data was run with last; or --accept-version-risk=REASON",
			"whether etcd %s is older than the data in %s is unknown, and it would not check: %s", want, w.cfg.Paths.Data,
			d.VersionProblem)
	case is.IsZero():
		return nil
	case !want.AtLeast(is.Major, is.Minor):
		return w.olderThanData(want, is)
	case low.IsZero() && (want.Major != is.Major || want.Minor > is.Minor+1):
		return hold(VersionStep, "upgrade one minor version at a time, with --version",
			"etcd %s cannot follow %d.%d, the version of the data in %s", want, is.Major, is.Minor, w.cfg.Paths.Data)
	}
	return nil
}

// olderThanData names the version that the data can be started with, and the way down.
func (w *world) olderThanData(want, is etcdversion.Version) *Hold {
	next := fmt.Sprintf("--version=%d.%d.PATCH", is.Major, is.Minor)
	if d := DefaultVersion; d.Major == is.Major && d.Minor == is.Minor {
		next = "--version=" + d.String()
	}
	if is.AtLeast(3, 6) {
		next += fmt.Sprintf("; to downgrade, start that, and then: %s downgrade enable %d.%d", w.cfg.Paths.ControlScript(),
			is.Major, is.Minor-1)
	}
	if !want.AtLeast(3, 5) {
		next += "; from 3.5 to an earlier one, only a snapshot that is restored leads: etcdadm init --snapshot"
	}
	return hold(VersionStep, next, "etcd %s is older than the data in %s, which is of cluster version %d.%d", want,
		w.cfg.Paths.Data, is.Major, is.Minor)
}

// fitting is fits of the version that the goal asks for.
func (w *world) fitting() *Hold {
	if w.obs.VersionOpen || slices.Contains(w.goal.Skip, "install") {
		return nil // start goes by what is installed
	}
	if w.goal.Action == Join && w.goal.SetAsideData && !w.obs.Remote.Answered {
		return nil // the data may be another cluster's, and go
	}
	return w.fits(w.cfg.Version.Release())
}

// startable is fits of what would be started, which a phase before may have installed, or
// somebody else.
func (w *world) startable() *Hold {
	runs := w.obs.Binaries.Etcd
	if w.cfg.Service.InitSystem == Kubelet {
		if runs = w.cfg.Version.Release(); w.obs.VersionOpen {
			return nil
		}
	}
	if runs.IsZero() {
		return nil // there is nothing to start
	}
	return w.fits(runs)
}
