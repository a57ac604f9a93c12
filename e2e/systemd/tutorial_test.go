//go:build e2e

package systemd

import (
	"strings"
	"testing"
)

// Machines by hand, as the README and the guide describe it: each line of the pages is run as it
// stands there.
func TestTutorialByHand(t *testing.T) {
	t.Parallel()
	machines := Start(t, 3)
	u := begin(t, machines)
	a := machines[0]
	list := blocks(t, "README.md", "## Three machines by hand")
	if len(list) != 1 {
		t.Fatalf("README has %d blocks", len(list))
	}
	contains(t, "status", u.each(list[0], a), "leader", "voter", "m1", "m2", "m3")
	awaitHealthy(t, machines...)

	say(t, "the guide, after a reset of all")
	for _, m := range machines {
		m.Do("etcdadm reset --skip-remove-member; rm -rf /etc/etcd")
	}
	list = blocks(t, "docs/etcdadm.md", "## Three machines and ssh")
	if len(list) < 4 {
		t.Fatalf("the guide has %d blocks", len(list))
	}
	said := u.each(list[0], a)
	want := strings.Split(strings.TrimSpace(strings.NewReplacer(u.texts...).Replace(list[1])), "\n")
	contains(t, "what init says", said, want...)
	u.texts = append(u.texts, "root@"+a.IP, "root@m1")
	for _, m := range machines[1:] {
		u.each(list[2], m)
	}
	contains(t, "the members", u.each(list[3], machines[2]), "m1", "m2", "m3", "started")
	awaitHealthy(t, machines...)

	kubeadmPage(t, u, machines[1])
	guidePages(t, u, machines[1])

	say(t, "what comes later")
	put(a, "k", "v")
	list = blocks(t, "docs/by-hand.md", "# By hand: three machines and ssh")
	if len(list) != 2 {
		t.Fatalf("the page by hand has %d blocks", len(list))
	}
	for line := range strings.Lines(list[1]) {
		switch {
		case strings.HasPrefix(line, "etcdadm join"): // this version is the newest that the machines have
			line = strings.Replace(line, "3.6.17", newer, 1)
		case strings.HasPrefix(line, "etcdadm remove node3"):
			machines[2].Kill()
		case strings.HasPrefix(line, "etcdadm reset"):
			continue // comes last
		}
		u.each(line, machines[1])
	}
	if got := get(a, "k"); got != "v" {
		t.Errorf("k is %q", got)
	}

	say(t, "a backup")
	list = blocks(t, "docs/etcd-backup.md", "## Quick start")
	a.Do("mkdir -p /etc/kubernetes/pki && ln -s /etc/etcd/pki /etc/kubernetes/pki/etcd && cd /etc/etcd/pki && " +
		"ln -s etcdctl-etcd-client.crt healthcheck-client.crt && ln -s etcdctl-etcd-client.key healthcheck-client.key")
	contains(t, "the backup", u.each(list[0], a), "BACKUP", "/var/backups/etcd", "SIZE")
	machines[1].Do("etcdadm reset")
	if got := get(a, "k"); got != "v" {
		t.Errorf("k is %q", got)
	}
}

// Machines by themselves, in the three commands of the README.
func TestTutorialOfAuto(t *testing.T) {
	t.Parallel()
	const pki = "/etc/etcd-manager/pki"
	machines := Start(t, 3, "--mount=type=bind,dst=/mnt/etcd-store,src="+t.TempDir())
	u := begin(t, machines)
	a := machines[0]
	list := blocks(t, "README.md", "## Three machines by `etcdadm auto`")
	lines := strings.Split(strings.TrimSpace(strings.Join(list, "")), "\n")
	if len(lines) != 3 {
		t.Fatalf("README has the lines %q", lines)
	}
	u.one(a, lines[0])
	u.one(a, lines[1])
	for i, m := range machines {
		if i > 0 {
			m.Do("mkdir -p " + pki)
			a.Give(m, strings.Fields(a.Do("ls "+pki+"/*"))...)
		}
		m.Do("mkdir -p /opt/etcd-v" + newer + "; tar xzf /var/cache/etcdadm/etcd/v" + newer + "/*.tar.gz -C /opt/etcd-v" +
			newer + " --strip-components=1")
		u.one(m, "systemd-run --unit=etcdadm-auto "+strings.TrimSpace(lines[2]))
	}
	a.Await(soon, "etcd-manager-ctl status --check >/dev/null")
	contains(t, "the status", a.Do("etcd-manager-ctl status"), "as the spec says", "\nm1 ", "\nm2 ", "\nm3 ")
	autoPages(t, u)
}

