//go:build e2e

package systemd

import (
	"strings"
	"testing"
)

// bareUnit runs etcd without etcdadm.
const bareUnit = `[Unit]
Description=etcd
[Service]
Type=notify
ExecStart=/opt/bare/etcd --data-dir=/var/lib/bare --listen-client-urls=http://0.0.0.0:2379 --advertise-client-urls=http://m1:2379
[Install]
WantedBy=multi-user.target
`

// The other tests believe what the machines report, so these have to be real: a
// systemd that is notified when etcd is ready, disks that outlive the power, limits
// that are enforced.
func TestMachines(t *testing.T) {
	t.Parallel()
	machines := Start(t, 2)
	m1, m2 := machines[0], machines[1]

	if got := m1.Do("ps -o comm= -p 1; cat /proc/sys/kernel/hostname"); got != "systemd\nm1" {
		t.Errorf("process 1 and host name: %q", got)
	}
	if r := m1.Run(t.Context(), "echo out; echo err >&2; exit 7"); r.Stdout != "out\n" || r.Stderr != "err\n" ||
		r.Code != 7 {
		t.Errorf("a script's result: %s", r)
	}
	if got := m1.Do("ip -o route get 203.0.113.1"); !strings.Contains(got, "src "+m1.IP+" ") {
		t.Errorf("the default route does not start at %s: %s", m1.IP, got)
	}

	m1.Do(`
tar -xzf /var/cache/etcdadm/etcd/v3.6.16/etcd-v3.6.16-linux-*.tar.gz --transform='s,[^/]*,opt/bare,' -C /
/opt/bare/etcd --version | grep -F 3.6.16`)
	m1.Write("/etc/systemd/system/bare.service", bareUnit, 0o644)
	m1.Do("systemctl --quiet enable bare.service; systemctl start bare.service; /opt/bare/etcdctl put k v1")
	if got := m1.Do("systemctl show -P SubState bare.service"); got != "running" {
		t.Errorf("etcd under systemd: %s", got)
	}
	m1.Await(soon, "journalctl --output=cat -u bare.service | grep -F 'ready to serve client requests'")

	for _, way := range []struct {
		name string
		down func()
	}{
		{"reboot", m1.Reboot},
		{"power cut", func() { m1.Kill(); m1.Boot() }},
	} {
		boot := m1.Do("cut -d' ' -f22 /proc/1/stat")
		say(t, "%s", way.name)
		way.down()
		say(t, "up")
		if got := m1.Await(soon, "/opt/bare/etcdctl get --print-value-only k"); got != "v1" {
			t.Errorf("after the %s the value is %q", way.name, got)
		}
		if got := m1.Do("cut -d' ' -f22 /proc/1/stat"); got == boot {
			t.Errorf("after the %s systemd is still the process that started at %s", way.name, got)
		}
		if got := m1.Do("ip -o -4 addr show eth0"); !strings.Contains(got, m1.IP+"/") {
			t.Errorf("after the %s the address is another: %s", way.name, got)
		}
	}
	for _, host := range []string{"m1", m1.IP, "[" + m1.IP6 + "]"} {
		if host == "[]" {
			t.Log("no IPv6 on this host")
			continue
		}
		if got := m2.Do("curl -sS --max-time 10 http://" + host + ":2379/health"); !strings.Contains(got, `"health":"true"`) {
			t.Errorf("m2 hears from %s: %s", host, got)
		}
	}
	if r := m2.Run(t.Context(), "curl -sS --max-time 2 http://203.0.113.1/"); r.Code == 0 {
		t.Errorf("the network leads somewhere: %s", r)
	}
}

// A machine that ends while it boots is turned on again, as now and then one does.
func TestMachinesThatEndWhileTheyBoot(t *testing.T) {
	t.Parallel()
	m := Start(t, 1)[0]
	m.Write("/root/kept", "x", 0o600)
	m.Kill()
	m.awaitBoot()
	if got := m.Read("/root/kept"); got != "x" {
		t.Errorf("it comes up with %q", got)
	}
}

func TestMachinesProtect(t *testing.T) {
	t.Parallel()
	m := Start(t, 1)[0]
	m.Do("useradd --system nobody2")
	got := m.Run(t.Context(),
		`systemd-run --quiet --pipe --wait -p User=nobody2 -p ProtectSystem=strict -p ReadWritePaths=/var/lib \
  -p NoNewPrivileges=yes -p PrivateTmp=yes -p CapabilityBoundingSet= -p SystemCallFilter=@system-service -p Nice=-5 \
  -p RestrictAddressFamilies=AF_UNIX sh -c '
id -un; ls -A /tmp; touch /usr/x; curl -sS http://127.0.0.1/; nice; grep -E "^(CapBnd|NoNewPrivs|Seccomp):" /proc/self/status'`)
	for _, want := range []string{
		"nobody2\n", "Read-only file system", "-5\n", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2",
	} {
		if !strings.Contains(got.Stdout+got.Stderr, want) {
			t.Errorf("a protected service says nothing of %q: %s", want, got)
		}
	}
}

func TestCloudInitRunsWhileTheMachineBoots(t *testing.T) {
	t.Parallel()
	m := Start(t, 1)[0]
	m.Write("/etc/a file", "with\ntwo lines, no end", 0o600)
	if got := m.Read("/etc/a file"); got != "with\ntwo lines, no end" {
		t.Errorf("a file comes back as %q", got)
	}
	r := m.CloudInit(`systemctl is-system-running; echo "home=${HOME-unset}" >&2; stat -c %a "/etc/a file"; test -t 0 && echo terminal; exit 3`)
	if strings.TrimSpace(r.Stdout) != "starting\n600" || !strings.Contains(r.Stderr, "home=unset\n") || r.Code == 0 {
		t.Errorf("the script ran otherwise: %s", r)
	}
	m.Do("rm /var/log/cloud-init-output.log")
	m.Reboot()
	m.Do("test ! -e /var/log/cloud-init-output.log")
}
