//go:build e2e

package kind

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/kind/pkg/cluster"
)

// standaloneConfig is the kubelet's before kubeadm: it runs the pods of a directory.
const standaloneConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: /etc/kubernetes/manifests
cgroupDriver: systemd
cgroupRoot: /kubelet
failSwapOn: false
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
imageGCHighThresholdPercent: 100
evictionHard: {nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
fileCheckFrequency: 2s
`

// standaloneUnit has the kubelet run with that, without an API server.
const standaloneUnit = `[Unit]
ConditionPathExists=
[Service]
ExecStart=
ExecStart=/usr/bin/kubelet --config=/etc/kubernetes/standalone.yaml --node-ip=%s \
  --container-runtime-endpoint=unix:///run/containerd/containerd.sock
`

const standaloneFile = "/etc/systemd/system/kubelet.service.d/90-standalone.conf"

// skipped are the phases of kubeadm that need a network of pods, or a registry of images.
const skipped = "--skip-phases=preflight,addon/kube-proxy,addon/coredns"

// A Cluster is a cluster of kind's whose Kubernetes is set up by the scenario.
type Cluster struct {
	name     string
	machines []machine
	provider *cluster.Provider
}

// newCluster makes machines. Patches are pieces of kubeadm's configuration, mounts what all machines have.
func newCluster(t *testing.T, name string, n int, patches []string, mounts []v1alpha4.Mount) *Cluster {
	t.Helper()
	c := &Cluster{name: name, provider: cluster.NewProvider(cluster.ProviderWithDocker())}
	config := &v1alpha4.Cluster{
		TypeMeta:             v1alpha4.TypeMeta{Kind: "Cluster", APIVersion: "kind.x-k8s.io/v1alpha4"},
		Networking:           v1alpha4.Networking{DisableDefaultCNI: true, KubeProxyMode: "none"},
		KubeadmConfigPatches: patches,
	}
	for i := range n {
		node := name + "-control-plane"
		if i > 0 {
			node += fmt.Sprint(i + 1)
		}
		c.machines = append(c.machines, machine(node))
		config.Nodes = append(config.Nodes, v1alpha4.Node{Role: v1alpha4.ControlPlaneRole, Image: image, ExtraMounts: mounts})
	}
	kubeconfig := t.TempDir() + "/kubeconfig"
	if err := c.provider.Delete(name, kubeconfig); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.collect(t)
		}
		if os.Getenv("ETCDADM_E2E_KEEP") != "" {
			t.Logf("the cluster %s is kept", name)
			return
		}
		if err := c.provider.Delete(name, kubeconfig); err != nil {
			t.Error(err)
		}
	})
	start := time.Now()
	err := c.provider.Create(name, cluster.CreateWithV1Alpha4Config(config), cluster.CreateWithKubeconfigPath(kubeconfig),
		cluster.CreateWithStopBeforeSettingUpKubernetes(true), cluster.CreateWithRetain(true))
	if err != nil {
		t.Fatalf("create the cluster %s: %v", name, err)
	}
	for _, m := range c.machines {
		m.awaitRuntime(t)
	}
	t.Logf("%d machines after %.1f s", n, time.Since(start).Seconds())
	return c
}

// awaitRuntime waits for containerd and the images that the node image brings.
func (m machine) awaitRuntime(t *testing.T) {
	t.Helper()
	await(t, "containerd of "+string(m), 2*time.Minute, func(ctx context.Context) error {
		_, err := m.run(ctx, `ctr -n k8s.io images ls -q | grep -q kube-apiserver:
			if systemctl cat images.service >/dev/null 2>&1; then test -e /var/lib/images-are-here; fi`)
		return err
	})
}

// load gives a machine the images of an archive.
func (m machine) load(t *testing.T, archive string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := command(t.Context(), f, "docker", "exec", "-i", string(m),
		"ctr", "-n", "k8s.io", "images", "import", "--snapshotter=overlayfs", "-"); err != nil {
		t.Fatalf("load images into %s: %v", m, err)
	}
}

// standalone starts the kubelet without an API server.
func (m machine) standalone(t *testing.T) {
	t.Helper()
	m.put(t, map[string][]byte{
		"/etc/kubernetes/standalone.yaml": []byte(standaloneConfig),
		standaloneFile:                    fmt.Appendf(nil, standaloneUnit, m.address(t)),
	})
	m.must(t, "mkdir -p /etc/kubernetes/manifests; systemctl daemon-reload; systemctl restart kubelet")
}

// init makes the first control plane.
func (m machine) init(t *testing.T) {
	t.Helper()
	start := time.Now()
	m.must(t, "rm -f "+standaloneFile+"; systemctl daemon-reload; kubeadm init "+skipped+
		" --skip-token-print --config=/kind/kubeadm.conf 2>&1")
	t.Logf("kubeadm init on %s took %.1f s", m, time.Since(start).Seconds())
}

// join makes one more control plane, with the certificate authorities of another.
func (m machine) join(t *testing.T, from machine) {
	t.Helper()
	start := time.Now()
	const pki = "/etc/kubernetes/pki/"
	from.copy(t, m, pki+"ca.crt", pki+"ca.key", pki+"front-proxy-ca.crt", pki+"front-proxy-ca.key",
		pki+"sa.key", pki+"sa.pub")
	m.must(t, "rm -f "+standaloneFile+"; systemctl daemon-reload; kubeadm join --skip-phases=preflight "+
		"--config=/kind/kubeadm.conf 2>&1")
	t.Logf("kubeadm join on %s took %.1f s", m, time.Since(start).Seconds())
}

// replace deletes a machine with its disk, and makes a new one of the same name.
func (m machine) replace(t *testing.T) {
	t.Helper()
	conf, old := m.must(t, "cat /kind/kubeadm.conf"), m.address(t)
	inspected, err := docker(t.Context(), "inspect", "--format={{range .HostConfig.Binds}}{{println .}}{{end}}", string(m))
	if err != nil {
		t.Fatal(err)
	}
	labels, err := docker(t.Context(), "inspect", "--format={{range $k, $v := .Config.Labels}}{{println $k \"=\" $v}}{{end}}",
		string(m))
	if err != nil {
		t.Fatal(err)
	}
	args := []string{
		"run", "--detach", "--tty", "--privileged", "--name=" + string(m), "--hostname=" + string(m), "--net=kind",
		"--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined", "--tmpfs=/tmp", "--tmpfs=/run",
		"--volume=/var", "--cgroupns=private", "--init=false", "--env=KUBECONFIG=/etc/kubernetes/admin.conf",
	}
	for _, bind := range strings.Fields(inspected) {
		args = append(args, "--volume="+bind)
	}
	for line := range strings.Lines(labels) {
		if line = strings.ReplaceAll(strings.TrimSpace(line), " ", ""); strings.HasPrefix(line, "io.x-k8s.kind") {
			args = append(args, "--label="+line)
		}
	}
	if _, err := docker(t.Context(), "rm", "--force", "--volumes", string(m)); err != nil {
		t.Fatal(err)
	}
	if _, err := docker(t.Context(), append(args, image)...); err != nil {
		t.Fatal(err)
	}
	m.awaitRuntime(t)
	m.put(t, map[string][]byte{"/kind/kubeadm.conf": []byte(strings.ReplaceAll(conf, old, m.address(t)))})
}

// reboot kills machines and starts them again, with their disks.
func reboot(t *testing.T, machines ...machine) {
	t.Helper()
	addresses := map[machine]string{}
	for _, m := range machines {
		addresses[m] = m.address(t)
	}
	// Docker gives a container that starts the first address that is free.
	order := slices.SortedFunc(maps.Keys(addresses), func(a, b machine) int {
		return netip.MustParseAddr(addresses[a]).Compare(netip.MustParseAddr(addresses[b]))
	})
	for _, action := range []string{"kill", "start"} {
		for _, m := range order {
			if _, err := docker(t.Context(), action, string(m)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, m := range machines {
		if now := m.address(t); now != addresses[m] {
			t.Fatalf("%s had the address %s, and has %s after it was started", m, addresses[m], now)
		}
	}
}

// A kubeconfig is what is read of one.
type kubeconfig struct {
	Clusters []struct {
		Cluster struct {
			Server string `yaml:"server"`
			CA     string `yaml:"certificate-authority-data"`
		} `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		User struct {
			Cert string `yaml:"client-certificate-data"`
			Key  string `yaml:"client-key-data"`
		} `yaml:"user"`
	} `yaml:"users"`
}

