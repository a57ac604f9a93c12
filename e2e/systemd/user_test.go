//go:build e2e

package systemd

import (
	"strings"
	"testing"
)

// etcd runs as a user that may do nothing else, with what the operator adds to
// its environment, on machines that only speak IPv6.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	machines := Start(t, 2)
	m1 := machines[0]
	odd := `O'Dd "x" $HOME 100% \ ünd #1`
	for _, m := range machines {
		m.Do("adduser --system --group --home /nonexistent --no-create-home etcd")
		m.Write("/root/flags", "--user etcd --group etcd "+
			"--disk-priorities=Nice=-7,IOSchedulingClass=best-effort,IOSchedulingPriority=1\n", 0o600)
	}
	flags := []string{
		"$(cat /root/flags)", "--quota-backend-bytes=1Gi", "--etcd-flag=snapshot-count=5000",
		"--etcd-env='" + strings.ReplaceAll("ODD="+odd, "'", `'\''`) + "'",
	}
	form(t, machines, newer, flags...)
	checkUnprivileged(t, m1)
	environment := m1.Do("tr '\\0' '\\n' </proc/" + pid(m1) + "/environ")
	contains(t, "the environment of etcd", environment+"\n", "\nODD="+odd+"\n", "ETCD_QUOTA_BACKEND_BYTES=1073741824\n",
		"ETCD_SNAPSHOT_COUNT=5000\n", "ETCD_NAME=m1\n")

	say(t, "renew, and reboot")
	m1.Do("etcdadm certs renew all")
	awaitHealthy(t, machines...)
	checkUnprivileged(t, m1)
	m1.Reboot()
	awaitHealthy(t, machines...)
	checkUnprivileged(t, m1)
}

func checkUnprivileged(t *testing.T, m *Machine) {
	t.Helper()
	contains(t, m.Name, m.Do(protection), "user etcd\n", "CapBnd:\t0000000000000000", "CapEff:\t0000000000000000",
		"NoNewPrivs:\t1", "Seccomp:\t2",
		"write elsewhere: Read-only file system\n", "write data: yes\n")
	contains(t, m.Name, m.Do(
		"systemctl show etcd.service -p ProtectSystem,NoNewPrivileges,User,Group,LimitNOFILE,OOMScoreAdjust,Nice,Restart"),
		"ProtectSystem=strict", "NoNewPrivileges=yes", "User=etcd\n", "Group=etcd\n", "LimitNOFILE=65536",
		"OOMScoreAdjust=-997", "Nice=-7", "Restart=on-failure")
	m.Do(`test "$(stat -c '%U %G %a' /var/lib/etcd)" = 'etcd etcd 700'
test -z "$(find /var/lib/etcd ! -user etcd)"
test $(stat -c %a /etc/etcd/etcd.env) = 600
test "$(stat -c %U /etc/etcd/pki/ca.key)" = root
setpriv --reuid=etcd --regid=etcd --clear-groups test -r /etc/etcd/pki/server.key`)
	m.Do("! setpriv --reuid=etcd --regid=etcd --clear-groups test -r /etc/etcd/pki/ca.key")
	m.Do("! setpriv --reuid=nobody --clear-groups test -r /etc/etcd/pki/server.key")
}

// All addresses are of IPv6.
func TestClusterOverIPv6(t *testing.T) {
	t.Parallel()
	machines := Start(t, 2)
	m1, m2 := machines[0], machines[1]
	if m1.IP6 == "" {
		t.Skip("this host has no IPv6")
	}
	m1.Do("etcdadm init --bind-address " + m1.IP6 + " --version " + newer)
	m1.Give(m2, "/etc/etcd/pki/ca.crt", "/etc/etcd/pki/ca.key")
	m2.Do("etcdadm join https://[" + m1.IP6 + "]:2379 --bind-address " + m2.IP6 + " --version " + newer)
	awaitHealthy(t, m1, m2)
	for _, m := range machines {
		e := members(t, m1)[m.Name]
		if len(e.PeerURLs) != 1 || e.PeerURLs[0] != "https://["+m.IP6+"]:2380" || e.IsLearner {
			t.Errorf("%s is %+v", m.Name, e)
		}
	}
	m2.Do("etcdadm reset")
	m2.Do(gone)
	if n := len(members(t, m1)); n != 1 {
		t.Errorf("%d members are left", n)
	}
}
