package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// versionsOf reads versions, of which "-" is one that is not known.
func versionsOf(text string) (list []etcdversion.Version) {
	for v := range strings.FieldsSeq(text) {
		if v == "-" {
			list = append(list, etcdversion.Version{})
		} else {
			list = append(list, etcdversion.Must(v))
		}
	}
	return list
}

// What is found in data is reported before the version that does not stand it, with what to do.
func TestHazardsAhead(t *testing.T) {
	all := func(state HazardState) (list []Hazard) {
		for _, h := range NoHazards() {
			list = append(list, Hazard{Kind: h.Kind, State: state})
		}
		return list
	}
	for _, c := range []struct {
		list []Hazard
		runs string
		want string
	}{
		{nil, "3.5.21", ""},
		{NoHazards(), "3.5.21", ""},
		{all(HazardPending), "3.5.21", ""},
		{all(HazardPresent), "3.4.35", ""},
		{all(HazardPresent), "3.5.21", "v2-content members v2-log"},
		{all(HazardUnknown), "3.5.21", "v2-content members v2-log"},
		{[]Hazard{{Kind: HazardV2Log, State: HazardAbsent}}, "3.5.21", "v2-content members"},
		{all(HazardPresent), "3.6.5", "members"},
		{all(HazardPresent), "3.7.0", ""},
	} {
		var found []string
		for _, h := range HazardsAhead(c.list, etcdversion.Must(c.runs)) {
			found = append(found, string(h.Kind))
		}
		if got := strings.Join(found, " "); got != c.want {
			t.Errorf("%v of %s: %q, want %q", c.list, c.runs, got, c.want)
		}
	}
}

func TestWhatToDoAboutAHazard(t *testing.T) {
	const check, force, start = "etcdadm upgrade check", "etcdadm member force-snapshot", "init with --version does"
	for _, c := range []struct {
		hazard      Hazard
		to          string
		fix, byHand string
	}{
		{Hazard{Kind: HazardMembers, State: HazardUnknown}, "3.6.0", check, check},
		{Hazard{Kind: HazardMembers, State: HazardPending}, "3.6.0", "3.5.32", "3.5.32"},
		{Hazard{Kind: HazardV2Log, State: HazardPresent}, "3.6.0", force, start},
		{Hazard{Kind: HazardOldLog, State: HazardPresent}, "3.7.0", force, start},
		{Hazard{Kind: HazardV2Content, State: HazardPresent, Deleted: true}, "3.6.0", force, start},
		{Hazard{Kind: HazardV2Content, State: HazardPresent}, "3.6.0", "etcdctl rm", "etcdctl rm"},
		{Hazard{Kind: HazardMembers, State: HazardPresent}, "3.6.0", "run 3.5.32 or a later patch", "it repairs the list"},
		{Hazard{Kind: HazardMembers, State: HazardPresent}, "3.7.0", "join again with an empty", "join again with an empty"},
	} {
		to := etcdversion.Must(c.to)
		if fix := c.hazard.Fix(to); !strings.Contains(fix, c.fix) {
			t.Errorf("%s before %s: %s", c.hazard, to, fix)
		}
		if fix := c.hazard.FixByHand(to); !strings.Contains(fix, c.byHand) {
			t.Errorf("%s before %s, by hand: %s", c.hazard, to, fix)
		}
	}
}

// A restore needs a tool of a version that reads the snapshot and raises its revision.
func TestVersionsOfARestore(t *testing.T) {
	for has, want := range map[string]string{
		"": "-", "3.5.9": "-", "3.4.35 3.6.5": "-", "3.5.10": "3.5.10", "3.5.21 3.5.10 3.5.9 3.6.0": "3.5.21", "2.5.30": "-",
	} {
		if got := Raiser(versionsOf(has)); got != versionsOf(want)[0] {
			t.Errorf("of %q the revision is raised by %s, want %s", has, got, want)
		}
	}
	for _, c := range []struct {
		v, of string
		reads bool
	}{
		{"3.6.0", "3.6.5", true}, {"3.6.0", "3.5.9", true}, {"3.7.0", "3.4.35", true}, {"3.5.0", "3.6.0", false},
		{"3.4.35", "3.5.9", true}, {"3.4.35", "3.6.0", false}, {"4.0.0", "3.6.0", false}, {"3.6.0", "2.3.8", false},
	} {
		if got := Reads(etcdversion.Must(c.v), etcdversion.Must(c.of)); got != c.reads {
			t.Errorf("%s restores a snapshot of %s: %t", c.v, c.of, got)
		}
	}
}

