//go:build e2e

package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// The Debian package on a machine: installing it starts nothing, its unit runs a cluster with
// the flags of its file, an upgrade restarts nothing and keeps the file, and removing it
// leaves the daemon, its etcd, the data and the keys as they are. The timer of by-hand
// machines is one that systemd takes.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	m := Start(t, 1)[0]
	out := filepath.Join(t.TempDir(), "dist")
	build := exec.CommandContext(t.Context(), "go", "run", "./hack/dist", "-version=v1.2.3", "-formats=deb",
		"-arch="+runtime.GOARCH, "-output="+out)
	build.Dir = "../.."
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	file := filepath.Join(out, "etcdadm_1.2.3-1_"+runtime.GOARCH+".deb")
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	m.Copy(file, "/root/etcdadm.deb")
	m.Do("rm /usr/local/bin/etc*; dpkg -i /root/etcdadm.deb") // those that all machines of the tests have
	contains(t, "the program", m.Do("etcd-manager version; etcdadm --version"), "etcd-manager v1.2.3", "version v1.2.3")
	m.Do("systemd-analyze verify etcd-manager.service etcd-backup.service etcdadm-certs-renew.timer")
	for _, unit := range []string{"etcd-manager.service", "etcd-backup.service", "etcdadm-certs-renew.timer"} {
		m.Do("! systemctl is-enabled -q " + unit + "; test $(systemctl is-active " + unit + ") = inactive")
	}

	say(t, "the timer renews what ends soon")
	m.Do("etcdadm init phase certificates --name=a --bind-address=" + m.IP + " --cert-lifetime=100h")
	m.Do("systemctl enable --now etcdadm-certs-renew.timer; systemctl start etcdadm-certs-renew.service")
	m.Do("etcdadm certs check-expiration --within=300d")
	contains(t, "the timers", m.Do("systemctl list-timers --no-pager"), "etcdadm-certs-renew.timer")
	m.Do("systemctl disable --now etcdadm-certs-renew.timer; rm -r /etc/etcd")

	say(t, "a daemon with flags of the file, and a store with keys where the unit expects them")
	m.Do("mkdir -p /mnt/etcd-store /opt/etcd-v" + newer + "; tar xzf /var/cache/etcdadm/etcd/v" + newer +
		"/*.tar.gz -C /opt/etcd-v" + newer + " --strip-components=1")
	m.Do("etcdadm seed file:///mnt/etcd-store version=" + newer + " nodes=1")
	m.Do("etcdadm auto pki --pki-dir=/etc/kubernetes/pki/etcd-manager")
	flags := `ETCD_MANAGER_FLAGS="--cluster-name=etcd --backup-store=file:///mnt/etcd-store \` + "\n" +
		`  --data-dir=/var/lib/etcd-manager --node-name=` + m.Name + ` --address=` + m.IP + "\"\n"
	m.Write("/etc/default/etcd-manager", flags, 0o644)
	m.Do("systemctl enable --now etcd-manager")
	m.Await(soon, managed("put k v"))
	pid := m.Do("pgrep -x etcd")

	say(t, "an upgrade")
	m.Do("dpkg-deb -R /root/etcdadm.deb /root/p; sed -i 's/^Version: .*/Version: 1.2.4-1/' /root/p/DEBIAN/control; " +
		"dpkg-deb --root-owner-group -Znone -b /root/p /root/next.deb; dpkg -i /root/next.deb </dev/null")
	if got := m.Read("/etc/default/etcd-manager"); got != flags {
		t.Errorf("the file of the flags is %s", got)
	}
	runs := func() {
		t.Helper()
		if now := m.Do("pgrep -x etcd"); now != pid {
			t.Errorf("etcd is process %s, and was %s", now, pid)
		}
		m.Do(managed("get k --print-value-only") + " | grep -q v")
	}
	runs()

	say(t, "removing, with the daemon running")
	m.Do("dpkg -r etcdadm; ! command -v etcd-manager")
	runs()
	m.Do("dpkg -P etcdadm; test -d /var/lib/etcd-manager; test -f /etc/kubernetes/pki/etcd-manager/etcd-peers-ca.key")
	runs()

	say(t, "and back again")
	m.Do("dpkg -i /root/etcdadm.deb")
	m.Write("/etc/default/etcd-manager", flags, 0o644)
	m.Do("systemctl restart etcd-manager")
	m.Await(soon, managed("get k --print-value-only")+" | grep -q v")
}
