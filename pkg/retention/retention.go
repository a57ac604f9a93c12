package retention

import (
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// keepAll is the age below which every backup is kept.
const keepAll = time.Hour

// A Policy says how long backups are kept.
type Policy struct {
	// Hourly is the age up to which one backup an hour is kept, Daily the age
	// up to which one a day is kept. Zero means the default of
	// [cluster.DefaultPolicy], so that a forgotten field deletes nothing early.
	Hourly, Daily time.Duration
}

func (p Policy) withDefaults() Policy {
	d := cluster.DefaultPolicy()
	if p.Hourly == 0 {
		p.Hourly = d.HourlyRetention
	}
	if p.Daily == 0 {
		p.Daily = d.DailyRetention
	}
	return p
}

// A Verdict is what the policy says about one backup, and why.
type Verdict struct {
	Backup cluster.Backup
	Keep   bool
	Reason string
}

// The reasons of verdicts. They are constants so that a verdict about ten
// thousand backups allocates no text.
const (
	reasonUnparsed = "the name has no time, so it is not ours to delete"
	reasonFuture   = "its time is in the future"
	reasonRecent   = "younger than an hour"
	reasonHour     = "the earliest of its hour"
	reasonDay      = "the earliest of its day"
	reasonNewest   = "the newest backup"
	reasonNotHour  = "not the earliest of its hour"
	reasonNotDay   = "not the earliest of its day"
	reasonOld      = "older than the daily retention"
)

// An age class is the range of the policy that a backup's age falls into.
type class uint8

const (
	unparsed class = iota
	future
	recent
	hourly
	daily
	old
)

// A bucket is an age class and, of the hourly and daily ones, the stretch of
// time of which the earliest backup is kept: an hour or a day of UTC, counted
// from 1970. It is one number, because it is a key ten thousand times a look.
type bucket int64

func bucketOf(c class, slot int64) bucket { return bucket(slot<<3 | int64(c)) }

func (b bucket) class() class { return class(b & 7) }

// dated reports whether one backup of the bucket is kept for all.
func (b bucket) dated() bool { return b.class() == hourly || b.class() == daily }

// A judged backup is what the first pass over the backups learns of each.
type judged struct {
	unix   int64
	bucket bucket
}

// Keep returns a verdict for each backup, in the order of the backups, which
// does not matter otherwise. A backup's time is the one in its name.
//
//   - younger than an hour: kept;
//   - younger than the hourly retention: the earliest in each hour of UTC is kept;
//   - younger than the daily retention: the earliest in each day of UTC is kept;
//   - older: removed;
//   - from the future, or with a name that cannot be parsed: kept;
//   - the newest one that is not from the future: kept whatever its age, so that
//     a cluster whose backups stopped long ago does not lose its last one.
//
// Of two backups of the same second the one with the lower name is the
// earlier. These are the rules of the existing etcd-manager, but for the last,
// so two programs on one store agree. It takes time linear in the backups.
func Keep(policy Policy, now time.Time, backups []cluster.Backup) []Verdict {
	s := sift(policy, now, backups)
	verdicts := make([]Verdict, len(backups))
	for i, b := range backups {
		keep, reason := s.verdict(i)
		verdicts[i] = Verdict{Backup: b, Keep: keep, Reason: reason}
	}
	return verdicts
}

// Expired returns the backups that [Keep] would not keep, in the order of the
// backups. It is for whoever asks in every look and needs no reasons.
func Expired(policy Policy, now time.Time, backups []cluster.Backup) []cluster.Backup {
	s := sift(policy, now, backups)
	var expired []cluster.Backup
	for i, b := range backups {
		if keep, _ := s.verdict(i); !keep {
			expired = append(expired, b)
		}
	}
	return expired
}

// A sieve is what has to be known of all backups to judge one.
type sieve struct {
	all []judged
	// earliest is the first backup of each hour and day, newest the last one that
	// is not from the future, -1 for none.
	earliest map[bucket]int32
	newest   int
}

func sift(policy Policy, now time.Time, backups []cluster.Backup) sieve {
	policy = policy.withDefaults()
	s := sieve{all: make([]judged, len(backups)), earliest: make(map[bucket]int32, len(backups)/4), newest: -1}
	earlier := func(i, j int) bool {
		if s.all[i].unix != s.all[j].unix {
			return s.all[i].unix < s.all[j].unix
		}
		return backups[i].Name < backups[j].Name
	}
	var names reader
	for i, b := range backups {
		s.all[i] = judge(policy, now, b.Name, &names)
		in := s.all[i].bucket
		if in.class() == unparsed || in.class() == future {
			continue
		}
		if in.dated() {
			if j, ok := s.earliest[in]; !ok || earlier(i, int(j)) {
				s.earliest[in] = int32(i)
			}
		}
		if s.newest < 0 || earlier(s.newest, i) {
			s.newest = i
		}
	}
	return s
}

func (s sieve) verdict(i int) (keep bool, reason string) {
	in := s.all[i].bucket
	first := false
	if in.dated() {
		first = s.earliest[in] == int32(i)
	}
	keep, reason = rule(in.class(), first)
	if !keep && i == s.newest {
		return true, reasonNewest
	}
	return keep, reason
}

// rule says what happens to a backup of an age class that is, or is not, the
// earliest of its bucket.
func rule(c class, earliest bool) (keep bool, reason string) {
	switch {
	case c == unparsed:
		return true, reasonUnparsed
	case c == future:
		return true, reasonFuture
	case c == recent:
		return true, reasonRecent
	case c == hourly && earliest:
		return true, reasonHour
	case c == hourly:
		return false, reasonNotHour
	case c == daily && earliest:
		return true, reasonDay
	case c == daily:
		return false, reasonNotDay
	}
	return false, reasonOld
}

func judge(policy Policy, now time.Time, name string, r *reader) judged {
	unix, ok := r.read(name)
	if !ok {
		at, err := ParseName(name)
		if err != nil {
			return judged{}
		}
		unix = at.Unix()
	}
	switch age := now.Sub(time.Unix(unix, 0)); {
	case age < 0:
		return judged{unix, bucketOf(future, 0)}
	case age < keepAll:
		return judged{unix, bucketOf(recent, 0)}
	case age < policy.Hourly:
		return judged{unix, bucketOf(hourly, slot(unix, time.Hour))}
	case age < policy.Daily:
		return judged{unix, bucketOf(daily, slot(unix, day))}
	}
	return judged{unix, bucketOf(old, 0)}
}

// slot numbers the stretches of time of a length in UTC: hours and days. It
// rounds down, also before 1970.
func slot(unix int64, length time.Duration) int64 {
	seconds := int64(length / time.Second)
	n := unix / seconds
	if unix%seconds < 0 {
		n--
	}
	return n
}
