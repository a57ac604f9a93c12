//go:build e2e

package systemd

import (
	"strings"
	"testing"
)

// gone is what a machine must look like after a reset.
const gone = `
test ! -e /etc/systemd/system/etcd.service
test ! -e /etc/systemd/system/etcdadm-certs-renew.service
test ! -e /etc/systemd/system/etcdadm-certs-renew.timer
test ! -e /etc/systemd/system/timers.target.wants/etcdadm-certs-renew.timer
test "$(systemctl show -P ActiveState etcdadm-certs-renew.timer)" = inactive
test ! -e /etc/etcd/etcd.env
test ! -e /etc/etcd/etcdctl.env
test ! -e /var/lib/etcd/member
test ! -e /opt/bin/etcd
test ! -e /etc/etcd/pki/server.key
test -e /etc/etcd/pki/ca.key
test "$(systemctl show -P LoadState etcd.service)" = not-found
test "$(systemctl show -P ActiveState etcd.service)" = inactive
! pgrep -x etcd`

// A machine leaves its cluster and comes back, whatever state its etcd is in.
func TestResetAndRejoin(t *testing.T) {
	t.Parallel()
	machines := Start(t, 3)
	m1, m2, m3 := machines[0], machines[1], machines[2]
	form(t, machines, newer)
	put(m1, "k", "v")

	say(t, "reset m3")
	old := members(t, m1)["m3"].ID
	m3.Do("etcdadm reset")
	m3.Do(gone)
	checkMembers(t, m1, m1, m2)
	if aside := m3.Do("ls -d /var/lib/etcd*"); !strings.Contains(aside, "/var/lib/etcd") {
		t.Errorf("the data is gone: %s", aside)
	}
	m3.Do("find /var/lib -path '*/member/snap/db' | grep .")
	m3.Do("etcdadm reset") // nothing is left to do
	m3.Reboot()
	m3.Do(gone)

	say(t, "rejoin m3")
	m3.Do("etcdadm join " + url(m2) + " --version " + newer)
	awaitHealthy(t, machines...)
	checkMembers(t, m3, machines...)
	if id := members(t, m1)["m3"].ID; id == old {
		t.Errorf("m3 came back as the same member %d", id)
	}
	if got := get(m3, "k"); got != "v" {
		t.Errorf("m3 has %q", got)
	}

	say(t, "reset m2, whose etcd crashes again and again")
	m2.Do("echo ETCD_LISTEN_CLIENT_URLS=nonsense >>/etc/etcd/etcd.env; systemctl restart etcd.service || true")
	m2.Await(soon, `test "$(systemctl show -P SubState etcd.service)" = auto-restart`)
	m2.Do("etcdadm reset")
	m2.Do(gone)
	m2.Do("sleep 6; ! pgrep -x etcd") // RestartSec is 5s
	checkMembers(t, m1, m1, m3)

	say(t, "rejoin m2 under a unit of its own making")
	m2.Do("etcdadm join " + url(m1) + "," + url(m3) + " --version " + newer)
	awaitHealthy(t, machines...)
	checkMembers(t, m1, machines...)
}

// Without its data a machine does not start again as the member that it was.
func TestAMemberThatLostItsDataIsNotStarted(t *testing.T) {
	t.Parallel()
	machines := Start(t, 3)
	m1, m3 := machines[0], machines[2]
	form(t, machines, newer)
	put(m1, "k", "v")
	m3.Do("systemctl stop etcd.service; rm -rf /var/lib/etcd/*")
	r := m3.Fails("etcdadm join " + url(m1) + " --version " + newer)
	contains(t, "the refusal", r.Stderr, "--replace-member")
	m3.Do("test ! -e /var/lib/etcd/member; ! systemctl is-active --quiet etcd.service")
	u := begin(t, machines)
	const page, heading, of = "docs/etcdadm.md", "## Members", 3
	u.each(block(t, page, heading, 2, of), m3)
	awaitHealthy(t, machines...)
	checkMembers(t, m3, machines...)
	if got := get(m3, "k"); got != "v" {
		t.Errorf("m3 has %q", got)
	}

	say(t, "init does not bootstrap a second cluster over the data")
	before := pid(m3)
	m3.Fails("etcdadm init --version " + newer + " --name other")
	if got := get(m3, "k"); got != "v" || pid(m3) != before {
		t.Errorf("after the refused init m3 has %q", got)
	}

	say(t, "it leaves")
	u.each(block(t, page, heading, 0, of), m3)
	m3.Do(gone)
	checkMembers(t, m1, machines[:2]...)
}