// access returns where the API servers are, behind kind's load balancer, and the certificates for them.
func (c *Cluster) access(t *testing.T) (server string, ca, cert, key []byte) {
	t.Helper()
	text, err := c.provider.KubeConfig(c.name, false)
	if err != nil {
		t.Fatal(err)
	}
	var k kubeconfig
	if err := yaml.Unmarshal([]byte(text), &k); err != nil || len(k.Clusters) != 1 || len(k.Users) != 1 {
		t.Fatalf("kind's kubeconfig: %v\n%s", err, text)
	}
	var parts [3][]byte
	for i, s := range []string{k.Clusters[0].Cluster.CA, k.Users[0].User.Cert, k.Users[0].User.Key} {
		if parts[i], err = base64.StdEncoding.DecodeString(s); err != nil {
			t.Fatal(err)
		}
	}
	return k.Clusters[0].Cluster.Server, parts[0], parts[1], parts[2]
}

// api returns a client of the API servers.
func (c *Cluster) api(t *testing.T) *API {
	t.Helper()
	a, err := newAPI(c.access(t))
	if err != nil {
		t.Fatal(err)
	}
	a.machines = c.machines
	return a
}

// others returns the machines but one.
func (c *Cluster) others(m machine) []machine {
	return slices.DeleteFunc(slices.Clone(c.machines), func(o machine) bool { return o == m })
}
