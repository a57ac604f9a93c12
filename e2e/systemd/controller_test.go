//go:build e2e

package systemd

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// asked is a script that ends when the member on a machine says that it is healthy, as a
// controller asks for it.
func asked(pki, url string) string {
	return fmt.Sprintf("curl -sS --max-time 5 --cacert %[1]s/ca.crt --cert %[1]s/server.crt --key %[1]s/server.key "+
		"%[2]s/health | grep -F '\"health\":\"true\"'", pki, url)
}

// A controller replaces machines one by one: it asks the new one for its health all the
// time, and at the first answer that it likes it takes an old member out by etcd's API
// and cuts the power of its machine. The join of the new one is still under way then.
func TestAControllerThatActsAtOnce(t *testing.T) {
	t.Parallel()
	machines := Start(t, 5)
	form(t, machines[:3], newer)
	put(machines[0], "k", "v")
	for i, m := range machines[3:] {
		old, left := machines[i], machines[i+1:i+3]
		say(t, "%s replaces %s", m.Name, old.Name)
		old.Give(m, "/etc/etcd/pki/ca.crt", "/etc/etcd/pki/ca.key")
		id := fmt.Sprintf("%x", members(t, left[0])[old.Name].ID)
		m.Write("/root/join", fmt.Sprintf("etcdadm join %s,%s --version %s > /root/join.out 2>&1\necho $? > /root/join.rc\n",
			url(old), url(left[0]), newer), 0o755)
		m.Do("systemd-run --collect sh /root/join")
		m.Await(soon, asked("/etc/etcd/pki", url(m)))
		left[0].Await(soon, removes(client, id))
		old.Kill()
		m.Await(soon, "test -s /root/join.rc")
		if code := m.Do("cat /root/join.rc"); code != "0" {
			t.Fatalf("the join ended with %s: %s", code, m.Do("cat /root/join.out"))
		}
		awaitHealthy(t, left[0], left[1], m)
		checkMembers(t, m, left[0], left[1], m)
		if got := get(m, "k"); got != "v" {
			t.Errorf("%s has %q", m.Name, got)
		}
	}
}

// In Bottlerocket's shape the vote comes with the phase health, and what is asked before
// takes a learner for healthy. A controller that then removes a voter, and ends its
// machine, costs neither the quorum nor data, and the phase goes on.
func TestBottlerocketAndAControllerThatActsAtOnce(t *testing.T) {
	t.Parallel()
	machines := startBottlerockets(t, 3, newer)
	giveAuthority(t, machines)
	m1, m2, m3 := machines[0], machines[1], machines[2]
	m1.do("init", "", "install", "certificates", "snapshot", "configure", "start")
	m1.startPods()
	m1.do("init", "", "health")
	begin := func(m *Bottlerocket, endpoints string) {
		m.do("join", endpoints, "stop", "certificates", "membership", "install", "configure", "start")
		m.startPods()
	}
	begin(m2, m1.url())
	m2.do("join", m1.url(), "health")
	m2.inPod(inPodClient + "put k v")

	both := m1.url() + "," + m2.url()
	begin(m3, both)
	awaitInPod(t, m3, asked("/var/lib/etcd/pki", m3.url()))
	id := awaitInPod(t, m2, inPodClient+"member list | grep -F ', m1,' | cut -d, -f1")
	awaitInPod(t, m2, removes(inPodClient, id))
	// Its etcd ends by itself when it learns of it.
	if _, err := docker(t.Context(), "rm", "--force", "--volumes", m1.pod()); err != nil {
		t.Fatal(err)
	}
	awaitInPod(t, m2, inPodClient+"put between x") // the leader went: one put may be lost
	m3.do("join", both, "health")
	for _, m := range machines[1:] {
		m.wantVoters("m2", "m3")
		for key, value := range map[string]string{"k": "v", "between": "x"} {
			if got := awaitInPod(t, m, inPodClient+"get --print-value-only "+key); got != value {
				t.Errorf("%s has %q as %s", m.Name, got, key)
			}
		}
	}
}

// awaitInPod runs a script in the pod's container until it succeeds, and returns what it
// wrote then.
func awaitInPod(t *testing.T, m *Bottlerocket, script string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), soon)
	defer stop()
	out, last := "", error(nil)
	if err := poll(ctx, func() (bool, error) {
		out, last = docker(ctx, "exec", "--workdir=/", m.pod(), "sh", "-ec", script)
		return last == nil, nil
	}); err != nil {
		t.Fatalf("%s: %v: %s: %v", m.Name, err, script, last)
	}
	return strings.TrimSpace(out)
}