// Only etcd 3.5 hides whether a downgrade is enabled, and only from others that know of them.
func TestHiddenDowngrades(t *testing.T) {
	for runs, want := range map[string]bool{
		"": false, "-": false, "3.5.21": true, "3.5.21 -": true, "3.6.5": false, "3.6.5 3.5.21 3.7.0": true,
		"3.5.21 3.4.35": false, "3.4.35": false,
	} {
		if got := HidesDowngrade(versionsOf(runs)...); got != want {
			t.Errorf("%q: %t, want %t", runs, got, want)
		}
	}
}

// The version of the data is the later one of both that a member reports.
func TestDataVersion(t *testing.T) {
	for _, c := range []struct{ cluster, storage, want string }{
		{"-", "-", "-"}, {"-", "3.6.0", "-"}, {"3.5.0", "-", "3.5.0"}, {"3.5.0", "3.6.0", "3.6.0"},
		{"3.6.0", "3.6.0", "3.6.0"}, {"3.6.0", "3.5.0", "3.6.0"},
	} {
		r := Report{Cluster: versionsOf(c.cluster)[0], Storage: versionsOf(c.storage)[0]}
		if got := r.DataVersion(); got != versionsOf(c.want)[0] {
			t.Errorf("cluster %s, storage %s: %s, want %s", c.cluster, c.storage, got, c.want)
		}
	}
}

