//go:build e2e

package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const top = "../.."

// do runs a script of sh that has to succeed, and returns what it printed.
func do(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// read returns the content of a file, which has to be there.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// write writes a file, and the directories above it.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// gone fails where something is at a path.
func gone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("%s is there: %v", path, err)
	}
}

// Everything is built once for this machine, and once more from a copy of the tree.
func TestDist(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	out := filepath.Join(t.TempDir(), "dist")
	// Whole clusters run beside this test: what is built leaves them the processors.
	const line = "nice -n 19 go run ./hack/dist -version=v1.2.3 -arch=" + runtime.GOARCH + " -output="
	do(t, top, line+out)
	names := do(t, out, "ls")
	for _, want := range []string{
		"SHA256SUMS", "etcd-backup-v1.2.3-linux-" + runtime.GOARCH + ".tar.gz",
		"etcd-manager-ctl-v1.2.3-linux-" + runtime.GOARCH + ".tar.gz", "etcdadm-v1.2.3-linux-" + runtime.GOARCH + ".tar.gz",
		"etcdadm_1.2.3-1_" + runtime.GOARCH + ".deb", "etcdadm-1.2.3-1.",
	} {
		if !strings.Contains(names, want) {
			t.Errorf("%s is not among\n%s", want, names)
		}
	}
	do(t, out, "sha256sum --check --strict SHA256SUMS && test $(wc -l <SHA256SUMS) = 5")
	t.Run("archive", func(t *testing.T) { archive(t, out) })
	t.Run("deb", func(t *testing.T) { deb(t, out) })
	t.Run("rpm", func(t *testing.T) { rpm(t, out) })
	t.Run("the same bytes elsewhere", func(t *testing.T) {
		tree, again, temp := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dist"), t.TempDir()
		if err := os.Mkdir(tree, 0o755); err != nil {
			t.Fatal(err)
		}
		do(t, top, "tar -cf - --exclude=./.git --exclude=./bin --exclude=./dist --exclude=./.cache . | tar -xf - -C "+tree)
		do(t, tree, "umask 077; TMPDIR="+temp+" "+line+again)
		if a, b := read(t, out+"/SHA256SUMS"), read(t, again+"/SHA256SUMS"); a != b {
			t.Errorf("one tree gives\n%s\nthe other one\n%s", a, b)
		}
		if left := do(t, temp, "ls -A"); left != "" {
			t.Errorf("left behind: %s", left)
		}
	})
}

// programs says what four programs in a directory are, each on a line.
func programs(t *testing.T, bin string) string {
	t.Helper()
	return do(t, bin, "for p in etcd-backup etcd-manager etcd-manager-ctl etcdadm; do ./$p version; done")
}

// Archives are unpacked below /usr/local.
func archive(t *testing.T, out string) {
	root := t.TempDir()
	do(t, root, "tar -xzf "+out+"/etcdadm-v1.2.3-linux-*.tar.gz --strip-components=1")
	if v := programs(t, root+"/bin"); strings.Count(v, " v1.2.3 (") != 4 {
		t.Errorf("programs are\n%s", v)
	}
	do(t, root, "MANPATH= man -l share/man/man1/etcdadm-init.1.gz | grep -q 'begin\\|init' || ! command -v man")
	do(t, root, "bash -c '. share/bash-completion/completions/etcdadm; complete -p etcdadm'")
	unit := read(t, root+"/lib/systemd/system/etcd-manager.service")
	if !strings.Contains(unit, "ExecStart=/usr/local/bin/etcd-manager $ETCD_MANAGER_FLAGS\n") {
		t.Errorf("%s", unit)
	}
	for _, name := range []string{"LICENSE", "THIRD-PARTY-NOTICES", "README.md", "default/etcd-manager"} {
		read(t, root+"/share/doc/etcdadm/"+name)
	}
	ctl := t.TempDir()
	do(t, ctl, "tar -xzf "+out+"/etcd-manager-ctl-v1.2.3-linux-*.tar.gz --strip-components=1")
	if names := do(t, ctl, "ls bin; find . -name '*.service'"); names != "etcd-manager-ctl" {
		t.Errorf("the archive of one program has %s", names)
	}
}

// cluster puts into a root what a machine of a cluster has, and returns a check that it is
// still there.
func cluster(t *testing.T, root string) func() {
	t.Helper()
	files := []string{
		"/var/lib/etcd-manager/data/member/wal", "/var/lib/etcd/member/snap/db", "/etc/etcd/pki/ca.key",
		"/etc/kubernetes/pki/etcd-manager/etcd-peers-ca.key", "/etc/etcd-manager/etcd-manager.env",
		"/etc/systemd/system/multi-user.target.wants/etcd.service", "/var/lib/etcd-backup/1/etcd.backup.gz",
	}
	for _, name := range files {
		write(t, root+name, name)
	}
	return func() {
		t.Helper()
		for _, name := range files {
			if text := read(t, root+name); text != name {
				t.Errorf("%s has %q", name, text)
			}
		}
	}
}

