//go:build e2e

package systemd

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The Debian package on a machine: installing it starts nothing, its unit runs a cluster with
// the flags of its file, an upgrade restarts nothing and keeps the file, and removing it
// leaves the daemon, its etcd, the data and the keys as they are. The timer of by-hand
// machines is one that systemd takes.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	machines := Start(t, 1)
	m := machines[0]
	u := begin(t, machines, "_amd64.deb", "_"+runtime.GOARCH+".deb", "-member-count=3", "-member-count=1")
	out := filepath.Join(t.TempDir(), "dist")
	build := exec.CommandContext(t.Context(), "go", "run", "./hack/dist", "-version=v0.1.0", "-formats=deb",
		"-arch="+runtime.GOARCH, "-output="+out)
	build.Dir = "../.."
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	const file = "/root/etcdadm.deb"
	name := "etcdadm_0.1.0-1_" + runtime.GOARCH + ".deb"
	m.Copy(filepath.Join(out, name), file)
	m.Copy(filepath.Join(out, name), "/root/"+name)
	m.Copy(filepath.Join(out, "SHA256SUMS"), "/root/SHA256SUMS")
	m.Do("rm /usr/local/bin/etc*") // those that all machines of the tests have
	for line := range strings.Lines(block(t, "docs/install.md", "## Archives and packages", 1, 2)) {
		if strings.HasPrefix(line, "sha256sum ") || strings.HasPrefix(line, "apt ") {
			u.each(line, m)
		}
	}
	contains(t, "the program", m.Do("etcd-manager version; etcdadm --version"), "etcd-manager v0.1.0", "version v0.1.0")
	m.Do("systemd-analyze verify etcd-manager.service etcd-backup.service etcdadm-certs-renew.timer")
	for _, unit := range []string{"etcd-manager.service", "etcd-backup.service", "etcdadm-certs-renew.timer"} {
		m.Do("test $(systemctl is-active " + unit + ") = inactive; ! systemctl is-enabled -q " + unit)
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
	u.each(blocks(t, "README.md", "## Three machines by etcd-manager")[0], m)
	flags := `ETCD_MANAGER_FLAGS="--cluster-name=etcd --backup-store=file:///mnt/etcd-store \` + "\n" +
		`  --data-dir=/var/lib/etcd-manager --node-name=` + m.Name + ` --address=` + m.IP + "\"\n"
	for line := range strings.Lines(block(t, "docs/install.md", "### The daemon", 0, 2)) {
		if file, ok := strings.CutPrefix(strings.Fields(line)[0]+" "+strings.Fields(line)[1], "editor "); ok {
			contains(t, "the example", m.Read(file), "ETCD_MANAGER_FLAGS=")
			m.Write(file, flags, 0o644)
			continue
		}
		u.each(line, m)
	}
	m.Await(soon, managed("put k v"))
	pid := m.Do("pgrep -x etcd")

	say(t, "an upgrade")
	m.Do("dpkg-deb -R " + file + " /root/p; sed -i 's/^Version: .*/Version: 0.1.1-1/' /root/p/DEBIAN/control; " +
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
	m.Do("dpkg -i " + file)
	m.Write("/etc/default/etcd-manager", flags, 0o644)
	m.Do("systemctl restart etcd-manager")
	m.Await(soon, managed("get k --print-value-only")+" | grep -q v")
}
