package etcdconf

import (
	_ "embed" // the table of flags
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/internal/spelling"
)

// flagTable lists the flags that etcd takes, as its parser lists them: which
// it calls "not defined", and which values it calls invalid. It was made with
// 3.4.25, 3.5.35, 3.6.16 and 3.7.3; earlier patches know a few less.
//
//go:embed flags.txt
var flagTable string

// A knownFlag is a line of the table.
type knownFlag struct {
	name string
	kind string
	// first and last are minor versions of etcd 3; last is newest for a flag that
	// is still there.
	first, last int
}

// oldest and newest are the minor versions of etcd 3 that the table knows.
const (
	oldest = 4
	newest = 7
)

// readFlags reads the table. It is a constant, which a test reads too.
func readFlags() []knownFlag {
	minorNumber := func(s string) int {
		n, _ := strconv.Atoi(strings.TrimPrefix(s, "3."))
		return n
	}
	var list []knownFlag
	for line := range strings.Lines(flagTable) {
		f := strings.Fields(line)
		if len(f) != 4 || f[0] == "#" {
			continue
		}
		k := knownFlag{name: f[0], kind: f[1], first: minorNumber(f[2]), last: newest}
		if f[3] != "-" {
			k.last = minorNumber(f[3])
		}
		list = append(list, k)
	}
	return list
}

// flagsOf returns the flags of a minor version by name.
func flagsOf(minor int) map[string]knownFlag {
	flags := map[string]knownFlag{}
	for _, k := range readFlags() {
		if k.first <= minor && minor <= k.last {
			flags[k.name] = k
		}
	}
	return flags
}

// FlagsKnown says whether [CheckFlags] knows the flags of v. It takes a later
// minor version for the newest that it knows, and an earlier one for the
// oldest.
func FlagsKnown(v etcdversion.Version) bool {
	return v.Major == 3 && oldest <= v.Minor && v.Minor <= newest
}

// listed returns the minor version of the table that stands for v.
func listed(v etcdversion.Version) int {
	switch {
	case v.AtLeast(3, newest):
		return newest
	case !v.AtLeast(3, oldest):
		return oldest
	}
	return v.Minor
}

// A FlagError says why an etcd flag cannot be set.
type FlagError struct {
	// Flag has no dashes.
	Flag    string
	Version etcdversion.Version
	// Reason is what is wrong with it, after "--flag".
	Reason string
	// Instead is what to set in its place, as "flag" or "flag=value", or empty.
	Instead string
}

func (e *FlagError) Error() string {
	s := fmt.Sprintf("etcd flag %s %s", e.Flag, e.Reason)
	if e.Instead != "" {
		s += ", use " + e.Instead
	}
	return s
}

// FlagErrors are the flags that cannot be set, by name.
type FlagErrors []*FlagError

func (e FlagErrors) Error() string {
	texts := make([]string, len(e))
	for i, one := range e {
		texts[i] = one.Error()
	}
	return strings.Join(texts, "; ")
}

// CheckFlags returns a [FlagErrors] if flags, which have no dashes, has some
// that etcd of version v does not know, whose value it would not take, or that
// decide a member's identity. etcd does not start with a flag that it does not
// know, and ignores a variable that it does not know: both are not what
// somebody meant.
func CheckFlags(v etcdversion.Version, flags map[string]string) error {
	known := flagsOf(listed(v))
	var wrong FlagErrors
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if e := checkFlag(v, known, name, flags[name]); e != nil {
			wrong = append(wrong, e)
		}
	}
	if len(wrong) > 0 {
		return wrong
	}
	return nil
}

func checkFlag(v etcdversion.Version, known map[string]knownFlag, name, value string) *FlagError {
	e := &FlagError{Flag: name, Version: v}
	switch k, ok := known[name]; {
	case (Member{}).ignores(flagVariable(name)):
		e.Reason = "is part of the member's identity, and is set by etcdadm"
		e.Instead = instead[name]
	case !ok:
		e.Reason, e.Instead = unknown(v, known, name, value)
	default:
		e.Reason = badValue(k.kind, value, listed(v))
	}
	if e.Reason == "" {
		return nil
	}
	return e
}

// instead are the settings that take the place of flags.
var instead = map[string]string{
	"debug":      "log-level=debug",
	"log-output": "log-outputs",
}

