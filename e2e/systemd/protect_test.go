//go:build e2e

package systemd

import (
	"cmp"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
)

// unpack puts the binaries of a release into a directory of the machine.
func unpack(m *Machine, version, dir string) {
	m.t.Helper()
	m.Do("mkdir -p " + dir + "; tar -xzf /var/cache/etcdadm/etcd/v" + version + "/*.tar.gz --strip-components=1 -C " + dir)
}

// protection asks the kernel how the process of etcd.service lives, from inside
// its mount namespace and as its user.
const protection = `
pid=$(systemctl show -P MainPID etcd.service)
echo "user $(stat -c %U /proc/$pid)"
grep -E '^(CapBnd|CapEff|NoNewPrivs|Seccomp):' /proc/$pid/status
inside() { nsenter --mount --target=$pid setpriv --reuid=$(stat -c %u /proc/$pid) --clear-groups --no-new-privs --bounding-set=-all,+dac_override sh -c "$1" 2>&1; }
inside 'touch /usr/x /etc/x /srv/x' | sed 's/.*: /write elsewhere: /'
inside 'touch /var/lib/etcd/x && rm /var/lib/etcd/x && echo write data: yes'
inside 'ls -A /root /home | tr "\n" " "; echo "/ homes"'
inside 'ls /dev | tr "\n" " " | sed "s,^,devices: ,"; echo'
inside 'ls -A /tmp | sed "s,^,temporary: ,"'
`

// etcd does all its work inside the unit's protections, and they are there.
func TestEtcdLivesWithTheProtections(t *testing.T) {
	t.Parallel()
	m := Start(t, 1)[0]
	m.Do("useradd --system etcd; touch /tmp/others /root/secret")
	for _, c := range []struct{ version, user, caps string }{
		{"3.5.35", "", "0000000000000002"}, // DAC_OVERRIDE
		{"3.6.16", "etcd", "0000000000000000"},
	} {
		say(t, "etcd %s as %s", c.version, cmp.Or(c.user, "root"))
		unpack(m, c.version, "/opt/bin")
		unit, err := initfiles.Unit(initfiles.UnitOptions{
			Etcd: "/opt/bin/etcd", EnvFile: "/etc/etcd/etcd.env", DataDir: "/var/lib/etcd", User: c.user, Priorities: []string{
				"Nice=-10",
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		m.Write("/etc/systemd/system/etcd.service", unit, 0o644)
		m.Write("/etc/etcd/etcd.env", "ETCD_DATA_DIR=/var/lib/etcd\nETCD_NAME=m1\n", 0o600)
		m.Do("rm -rf /var/lib/etcd; install -d -m 0700 /var/lib/etcd; systemctl daemon-reload")
		if c.user != "" {
			m.Do("chown " + c.user + ": /var/lib/etcd")
		}
		m.Do(`systemctl start etcd.service
PATH=/opt/bin:$PATH
etcdctl put k v; etcdctl defrag; etcdctl compact 2; etcdctl snapshot save /root/s.db; etcdctl endpoint health
test $(ps -o ni= -p $(systemctl show -P MainPID etcd.service)) = -10`)
		got := m.Do(protection)
		for _, want := range []string{
			"user " + cmp.Or(c.user, "root") + "\n", "CapBnd:\t" + c.caps, "CapEff:\t" + c.caps, "NoNewPrivs:\t1", "Seccomp:\t2",
			"write elsewhere: Read-only file system\n", "write data: yes\n",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is missing in\n%s", want, got)
			}
		}
		for _, never := range []string{"secret", "temporary: others", "devices: tty", "fuse"} {
			if strings.Contains(got, never) {
				t.Errorf("%q is in\n%s", never, got)
			}
		}
		if exposure := m.Do("systemd-analyze security --no-pager etcd.service | tail -n 1"); !strings.Contains(exposure,
			" OK") && !strings.Contains(exposure, "SAFE") {
			t.Errorf("systemd judges: %s", exposure)
		} else {
			t.Log(exposure)
		}
		m.Do("systemctl stop etcd.service")
	}
}
