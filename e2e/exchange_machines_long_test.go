//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/e2e/standin"
)

// machineExchange is an exchange as kops does it: no container is made again on a machine,
// the machine is replaced by another one, with another address, which attaches the volume.
type machineExchange struct {
	*exchange
	machines []*harness.Machine
}

func newMachineExchange(t *testing.T) *machineExchange {
	t.Helper()
	c, machines := podMachines(t, harness.KopsMain, "a", "b", "c")
	x := &machineExchange{&exchange{t: t, c: c, ping: 250 * time.Millisecond, records: 1}, machines}
	c.SetSpec(3, v36)
	for _, m := range machines {
		x.nodes = append(x.nodes, m.Node)
		x.theirs(m)
	}
	x.serve(slices.Clone(kopsVoters)...)
	return x
}

func (x *machineExchange) args() []string {
	return harness.KopsMain.AWSArgs(x.c, "--discovery-poll-interval=2s")
}

// theirs starts the stand-in on a machine, as kops up to 1.34 starts the existing one.
func (x *machineExchange) theirs(m *harness.Machine) {
	x.t.Helper()
	program, err := os.Executable()
	if err != nil {
		x.t.Fatal(err)
	}
	m.PodOther(program, standin.Variable+"="+x.ping.String(), x.args()...)
}

// ours starts the daemon.
func (x *machineExchange) ours(m *harness.Machine) {
	x.t.Helper()
	x.started = time.Now()
	m.Pod(x.args()...)
}

// replace has another machine take the place of one, and waits until all members serve, are
// those that they were, and are called and found by the right names. It returns how long the
// member needed from the start of its daemon.
func (x *machineExchange) replace(m *harness.Machine, start func(*harness.Machine)) time.Duration {
	x.t.Helper()
	old := m.Address
	m.ReplaceInstance()
	if m.Address == old {
		x.t.Fatalf("the address of %s is %s as before", m.Name, old)
	}
	began, said := time.Now(), m.LogSize()
	start(m)
	x.c.WaitNames(harness.Soon, slices.Clone(kopsVoters)...)
	served := time.Since(began)
	// One that cannot resolve its peers at its start tries again after five seconds.
	if began.Before(x.started) && strings.Contains(m.Said(said), "lookup etcd-") {
		x.t.Errorf("the member of %s did not find the names of its peers at first", m.Name)
	}
	x.unchanged()
	x.named(m)
	return served
}

// named holds etcd's record, the certificates of a machine that is new, and all hosts files
// to where the machines are.
func (x *machineExchange) named(m *harness.Machine) {
	x.t.Helper()
	for _, member := range members(x.t, x.c) {
		host := "https://" + member.Name + "." + harness.KopsDomain
		if !slices.Equal(member.PeerURLs, []string{host + ":2380"}) ||
			!slices.Equal(member.ClientURLs, []string{host + ":4001"}) {
			x.t.Errorf("etcd has %v and %v of %s", member.PeerURLs, member.ClientURLs, member.Name)
		}
	}
	pairs, err := filepath.Glob(filepath.Join(m.DataDir(), "pki/*/*/*.key"))
	if err != nil || len(pairs) != 2 {
		x.t.Fatalf("the keys of %s are %v, %v", m.Name, pairs, err)
	}
	for _, key := range pairs {
		names := []string{m.Name, m.Host, "127.0.0.1", "::1"}
		if filepath.Base(key) == "me.key" {
			names = append(names, m.Address)
		}
		namesAre(x.t, strings.TrimSuffix(key, ".key")+".crt", names...)
	}
	want := map[string]string{}
	for _, n := range x.nodes {
		want[n.Host] = n.Address
	}
	for _, other := range x.machines {
		eventually(x.t, x.c, "the hosts file of "+other.Name, func() error {
			got, err := hostsOf(other.Hosts())
			if err == nil && !maps.Equal(got, want) {
				err = fmt.Errorf("it has %v, want %v", got, want)
			}
			return err
		})
	}
}

// hostsOf returns the addresses of the members in a hosts file, by name. A name that is there
// twice has both.
func hostsOf(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	hosts := map[string]string{}
	for line := range strings.Lines(string(b)) {
		address, names, _ := strings.Cut(strings.TrimSpace(line), "\t")
		for name := range strings.FieldsSeq(names) {
			if strings.HasSuffix(name, harness.KopsDomain) {
				hosts[name] = strings.TrimSpace(hosts[name] + " " + address)
			}
		}
	}
	return hosts, err
}

// Machines of the existing etcd-manager are replaced one by one, as kops does in a rolling
// update, by machines with other addresses that attach the same volumes and run this one;
// then one of these by another one, and all by machines with the existing one. What was
// acknowledged is there, and the members stay those that they were.
func TestMachinesAreReplaced(t *testing.T) {
	t.Parallel()
	x := newMachineExchange(t)
	load := x.c.Load(2 * time.Millisecond)
	load.WaitMore(harness.Soon, 200)
	replace := func(what string, start func(*harness.Machine), m *harness.Machine) {
		measured := load.Measure()
		role := x.role(m.Node)
		served := x.replace(m, start)
		load.WaitMore(harness.Soon, 200)
		measured(fmt.Sprintf("%s, %s (%s), which serves after %.1f s", what, m.Name, role, served.Seconds()))
	}
	for i, m := range x.machines {
		replace("from the existing one to this one", x.ours, m)
		if i < 2 {
			x.c.WaitHold(harness.Soon, "existing-daemon")
			x.undecided()
		}
	}
	x.takenOver()
	replace("this one, replaced", x.ours, x.machines[1])
	x.takenOver()
	before := x.backups()
	for _, m := range slices.Backward(x.machines) {
		replace("back to the existing one", x.theirs, m)
	}
	x.nextBackup(before)
	load.WaitMore(harness.Soon, 200)
}
