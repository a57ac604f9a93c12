package initfiles

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// usualPod are the options of a machine with the defaults.
func usualPod(t *testing.T) PodOptions {
	return PodOptions{
		Repository: "registry.k8s.io/etcd", Version: etcdversion.Must("3.6.16"), Env: member(t),
		CertsDir: "/etc/etcd/pki", DataDir: "/var/lib/etcd", ProbeURL: "http://127.0.0.1:2381",
	}
}

// pods are the pods that have golden files.
func pods(t *testing.T) map[string]PodOptions {
	uid, gid := int64(1000), int64(1001)
	user := usualPod(t)
	user.UID, user.GID, user.LogFile, user.CPU, user.Memory = &uid, &gid, "/var/log/etcd.log", "2", "1.5Gi"
	user.Repository, user.Version = "quay.io/coreos/etcd", etcdversion.Must("3.5.8-eks-1-26-16")
	bare := usualPod(t)
	bare.HardeningOff, bare.ProbeURL, bare.Env = true, "", nil
	secure := usualPod(t)
	secure.ProbeURL, secure.LowPort = "https://[::1]:443", true
	secure.Env = []string{"Z=: \"x\" #\t'y' \\ $(HOME) $", "A=größe 😀\u2028"}
	return map[string]PodOptions{"default": usualPod(t), "user": user, "bare": bare, "secure": secure}
}

// The parts of Kubernetes' API that a pod may have here, by its documentation.
type (
	pod struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct {
			Name, Namespace     string
			Labels, Annotations map[string]string
		}
		Spec podSpec
	}
	podSpec struct {
		HostNetwork        bool   `yaml:"hostNetwork"`
		PriorityClassName  string `yaml:"priorityClassName"`
		Priority           int32
		EnableServiceLinks *bool `yaml:"enableServiceLinks"`
		Tolerations        []struct{ Operator string }
		SecurityContext    *struct {
			RunAsUser      *int64                 `yaml:"runAsUser"`
			RunAsGroup     *int64                 `yaml:"runAsGroup"`
			SeccompProfile *struct{ Type string } `yaml:"seccompProfile"`
		} `yaml:"securityContext"`
		Containers []container
		Volumes    []struct {
			Name     string
			HostPath struct{ Path, Type string } `yaml:"hostPath"`
		}
	}
	container struct {
		Name, Image     string
		ImagePullPolicy string `yaml:"imagePullPolicy"`
		Command         []string
		Env             []podVariable
		Resources       struct{ Requests map[string]string }
		SecurityContext *struct {
			Privileged               *bool
			AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
			ReadOnlyRootFilesystem   *bool `yaml:"readOnlyRootFilesystem"`
			Capabilities             struct{ Drop, Add []string }
		} `yaml:"securityContext"`
		StartupProbe   *podProbe `yaml:"startupProbe"`
		LivenessProbe  *podProbe `yaml:"livenessProbe"`
		ReadinessProbe *podProbe `yaml:"readinessProbe"`
		VolumeMounts   []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
			ReadOnly  bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
	}
	podProbe struct {
		HTTPGet *struct {
			Scheme, Host, Path string
			Port               int
		} `yaml:"httpGet"`
		TCPSocket *struct {
			Host string
			Port int
		} `yaml:"tcpSocket"`
		InitialDelaySeconds int `yaml:"initialDelaySeconds"`
		PeriodSeconds       int `yaml:"periodSeconds"`
		TimeoutSeconds      int `yaml:"timeoutSeconds"`
		FailureThreshold    int `yaml:"failureThreshold"`
	}
)

// read parses a manifest and refuses fields that a pod does not have.
func read(t *testing.T, text string) pod {
	t.Helper()
	var p pod
	dec := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	dec.KnownFields(true)
	if err := dec.Decode(&p); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	var tree map[string]any // as the kubelet reads it
	if err := kyaml.UnmarshalStrict([]byte(text), &tree); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return p
}

func TestManifests(t *testing.T) {
	for name, o := range pods(t) {
		text := must[string](t)(Manifest(o))
		golden(t, name+".manifest", text)
		read(t, text)
	}
}