// A risk is accepted for one version, in a line that fits into a command line.
func TestVersionRisk(t *testing.T) {
	v := etcdversion.Must("3.6.5")
	for name, c := range map[string]struct {
		risk VersionRisk
		ok   bool
	}{
		"no risk":      {VersionRisk{}, true},
		"a risk":       {VersionRisk{v, "we have a backup"}, true},
		"the longest":  {VersionRisk{v, strings.Repeat("x", maxReason)}, true},
		"too long":     {VersionRisk{v, strings.Repeat("x", maxReason+1)}, false},
		"no version":   {VersionRisk{Reason: "we have a backup"}, false},
		"no reason":    {VersionRisk{Version: v}, false},
		"a blank one":  {VersionRisk{v, " \t"}, false},
		"two lines":    {VersionRisk{v, "a\nb"}, false},
		"no character": {VersionRisk{v, "a\x00"}, false},
	} {
		if err := c.risk.Validate(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := Spec{EtcdVersion: v, Risk: VersionRisk{v, "why"}}
	if reason, ok := s.AcceptsRisk(); !ok || reason != "why" {
		t.Errorf("it is accepted: %t, %q", ok, reason)
	}
	for name, s := range map[string]Spec{
		"none": {EtcdVersion: v}, "another version": {EtcdVersion: etcdversion.Must("3.6.6"), Risk: VersionRisk{v, "why"}},
	} {
		if reason, ok := s.AcceptsRisk(); ok {
			t.Errorf("%s: %q", name, reason)
		}
	}
}

// Clients are kept away for the oldest restore alone, until an incarnation is restored for it.
func TestSealedRequest(t *testing.T) {
	sealed := Request{Name: "r1", Kind: RequestRestore, Sealed: true}
	plain := Request{Name: "r0", Kind: RequestRestore}
	backup := Request{Name: "b", Kind: RequestBackup}
	done := func(name string) []Incarnation { return []Incarnation{{Restored: &Restored{Request: name}}, {}} }
	for name, c := range map[string]struct {
		requests []Request
		records  []Incarnation
		want     string
	}{
		"none":                    {nil, nil, ""},
		"sealed":                  {[]Request{backup, sealed}, done("other"), "r1"},
		"not sealed":              {[]Request{plain}, nil, ""},
		"behind one that is not":  {[]Request{plain, sealed}, nil, ""},
		"behind one that is done": {[]Request{plain, sealed}, done("r0"), "r1"},
		"done":                    {[]Request{sealed}, done("r1"), ""},
	} {
		got := ""
		if r := (Observation{Store: Store{Requests: c.requests, Incarnations: c.records}}).SealedRequest(); r != nil {
			got = r.Name
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A majority that is gone for good cannot be waited for.
func TestLostVoters(t *testing.T) {
	names := func(text string) (list []NodeName) {
		for n := range strings.FieldsSeq(text) {
			list = append(list, NodeName(n))
		}
		return list
	}
	for _, c := range []struct {
		voters, gone string
		lost         bool
	}{
		{"", "", false}, {"", "a", false}, {"a", "", false}, {"a", "a", true}, {"a b", "a", true}, {"a b c", "a", false},
		{"a b c", "a b", true}, {"a b c", "x y", false}, {"a b c d", "a b", true}, {"a b c d e", "a b x", false},
	} {
		if got := Lost(names(c.voters), names(c.gone)); got != c.lost {
			t.Errorf("%q without %q: %t", c.voters, c.gone, got)
		}
	}
}

// A trial of a backup verifies it too.
func TestWhenBackupsWereInspected(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		backups           []Backup
		verified, drilled time.Time
	}{
		{nil, time.Time{}, time.Time{}},
		{[]Backup{{Verified: at(3)}, {Verified: at(2)}, {}}, at(3), time.Time{}},
		{[]Backup{{Verified: at(3)}, {Drilled: at(2)}}, at(3), at(2)},
		{[]Backup{{Verified: at(3)}, {Drilled: at(5)}, {Drilled: at(4)}}, at(5), at(5)},
	} {
		verified, drilled := Store{Backups: c.backups}.Inspected()
		if !verified.Equal(c.verified) || !drilled.Equal(c.drilled) {
			t.Errorf("%v: verified %s, drilled %s", c.backups, verified, drilled)
		}
	}
}

// What a member answers is not all that counts: a corrupt one never serves, and a hung disk
// explains why one is unreachable.
func TestWhatOutweighsAnAnswer(t *testing.T) {
	fine := func() *Report { return &Report{Leader: 1, Read: ReadServed, Applied: 9} }
	corrupt, leaderless, apart := fine(), fine(), fine()
	corrupt.Alarms, leaderless.Leader, apart.Leader = []string{AlarmCorrupt}, 0, 2
	pending := func(d time.Duration) Storage { return Storage{State: StorageGood, Pending: d} }
	hung, failing := Storage{State: StorageHung}, Storage{State: StorageFailing, Problem: "EIO"}
	started := Member{Name: "a", ClientURLs: []string{"http://a"}}
	for name, c := range map[string]struct {
		member   Member
		evidence Evidence
		want     Condition
		healthy  bool
	}{
		"fine":                       {started, Evidence{Report: fine()}, Serving, true},
		"corrupt":                    {started, Evidence{Report: corrupt}, Corrupt, false},
		"corrupt, on a hung disk":    {started, Evidence{Report: corrupt, Storage: hung}, Corrupt, false},
		"a hung disk":                {started, Evidence{Report: fine(), Storage: hung}, Hung, false},
		"a failing disk":             {started, Evidence{Report: fine(), Storage: failing}, Hung, false},
		"no leader":                  {started, Evidence{Report: leaderless}, Apart, false},
		"another leader":             {started, Evidence{Report: apart}, Apart, false},
		"a write for a second":       {started, Evidence{Report: fine(), Storage: pending(time.Second)}, Late, true},
		"one that is just begun":     {started, Evidence{Report: fine(), Storage: pending(time.Second - 1)}, Serving, true},
		"a slow disk":                {started, Evidence{Report: fine(), Storage: Storage{State: StorageSlow}}, Slow, true},
		"unreachable":                {started, Evidence{}, Down, false},
		"unreachable on a hung disk": {started, Evidence{Storage: hung}, Hung, false},
		"unreachable for a reason":   {started, Evidence{NoReport: &NoReport{Text: "why"}}, Down, false},
		"never started":              {Member{}, Evidence{Storage: hung}, Unstarted, false},
		"a learner that started":     {Member{Name: "a", Learner: true}, Evidence{}, Down, false},
	} {
		c.evidence.Leader = 1
		m := c.member
		m.Judge(c.evidence)
		if m.Condition != c.want || m.Healthy != c.healthy || (m.Why == "") != (c.want == Serving) {
			t.Errorf("%s: %s (%s), healthy %t", name, m.Condition, m.Why, m.Healthy)
		}
	}
}

func TestPortOfTheMetrics(t *testing.T) {
	const last = 65535 - metricsOffset
	for grpc, want := range map[int]int{0: 0, 3996: 3996 + metricsOffset, last: 65535, last + 1: 0} {
		if got := DefaultMetricsPort(grpc); got != want {
			t.Errorf("beside %d: %d, want %d", grpc, got, want)
		}
	}
}
