//go:build e2e

package systemd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// inPodClient is etcdctl in the pod, with the pair of a client.
const inPodClient = "etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/var/lib/etcd/pki/ca.crt " +
	"--cert=/var/lib/etcd/pki/server.crt --key=/var/lib/etcd/pki/server.key "

// Three Bottlerocket machines are made at once: the first one is late, two join at the
// same time, one endpoint is dead, and the image comes slowly to the one that is first.
func TestBottlerocketWhileTheFirstMemberIsLate(t *testing.T) {
	t.Parallel()
	machines := startBottlerockets(t, 3, older)
	m1 := machines[0]
	giveAuthority(t, machines)
	endpoints := m1.IP[:strings.LastIndex(m1.IP, ".")] + ".250"
	endpoints = "https://" + endpoints + ":2379," + m1.url()
	membership := map[*Bottlerocket]string{}
	for _, m := range machines[1:] {
		m.do("join", endpoints, "stop", "certificates")
		membership[m] = m.begin("join", "phase", "membership", endpoints)
	}
	for m, id := range membership {
		m.says(id, "waiting: the cluster does not answer")
	}
	say(t, "m1 comes")
	m1.do("init", "", "install", "certificates", "snapshot", "configure", "start")
	m1.startPods()
	m1.do("init", "", "health")

	first, second := machines[1], machines[2]
	if err := poll(t.Context(), func() (bool, error) {
		for m, id := range membership {
			if state, err := docker(t.Context(), "inspect", "--format={{.State.Running}}", id); err != nil || state == "false" {
				first, second = m, machines[1]
				if m == second {
					second = machines[2]
				}
				return true, err
			}
		}
		return false, nil
	}); err != nil {
		t.Fatal(err)
	}
	say(t, "%s joins, and its image comes slowly", first.Name)
	first.await(membership[first])
	first.do("join", endpoints, "install", "configure", "start")
	second.says(membership[second], "waiting: another member is joining")
	first.startPods()
	first.do("join", endpoints, "health")
	second.await(membership[second])
	second.do("join", endpoints, "install", "configure", "start")
	second.startPods()
	second.do("join", endpoints, "health")
	for _, m := range machines {
		m.wantVoters("m1", "m2", "m3")
	}
	restorePage(t, second)
	renewalPage(t, second)
}

// says waits until a phase has said the words.
func (m *Bottlerocket) says(id, words string) {
	m.t.Helper()
	ctx, stop := context.WithTimeout(m.t.Context(), runTime)
	defer stop()
	if err := poll(ctx, func() (bool, error) { return strings.Contains(m.said(id), words), nil }); err != nil {
		m.t.Fatalf("%s: %v: %s\n%s", id, err, words, m.said(id))
	}
}

// wantVoters fails the test unless the member list is of these voters.
func (m *Bottlerocket) wantVoters(names ...string) {
	m.t.Helper()
	var list struct{ Members []member }
	if err := json.Unmarshal([]byte(m.inPod(inPodClient+"member list -w json")), &list); err != nil {
		m.t.Fatal(err)
	}
	got := map[string]bool{}
	for _, e := range list.Members {
		got[e.Name] = !e.IsLearner
	}
	for _, name := range names {
		if !got[name] || len(list.Members) != len(names) {
			m.t.Errorf("%s has the members %+v", m.Name, list.Members)
		}
	}
}

// restorePage does what EKS Anywhere's page of the restore says: values are taken
// out of the manifest by their lines, and a snapshot is restored in the pod's own
// file system, where etcdctl stands.
func restorePage(t *testing.T, m *Bottlerocket) {
	t.Helper()
	value := func(name string) string {
		line := regexp.MustCompile(`(?m)^.*` + name + `$\n^\s*value: (\S+)$`).FindStringSubmatch(m.manifest())
		if len(line) < 2 || strings.ContainsAny(line[1], `'"`) {
			t.Fatalf("%s: %q in %s", name, line, m.manifest())
		}
		return line[1]
	}
	m.inPod(inPodClient + "put k v; " + inPodClient + "snapshot save /var/lib/etcd/data/backup.db")
	m.inPod(fmt.Sprintf("etcdctl snapshot restore /var/lib/etcd/data/backup.db --name=%[1]s --initial-cluster=%[1]s=%[2]s "+
		"--initial-cluster-token=etcd-cluster-1 --initial-advertise-peer-urls=%[2]s; test -s /%[1]s.etcd/member/snap/db",
		value("ETCD_NAME"), value("ETCD_INITIAL_ADVERTISE_PEER_URLS")))
}

// renewalPage renews the certificates as EKS Anywhere does: all but the authority are
// deleted, and one phase runs in a container that has nothing but their directory. The
// pod goes on, and shows the new ones.
func renewalPage(t *testing.T, m *Bottlerocket) {
	pki := filepath.Join(m.dir, "etcd", "pki")
	shown := "curl -sS --output /dev/null --write-out '%{certs}' --cacert /var/lib/etcd/pki/ca.crt --cert " +
		"/var/lib/etcd/pki/server.crt --key /var/lib/etcd/pki/server.key " + m.url() +
		"/health | grep -m1 -i '^Serial Number'"
	before, started := m.inPod(shown), m.started()
	entries, err := os.ReadDir(pki)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "ca.crt" && e.Name() != "ca.key" {
			if err := os.Remove(filepath.Join(pki, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := docker(t.Context(), "run", "--rm", "--name="+m.id+"-renew", "--label="+owner(),
		"--network=container:"+m.id, "--read-only", "--tmpfs=/tmp", "--security-opt=no-new-privileges",
		"--volume="+pki+":/etc/etcd/pki", m.image, "etcdadm", "join", "phase", "certificates",
		"http://eks-a-etcd-dumb-url", "--init-system", "kubelet"); err != nil {
		t.Fatal(err)
	}
	if after := m.inPod(shown); after == before || m.started() != started {
		t.Errorf("%s shows %s, before it was %s; its pod started at %s, before at %s", m.Name, after, before,
			m.started(), started)
	}
	m.wantVoters("m1", "m2", "m3")
}

// started is when the pod was started.
func (m *Bottlerocket) started() string {
	m.t.Helper()
	at, err := docker(m.t.Context(), "inspect", "--format={{.State.StartedAt}}", m.pod())
	if err != nil {
		m.t.Fatal(err)
	}
	return at
}

// giveAuthority puts one certificate authority on the machines, as the provider does.
func giveAuthority(t *testing.T, machines []*Bottlerocket) {
	t.Helper()
	files := providerFiles(t)
	for _, m := range machines {
		for _, f := range files[1:] {
			name := filepath.Join(m.dir, "etcd", "pki", filepath.Base(f.Path))
			if err := os.WriteFile(name, []byte(f.Content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}
