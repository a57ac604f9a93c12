package retention

import (
	"fmt"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/bytesize"
)

// keepAllAge is the age below which every backup is kept.
const keepAllAge = time.Hour

// LeftoverAge is how old what looks like a broken-off backup must be to be
// deleted: one that is being taken looks the same, and none takes a day.
const LeftoverAge = 24 * time.Hour

// A Policy says how long, and how many, backups are kept.
type Policy struct {
	// Hourly is the age up to which one backup an hour is kept, Daily the age
	// up to which one a day is kept. Zero means the default of
	// [cluster.DefaultPolicy], so that a forgotten field deletes nothing early.
	Hourly, Daily time.Duration
	// MaxCount and MaxBytes limit the backups that are kept by age, and what they
	// take in the store, as far as their size is known. Zero is without limit.
	MaxCount int
	MaxBytes int64
	// ByClock has ages be what the clock says, however few backups there are to
	// show the time. A person may know that the clock is right.
	ByClock bool
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

// A reason is why a backup stays or goes: one byte, so that a verdict about a
// hundred thousand backups allocates no text.
type reason uint8

const (
	unparsable reason = iota
	ahead
	young
	firstOfHour
	firstOfDay
	oldByClock
	newest
	newestGood
	// Those from here on let a backup go.
	notFirstOfHour
	notFirstOfDay
	damagedInHour
	damagedInDay
	tooOld
	overMaxCount
	overMaxBytes
	overMaxCountDamaged
	overMaxBytesDamaged
)

// overDamaged is what makes of the reasons of the limits those of damaged
// backups.
const overDamaged = overMaxCountDamaged - overMaxCount

func (r reason) keep() bool { return r < notFirstOfHour }

// texts returns the texts of the reasons under a policy.
func texts(p Policy) []string {
	backups := "backups"
	if p.MaxCount == 1 {
		backups = "backup"
	}
	count := fmt.Sprintf("over the limit of %d %s", p.MaxCount, backups)
	bytes := "over the limit of " + bytesize.Format(p.MaxBytes)
	return []string{
		unparsable:          "the name has no time, so it is never deleted",
		ahead:               "its time is in the future",
		young:               "younger than an hour",
		firstOfHour:         "the earliest of its hour",
		firstOfDay:          "the earliest of its day",
		oldByClock:          "old by the clock alone: the later backups do not span that many days",
		newest:              "the newest backup",
		newestGood:          "the newest good backup",
		notFirstOfHour:      "not the earliest of its hour",
		notFirstOfDay:       "not the earliest of its day",
		damagedInHour:       "damaged, and its hour has a good one",
		damagedInDay:        "damaged, and its day has a good one",
		tooOld:              "older than the daily retention",
		overMaxCount:        count,
		overMaxBytes:        bytes,
		overMaxCountDamaged: "damaged, and " + count,
		overMaxBytesDamaged: "damaged, and " + bytes,
	}
}

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
// from 1970. It is one number, because it is a key ten thousand times an observation.
type bucket int64

func bucketOf(c class, slot int64) bucket { return bucket(slot<<3 | int64(c)) }

func (b bucket) class() class { return class(b & 7) }

// dated reports whether one backup of the bucket is kept for all.
func (b bucket) dated() bool { return b.class() == hourly || b.class() == daily }

// A parsed backup is what its name says.
type parsed struct {
	unix          int64
	dated, future bool
}

// A judged backup is what the first passes over the backups learn of each.
type judged struct {
	unix   int64
	bucket bucket
	// byClock says that the clock alone would have it be too old.
	byClock bool
}

// Keep returns a verdict for each backup, in the order of the backups, which
// does not matter otherwise. A backup's time is the one in its name. Its age is
// counted along the good backups: of a stretch without any, also of the one from the
// newest until now, a day counts for the hourly retention and eight days for the
// daily one. So a clock that is years ahead ages nothing by years, and where
// backups stop nothing more is deleted.
//
//   - younger than an hour: kept;
//   - younger than the hourly retention: the earliest in each hour of UTC is kept;
//   - younger than the daily retention: the earliest in each day of UTC is kept;
//   - older: removed;
//   - over a limit: of those that are kept so far the damaged ones are removed
//     first, then the oldest, until what is left is within the limits;
//   - from the future, or with a name that cannot be parsed: kept, and not counted;
//   - the newest one that is not from the future, and the newest of those that
//     are not known to be damaged: kept whatever their age and the limits, so that
//     a cluster whose backups stopped long ago does not lose its last good one.
//
// A damaged backup is the earliest of its hour or day only if there is no good
// one in it. Of two backups of the same second the one with the lower name is
// the earlier. But for limits, damage, the last rule and how stretches without
// backups count, these are the rules of the existing etcd-manager.
//
// Pruning what a policy has left prunes nothing more at that time. It takes
// time linear in the backups, and sorts them where there are more than the limits
// allow.
func Keep(policy Policy, now time.Time, backups []cluster.Backup) []Verdict {
	s := sift(policy, now, backups)
	verdicts, text := make([]Verdict, len(backups)), texts(policy)
	for i, b := range backups {
		r := s.reasons[i]
		verdicts[i] = Verdict{Backup: b, Keep: r.keep(), Reason: text[r]}
	}
	return verdicts
}

// Expired returns the backups that [Keep] would not keep, in the order of the
// backups. It is for whoever asks in every observation and needs no reasons.
func Expired(policy Policy, now time.Time, backups []cluster.Backup) []cluster.Backup {
	s := sift(policy, now, backups)
	var expired []cluster.Backup
	for i, b := range backups {
		if !s.reasons[i].keep() {
			expired = append(expired, b)
		}
	}
	return expired
}

// A sieve is what has to be known of all backups to judge one.
type sieve struct {
	all     []judged
	reasons []reason
	// first is the backup that is kept of each hour and day. newest is the last
	// one that is not from the future, newestGood the last of these that is not
	// damaged; -1 for none.
	first              map[bucket]int32
	newest, newestGood int
}

func sift(policy Policy, now time.Time, backups []cluster.Backup) sieve {
	policy = policy.withDefaults()
	n := len(backups)
	s := sieve{all: make([]judged, n), reasons: make([]reason, n), first: make(map[bucket]int32, n/4), newest: -1,
		newestGood: -1}
	all := make([]parsed, n)
	var names reader
	for i, b := range backups {
		all[i] = parse(now, b.Name, &names)
	}
	var counted served
	if !policy.ByClock {
		counted = newServed(now, all, backups)
	}
	for i := range backups {
		s.all[i] = judge(policy, now, all[i], counted)
		s.note(backups, i)
	}
	for i := range backups {
		s.reasons[i] = s.byAge(backups, i)
	}
	s.limit(policy, backups)
	return s
}

// note takes down what backup i is for the others.
func (s *sieve) note(backups []cluster.Backup, i int) {
	earlier := func(i, j int) bool {
		if s.all[i].unix != s.all[j].unix {
			return s.all[i].unix < s.all[j].unix
		}
		return backups[i].Name < backups[j].Name
	}
	in, damaged := s.all[i].bucket, backups[i].Damaged
	if in.class() == unparsed || in.class() == future {
		return
	}
	if in.dated() {
		if j, ok := s.first[in]; !ok || backups[j].Damaged && !damaged || backups[j].Damaged == damaged &&
			earlier(i, int(j)) {
			s.first[in] = int32(i)
		}
	}
	if s.newest < 0 || earlier(s.newest, i) {
		s.newest = i
	}
	if !damaged && (s.newestGood < 0 || earlier(s.newestGood, i)) {
		s.newestGood = i
	}
}

// byAge says what the rules without limits say of backup i.
func (s *sieve) byAge(backups []cluster.Backup, i int) reason {
	in := s.all[i].bucket
	first, spoiled := false, false
	if in.dated() {
		j := s.first[in]
		first = j == int32(i)
		spoiled = backups[i].Damaged && !backups[j].Damaged
	}
	switch r := rule(in.class(), first, spoiled); {
	case r.keep() && in.dated() && s.all[i].byClock:
		return oldByClock
	case r.keep():
		return r
	case i == s.newest:
		return newest
	case i == s.newestGood:
		return newestGood
	default:
		return r
	}
}

// rule says what happens to a backup of an age class that is, or is not, the
// first of its bucket, and that is, or is not, damaged where that is good.
func rule(c class, first, spoiled bool) reason {
	switch {
	case c == unparsed:
		return unparsable
	case c == future:
		return ahead
	case c == recent:
		return young
	case c == hourly && first:
		return firstOfHour
	case c == hourly && spoiled:
		return damagedInHour
	case c == hourly:
		return notFirstOfHour
	case c == daily && first:
		return firstOfDay
	case c == daily && spoiled:
		return damagedInDay
	case c == daily:
		return notFirstOfDay
	}
	return tooOld
}

func parse(now time.Time, name string, r *reader) parsed {
	unix, ok := r.read(name)
	if !ok {
		at, err := ParseName(name)
		if err != nil {
			return parsed{}
		}
		unix = at.Unix()
	}
	return parsed{unix: unix, dated: true, future: now.Before(time.Unix(unix, 0))}
}

func judge(policy Policy, now time.Time, p parsed, counted served) judged {
	switch {
	case !p.dated:
		return judged{}
	case p.future:
		return judged{unix: p.unix, bucket: bucketOf(future, 0)}
	}
	// In seconds: a clock may be further ahead than a Duration reaches.
	age := now.Unix() - p.unix
	forHourly, forDaily := counted.uncounted(p.unix)
	j := judged{unix: p.unix, byClock: age >= seconds(policy.Daily)}
	switch {
	case age < seconds(keepAllAge):
		j.bucket = bucketOf(recent, 0)
	case age-forHourly < seconds(policy.Hourly):
		j.bucket = bucketOf(hourly, slot(p.unix, time.Hour))
	case age-forDaily < seconds(policy.Daily):
		j.bucket = bucketOf(daily, slot(p.unix, day))
	default:
		j.bucket = bucketOf(old, 0)
	}
	return j
}

// slot numbers the stretches of time of a length in UTC: hours and days. It
// rounds down, also before 1970.
func slot(unix int64, length time.Duration) int64 {
	n := unix / seconds(length)
	if unix%seconds(length) < 0 {
		n--
	}
	return n
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
