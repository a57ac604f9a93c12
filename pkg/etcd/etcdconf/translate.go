package etcdconf

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A setting is a variable of etcd, or a feature gate, with its value.
type setting struct{ key, gate, value string }

// translate returns a user's variable as version v takes it: under the name that it has
// there, or as the feature gate that it became, and back. Without an equivalent it stays
// as it is.
func translate(v etcdversion.Version, key, value string) []setting {
	known := flagsOf(listed(v))
	_, gates := known["feature-gates"]
	if key == featureGates && !gates {
		return gatesAsVariables(known, value)
	}
	if gate := gateOf[key]; gate != "" && gates {
		return []setting{{gate: gate, value: value}}
	}
	name := flagName(key)
	plain, old := strings.CutPrefix(key, experimental)
	switch _, ok := known[name]; {
	case minorOf(v).renamed && old:
		return []setting{{key: "ETCD_" + plain, value: value}}
	case ok:
	case old && has(known, flagName("ETCD_"+plain)):
		return []setting{{key: "ETCD_" + plain, value: value}}
	case has(known, "experimental-"+name):
		return []setting{{key: flagVariable("experimental-" + name), value: value}}
	case name == "log-output":
		return []setting{{key: "ETCD_LOG_OUTPUTS", value: value}}
	case name == "debug" && isTrue(value):
		return []setting{{key: "ETCD_LOG_LEVEL", value: "debug"}}
	}
	return []setting{{key: key, value: value}}
}

// gatesAsVariables writes feature gates as the variables that they were before. Those
// that were none are left out.
func gatesAsVariables(known map[string]knownFlag, value string) (list []setting) {
	for _, word := range nonEmpty(strings.Split(value, ",")) {
		gate, state, _ := strings.Cut(word, "=")
		for _, variable := range slices.Sorted(maps.Keys(gateOf)) {
			if gateOf[variable] == gate && has(known, flagName(variable)) {
				list = append(list, setting{key: variable, value: state})
			}
		}
	}
	return list
}

func has(known map[string]knownFlag, name string) bool {
	_, ok := known[name]
	return ok
}

// flagName is the flag whose variable it is: that of etcd without ETCD_.
func flagName(variable string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, "ETCD_"), "_", "-"))
}

func isTrue(value string) bool {
	on, err := strconv.ParseBool(value)
	return err == nil && on
}

// Lost returns what user, variables as [User] picks them, says to a member of version
// from and cannot say to one of version to, one text for each: etcd would go on without it,
// which it does without a word, or not start. What had no effect before is not lost, nor what
// is switched off.
func Lost(user map[string]string, from, to etcdversion.Version) (lost []string) {
	for _, key := range slices.Sorted(maps.Keys(user)) {
		value := user[key]
		if !forEtcd(key) || (Member{}).ignores(key) || value == "" || !effective(from, key, value) {
			continue
		}
		if why := lostOf(to, key, value); why != "" {
			lost = append(lost, fmt.Sprintf("%s=%s %s", key, value, why))
		}
	}
	return lost
}

// effective reports whether a version does something for a variable.
func effective(v etcdversion.Version, key, value string) bool {
	known := flagsOf(listed(v))
	return slices.ContainsFunc(translate(v, key, value), func(t setting) bool {
		return t.gate != "" || has(known, flagName(t.key))
	})
}

// proxies are the flags of the v2 proxy. A member has no use for them.
const proxies = "proxy-"

// lostOf says why a version has nothing for what a variable says, empty where it can.
func lostOf(to etcdversion.Version, key, value string) string {
	known := flagsOf(listed(to))
	if _, gates := known["feature-gates"]; key == featureGates && !gates {
		return lostGates(known, to, value)
	}
	t := translate(to, key, value)[0]
	name := flagName(t.key)
	f, ok := known[name]
	off, err := strconv.ParseBool(value)
	switch {
	case t.gate != "":
		if since, ok := gatesSince[t.gate]; !ok || since > listed(to) {
			return fmt.Sprintf("is the gate %s, which etcd %s does not have", t.gate, to)
		}
		return badValue("bool", t.value, listed(to))
	case ok:
		return badValue(f.kind, t.value, listed(to))
	case err == nil && !off, strings.HasPrefix(name, proxies):
		return ""
	}
	why, _ := unknown(to, known, flagName(key), value)
	return why
}

// lostGates says which feature gates that are on have no variable in a version that has
// no gates.
func lostGates(known map[string]knownFlag, to etcdversion.Version, value string) string {
	var gone []string
	for _, word := range nonEmpty(strings.Split(value, ",")) {
		if _, state, _ := strings.Cut(word, "="); isTrue(state) && len(gatesAsVariables(known, word)) == 0 {
			gone = append(gone, word)
		}
	}
	if len(gone) == 0 {
		return ""
	}
	return fmt.Sprintf("has %s, which etcd %s does not have", strings.Join(gone, ", "), to)
}
