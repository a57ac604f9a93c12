package e2e

import (
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