func TestManifestKeepsWhatOthersRelyOn(t *testing.T) {
	p := read(t, must[string](t)(Manifest(usualPod(t))))
	c := p.Spec.Containers[0]
	if p.APIVersion != "v1" || p.Kind != "Pod" || p.Metadata.Name != "etcd" || p.Metadata.Namespace != "kube-system" ||
		p.Metadata.Labels["k8s-app"] != "etcd" || !p.Spec.HostNetwork ||
		p.Spec.PriorityClassName != "system-cluster-critical" ||
		len(p.Spec.Containers) != 1 || c.Name != "etcd" || len(c.Command) != 1 || c.Command[0] != "etcd" {
		t.Errorf("%+v", p)
	}
	var env []string
	for _, v := range c.Env {
		env = append(env, v.Name+"="+v.Value)
	}
	if strings.Join(env, "\n") != strings.Join(member(t), "\n") {
		t.Errorf("environment %q, want %q", env, member(t))
	}
	if *c.SecurityContext.Privileged || c.Resources.Requests["cpu"] != "100m" ||
		c.Resources.Requests["memory"] != "100Mi" {
		t.Errorf("%+v", c)
	}
	for i, v := range p.Spec.Volumes {
		m := c.VolumeMounts[i]
		if v.Name != m.Name || v.HostPath.Path != m.MountPath || m.ReadOnly != (v.Name == "etcd-certs") {
			t.Errorf("volume %+v, mount %+v", v, m)
		}
	}
}

func TestValuesReachEtcdUnchanged(t *testing.T) {
	o := usualPod(t)
	o.Env = nil
	for i, v := range someValues(500) {
		o.Env = append(o.Env, "K"+strings.Repeat("x", i)+"="+v)
	}
	p := read(t, must[string](t)(Manifest(o)))
	for i, v := range p.Spec.Containers[0].Env {
		// The kubelet takes $$ for $, and there is no other $ in it.
		if got := v.Name + "=" + strings.ReplaceAll(v.Value, "$$", "$"); got != o.Env[i] ||
			strings.Count(v.Value, "$") != 2*strings.Count(o.Env[i], "$") {
			t.Errorf("%q becomes %q", o.Env[i], got)
		}
	}
}

func TestImage(t *testing.T) {
	for _, tt := range []struct{ repository, version, want string }{
		{"registry.k8s.io/etcd", "3.6.16", "registry.k8s.io/etcd:3.6.16-0"},
		{"registry.k8s.io/etcd", "3.5.24-0", "registry.k8s.io/etcd:3.5.24-0"},
		{"k8s.gcr.io/etcd", "3.5.6", "k8s.gcr.io/etcd:3.5.6-0"},
		{"quay.io/coreos/etcd", "3.6.16", "quay.io/coreos/etcd:v3.6.16"},
		{"example.org:5000/etcd", "3.5.8-eks-1-26-16", "example.org:5000/etcd:v3.5.8-eks-1-26-16"},
		{"example.org:5000/etcd:mine", "3.6.16", "example.org:5000/etcd:mine"},
		{"example.org/etcd@sha256:ab", "3.6.16", "example.org/etcd@sha256:ab"},
	} {
		if got := Image(tt.repository, etcdversion.Must(tt.version)); got != tt.want {
			t.Errorf("%s, %s: %s, want %s", tt.repository, tt.version, got, tt.want)
		}
	}
}

func TestProbes(t *testing.T) {
	const live, ready = "/health?exclude=NOSPACE&serializable=true", "/health?exclude=NOSPACE&serializable=false"
	for version, want := range map[string][2]string{
		"3.4.28": {live, ready}, "3.4.29": {"/livez", "/readyz"}, "3.5.10": {live, ready},
		"3.5.11": {"/livez", "/readyz"}, "3.6.0": {"/livez", "/readyz"}, "3.7.3": {"/livez", "/readyz"},
	} {
		o := usualPod(t)
		o.Version, o.ProbeURL = etcdversion.Must(version), "http://0.0.0.0:2381"
		c := read(t, must[string](t)(Manifest(o))).Spec.Containers[0]
		for _, p := range []struct {
			name  string
			probe *podProbe
			path  string
		}{{"startup", c.StartupProbe, want[0]}, {"readiness", c.ReadinessProbe, want[1]}} {
			if g := p.probe.HTTPGet; g == nil || g.Path != p.path || g.Host != "127.0.0.1" || g.Port != 2381 {
				t.Errorf("%s: %s probe %+v, want %s", version, p.name, g, p.path)
			}
		}
	}
}

