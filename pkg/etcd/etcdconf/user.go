package etcdconf

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

const (
	featureGates = "ETCD_FEATURE_GATES"
	experimental = "ETCD_EXPERIMENTAL_"
)

// refused are the variables that decide who a member is, where its data is,
// and whether it is a member at all. An operator who set one of them would
// have the automation check something else than what runs.
var refused = []string{
	"ETCD_NAME",
	"ETCD_DATA_DIR",
	// Data that is moved aside must take its log along.
	"ETCD_WAL_DIR",
	"ETCD_INITIAL_CLUSTER",
	"ETCD_INITIAL_CLUSTER_STATE",
	"ETCD_INITIAL_CLUSTER_TOKEN",
	"ETCD_INITIAL_ADVERTISE_PEER_URLS",
	"ETCD_FORCE_NEW_CLUSTER",
	"ETCD_STRICT_RECONFIG_CHECK",
	// With a file, etcd reads no other variable.
	"ETCD_CONFIG_FILE",
	// The v2 proxy of 3.4 and 3.5 is not a member.
	"ETCD_PROXY",
}

// closed are the variables that would let clients in to a quarantined member.
// ETCD_LISTEN_CLIENT_HTTP_URLS is among them because etcd serves its JSON
// gateway there, with which keys are read and written.
var closed = []string{
	"ETCD_ADVERTISE_CLIENT_URLS",
	"ETCD_LISTEN_CLIENT_HTTP_URLS",
	"ETCD_LISTEN_CLIENT_URLS",
}

// User picks the variables meant for etcd out of an environment in the form of
// os.Environ: ETCD_*, without ETCD_MANAGER_*, which are the daemon's own.
func User(environ []string) map[string]string {
	vars := map[string]string{}
	for _, line := range environ {
		if k, v, ok := strings.Cut(line, "="); ok && forEtcd(k) {
			vars[k] = v
		}
	}
	return vars
}

func forEtcd(key string) bool {
	return strings.HasPrefix(key, "ETCD_") && !strings.HasPrefix(key, "ETCD_MANAGER_")
}

// Ignored returns the names of m's user variables that [Env] leaves out,
// sorted: those that decide a member's identity, its place of data or its
// membership, and, while m is quarantined, those that would let clients in.
// Variables that are not etcd's are left out too, and not named.
func Ignored(m Member) []string {
	var names []string
	for _, k := range slices.Sorted(maps.Keys(m.User)) {
		if forEtcd(k) && m.ignores(k) {
			names = append(names, k)
		}
	}
	return names
}

func (m Member) ignores(key string) bool {
	// What is not allowed under its name must not come in under one that is
	// translated to it.
	if rest, ok := strings.CutPrefix(key, experimental); ok {
		key = "ETCD_" + rest
	}
	return slices.Contains(refused, key) ||
		strings.HasPrefix(key, "ETCD_DISCOVERY") ||
		m.Quarantined && slices.Contains(closed, key)
}

// overlay puts the options of m's minor version and then the user's variables
// over env. A user's empty value is none, as it is for etcd.
func (m Member) overlay(env map[string]string) error {
	row := minorOf(m.Version)
	if m.Uncompared {
		// The comparison is all that a row switches on.
		row.env, row.gates = nil, nil
	}
	maps.Copy(env, row.env)
	gates := map[string]string{}
	for _, g := range row.gates {
		gates[g] = "true"
	}
	// The experimental names go first: where an option is given under its old
	// and its new name, the new one wins.
	for _, old := range []bool{true, false} {
		for _, k := range slices.Sorted(maps.Keys(m.User)) {
			if !forEtcd(k) || m.ignores(k) || m.User[k] == "" || strings.HasPrefix(k, experimental) != old {
				continue
			}
			if err := set(m.Version, env, gates, k, m.User[k]); err != nil {
				return fmt.Errorf("etcd environment of %s: %w", m.Name, err)
			}
		}
	}
	if len(gates) > 0 {
		var words []string
		for _, g := range slices.Sorted(maps.Keys(gates)) {
			words = append(words, g+"="+gates[g])
		}
		env[featureGates] = join(words)
	}
	return nil
}

// set carries one user variable over, under the name that version v knows.
func set(v etcdversion.Version, env, gates map[string]string, key, value string) error {
	for _, t := range translate(v, key, value) {
		switch {
		case t.key == featureGates:
			if err := addGates(gates, t.value); err != nil {
				return err
			}
		case t.gate != "":
			on, err := strconv.ParseBool(t.value)
			if err != nil {
				return fmt.Errorf("%s=%s is neither true nor false", key, value)
			}
			gates[t.gate] = strconv.FormatBool(on)
		default:
			env[t.key] = t.value
		}
	}
	return nil
}

// addGates reads a user's ETCD_FEATURE_GATES; gates that it does not name keep
// their value.
func addGates(gates map[string]string, value string) error {
	for _, word := range nonEmpty(strings.Split(value, ",")) {
		gate, state, ok := strings.Cut(word, "=")
		if !ok {
			return fmt.Errorf("%s: %q is not of the form Gate=true", featureGates, word)
		}
		gates[gate] = state
	}
	return nil
}
