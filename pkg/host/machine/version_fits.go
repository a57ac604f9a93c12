package machine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// fits holds a version that the data on the disk itself is too new for, whoever answers
// and whatever is installed: a machine that was installed again has kept its data only.
// Where its own etcd answers, that is newer than what it has written.
func (p *planner) fits(want etcdversion.Version) *Hold {
	why := p.unsupported(want)
	if why != nil {
		// An etcd that starts on a snapshot of a later version writes its own version
		// a moment after the first entry.
		why.Momentary = p.obs.Service.Active()
	}
	return why
}

func (p *planner) unsupported(want etcdversion.Version) *Hold {
	d, low := p.obs.Data, p.before()
	if d.State != cluster.DiskData || p.obs.Remote.Answered && p.foreign() != "" {
		return nil
	}
	if l := p.obs.Local; l != nil && l.ID == d.MemberID && !l.DataVersion().IsZero() {
		return nil
	}
	switch is := d.Version; {
	case is.IsZero() && d.VersionProblem != "" && low.IsZero() && !want.AtLeast(3, 5) && p.goal.AcceptVersionRisk == "":
		return hold(VersionStep, "--version with the one that the data was run with last; or --accept-version-risk=REASON",
			"whether etcd %s is older than the data in %s is unknown, and it would not check: %s", want, p.cfg.Paths.Data,
			d.VersionProblem)
	case is.IsZero():
		return nil
	case !want.AtLeast(is.Major, is.Minor):
		return p.olderThanData(want, is)
	case low.IsZero() && (want.Major != is.Major || want.Minor > is.Minor+1):
		return hold(VersionStep, "upgrade one minor version at a time, with --version",
			"etcd %s cannot follow %d.%d, the version of the data in %s", want, is.Major, is.Minor, p.cfg.Paths.Data)
	}
	return nil
}

// olderThanData names the version that the data can be started with, and the way down.
func (p *planner) olderThanData(want, is etcdversion.Version) *Hold {
	next := fmt.Sprintf("--version=%d.%d.PATCH", is.Major, is.Minor)
	if d := DefaultVersion; d.Major == is.Major && d.Minor == is.Minor {
		next = "--version=" + d.String()
	}
	if is.AtLeast(3, 6) {
		next += fmt.Sprintf("; to downgrade, start that, and then: %s downgrade enable %d.%d", p.cfg.Paths.ControlScript(),
			is.Major, is.Minor-1)
	}
	if !want.AtLeast(3, 5) {
		next += "; from 3.5 to an earlier one, only a snapshot that is restored leads: etcdadm init --snapshot"
	}
	return hold(VersionStep, next, "etcd %s is older than the data in %s, which is of cluster version %d.%d", want,
		p.cfg.Paths.Data, is.Major, is.Minor)
}

// fitting is fits of the version that the goal asks for.
func (p *planner) fitting() *Hold {
	if p.obs.VersionOpen || slices.Contains(p.goal.Skip, "install") {
		return nil // start goes by what is installed
	}
	if p.goal.Action == Join && p.goal.SetAsideData && !p.obs.Remote.Answered {
		return nil // the data may be another cluster's, and go
	}
	return p.fits(p.cfg.Version.Release())
}

// startable is fits of what would be started, which a phase before may have installed, or
// somebody else.
func (p *planner) startable() *Hold {
	runs := p.obs.Binaries.Etcd
	if p.cfg.Service.InitSystem == Kubelet {
		if runs = p.cfg.Version.Release(); p.obs.VersionOpen {
			return nil
		}
	}
	if runs.IsZero() {
		return nil // there is nothing to start
	}
	return p.fits(runs)
}

// otherVersion warns of a machine that joins with a version that no member runs. It may be right, where
// machines are replaced one after the other; where it is not, nobody would notice the second version. What etcd
// does not support is held.
func (p *planner) otherVersion() []Finding {
	want := p.cfg.Version.Release()
	self, member := p.self()
	if p.goal.Action != Join || p.obs.VersionOpen || !p.obs.Remote.Answered || member && !self.Learner && started(self) ||
		p.mayRun() != nil {
		return nil
	}
	var run []etcdversion.Version
	for _, m := range p.obs.Remote.Members {
		if !m.Version.IsZero() && m.ID != self.ID {
			run = append(run, m.Version)
		}
	}
	if len(run) == 0 || slices.Contains(run, want) {
		return nil
	}
	slices.SortFunc(run, etcdversion.Version.Compare)
	run = slices.Compact(run)
	words, last := make([]string, len(run)), run[len(run)-1]
	for i, v := range run {
		words[i] = v.String()
	}
	way := "--version=" + last.String() + " joins with theirs"
	if want.Compare(last) > 0 {
		way += "; " + want.String() + " is right where all members are to run it: etcdadm upgrade plan --to=" + want.String()
	}
	return warning(way, "the members run etcd %s, and this machine's will run %s", strings.Join(words, " and "), want)
}