func TestManifestRefuses(t *testing.T) {
	uid := int64(1)
	for want, change := range map[string]func(o *PodOptions){
		"image repository":            func(o *PodOptions) { o.Repository = "a b" },
		"version of etcd is missing":  func(o *PodOptions) { o.Version = etcdversion.Version{} },
		"not quantities":              func(o *PodOptions) { o.CPU = "many" },
		"data directory is missing":   func(o *PodOptions) { o.DataDir = "" },
		"not an absolute path":        func(o *PodOptions) { o.CertsDir = "pki" },
		"log file":                    func(o *PodOptions) { o.LogFile = "etcd.log" },
		"not of the form KEY=VALUE":   func(o *PodOptions) { o.Env = []string{"x"} },
		"has the character":           func(o *PodOptions) { o.Env = []string{"K=a\nb"} },
		"no ambient capabilities":     func(o *PodOptions) { o.LowPort, o.UID = true, &uid },
		`probe URL "127.0.0.1:2381"`:  func(o *PodOptions) { o.ProbeURL = "127.0.0.1:2381" },
		`probe URL "http://127.0.0.1`: func(o *PodOptions) { o.ProbeURL = "http://127.0.0.1" },
	} {
		o := usualPod(t)
		change(&o)
		if _, err := Manifest(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want ... %s", err, want)
		}
	}
}

func TestPodAsksForItsMarker(t *testing.T) {
	o := PodOptions{
		Repository: "quay.io/coreos/etcd", Version: etcdversion.Must("3.6.16"), Env: []string{"ETCD_NAME=a"},
		CertsDir: "/etc/etcd/pki", DataDir: "/var/lib/etcd", Marker: "/var/lib/etcd/.etcdadm",
	}
	text, err := Manifest(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"path: /var/lib/etcd/.etcdadm\n      type: File", "path: /var/lib/etcd\n      type: Directory",
		"mountPath: /run/etcdadm-marker\n      readOnly: true",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// Pages advise people to read values out of the manifest with grep, to restore a
// snapshot in the running container, and to wait for the liveness probe, if there is
// one.
func TestManifestForPeopleWithGrep(t *testing.T) {
	o := usualPod(t)
	o.Env = []string{
		"ETCD_NAME=10-0-0-1", "ETCD_INITIAL_ADVERTISE_PEER_URLS=https://10.0.0.1:2380",
		"ETCD_LISTEN_PEER_URLS=https://[fd00::1]:2380",
		"ETCD_INITIAL_CLUSTER=a-1=https://10.0.0.1:2380,b=https://10.0.0.2:2380", "ETCD_A=true", "ETCD_B=1e3",
		"ETCD_C=2001-01-01", "ETCD_D=a: b", "ETCD_E=a:",
	}
	text := must[string](t)(Manifest(o))
	for _, want := range []string{
		"image: registry.k8s.io/etcd:3.6.16-0", "name: ETCD_NAME\n      value: 10-0-0-1\n", "value: https://10.0.0.1:2380\n",
		"value: https://[fd00::1]:2380\n",
		"value: a-1=https://10.0.0.1:2380,b=https://10.0.0.2:2380\n", "value: \"true\"\n", "value: \"1e3\"\n",
		"value: \"2001-01-01\"\n", "value: \"a: b\"\n", "value: \"a:\"\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	c := read(t, text).Spec.Containers[0]
	for i, v := range c.Env {
		if !slices.Contains(o.Env, v.Name+"="+v.Value) {
			t.Errorf("variable %d is %s=%s", i, v.Name, v.Value)
		}
	}
	if c.LivenessProbe != nil || c.StartupProbe == nil || c.ReadinessProbe == nil {
		t.Errorf("probes: %+v", c)
	}
	if ro := c.SecurityContext.ReadOnlyRootFilesystem; ro != nil && *ro {
		t.Error("nobody can restore a snapshot in the container")
	}
}
