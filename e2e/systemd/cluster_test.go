//go:build e2e

package systemd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	older = "3.5.35"
	newer = "3.6.16"
	// soon is for what a healthy cluster does in a few seconds.
	soon = 3 * time.Minute
)

// client is etcdctl as an operator runs it on a machine.
const client = "/opt/bin/etcdctl.sh "

// removes is a script that removes a member, also where it was removed already and the
// answer was lost.
func removes(etcdctl, id string) string {
	return fmt.Sprintf(`%[1]smember remove %[2]s || { list=$(%[1]smember list) && ! echo "$list" | grep -F %[2]s; }`, etcdctl,
		id)
}

// form makes one cluster of the machines, with commands by hand.
func form(t *testing.T, machines []*Machine, version string, flags ...string) {
	t.Helper()
	for i, m := range machines {
		command := "etcdadm init"
		if i > 0 {
			machines[0].Give(m, "/etc/etcd/pki/ca.crt", "/etc/etcd/pki/ca.key")
			command = "etcdadm join " + url(machines[0])
		}
		m.Do(command + " --version " + version + " " + strings.Join(flags, " "))
	}
	say(t, "a cluster of %d with etcd %s", len(machines), version)
	awaitHealthy(t, machines...)
}

func url(m *Machine) string { return "https://" + m.IP + ":2379" }

// A member is an entry of the member list.
type member struct {
	ID         uint64
	Name       string
	PeerURLs   []string
	ClientURLs []string
	IsLearner  bool
}

// members returns the list as a machine's etcd has it, by name.
func members(t *testing.T, m *Machine) map[string]member {
	t.Helper()
	var list struct{ Members []member }
	if err := json.Unmarshal([]byte(m.Do(client+"member list -w json")), &list); err != nil {
		t.Fatal(err)
	}
	byName := map[string]member{}
	for _, e := range list.Members {
		byName[e.Name] = e
	}
	return byName
}

// checkMembers expects exactly these machines as voters, each at its own URL.
func checkMembers(t *testing.T, asked *Machine, want ...*Machine) {
	t.Helper()
	list := members(t, asked)
	for _, m := range want {
		e, ok := list[m.Name]
		if !ok || e.IsLearner || !slices.Equal(e.PeerURLs, []string{"https://" + m.IP + ":2380"}) ||
			!slices.Equal(e.ClientURLs, []string{url(m)}) {
			t.Errorf("%s is in the member list of %s as %+v", m.Name, asked.Name, e)
		}
	}
	if len(list) != len(want) {
		t.Errorf("%s has %d members instead of %d: %+v", asked.Name, len(list), len(want), list)
	}
}

// awaitHealthy waits until each machine says that all members are well.
func awaitHealthy(t *testing.T, machines ...*Machine) {
	t.Helper()
	for _, m := range machines {
		m.Await(soon, client+"endpoint health --cluster")
	}
}

// put writes a key through a machine, and get reads it.
func put(m *Machine, key, value string) { m.t.Helper(); m.Do(client + "put " + key + " " + value) }

func get(m *Machine, key string) string {
	m.t.Helper()
	return m.Do(client + "get --print-value-only " + key)
}

// pid returns the process of etcd.
func pid(m *Machine) string {
	m.t.Helper()
	return m.Do("systemctl show -P MainPID etcd.service")
}

// runs returns the version that a machine's etcd runs.
func runs(m *Machine) string {
	m.t.Helper()
	out := m.Do(client + "endpoint status -w json")
	var status []struct{ Status struct{ Version string } }
	if err := json.Unmarshal([]byte(out), &status); err != nil || len(status) != 1 {
		m.t.Fatalf("%s: %v in %s", m.Name, err, out)
	}
	return status[0].Status.Version
}

// contains reports each text that got does not have.
func contains(t *testing.T, what, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s has no %q:\n%s", what, w, got)
		}
	}
}
