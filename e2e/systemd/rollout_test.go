//go:build e2e

package systemd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

// A rollout of EKS Anywhere, between two of EKS Distro's versions with a patch that etcd
// advises against: three machines are made by cloud-init, then three of the next minor
// version, which join at the same time with all endpoints that there are. When each of them
// is healthy, the controller takes an old member out by its peer URL, asks the others for
// their health, and ends its machine.
func TestRolloutOfEKSAnywhere(t *testing.T) {
	t.Parallel()
	const before, after = etcdtest.V3521 + "-eks-1-35-1", etcdtest.V3612 + "-eks-1-36-1"
	machines, files := Start(t, 6), providerFiles(t)
	old, fresh := machines[:3], machines[3:]
	mirrors := map[string]*Mirror{
		before: NewMirror(t, old[0], before), after: NewMirror(t, old[0], after),
	}
	var endpoints []string
	for i, m := range old {
		command := "join " + url(old[0])
		if i == 0 {
			command = "init"
		}
		m.prepareUserData(command, before, mirrors[before], files)
		endpoints = append(endpoints, url(m))
	}
	for _, m := range fresh {
		m.prepareUserData("join "+strings.Join(endpoints, ","), after, mirrors[after], files)
	}
	began := time.Now()
	for _, m := range machines[:3] {
		m.powerOn()
	}
	for _, m := range old {
		m.ready(began)
	}
	checkMembers(t, old[0], old...)
	put(old[0], "k", "v")

	say(t, "three machines of %s", after)
	for _, m := range fresh {
		m.powerOn()
	}
	for _, m := range fresh {
		m.ready(began)
		m.Do("grep -F '[WARNING EtcdPatch]' " + cloudErrors)
	}
	checkMembers(t, fresh[0], machines...)
	for _, m := range old {
		say(t, "the controller removes %s", m.Name)
		id := fmt.Sprintf("%x", members(t, fresh[0])[m.Name].ID)
		fresh[0].Await(soon, removes(client, id))
		m.Kill()
		for _, other := range fresh {
			other.Await(soon, asked("/etc/etcd/pki", url(other)))
		}
	}
	checkMembers(t, fresh[2], fresh...)
	for _, m := range fresh {
		if got, version := get(m, "k"), runs(m); got != "v" || version != etcdtest.V3612 {
			t.Errorf("%s has %q, and runs etcd %s", m.Name, got, version)
		}
		// The controller has a pair of its own, and speaks TLS 1.2 with one suite.
		m.issue("/root/controller", certs.Request{
			CommonName: "mgmt-kube-apiserver-etcd-client", Organization: []string{certs.MastersGroup}, Client: true,
		})
		m.Do("curl -sS --tls-max 1.2 --ciphers ECDHE-RSA-AES128-GCM-SHA256 --cacert /etc/etcd/pki/ca.crt --cert " +
			"/root/controller.crt --key /root/controller.key " + url(m) + "/health | grep -F '\"health\":\"true\"'")
	}
}
