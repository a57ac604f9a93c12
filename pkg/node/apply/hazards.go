package apply

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/hazards"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// lookAgain is how long a look that proved nothing counts.
const lookAgain = 10 * time.Second

// A looker looks into the member's data for what the next minor version does not
// stand: once for each set of files, beside what else the node does. Each raft
// snapshot and each 64 MB of the log is a new file.
type looker struct {
	mu    sync.Mutex
	looks sync.WaitGroup
	// files and found are of the last look; data is the directory.
	data, files string
	found       []cluster.Hazard
	// looking says that a look is under way, at is when the last one began.
	looking bool
	at      time.Time
}

// of returns what is known of the node's data, and looks if there is something new.
func (l *looker) of(dir string, s nodestate.State, disk cluster.Disk, now time.Time) []cluster.Hazard {
	if s.Assigned == nil || disk.State != cluster.DiskData || disk.Token != s.Assigned.Token {
		return nil
	}
	v := s.Assigned.Version
	if len(cluster.HazardsBefore(etcdversion.Version{Major: v.Major, Minor: v.Minor + 1})) == 0 {
		return nil
	}
	data := nodestate.DataDir(dir, disk.Token)
	files := filesIn(data)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.data != data {
		l.data, l.files, l.found = data, "", nil
	}
	soon := now.Sub(l.at) < lookAgain && now.After(l.at)
	if l.looking || l.files == files && (proves(l.found) || soon) {
		return l.found
	}
	l.looking, l.at = true, now
	l.looks.Go(func() { l.look(data, files) })
	return l.found
}

func (l *looker) look(data, files string) {
	found := hazards.Examine(hazards.Dir{Data: data})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looking = false
	if l.data == data {
		l.files, l.found = files, found
	}
}

// wait returns when no look is under way: one takes no longer than the log's files
// take to be read.
func (l *looker) wait() { l.looks.Wait() }

func proves(found []cluster.Hazard) bool {
	return len(found) > 0 &&
		!slices.ContainsFunc(found, func(h cluster.Hazard) bool { return h.State == cluster.HazardUnknown })
}

func filesIn(data string) string {
	var all []string
	for _, pattern := range []string{"wal/*.wal", "snap/*.snap"} {
		names, _ := filepath.Glob(filepath.Join(data, "member", pattern))
		all = append(all, names...)
	}
	return strings.Join(all, " ")
}

// stands looks into the data as it is now, right before the member is stopped. What
// is in the log only is not refused here: a raft snapshot takes it away, and a
// version that does not come up is taken back.
func (l *Local) stands(from etcdversion.Version, op *plan.MemberChangeVersion) error {
	found := hazards.Examine(hazards.Dir{Data: nodestate.DataDir(l.o.DataDir, op.ExpectToken)})
	for _, h := range cluster.HazardsFrom(found, from, op.To) {
		if h.State == cluster.HazardPresent && h.Kind == cluster.HazardV2Log {
			continue
		}
		return refuse("etcd %s cannot follow %s on this data: %s; %s", op.To, from, h, h.Cure(op.To))
	}
	return nil
}
