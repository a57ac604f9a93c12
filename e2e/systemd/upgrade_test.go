//go:build e2e

package systemd

import (
	"strconv"
	"strings"
	"testing"
)

// writer writes numbers until it is asked to stop, and counts those that were
// acknowledged.
const writer = `rm -f /root/stop; (
n=0
while [ ! -e /root/stop ]; do
  n=$((n + 1))
  /opt/bin/etcdctl.sh --endpoints=@ENDPOINTS@ --command-timeout=20s put /writer/$n $n >/dev/null 2>&1 && echo $n >>/root/acknowledged
  sleep 0.05
done
touch /root/stopped
) </dev/null >/dev/null 2>&1 &`

// The workaround of the retired etcdadm for upgrades: join again, with the newer
// version, on one machine after the other.
func TestUpgradeByJoiningAgain(t *testing.T) {
	t.Parallel()
	machines := Start(t, 3)
	form(t, machines, older)
	m1 := machines[0]
	var endpoints []string
	for _, m := range machines {
		endpoints = append(endpoints, url(m))
	}
	m1.Do(strings.ReplaceAll(writer, "@ENDPOINTS@", strings.Join(endpoints, ",")))
	ids := members(t, m1)

	for i, m := range machines {
		say(t, "upgrade %s", m.Name)
		other := machines[(i+1)%len(machines)]
		m.Do("etcdadm join " + url(other) + " --version " + newer)
		if got := runs(m); got != newer {
			t.Errorf("%s runs etcd %s", m.Name, got)
		}
	}
	awaitHealthy(t, machines...)
	m1.Do("touch /root/stop")
	m1.Await(soon, "test -e /root/stopped")
	for _, m := range machines {
		m.Do("/opt/bin/etcd --version | grep -F " + newer + "; /opt/bin/etcdutl version | grep -F " + newer)
	}
	checkMembers(t, m1, machines...)
	for name, e := range members(t, m1) {
		if e.ID != ids[name].ID {
			t.Errorf("%s became another member", name)
		}
	}
	kept := strings.Fields(m1.Do(client + "get --prefix --print-value-only /writer/"))
	acknowledged := strings.Fields(m1.Do("cat /root/acknowledged"))
	have := map[string]bool{}
	for _, n := range kept {
		have[n] = true
	}
	for _, n := range acknowledged {
		if !have[n] {
			t.Errorf("write %s was acknowledged and is lost", n)
		}
	}
	last, _ := strconv.Atoi(acknowledged[len(acknowledged)-1])
	t.Logf("%d of %d writes were acknowledged", len(acknowledged), last)
	if len(acknowledged) < last*9/10 {
		t.Errorf("of %d writes only %d were acknowledged", last, len(acknowledged))
	}
	say(t, "no way back, and not two steps at once")
	r := m1.Fails("etcdadm join " + url(machines[1]) + " --version " + older)
	contains(t, "the refusal", r.Stderr, "older than the cluster's 3.6", "downgrade enable")
	if got := runs(m1); got != newer {
		t.Errorf("m1 runs etcd %s", got)
	}
}
