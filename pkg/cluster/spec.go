package cluster

import (
	"fmt"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// MaxMembers is the largest cluster that a [Spec] may ask for. etcd advises
// against more than seven voters: every write waits for a majority.
const MaxMembers = 7

// A Spec is what the operator wants the cluster to be.
type Spec struct {
	// MemberCount is the number of voters, 1 to [MaxMembers].
	MemberCount int `json:"memberCount"`
	// EtcdVersion is the version every member runs.
	EtcdVersion etcdversion.Version `json:"etcdVersion"`
	// Risk is what an operator has accepted, the zero value for nothing: see
	// [Spec.AcceptsRisk].
	Risk VersionRisk `json:"acceptVersionRisk,omitzero"`
	// Policy holds the waits and ages that the rules use.
	Policy Policy `json:"policy"`
}

// A Policy holds the durations and bounds by which the rules decide. The zero
// value of a field means its default, see [DefaultPolicy].
type Policy struct {
	// Grace is how long a voter may be unhealthy before it is replaced.
	Grace time.Duration `json:"grace"`
	// BootstrapGrace is how long bootstrap waits for the last missing node when
	// one fewer would have the same quorum.
	BootstrapGrace time.Duration `json:"bootstrapGrace"`
	// LearnerTimeout is how long a learner may take to catch up before it is
	// removed again.
	LearnerTimeout time.Duration `json:"learnerTimeout"`
	// BackupInterval is the time between two periodic backups.
	BackupInterval time.Duration `json:"backupInterval"`
	// BackupFresh is how old the newest backup may be for a risky step to go
	// ahead without a new one.
	BackupFresh time.Duration `json:"backupFresh"`
	// Unbacked says that there is no store, so that no step waits for a backup.
	Unbacked bool `json:"unbacked,omitempty"`
	// HourlyRetention and DailyRetention bound how long one backup an hour and
	// one a day are kept.
	HourlyRetention time.Duration `json:"hourlyRetention"`
	DailyRetention  time.Duration `json:"dailyRetention"`
	// MaxBackups and MaxBackupBytes limit the backups that are kept, and what
	// they hold together; zero is without limit.
	MaxBackups     int   `json:"maxBackups,omitempty"`
	MaxBackupBytes int64 `json:"maxBackupBytes,omitempty"`
	// VerifyInterval and DrillInterval are the times between two verifications of
	// the newest backup, and between two trials; zero is never.
	VerifyInterval time.Duration `json:"verifyInterval,omitempty"`
	DrillInterval  time.Duration `json:"drillInterval,omitempty"`
	// SetAsideKeep is how long data that was moved aside stays on a node's disk,
	// and SetAsideMax how many such directories one node keeps.
	SetAsideKeep time.Duration `json:"setAsideKeep"`
	SetAsideMax  int           `json:"setAsideMax"`
	// MaxClockSkew is the largest clock difference between two nodes at which
	// time-based rules (backups, retention) still go ahead.
	MaxClockSkew time.Duration `json:"maxClockSkew"`
	// StaticNodes are the node names of a static list, empty where nodes are
	// discovered. With a static list, bootstrap also needs a majority of it.
	StaticNodes []NodeName `json:"staticNodes,omitempty"`
	// FixedSpec says that the spec is given by flags, and not by the store.
	FixedSpec bool `json:"fixedSpec,omitempty"`
	// OnRequest says that a new cluster is bootstrapped only where a node's disk asks
	// for one (Node.NewCluster): the store may forget what there was.
	OnRequest bool `json:"onRequest,omitempty"`
}

// DefaultPolicy returns the durations used where the operator says nothing.
// The retention times are those of the existing etcd-manager.
func DefaultPolicy() Policy {
	return Policy{
		Grace:           time.Minute,
		BootstrapGrace:  5 * time.Second,
		LearnerTimeout:  10 * time.Minute,
		BackupInterval:  15 * time.Minute,
		BackupFresh:     15 * time.Minute,
		HourlyRetention: 7 * 24 * time.Hour,
		DailyRetention:  2 * 365 * 24 * time.Hour,
		SetAsideKeep:    7 * 24 * time.Hour,
		SetAsideMax:     3,
		MaxClockSkew:    10 * time.Second,
	}
}

// WithDefaults returns p with every zero duration and bound replaced by its
// default.
func (p Policy) WithDefaults() Policy {
	d := DefaultPolicy()
	set := func(v *time.Duration, def time.Duration) {
		if *v == 0 {
			*v = def
		}
	}
	set(&p.Grace, d.Grace)
	set(&p.BootstrapGrace, d.BootstrapGrace)
	set(&p.LearnerTimeout, d.LearnerTimeout)
	set(&p.BackupInterval, d.BackupInterval)
	set(&p.BackupFresh, d.BackupFresh)
	set(&p.HourlyRetention, d.HourlyRetention)
	set(&p.DailyRetention, d.DailyRetention)
	set(&p.SetAsideKeep, d.SetAsideKeep)
	set(&p.MaxClockSkew, d.MaxClockSkew)
	if p.SetAsideMax == 0 {
		p.SetAsideMax = d.SetAsideMax
	}
	return p
}

// Validate reports why no cluster can be what s says.
func (s Spec) Validate() error {
	switch {
	case s.MemberCount < 1:
		return fmt.Errorf("member count is %d, it must be 1 to %d", s.MemberCount, MaxMembers)
	case s.MemberCount > MaxMembers:
		return fmt.Errorf("member count is %d, it must be 1 to %d (every write waits for a majority)", s.MemberCount,
			MaxMembers)
	case s.EtcdVersion == etcdversion.Version{}:
		return fmt.Errorf("etcd version is missing")
	}
	return nil
}

// AcceptsRisk reports why members may change to the version of s despite what is in
// their data. A word for another version does not count: it was left behind.
func (s Spec) AcceptsRisk() (reason string, ok bool) {
	if s.Risk.Reason == "" || s.Risk.Version != s.EtcdVersion {
		return "", false
	}
	return s.Risk.Reason, true
}

// EvenVoters says what is to be known of an even number of voters, "" of an odd one.
func EvenVoters(n int) string {
	if n <= 0 || n%2 == 1 {
		return ""
	}
	return fmt.Sprintf("%d members tolerate no more failures than %d, and need more votes for each write", n, n-1)
}

// Quorum returns how many of n voters make a majority.
func Quorum(n int) int { return n/2 + 1 }