// themselves makes a cluster of daemons on machines, as the README describes it, and returns its blocks.
func themselves(t *testing.T, u *tutorial, machines ...*Machine) []string {
	t.Helper()
	list := blocks(t, "README.md", "## Three machines by etcd-manager")
	if len(list) != 4 {
		t.Fatalf("README has %d blocks", len(list))
	}
	u.one(machines[0], list[0])
	u.each(list[1], machines[0])
	for _, m := range machines {
		equipDaemon(u, m)
		startDaemon(u, m, list[2])
	}
	return list
}

// equipDaemon gives a machine what a daemon needs: etcd, and the first machine's authorities.
func equipDaemon(u *tutorial, m *Machine) {
	u.t.Helper()
	const pki = "/etc/kubernetes/pki/etcd-manager"
	if a := u.machines[0]; m != a {
		m.Do("mkdir -p " + pki)
		a.Give(m, strings.Fields(a.Do("ls "+pki+"/*"))...)
	}
	m.Do("mkdir -p /opt/etcd-v" + newer + "; tar xzf /var/cache/etcdadm/etcd/v" + newer + "/*.tar.gz -C /opt/etcd-v" +
		newer + " --strip-components=1")
}

// startDaemon starts a daemon by the README's line.
func startDaemon(u *tutorial, m *Machine, line string) {
	u.t.Helper()
	daemon := strings.NewReplacer("\\\n", " ", "node1", m.Name, "10.0.0.1", m.IP).Replace(line)
	u.one(m, "systemd-run --unit=etcd-manager "+strings.TrimSpace(daemon))
}

// Machines by themselves, as the README describes it, and a restore as its page does.
func TestTutorialByThemselves(t *testing.T) {
	t.Parallel()
	machines := Start(t, 3, "--mount=type=bind,dst=/mnt/etcd-store,src="+t.TempDir())
	u := begin(t, machines)
	a := machines[0]
	list := themselves(t, u, machines...)
	a.Await(soon, managed("endpoint health --cluster")+" 2>&1 | grep -c 'is healthy' | grep -q '^3$'")
	a.Do(managed("put k v"))
	a.Await(soon, "etcd-manager-ctl status --check >/dev/null")
	looks := strings.Replace(list[3], " top ", " top --count=1 ", 1)
	contains(t, "the history", u.each(looks, a), "m1")

	say(t, "a restore")
	list = blocks(t, "docs/restore.md", "# Restoring a managed cluster")
	a.Do("etcd-manager-ctl take-backup --wait")
	a.Do(managed("put k w"))
	name := a.Do("etcd-manager-ctl list-backups -o json | grep -o '20[0-9T:-]*Z-[0-9]*' | tail -1")
	u.texts = append(u.texts, "alias ctl=", "ctl() { ", "s3://etcd/main'", "file:///mnt/etcd-store \"$@\"; }",
		"'etcd-manager-ctl", "etcd-manager-ctl", "2026-11-20T10:39:37Z-000001", name,
		"2026-11-20T10:00:00Z", strings.TrimSuffix(name, name[strings.LastIndex(name, "-"):]))
	u.one(a, list[0])
	a.Await(soon, managed("get k --print-value-only")+" | grep -qx v")
	a.Await(soon, "etcd-manager-ctl status --check >/dev/null")

	managedPages(t, u, name)
	majorityLost(t, u)
}
