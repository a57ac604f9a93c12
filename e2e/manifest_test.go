package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
)

// TestStaticPodFollowsTheSchema reads the static pod with the types of the
// Kubernetes API, strictly: a field that the API does not have, or of another
// type, is an error there.
func TestStaticPodFollowsTheSchema(t *testing.T) {
	uid := int64(1001)
	for name, o := range map[string]initfiles.PodOptions{
		"root":       {},
		"a user":     {UID: &uid, GID: &uid},
		"unhardened": {HardeningOff: true},
		"a log":      {LogFile: "/var/log/etcd.log"},
		"no probes":  {ProbeURL: "-"},
	} {
		t.Run(name, func(t *testing.T) {
			o.Repository, o.Version = "quay.io/coreos/etcd", etcdversion.Must(v36)
			o.Env = []string{"ETCD_NAME=a", "ETCD_ADVERTISE_CLIENT_URLS=https://10.0.0.1:2379",
				"ETCD_INITIAL_CLUSTER=a=https://[2001:db8::1]:2380", `ODD=" # 'x': {}`}
			o.CertsDir, o.DataDir = "/etc/etcd/pki", "/var/lib/etcd"
			switch o.ProbeURL {
			case "":
				o.ProbeURL = "http://127.0.0.1:2381"
			case "-":
				o.ProbeURL = ""
			}
			text, err := initfiles.Manifest(o)
			if err != nil {
				t.Fatal(err)
			}
			var pod corev1.Pod
			if err := yaml.UnmarshalStrict([]byte(text), &pod); err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
			checkPod(t, pod, o)
		})
	}
}

// checkPod asks for what the kubelet acts on.
func checkPod(t *testing.T, pod corev1.Pod, o initfiles.PodOptions) {
	t.Helper()
	if pod.Name != "etcd" || pod.Namespace != "kube-system" || !pod.Spec.HostNetwork ||
		pod.Spec.PriorityClassName != "system-cluster-critical" {
		t.Errorf("pod is %s/%s, hostNetwork %v, priority %s", pod.Namespace, pod.Name, pod.Spec.HostNetwork,
			pod.Spec.PriorityClassName)
	}
	c := pod.Spec.Containers[0]
	if c.Image != "quay.io/coreos/etcd:v3.6.16" || c.Resources.Requests.Cpu().MilliValue() != 100 ||
		c.Resources.Requests.Memory().Value() != 100<<20 {
		t.Errorf("image %s, requests %v", c.Image, c.Resources.Requests)
	}
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	for _, want := range o.Env {
		k, v, _ := strings.Cut(want, "=")
		if env[k] != v {
			t.Errorf("%s is %q, want %q", k, env[k], v)
		}
	}
	if s := c.SecurityContext; s != nil && s.Privileged != nil && *s.Privileged {
		t.Error("the container is privileged")
	}
	if o.ProbeURL == "" {
		if c.LivenessProbe != nil || c.StartupProbe != nil {
			t.Error("there is a probe with nowhere to ask")
		}
		return
	}
	for path, p := range map[string]*corev1.Probe{"/livez": c.StartupProbe, "/readyz": c.ReadinessProbe} {
		if p == nil || p.HTTPGet == nil || p.HTTPGet.Path != path || p.HTTPGet.Port.IntValue() != 2381 ||
			p.HTTPGet.Host != "127.0.0.1" {
			t.Errorf("probe %s is %+v", path, p)
		}
	}
	mounts := map[string]bool{}
	for _, m := range c.VolumeMounts {
		mounts[m.Name] = true
	}
	for _, v := range pod.Spec.Volumes {
		if v.HostPath == nil || !mounts[v.Name] {
			t.Errorf("volume %s is no mounted host path", v.Name)
		}
	}
}

// TestManagerManifestsFollowTheSchema reads the static pods of the source tree,
// which are what "etcdadm render" prints: each directory that a flag names has
// to be mounted.
func TestManagerManifestsFollowTheSchema(t *testing.T) {
	files, err := filepath.Glob("../manifests/etcd-manager/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var pod corev1.Pod
		if err := yaml.UnmarshalStrict(text, &pod); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		c := pod.Spec.Containers[0]
		sources := map[string]corev1.VolumeSource{}
		for _, v := range pod.Spec.Volumes {
			sources[v.Name] = v.VolumeSource
		}
		mounts := map[string]corev1.VolumeSource{}
		for _, m := range c.VolumeMounts {
			mounts[m.MountPath] = sources[m.Name]
			if s := sources[m.Name]; s.HostPath == nil && s.Image == nil && s.EmptyDir == nil {
				t.Errorf("%s: there is no volume %s", file, m.Name)
			}
		}
		for _, arg := range c.Args {
			name, value, _ := strings.Cut(arg, "=")
			if name == "--data-dir" && (mounts[value].HostPath == nil || mounts[value].HostPath.Path != value) {
				t.Errorf("%s: %s is not mounted", file, arg)
			}
		}
		if mounts["/etc/kubernetes/pki/etcd-manager"].HostPath == nil || !pod.Spec.HostNetwork {
			t.Errorf("%s: the authorities or the network of the machine are missing", file)
		}
		kops := strings.Contains(file, "kops")
		if kops != (mounts["/rootfs"].HostPath != nil) || kops != (mounts["/opt/etcd-v3.6.16"].Image != nil) ||
			kops != pod.Spec.HostPID || kops != (c.SecurityContext.Privileged != nil) {
			t.Errorf("%s is of another kind", file)
		}
		// One that waits, for its volume or for peers, answers there.
		if p := c.LivenessProbe; p != nil && (p.HTTPGet.Path != "/healthz" || p.FailureThreshold < 8) {
			t.Errorf("%s: a daemon that waits would be killed: %+v", file, p)
		}
	}
}
