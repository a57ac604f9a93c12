//go:build e2e

package systemd

import (
	"strings"
	"testing"
)

// The unit of manifests/etcd-backup, as it is, backs up the etcd beside them,
// whoever that runs as; and all that is lost comes back from one of the backups.
func TestEtcdBackupAsAService(t *testing.T) {
	t.Parallel()
	m := Start(t, 1)[0]
	m.Do("adduser --system --group --home /nonexistent --no-create-home etcd")
	form(t, []*Machine{m}, newer, "--user etcd --group etcd")
	put(m, "k", "saved")

	m.Copy("../../manifests/etcd-backup/etcd-backup.service", "/etc/systemd/system/etcd-backup.service")
	m.Do("chown -R root: /etc/systemd/system")
	m.Do("systemd-analyze verify /etc/systemd/system/etcd-backup.service")
	m.Do("systemctl enable --now etcd-backup")
	const verified = "cd /var/lib/etcd-backup && ls -d */_etcd_backup.meta && ls */_etcdadm_verified.json"
	m.Await(soon, verified)
	contains(t, "the metrics", m.Do("curl -sf http://127.0.0.1:2391/metrics; curl -sf http://127.0.0.1:2391/healthz"),
		"etcd_backup_healthy 1\n", "etcd_backup_taken_total 1\n", "etcd_backup_age_seconds ")
	m.Do("test $(stat -c %a /var/lib/etcd-backup) = 700")

	say(t, "a reboot, and a shorter interval")
	m.Do("sed -i s/--interval=15m/--interval=10s/ /etc/systemd/system/etcd-backup.service")
	m.Reboot()
	awaitHealthy(t, m)
	m.Await(soon, "cd /var/lib/etcd-backup && test $(ls -d */_etcd_backup.meta | wc -l) -ge 3")
	m.Do("systemctl stop etcd-backup")
	contains(t, "the service", m.Do("systemctl show etcd-backup -p Result,ExecMainStatus,NRestarts"), "Result=success",
		"ExecMainStatus=0", "NRestarts=0")
	if left := m.Do("find /var/lib/etcd-backup/control -mindepth 2"); left != "" {
		t.Errorf("of the claims there are left:\n%s", left)
	}

	say(t, "all is lost but the backups and the CA")
	newest := m.Do("cd /var/lib/etcd-backup && ls -d */_etcd_backup.meta | sort | tail -1 | xargs dirname")
	if strings.Contains(newest, "/") || newest == "" {
		t.Fatalf("the newest backup is %q", newest)
	}
	m.Do("cp /etc/etcd/pki/ca.* /root; etcdadm reset --skip-remove-member; mkdir -p /etc/etcd/pki; cp /root/ca.* " +
		"/etc/etcd/pki")
	flags := " --user etcd --group etcd --version " + newer
	m.Do("etcdadm init phase install" + flags + "; etcdadm init phase certificates" + flags +
		"; etcdadm init phase configure" + flags)
	m.Do("etcdadm snapshot restore file:///var/lib/etcd-backup/" + newest)
	m.Do("etcdadm init" + flags)
	awaitHealthy(t, m)
	if got := get(m, "k"); got != "saved" {
		t.Errorf("%s has %q", newest, got)
	}
	m.Do("test -z \"$(find /var/lib/etcd ! -user etcd)\"")
}
