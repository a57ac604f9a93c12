//go:build e2e

package systemd

import (
	"fmt"
	"testing"
	"time"
)

// The power goes while a machine joins. The same command again ends what was
// begun, wherever it was.
func TestPowerCutWhileJoining(t *testing.T) {
	t.Parallel()
	machines := Start(t, 2)
	m1, m2 := machines[0], machines[1]
	form(t, machines[:1], newer)
	put(m1, "k", "v")
	m1.Give(m2, "/etc/etcd/pki/ca.crt", "/etc/etcd/pki/ca.key")
	join := "etcdadm join " + url(m1) + " --version " + newer
	for _, after := range []time.Duration{300, 500, 700, 1500} {
		cut := after * time.Millisecond
		m2.Do("(" + join + " >/root/join.log 2>&1; echo ended >>/root/join.log) </dev/null >/dev/null 2>&1 &")
		time.Sleep(cut)
		m2.Kill()
		m2.Boot()
		say(t, "cut after %v: member %v, binaries %v, unit %v", cut, len(members(t, m1)),
			m2.Run(t.Context(), "test -x /opt/bin/etcd").Code == 0,
			m2.Run(t.Context(), "test -e /etc/systemd/system/etcd.service").Code == 0)
		m2.Do(join)
		awaitHealthy(t, m1, m2)
		checkMembers(t, m1, m1, m2)
		if got := get(m2, "k"); got != "v" {
			t.Errorf("after the cut m2 has %q", got)
		}
		m2.Do("etcdadm reset")
		m2.Do(gone)
		checkMembers(t, m1, m1)
	}
}

// A machine dies, its member is removed from another one, and then it is back
// with its old data.
func TestADeadMachineIsRemovedAndComesBack(t *testing.T) {
	t.Parallel()
	machines := Start(t, 3)
	m1, m2, m3 := machines[0], machines[1], machines[2]
	form(t, machines, newer)
	m3.Kill()
	say(t, "remove m3")
	begin(t, machines).each(block(t, "docs/etcdadm.md", "## Members", 1, 3), m1)
	checkMembers(t, m1, m1, m2)
	put(m1, "k", "v")
	say(t, "m3 is back")
	m3.Boot()
	// etcd ends by itself when it learns that it was removed.
	m3.Await(soon, `systemctl show -P SubState etcd.service | grep -vx running`)
	join := "etcdadm join " + url(m1) + " --version " + newer
	contains(t, "the refusal", m3.Fails(join).Stderr, "--set-aside-data")
	m3.Do(join + " --set-aside-data")
	awaitHealthy(t, machines...)
	checkMembers(t, m3, machines...)
	if got := get(m3, "k"); got != "v" {
		t.Errorf("m3 has %q", got)
	}
	m3.Do("find /var/lib -path '*/member/snap/db' | grep -v ^/var/lib/etcd/member/")

	say(t, "without a quorum nothing is taken away")
	m2.Kill()
	m3.Kill()
	m1.Await(soon, "! "+client+"--command-timeout=2s get k")
	m1.Fails("etcdadm reset --membership-timeout 5s")
	m1.Do("systemctl is-enabled etcd.service; test -d /var/lib/etcd/member; test -e /etc/etcd/etcd.env")
	m2.Boot()
	m2.Await(soon, client+"get k")
}

// mountUnit makes the data directory a file system of its own.
const mountUnit = `[Unit]
Description=etcd's disk
[Mount]
What=/root/disk
Where=/var/lib/etcd
Type=none
Options=bind
[Install]
WantedBy=multi-user.target
`

// The data is on a disk of its own, which cannot be renamed, and which may be
// missing one day.
func TestDataOnADiskOfItsOwn(t *testing.T) {
	t.Parallel()
	machines := Start(t, 2)
	m1, m2 := machines[0], machines[1]
	form(t, machines[:1], newer)
	m1.Give(m2, "/etc/etcd/pki/ca.crt", "/etc/etcd/pki/ca.key")
	m2.Write("/etc/systemd/system/var-lib-etcd.mount", mountUnit, 0o644)
	m2.Do("mkdir /root/disk; systemctl daemon-reload; systemctl --quiet enable --now var-lib-etcd.mount; mkdir " +
		"/var/lib/etcd/lost+found")
	join := "etcdadm join " + url(m1) + " --version " + newer
	m2.Do(join)
	awaitHealthy(t, m1, m2)
	m2.Do("test -d /root/disk/member")

	say(t, "a boot without the disk")
	m2.Do("sed -i.good -e 's,^What=.*,What=/dev/none,' -e 's,^Type=.*,Type=ext4,' -e /^Options/d " +
		"/etc/systemd/system/var-lib-etcd.mount")
	m2.Reboot()
	m2.Do("! mountpoint -q /var/lib/etcd")
	m2.Do("test -z \"$(ls /var/lib/etcd)\"; ! systemctl is-active --quiet etcd.service")
	m2.Fails(join + " --membership-timeout 5s")
	m2.Do("test -z \"$(ls /var/lib/etcd)\"")
	say(t, "the disk is back")
	m2.Do("cd /etc/systemd/system; mv var-lib-etcd.mount.good var-lib-etcd.mount; systemctl daemon-reload; systemctl " +
		"start var-lib-etcd.mount etcd.service")
	m2.Do(join)
	awaitHealthy(t, m1, m2)

	say(t, "reset")
	m2.Do("etcdadm reset")
	m2.Do(gone)
	m2.Do("mountpoint /var/lib/etcd; test -d '/var/lib/etcd/lost+found'; find /root/disk -path '*member/snap/db' | grep .")
	m2.Do(join)
	awaitHealthy(t, m1, m2)
	checkMembers(t, m1, m1, m2)
}

// Every phase is a process of its own, as bootstrap scripts run them.
func TestPhasesOneByOne(t *testing.T) {
	t.Parallel()
	machines := Start(t, 2)
	m1, m2 := machines[0], machines[1]
	phase := func(m *Machine, action, name, endpoint string) {
		m.t.Helper()
		m.Do(fmt.Sprintf("etcdadm %s phase %s %s --version %s --init-system systemd", action, name, endpoint, newer))
	}
	for _, p := range []string{
		"install", "certificates", "snapshot", "configure", "start", "etcdctl", "health", "renewal",
		"post-init-instructions",
	} {
		phase(m1, "init", p, "")
	}
	m1.Give(m2, "/etc/etcd/pki/ca.crt", "/etc/etcd/pki/ca.key")
	for _, p := range []string{
		"stop", "certificates", "membership", "install", "configure", "start", "etcdctl", "health", "renewal",
	} {
		phase(m2, "join", p, url(m1))
	}
	awaitHealthy(t, m1, m2)
	checkMembers(t, m2, m1, m2)
}
