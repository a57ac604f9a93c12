// Package etcdbackup tests the examples of how to run etcd-backup.
package etcdbackup

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/command/etcdbackup"
)

const dir = "../../manifests/etcd-backup"

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// checkFlags holds flags to those that the command has, and their values to what
// it takes.
func checkFlags(t *testing.T, args []string) {
	t.Helper()
	root := etcdbackup.New()
	if err := root.ParseFlags(args); err != nil {
		t.Error(err)
	}
	for _, must := range []string{"cluster-name", "backup-store", "client-url"} {
		if !root.Flags().Changed(must) {
			t.Errorf("--%s is not given", must)
		}
	}
	for _, arg := range args {
		name, value, ok := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if strings.HasSuffix(name, "-retention") {
			if _, err := retention.ParseDuration(value); err != nil || !ok {
				t.Errorf("%s: %v", arg, err)
			}
		}
	}
}

// checkPod asks for what makes an agent work: its files are mounted, it reaches
// etcd on the machine, and it may read root's key.
func checkPod(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	c := pod.Containers[0]
	checkFlags(t, c.Args)
	if !pod.HostNetwork || *c.SecurityContext.RunAsUser != 0 || !*c.SecurityContext.ReadOnlyRootFilesystem ||
		*pod.TerminationGracePeriodSeconds < 60 {
		t.Errorf("%+v", pod)
	}
	if c.SecurityContext.Privileged != nil || !slices.Contains(c.SecurityContext.Capabilities.Drop, "ALL") {
		t.Error("it may do more than it must")
	}
	for _, arg := range c.Args {
		name, path, _ := strings.Cut(arg, "=")
		if !strings.HasSuffix(name, "-file") && (name != "--backup-store" || !strings.HasPrefix(path, "/")) {
			continue
		}
		i := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return path == m.MountPath || strings.HasPrefix(path, m.MountPath+"/")
		})
		if i < 0 {
			t.Errorf("%s is not mounted", path)
			continue
		}
		m := c.VolumeMounts[i]
		if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name && v.HostPath != nil }) {
			t.Errorf("there is no volume %s", m.Name)
		}
		if m.ReadOnly == (name == "--backup-store") {
			t.Errorf("%s: read-only is %t", path, m.ReadOnly)
		}
	}
}

func TestStaticPod(t *testing.T) {
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(read(t, "static-pod.yaml"), &pod); err != nil {
		t.Fatal(err)
	}
	if pod.Kind != "Pod" || pod.Namespace != "kube-system" {
		t.Errorf("%s %s/%s", pod.Kind, pod.Namespace, pod.Name)
	}
	checkPod(t, pod.Spec)
	c := pod.Spec.Containers[0]
	p := c.ReadinessProbe.HTTPGet
	if p.Path != "/healthz" || !slices.Contains(c.Args, "--listen-metrics="+p.Host+":"+p.Port.String()) ||
		c.LivenessProbe != nil {
		t.Errorf("the probe is %+v", p)
	}
}

func TestCronJob(t *testing.T) {
	var job batchv1.CronJob
	if err := yaml.UnmarshalStrict(read(t, "cronjob.yaml"), &job); err != nil {
		t.Fatal(err)
	}
	pod := job.Spec.JobTemplate.Spec.Template.Spec
	checkPod(t, pod)
	if job.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent || *job.Spec.TimeZone != "Etc/UTC" ||
		pod.RestartPolicy != corev1.RestartPolicyNever || !slices.Contains(pod.Containers[0].Args, "--once") {
		t.Errorf("%+v", job.Spec)
	}
}

// lines returns the lines of a unit that are neither empty nor comments, each with
// those that continue it.
func lines(t *testing.T, name string) (list []string) {
	t.Helper()
	for s := bufio.NewScanner(strings.NewReader(strings.ReplaceAll(string(read(t, name)), "\\\n", ""))); s.Scan(); {
		if line := strings.TrimSpace(s.Text()); line != "" && line[0] != '#' && line[0] != ';' {
			list = append(list, line)
		}
	}
	return list
}

func TestService(t *testing.T) {
	section, values := "", map[string][]string{}
	for _, line := range lines(t, "etcd-backup.service") {
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]")
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || section == "" {
			t.Errorf("%q is in no section, or no setting", line)
		}
		values[section+"."+key] = append(values[section+"."+key], value)
	}
	for key, want := range map[string]string{
		"Service.EnvironmentFile": "-/etc/etcd-backup/etcd-backup.env", "Service.CapabilityBoundingSet": "",
		"Service.Restart": "always", "Service.StateDirectory": "etcd-backup", "Install.WantedBy": "multi-user.target",
	} {
		if len(values[key]) != 1 || values[key][0] != want {
			t.Errorf("%s is %v, want %s", key, values[key], want)
		}
	}
	start := strings.Fields(values["Service.ExecStart"][0])
	if start[0] != "/usr/local/bin/etcd-backup" {
		t.Errorf("it starts %s", start[0])
	}
	checkFlags(t, start[1:])
	// The store is the directory that the service may write.
	if !slices.Contains(start, "--backup-store=/var/lib/"+values["Service.StateDirectory"][0]) {
		t.Error("the service may not write to its store")
	}
}
