//go:build e2e

package systemd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// suites are the cipher suites that EKS Anywhere allows.
const suites = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"

// A Bottlerocket is a machine without systemd, whose root file system cannot be
// written: containers in one network namespace. A program prepares etcd in one
// container for each phase; then etcd runs as a static pod, unprivileged.
type Bottlerocket struct {
	// Name is the host name, IP the address of the default route.
	Name, IP string

	t       testing.TB
	image   string
	version string
	// id is the container that has the network; dir is what the machine keeps.
	id, dir string
	phases  int
}

// startBottlerockets makes n machines, m1 and so on, in a network of their own.
// They end with the test.
func startBottlerockets(t testing.TB, n int, version string) []*Bottlerocket {
	t.Helper()
	image, net := prepare(t)
	ctx := t.Context()
	machines := make([]*Bottlerocket, n)
	for i := range machines {
		m := &Bottlerocket{
			t: t, image: image, version: version, Name: "m" + strconv.Itoa(i+1), IP: net.ip4(i + 11), dir: t.TempDir(),
		}
		m.id = net.name + "-" + m.Name
		machines[i] = m
		for _, dir := range []string{"etcd/data", "etcd/pki", "work/manifests", "var-lib"} {
			if err := os.MkdirAll(filepath.Join(m.dir, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		// The program that runs the phases makes them so.
		for _, dir := range []string{"etcd/data", "etcd/pki", "work/manifests"} {
			if err := os.Chmod(filepath.Join(m.dir, dir), 0o640); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("/.bottlerocket/rootfs/var/lib/etcd", filepath.Join(m.dir, "var-lib", "etcd")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.end)
		_, err := docker(ctx, "run", "--detach", "--name="+m.id, "--hostname="+m.Name, "--label="+owner(),
			"--network="+net.name, "--ip="+m.IP, "--read-only", "--cap-drop=ALL", image, "sleep", "infinity")
		if err != nil {
			t.Fatal(err)
		}
	}
	return machines
}

// end removes the machine's containers.
func (m *Bottlerocket) end() {
	ctx := context.WithoutCancel(m.t.Context())
	if m.t.Failed() {
		out, err := run(ctx, nil, "logs", "--tail=30", m.pod())
		m.t.Logf("==== %s: etcd: %v\n%s", m.Name, err, out)
	}
	ids := []string{m.pod()}
	for i := range m.phases {
		ids = append(ids, m.phase(i))
	}
	for _, id := range append(ids, m.id) {
		//nolint:errcheck // sweep tries again
		docker(ctx, "rm", "--force", "--volumes", id)
	}
}

func (m *Bottlerocket) url() string        { return "https://" + m.IP + ":2379" }
func (m *Bottlerocket) pod() string        { return m.id + "-etcd" }
func (m *Bottlerocket) phase(i int) string { return fmt.Sprintf("%s-phase%d", m.id, i) }

// begin starts a phase in a container of its own, and returns its name.
func (m *Bottlerocket) begin(words ...string) string {
	m.t.Helper()
	id := m.phase(m.phases)
	m.phases++
	args := []string{
		"run", "--detach", "--name=" + id, "--label=" + owner(), "--network=container:" + m.id,
		"--read-only", "--tmpfs=/tmp", "--security-opt=no-new-privileges",
		"--volume=" + m.dir + "/etcd:/.bottlerocket/rootfs/var/lib/etcd", "--volume=" + m.dir + "/var-lib:/var/lib:ro",
		"--volume=" + m.dir + "/work:/work", "--workdir=/work", m.image, "etcdadm",
	}
	args = append(args, words...)
	args = append(args, "-l", "debug", "--version", m.version, "--init-system", "kubelet", "--image-repository",
		"public.ecr.aws/eks-distro/etcd-io/etcd", "--certs-dir", "/var/lib/etcd/pki", "--data-dir", "/var/lib/etcd/data",
		"--kubelet-pod-manifest-path", "./manifests", "--cipher-suites", suites)
	if _, err := docker(m.t.Context(), args...); err != nil {
		m.t.Fatal(err)
	}
	return id
}

// await waits for a phase to end, which has to succeed.
func (m *Bottlerocket) await(id string) {
	m.t.Helper()
	ctx, stop := context.WithTimeout(m.t.Context(), runTime)
	defer stop()
	code, err := docker(ctx, "wait", id)
	if err != nil || code != "0" {
		m.t.Fatalf("%s: exit code %s, %v\n%s", id, code, err, m.said(id))
	}
}

// said is what a phase has said so far.
func (m *Bottlerocket) said(id string) string {
	m.t.Helper()
	r, err := run(m.t.Context(), nil, "logs", id)
	if err != nil {
		m.t.Fatal(err)
	}
	return r.Stdout + r.Stderr
}

// do runs phases one after the other, each a process.
func (m *Bottlerocket) do(command, endpoint string, phases ...string) {
	m.t.Helper()
	for _, p := range phases {
		words := []string{command, "phase", p}
		if endpoint != "" {
			words = append(words, endpoint)
		}
		m.await(m.begin(words...))
		say(m.t, "%s: %s phase %s", m.Name, command, p)
	}
}

// A staticPod is what a kubelet runs of the manifest.
type staticPod struct {
	Metadata struct{ Name string }
	Spec     struct {
		Containers []struct {
			Image           string
			Command         []string
			Env             []struct{ Name, Value string }
			SecurityContext struct{ Capabilities struct{ Drop, Add []string } }
			VolumeMounts    []struct {
				Name, MountPath string
				ReadOnly        bool
			}
		}
		Volumes []struct {
			Name     string
			HostPath struct{ Path string }
		}
	}
}

// startPods runs what is in the directory of the manifests, as the kubelet does
// when it has the image.
func (m *Bottlerocket) startPods() {
	m.t.Helper()
	entries, err := os.ReadDir(filepath.Join(m.dir, "work", "manifests"))
	if err != nil || len(entries) != 1 || entries[0].Name() != "etcd.manifest" {
		m.t.Fatalf("%s: the manifests are %v, %v", m.Name, entries, err)
	}
	var pod staticPod
	if err := yaml.Unmarshal([]byte(m.manifest()), &pod); err != nil {
		m.t.Fatal(err)
	}
	c := pod.Spec.Containers[0]
	etcd, err := harness.EtcdBinary(os.Getenv("ETCDADM_ETCD_DIR"), m.version, "etcd")
	if err != nil {
		m.t.Fatal(err)
	}
	args := []string{
		"run", "--detach", "--name=" + m.pod(), "--label=" + owner(), "--network=container:" + m.id,
		"--security-opt=no-new-privileges", "--volume=" + filepath.Dir(etcd) + ":/opt/etcd:ro",
		"--env=PATH=/opt/etcd:/usr/bin:/bin",
	}
	for _, drop := range c.SecurityContext.Capabilities.Drop {
		args = append(args, "--cap-drop="+drop)
	}
	for _, add := range c.SecurityContext.Capabilities.Add {
		args = append(args, "--cap-add="+add)
	}
	for _, v := range c.Env {
		args = append(args, "--env="+v.Name+"="+strings.ReplaceAll(v.Value, "$$", "$"))
	}
	for _, mount := range c.VolumeMounts {
		for _, v := range pod.Spec.Volumes {
			if v.Name == mount.Name {
				host := strings.Replace(v.HostPath.Path, "/var/lib/etcd", m.dir+"/etcd", 1)
				args = append(args, fmt.Sprintf("--volume=%s:%s", host, mount.MountPath))
				if mount.ReadOnly {
					args[len(args)-1] += ":ro"
				}
			}
		}
	}
	if _, err := docker(m.t.Context(), append(append(args, m.image), c.Command...)...); err != nil {
		m.t.Fatal(err)
	}
}

func (m *Bottlerocket) manifest() string {
	m.t.Helper()
	b, err := os.ReadFile(filepath.Join(m.dir, "work", "manifests", "etcd.manifest"))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(b)
}

// inPod runs a script in the pod's container.
func (m *Bottlerocket) inPod(script string) string {
	m.t.Helper()
	out, err := docker(m.t.Context(), "exec", "--workdir=/", m.pod(), "sh", "-ec", script)
	if err != nil {
		m.t.Fatalf("%s: %v", m.Name, err)
	}
	return out
}