// unknown says of a flag that v does not have since when or until when etcd
// has it, and what to set in its place.
func unknown(v etcdversion.Version, known map[string]knownFlag, name, value string) (reason, use string) {
	reason = fmt.Sprintf("is not known to etcd %s", v)
	if v.AtLeast(3, newest+1) {
		reason = fmt.Sprintf("is not known to etcd 3.%d, the latest version whose flags etcdadm knows", newest)
	}
	var names []string
	for _, k := range readFlags() {
		names = append(names, k.name)
		if k.name != name {
			continue
		}
		reason = fmt.Sprintf("is not known to etcd %s (it came with 3.%d)", v, k.first)
		if k.last < listed(v) {
			reason = fmt.Sprintf("is gone from etcd %s (3.%d was the last with it)", v, k.last)
		}
	}
	plain, old := strings.CutPrefix(name, "experimental-")
	gate := gateOf[flagVariable(name)]
	_, gates := known["feature-gates"]
	has := func(name string) bool { _, ok := known[name]; return ok }
	switch {
	case old && gate != "" && gates:
		return reason, "feature-gates=" + gate + "=" + value
	case old && has(plain):
		return reason, plain
	case has("experimental-" + name):
		return reason, "experimental-" + name
	case name == "feature-gates":
		return reason, gatesAsFlags(known, value)
	case instead[name] != "":
		return reason, instead[name]
	case !slices.Contains(names, name):
		return reason, spelling.Nearest(name, slices.Sorted(maps.Keys(known)))
	}
	return reason, ""
}

// gatesAsFlags writes feature gates as the flags that they were before.
func gatesAsFlags(known map[string]knownFlag, value string) string {
	var out []string
	for _, word := range nonEmpty(strings.Split(value, ",")) {
		gate, state, _ := strings.Cut(word, "=")
		for _, variable := range slices.Sorted(maps.Keys(gateOf)) {
			flag := flagName(variable)
			if _, ok := known[flag]; ok && gateOf[variable] == gate {
				out = append(out, flag+"="+state)
			}
		}
	}
	return strings.Join(out, " and ")
}

// badValue says why a flag cannot have a value, "" if it can. An empty value is
// none.
func badValue(kind, value string, minor int) string {
	if value == "" {
		return ""
	}
	var err error
	want := ""
	switch kind {
	case "bool":
		_, err = strconv.ParseBool(value)
		want = "true or false"
	case "duration":
		_, err = time.ParseDuration(value)
		want = "a duration, as 1m30s"
	case "int":
		_, err = strconv.ParseInt(value, 0, 64)
		want = "a whole number"
	case "uint":
		_, err = strconv.ParseUint(value, 0, 64)
		want = "a whole number from 0"
	case "urls":
		err = checkURLs("URL", nonEmpty(strings.Split(value, ",")))
		want = "a list of URLs such as https://10.0.0.1:2379"
	case "gates":
		return badGates(value, minor)
	}
	if err != nil {
		return fmt.Sprintf("is %q, not %s", value, want)
	}
	return ""
}

// gatesSince are the feature gates, with the minor version from which on there
// are.
var gatesSince = map[string]int{
	"AllAlpha":                     6,
	"AllBeta":                      6,
	"CompactHashCheck":             6,
	"FastLeaseKeepAlive":           7,
	"InitialCorruptCheck":          6,
	"LeaseCheckpoint":              6,
	"LeaseCheckpointPersist":       6,
	"PriorityRequest":              7,
	"SetMemberLocalAddr":           6,
	"StopGRPCServiceOnDefrag":      6,
	"TxnModeWriteWithSharedBuffer": 6,
}

func badGates(value string, minor int) string {
	for _, word := range nonEmpty(strings.Split(value, ",")) {
		gate, state, _ := strings.Cut(word, "=")
		if _, err := strconv.ParseBool(state); err != nil {
			return fmt.Sprintf("has %q, which is not of the form Gate=true", word)
		}
		if since, ok := gatesSince[gate]; !ok || since > minor {
			return fmt.Sprintf("has the gate %s, which etcd 3.%d does not have", gate, minor)
		}
	}
	return ""
}

// FlagsEnv returns flags of etcd, without dashes, as variables for
// [Member.User]: snapshot-count as ETCD_SNAPSHOT_COUNT.
func FlagsEnv(flags map[string]string) map[string]string {
	env := make(map[string]string, len(flags))
	for name, value := range flags {
		env[flagVariable(name)] = value
	}
	return env
}

// flagVariable is the variable from which etcd reads a flag.
func flagVariable(name string) string {
	return "ETCD_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}