const changed = "ETCD_MANAGER_FLAGS=\"--cluster-name=mine\"\n"

// A Debian package is installed, upgraded, removed and purged in a directory.
func deb(t *testing.T, out string) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("there is no dpkg")
	}
	root := t.TempDir()
	do(t, root, "mkdir -p var/lib/dpkg/updates && touch var/lib/dpkg/status")
	dpkg := "dpkg --root=" + root + " --force-script-chrootless --force-not-root --log=/dev/null "
	do(t, out, dpkg+"-i etcdadm_*.deb")
	if v := programs(t, root+"/usr/bin"); strings.Count(v, " v1.2.3 (") != 4 {
		t.Errorf("programs are\n%s", v)
	}
	do(t, root, dpkg+"--verify etcdadm; test -f usr/share/doc/etcdadm/copyright; test -s usr/share/doc/etcdadm/THIRD-PARTY-NOTICES; test -f usr/share/man/man1/etcdadm.1.gz")
	gone(t, root+"/etc/systemd") // nothing is enabled
	if c := do(t, root, "dpkg-query --admindir=var/lib/dpkg -W -f '${Conffiles}' etcdadm | awk '{print $1}'"); c !=
		"/etc/default/etcd-backup\n/etc/default/etcd-manager\n/etc/needrestart/conf.d/etcdadm.conf" {
		t.Errorf("configuration files are %s", c)
	}
	kept := cluster(t, root)
	write(t, root+"/etc/default/etcd-manager", changed)

	next := t.TempDir()
	do(t, next, "dpkg-deb -R "+out+"/etcdadm_*.deb p && sed -i 's/^Version: .*/Version: 1.2.4-1/' p/DEBIAN/control && "+
		"dpkg-deb --root-owner-group -Znone -b p next.deb")
	do(t, next, dpkg+"-i next.deb")
	if v := do(t, root, "dpkg-query --admindir=var/lib/dpkg -W -f '${Version}' etcdadm"); v != "1.2.4-1" {
		t.Errorf("after the upgrade there is %s", v)
	}
	if text := read(t, root+"/etc/default/etcd-manager"); text != changed {
		t.Errorf("the upgrade made the file %s", text)
	}
	kept()
	do(t, root, dpkg+"-r etcdadm")
	gone(t, root+"/usr/bin/etcdadm")
	gone(t, root+"/usr/lib/systemd/system/etcd-manager.service")
	if text := read(t, root+"/etc/default/etcd-manager"); text != changed {
		t.Errorf("removing made the file %s", text)
	}
	kept()
	do(t, root, dpkg+"-P etcdadm")
	gone(t, root+"/etc/default/etcd-manager")
	gone(t, root+"/etc/needrestart/conf.d/etcdadm.conf")
	kept()
}

// An RPM package is installed, replaced and erased in a directory.
func rpm(t *testing.T, out string) {
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Skip("there is no rpm")
	}
	root := t.TempDir()
	ask := "rpm --root=" + root + " --nosignature "
	run := ask + "--nodeps --noscripts "
	do(t, out, "rpm -K --nosignature etcdadm-*.rpm; rpm --root="+root+" --initdb; "+run+"-i etcdadm-*.rpm")
	if v := programs(t, root+"/usr/bin"); strings.Count(v, " v1.2.3 (") != 4 {
		t.Errorf("programs are\n%s", v)
	}
	if bad := do(t, root, ask+"--nodeps -V etcdadm"); bad != "" {
		t.Errorf("differences right after installing:\n%s", bad)
	}
	if c := do(t, root, ask+"-qc etcdadm"); c != "/etc/sysconfig/etcd-backup\n/etc/sysconfig/etcd-manager" {
		t.Errorf("configuration files are %s", c)
	}
	if l := do(t, root, ask+"-qL etcdadm"); l != "/usr/share/licenses/etcdadm/LICENSE\n/usr/share/licenses/etcdadm/THIRD-PARTY-NOTICES" {
		t.Errorf("licenses are %s", l)
	}
	if s := do(t, root, ask+"-q --scripts etcdadm | grep -v '#'"); strings.Count(s, "systemctl") != 2 ||
		strings.Count(s, "systemctl daemon-reload") != 2 {
		t.Errorf("scripts are\n%s", s)
	}
	read(t, root+"/usr/share/zsh/site-functions/_etcdadm")
	kept := cluster(t, root)
	write(t, root+"/etc/sysconfig/etcd-manager", changed)
	do(t, out, run+"-U --replacepkgs etcdadm-*.rpm")
	if text := read(t, root+"/etc/sysconfig/etcd-manager"); text != changed {
		t.Errorf("the upgrade made the file %s", text)
	}
	kept()
	do(t, out, run+"-e etcdadm")
	gone(t, root+"/usr/bin/etcdadm")
	if text := read(t, root+"/etc/sysconfig/etcd-manager.rpmsave"); text != changed {
		t.Errorf("erasing made the file %s", text)
	}
	kept()
}
