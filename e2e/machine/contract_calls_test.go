package machine

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// A controller upgrades by replacing machines: new ones join with a newer
// etcd, and it removes the old members itself before their machines are
// deleted. Nobody calls reset.
func replacedMachines(t *testing.T) {
	old := newHosts(func(name string) *host { return newHost(t, "old-"+name, v35) }, 2)
	found(old...)
	old[0].put("k", "v")
	last := old[1]
	for i, name := range []string{"new-a", "new-b"} {
		h := newHost(t, name, v36)
		h.copyCA(last)
		h.ok("join", last.clientURL())
		h.removeMember(old[i].name)
		old[i].kill()
		last = h
	}
	last.wantVoters("new-a", "new-b")
	wantKeys(map[string]string{"k": "v"}, last)
	if got := last.serves(); got != v36 {
		t.Errorf("etcd %s runs", got)
	}
}

// removeMember takes a member out of the cluster by etcd's API, as soon as etcd
// lets it.
func (h *host) removeMember(name string) {
	h.t.Helper()
	var id uint64
	for _, m := range h.members() {
		if m.Name == name {
			id = m.ID
		}
	}
	if id == 0 {
		h.t.Fatalf("%s: there is no member %s", h.name, name)
	}
	client := h.client(h)
	eventually(h.t, commandTime/3, "the removal of "+name, func() error {
		ctx, cancel := context.WithTimeout(h.t.Context(), askTime)
		defer cancel()
		_, err := client.MemberRemove(ctx, id)
		if errors.Is(err, rpctypes.ErrMemberNotFound) {
			return nil // by a call before, whose answer was lost
		}
		return err
	})
}

// A playbook calls init, join with flags after the endpoint, and reset. The phase start
// makes a voter.
func playbook(t *testing.T) {
	a, b := newPair(t, v36)
	for _, h := range []*host{a, b} {
		h.fakeSystemd()
		h.seed(v36, archive(t, v36))
	}
	const release = " --version " + v36 + " --release-url https://distro.example/etcd"
	if r := a.shell("etcdadm init --name etcd-0" + release + " -l debug"); r.code != 0 ||
		!strings.Contains(r.stdout, "etcdadm join https://192.0.2.1:2379") {
		t.Fatalf("%s", r)
	}
	b.copyCA(a)
	for _, p := range oldJoinPhases[:len(oldJoinPhases)-1] {
		if r := b.shell("etcdadm join phase " + p + " https://192.0.2.1:2379 --name etcd-1" + release); r.code != 0 {
			t.Fatalf("%s", r)
		}
	}
	var info struct {
		Name      string
		IsLearner bool
	}
	b.unmarshal(b.ok("info"), &info)
	if info.Name != "etcd-1" || info.IsLearner {
		t.Errorf("info of a voter is %+v", info)
	}
	if r := b.shell("etcdadm join https://192.0.2.1:2379 --name etcd-1" + release); r.code != 0 {
		t.Fatalf("%s", r)
	}
	a.wantVoters("etcd-0", "etcd-1")
	if r := b.shell("etcdadm reset"); r.code != 0 {
		t.Errorf("%s", r)
	}
	a.wantVoters("etcd-0")
	for _, path := range []string{
		b.path("data"), b.path("etc", "etcd.env"), b.path("units", "etcd.service"), b.path("bin", "etcd"),
		b.path("pki", "server.key"),
	} {
		if exists(path) {
			t.Errorf("%s is still there", path)
		}
	}
	if !exists(b.path("cache", "etcd")) || !exists(b.path("pki", "ca.key")) {
		t.Error("the cache or the certificate authority is gone")
	}
}

// kube-vip has the certificates where kubeadm has them, more names in the
// server's, and changes the manifest afterwards.
func changedManifest(t *testing.T) {
	h := newMachine(t, "a", v36)
	h.withoutTools()
	h.moved = map[string]string{"pki": "etc/kubernetes/pki/etcd"}
	h.write(h.path("fake", "log"), "", 0o600)
	flags := []string{"--init-system=kubelet", "--certs-dir=/etc/kubernetes/pki/etcd", "--bind-address=127.0.0.1",
		"--server-cert-extra-sans=etcd,192.0.2.100", "--name=etcd-a"}
	for _, p := range initPhases[:5] {
		h.ok(append([]string{"init", "phase", p}, flags...)...)
	}
	path := h.path("manifests", "etcd.manifest")
	manifest := h.read(path)
	variable := regexp.MustCompile(`(- name: ETCD_LISTEN_CLIENT_URLS\n\s+value: )\S*`)
	edited := variable.ReplaceAllString(manifest, `${1}"https://0.0.0.0:2379"`)
	if edited == manifest {
		t.Fatalf("there is nothing to change in %s", manifest)
	}
	h.write(path, edited, 0o644)
	h.fakeKubelet(path)
	h.ok(append([]string{"init", "phase", "health"}, flags...)...)
	h.put("k", "v")
	if names := h.certificate("server"); names.VerifyHostname("etcd") != nil ||
		names.VerifyHostname("192.0.2.100") != nil {
		t.Errorf("server is %s", describe(names))
	}
	if h.read(path) != edited {
		t.Error("the manifest is another one")
	}
}

// Every flag is also read from the environment: a machine whose directories are
// elsewhere has that said once.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	h := newHost(t, "a", v36)
	h.ok("init")
	for _, line := range []string{
		"alarm list", "defrag", "snapshot save saved.db", "snapshot status saved.db", "certs check-expiration",
		"kubeadm config", "config print", "info", "status", "preflight",
	} {
		if r := h.run(strings.Fields(line)...); r.code != 0 {
			t.Errorf("%s", r)
		}
	}
}
