//go:build e2e

package systemd

import (
	"strings"
	"testing"
)

// kubeadmPage runs what the page for kubeadm has for a machine of the cluster. The control plane
// is the same machine here.
func kubeadmPage(t *testing.T, u *tutorial, m *Machine) {
	t.Helper()
	say(t, "for kubeadm")
	const page, heading = "docs/kubeadm.md", "# An external etcd for kubeadm"
	ssh(m)
	u.each(block(t, page, heading, 0, 3), m)
	want := strings.NewReplacer(u.texts...).Replace(block(t, page, heading, 1, 3))
	if got := m.Read("/root/kubeadm.yaml"); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("the configuration is\n%s\ninstead of\n%s", got, want)
	}
	m.Do("cd /etc/kubernetes/pki; for url in $(sed -n 's/^ *- //p' /root/kubeadm.yaml); do curl -sSf --cacert etcd/ca.crt " +
		"--cert apiserver-etcd-client.crt --key apiserver-etcd-client.key $url/health | grep -F true; done")
	m.Do("rm -r /etc/kubernetes")
}

// guidePages runs on a member what the guide has for one: its settings in a file, and certificates.
func guidePages(t *testing.T, u *tutorial, m *Machine) {
	t.Helper()
	say(t, "a file with settings")
	const page = "docs/etcdadm.md"
	for line := range strings.Lines(block(t, page, "## Configuration", 0, 3)) {
		on := m
		if strings.HasPrefix(line, "etcdadm init ") {
			on = u.machines[0]
			m.Give(on, "/root/member.yaml")
		}
		u.each(line, on)
	}
	u.each(block(t, page, "## Changing a running cluster", 1, 2), m)

	say(t, "certificates")
	const heading, of = "## Certificates", 3
	contains(t, "what alice sees", u.one(m, block(t, page, heading, 1, of)), "m1", "m2", "m3")
	old := m.Do("openssl x509 -noout -serial -in /etc/etcd/pki/server.crt")
	u.each(block(t, page, heading, 2, of), m)
	if now := m.Do("openssl x509 -noout -serial -in /etc/etcd/pki/server.crt"); now == old {
		t.Errorf("the certificate is still that of %s", old)
	}
	contains(t, "the certificate", m.Do("openssl x509 -noout -text -in /etc/etcd/pki/server.crt"), "etcd.example.com")
	awaitHealthy(t, u.machines...)
}

// externalAuthority has a machine join with certificates that somebody else signed, as the guide says.
func externalAuthority(t *testing.T, m, other *Machine) {
	t.Helper()
	u := begin(t, []*Machine{m}) // the page's node1
	say(t, "an authority whose key is not there")
	m.Do("etcdadm reset; mkdir /root/ca; mv /etc/etcd/pki/ca.key /root/ca")
	for line := range strings.Lines(block(t, "docs/etcdadm.md", "## Certificates", 0, 3)) {
		switch {
		case strings.HasPrefix(line, "..."):
			m.Do("cd /root/requests; for r in *.csr; do openssl x509 -req -in $r -CA /etc/etcd/pki/ca.crt -CAkey /root/ca/ca.key " +
				"-CAcreateserial -copy_extensions copy -days 30 -out /etc/etcd/pki/${r%.csr}.crt; done")
		case strings.HasPrefix(line, "etcdadm init"):
			u.one(m, "etcdadm join "+url(other)) // the page says: or join
		default:
			u.each(line, m)
		}
	}
}

// autoPages runs what the guide has for a machine with a daemon.
func autoPages(t *testing.T, u *tutorial) {
	t.Helper()
	const page, heading, of = "docs/etcdadm.md", "## A cluster that runs itself", 3
	bare := func(text string) (list []string) {
		for line := range strings.Lines(text) {
			command, _, _ := strings.Cut(line, "# ")
			list = append(list, strings.TrimSpace(command))
		}
		return list
	}
	readme := strings.Join(blocks(t, "README.md", "## Three machines by `etcdadm auto`"), "")
	got, want := bare(block(t, page, heading, 0, of)), bare(readme)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the guide has %q, and README %q", got, want)
	}
	m := u.machines[0]
	ssh(m)
	u.each(block(t, page, heading, 2, of), m)
	m.Do("test -e alice/alice.crt; test -e bob/bob.crt; test -e /etc/kubernetes/pki/apiserver-etcd-client.key")
	contains(t, "the list", u.each(strings.SplitAfter(block(t, page, heading, 2, of), "\n")[0], m), "m1", "m2", "m3")

	say(t, "a daemon with authorities of its own keeps its etcd")
	last := u.machines[2]
	last.Do("systemctl stop etcdadm-auto")
	back := strings.Split(strings.TrimSpace(block(t, page, heading, 1, of)), "\n")[1]
	back, _, _ = strings.Cut(back, "# ")
	contains(t, "the refusal", last.Fails(strings.TrimSpace(back)+" --pki-dir=/etc/etcd-manager/pki").Stderr, "ca-differs")
}

