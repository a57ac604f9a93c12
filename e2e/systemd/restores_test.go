//go:build e2e

package systemd

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// installEtcd puts etcd of a version where daemons look for it.
func installEtcd(t *testing.T, m *Machine, version string) {
	t.Helper()
	for _, program := range []string{"etcd", "etcdctl", "etcdutl"} {
		from, err := harness.EtcdBinary(os.Getenv("ETCDADM_ETCD_DIR"), version, program)
		if err != nil {
			t.Fatal(err)
		}
		m.Copy(from, filepath.Join("/opt/etcd-v"+version, program))
	}
}

// restored waits until a cluster of so many members serves what it was restored with, and is healthy.
func restored(m *Machine, members int, value string) {
	m.t.Helper()
	m.Await(soon, managed("get k --print-value-only")+" | grep -qx "+value)
	m.Await(soon, "etcd-manager-ctl status --check >/dev/null")
	m.Await(soon, managed("member list")+" | wc -l | grep -qx "+string(rune('0'+members)))
}

// What the page about restores has besides the usual one: another version, new machines after all were
// lost, another size.
func TestTutorialOfRestores(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		return // "make e2e" has it
	}
	const page, other = "docs/restore.md", "## Other sizes, versions and machines"
	store := t.TempDir()
	machines := Start(t, 6, "--mount=type=bind,dst=/mnt/etcd-store,src="+store)
	u := begin(t, machines)
	old, young := machines[:3], machines[3:]
	a := old[0]
	list := themselves(t, u, old...)
	a.Await(soon, "etcd-manager-ctl status --check >/dev/null")
	a.Do(managed("put k v"))
	a.Do("etcd-manager-ctl take-backup --wait")
	name := a.Do("etcd-manager-ctl list-backups -o json | grep -o '20[0-9T:-]*Z-[0-9]*' | tail -1")
	a.Do(managed("put k w"))
	u.texts = append(u.texts, "NAME", name)
	const ctl = `ctl() { etcd-manager-ctl --backup-store=file:///mnt/etcd-store "$@"; }` + "\n"
	sizes := strings.SplitAfter(block(t, page, other, 0, 1), "\n")

	say(t, "into the next minor version")
	for _, m := range machines {
		installEtcd(t, m, "3.7.3")
	}
	u.one(a, ctl+sizes[1])
	restored(a, 3, "v")
	contains(t, "the version", a.Do(managed("endpoint status -w json")), `"version":"3.7.3"`)

	say(t, "everything is lost")
	for _, m := range young {
		equipDaemon(u, m)
	}
	for _, m := range old {
		m.Kill()
	}
	for _, m := range young {
		startDaemon(u, m, list[2])
	}
	b := young[0]
	b.Await(soon, "etcd-manager-ctl explain | grep -q cluster-lost")
	const lost, of = "## When everything is lost", 2
	u.one(b, ctl+block(t, page, lost, 0, of))
	b.Await(soon, "etcd-manager-ctl explain | grep -q waiting-for-nodes")
	lines := strings.SplitAfter(block(t, page, lost, 1, of), "\n")
	request := regexp.MustCompile(`20[0-9T:-]*Z-[0-9]*`).FindString(u.one(b, ctl+lines[0]))
	u.texts = append(u.texts, "TIME", request)
	u.one(b, ctl+strings.Join(lines[1:], ""))
	restored(b, 3, "v")

	say(t, "on one node")
	b.Do(managed("put k w"))
	u.one(b, ctl+sizes[0])
	restored(b, 1, "v")
}