// managedPages runs what the pages have for the operators of a cluster with daemons, of which
// this is a backup.
func managedPages(t *testing.T, u *tutorial, backup string) {
	t.Helper()
	a := u.machines[0]
	say(t, "backups")
	const page = "docs/backups.md"
	a.Do("etcdadm snapshot save /root/before.db")
	a.Do(managed("put /registry/secrets/default/s 1"))
	a.Do("etcdadm snapshot save /root/after.db; cp after.db snapshot.db; etcd-manager-ctl take-backup --wait")
	newest := a.Do("etcd-manager-ctl list-backups -o json | grep -o '20[0-9T:-]*Z-[0-9]*' | tail -1")
	// The backups here are not encrypted: no key is needed, nor is there one.
	u.texts = append(u.texts, "2026-11-20T11:39:37Z-000005", newest, " --decrypt-key=key.txt", "")
	contains(t, "verify", u.each(block(t, page, "## verify", 0, 1), a), backup, newest)
	drill, _, _ := strings.Cut(block(t, page, "## drill", 0, 1), "\n")
	contains(t, "the drill", u.each(drill, a), "can be restored", "hash of all keys")
	u.each(block(t, page, "## dump", 0, 1), a)
	a.Do("tar tzf all.tar.gz | grep -q secrets/default/s")
	contains(t, "the difference", u.each(block(t, page, "## diff", 0, 1), a), "+", "/registry/secrets/default/s")

	say(t, "users, and the status page")
	persons := block(t, "docs/security.md", "## Users", 0, 1)
	persons = strings.NewReplacer("--cluster-name=...", "--cluster-name=etcd", "--nodes=...", "--nodes="+a.IP+":8000",
		"--backup-store=...",
		"--backup-store=file:///mnt/etcd-store").Replace(persons)
	u.each(persons, a)
	way := blocks(t, "docs/status-page.md", "## The way in")
	if len(way) != 2 {
		t.Fatalf("there are %d blocks", len(way))
	}
	for i, line := range strings.Split(strings.TrimSpace(way[0]), "\n") {
		command, _, _ := strings.Cut(line, "# ")
		command = strings.NewReplacer(append(u.texts, "bob", "bob/bob")...).Replace(strings.TrimSpace(command))
		unit := []string{"dashboard-a", "dashboard-b"}[i]
		a.Do("systemd-run --working-directory=/root --unit=" + unit + " " + command)
		a.Await(soon, "curl -sf $(journalctl -u "+unit+" -o cat | grep -o 'http://[^ ]*' | head -1)status.json | grep -q '\"healthy\"'")
		a.Do("systemctl stop " + unit)
	}
	a.Do("rm -r bob")
	way[1] = strings.ReplaceAll(way[1], "server-a:", "server-"+a.Name+":")
	contains(t, "the page", u.one(a, way[1]), `"StatusPage"`, `"healthy"`)

	say(t, "contexts")
	texts := u.texts
	u.texts = append(u.texts, "s3://backups/prod", "file:///mnt/etcd-store", "=bob", "=bob/bob")
	said := u.each(block(t, "docs/stores.md", "## Contexts", 0, 2), a)
	contains(t, "the contexts", said, "prod", "lab")
	u.texts = texts
	a.Do("etcd-manager-ctl config unset current-context; rm -r .config")
}

// majorityLost takes two of three machines away for good and restores what the last one has.
func majorityLost(t *testing.T, u *tutorial) {
	t.Helper()
	say(t, "the majority is lost")
	const page = "docs/restore.md"
	a := u.machines[0]
	a.Do(managed("put k last"))
	for _, m := range u.machines[1:] {
		m.Kill()
	}
	lines := strings.SplitAfter(block(t, page, "## When the majority is lost", 0, 1), "\n")
	save := strings.ReplaceAll(lines[0], "s3://etcd/main", "file:///mnt/etcd-store")
	var name string
	for line := range strings.Lines(u.each(save, a)) {
		if row := strings.Fields(line); len(row) == 2 && row[0] == "BACKUP" {
			name = row[1]
		}
	}
	const ctl = `ctl() { etcd-manager-ctl --backup-store=file:///mnt/etcd-store "$@"; }` + "\n"
	// It is refused for as long as the status says that they have answered a moment ago.
	lost := strings.TrimSpace(strings.NewReplacer(append(u.texts, "NAME", name)...).Replace(lines[1]))
	a.Await(soon, ctl+lost)
	a.Await(soon, managed("get k --print-value-only")+" | grep -qx last")
	a.Await(soon, "etcd-manager-ctl status --check >/dev/null")
}
