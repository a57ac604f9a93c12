package initfiles

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// A ProgramPod is a static pod that runs one of this project's programs on the
// network of its machine.
type ProgramPod struct {
	// Name is that of the pod, and its label k8s-app. Namespace is kube-system where
	// empty. Container is the name of the container.
	Name, Namespace, Container string
	// Image runs Command, or its own entry point where Command is empty, with Args.
	Image         string
	Command, Args []string
	// Env is the environment as KEY=VALUE; the pod has it sorted.
	Env    []string
	Mounts []Mount
	// CPU and Memory are requested for the pod, 100m and 100Mi where empty.
	CPU, Memory string
	// ProbeURL is where the program answers /healthz, which says whether it is
	// stuck, and /readyz, by plain HTTP. Empty means no probes.
	ProbeURL string
	// MetricsPort is the port of /metrics at the machine's address, for the annotations by
	// which a Prometheus finds it; empty for none.
	MetricsPort string
	// Host says that the program mounts file systems of the machine: it is
	// privileged and sees the machine's processes. Others get nothing but the right
	// to read the files of others, which keys are.
	Host bool
}

// A Mount is a part of the pod's file system. It comes from HostPath, from Image,
// or, where both are empty, is an empty directory that ends with the pod.
type Mount struct {
	Name, Path string
	// HostPath is on the machine, HostType as the kubelet knows it (Directory,
	// DirectoryOrCreate, FileOrCreate).
	HostPath, HostType string
	// Image is mounted read-only with all that is in it: an image volume, which
	// Kubernetes has from 1.31 on.
	Image    string
	ReadOnly bool
}

// Manifest returns the pod as YAML. Its liveness probe is patient: a restart of
// the program stops its etcd too, and helps only one that is stuck.
func (p ProgramPod) Manifest() (string, error) {
	p.CPU, p.Memory = cmp.Or(p.CPU, "100m"), cmp.Or(p.Memory, "100Mi")
	y := yamlText{}
	if err := errors.Join(p.validate(), p.write(&y)); err != nil {
		return "", fmt.Errorf("static pod %s: %w", p.Name, err)
	}
	return y.String(), nil
}

func (p ProgramPod) validate() error {
	words := slices.Concat([]string{p.Name, p.Namespace, p.Container}, p.Command, p.Args)
	return checkPod(p.Image, p.CPU, p.Memory, words, p.Mounts)
}

// checkPod says what of a pod no manifest can carry.
func checkPod(image, cpu, memory string, words []string, mounts []Mount) error {
	switch {
	case !repositoryForm.MatchString(image):
		return fmt.Errorf("image %q is not one", image)
	case !quantity.MatchString(cpu) || !quantity.MatchString(memory):
		return fmt.Errorf("requests %q (CPU) and %q (memory) are not quantities like 100m and 100Mi", cpu, memory)
	}
	for _, word := range words {
		if err := checkText("argument", word); err != nil {
			return err
		}
	}
	for _, m := range mounts {
		if err := checkPath("mount "+m.Name, m.Path); err != nil {
			return err
		}
		if m.HostPath == "" {
			continue
		}
		if err := checkPath("host path of "+m.Name, m.HostPath); err != nil {
			return err
		}
	}
	return nil
}

func (p ProgramPod) write(y *yamlText) error {
	y.add("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %[1]s\n  namespace: %[2]s\n  labels:\n"+
		"    k8s-app: %[1]s\n", scalar(p.Name), scalar(cmp.Or(p.Namespace, "kube-system")))
	y.scraped(p.MetricsPort)
	y.add("spec:\n  hostNetwork: true\n")
	if p.Host {
		y.add("  hostPID: true\n")
	}
	y.add("  priorityClassName: system-cluster-critical\n  priority: 2000000000\n  enableServiceLinks: false\n" +
		"  # A member that stops hands its leadership over first.\n  terminationGracePeriodSeconds: 90\n" +
		"  tolerations:\n  - operator: Exists\n")
	if !p.Host {
		y.add("  securityContext:\n    seccompProfile:\n      type: RuntimeDefault\n")
	}
	y.add("  containers:\n  - name: %s\n    image: %s\n    imagePullPolicy: IfNotPresent\n",
		scalar(p.Container), scalar(p.Image))
	y.words("command", p.Command)
	y.words("args", p.Args)
	if err := y.environment(p.Env); err != nil {
		return err
	}
	y.add("    resources:\n      requests:\n        cpu: %s\n        memory: %s\n", scalar(p.CPU), scalar(p.Memory))
	if err := y.probes(p.ProbeURL); err != nil {
		return err
	}
	if p.Host {
		y.add("    securityContext:\n      privileged: true\n")
	} else {
		y.add("    securityContext:\n      allowPrivilegeEscalation: false\n      readOnlyRootFilesystem: true\n" +
			"      capabilities:\n        drop:\n        - ALL\n        add:\n        - DAC_OVERRIDE\n")
	}
	y.mounts(p.Mounts)
	return nil
}

// scraped writes the annotations by which a Prometheus finds metrics at a port, none for "".
func (y *yamlText) scraped(port string) {
	if port != "" {
		y.add("  annotations:\n    prometheus.io/scrape: \"true\"\n    prometheus.io/port: %q\n", port)
	}
}

func (y *yamlText) mounts(list []Mount) {
	if len(list) == 0 {
		return
	}
	y.add("    volumeMounts:\n")
	for _, m := range list {
		y.add("    - name: %s\n      mountPath: %s\n", scalar(m.Name), scalar(m.Path))
		if m.ReadOnly || m.Image != "" {
			y.add("      readOnly: true\n")
		}
	}
	y.add("  volumes:\n")
	for _, m := range list {
		y.add("  - name: %s\n", scalar(m.Name))
		switch {
		case m.HostPath != "":
			y.add("    hostPath:\n      path: %s\n      type: %s\n", scalar(m.HostPath), m.HostType)
		case m.Image != "":
			y.add("    image:\n      reference: %s\n      pullPolicy: IfNotPresent\n", scalar(m.Image))
		default:
			y.add("    emptyDir: {}\n")
		}
	}
}

// words writes a list of the container. The kubelet replaces $(NAME) in it, and
// takes two $ for one.
func (y *yamlText) words(name string, words []string) {
	if len(words) > 0 {
		y.add("    %s:\n", name)
	}
	for _, w := range words {
		y.add("    - %s\n", scalar(strings.ReplaceAll(w, "$", "$$")))
	}
}

func (y *yamlText) environment(env []string) error {
	for i, line := range slices.Sorted(slices.Values(env)) {
		key, value, err := assignment(line)
		if err != nil {
			return err
		}
		if i == 0 {
			y.add("    env:\n")
		}
		y.add("    - name: %s\n      value: %s\n", scalar(key), scalar(strings.ReplaceAll(value, "$", "$$")))
	}
	return nil
}

func (y *yamlText) probes(base string) error {
	if base == "" {
		return nil
	}
	for _, probe := range []struct{ name, path, times string }{
		{"livenessProbe", "/healthz", "initialDelaySeconds: 15\n      periodSeconds: 10\n      timeoutSeconds: 15\n" +
			"      failureThreshold: 8"},
		{"readinessProbe", "/readyz", "periodSeconds: 5\n      timeoutSeconds: 5\n      failureThreshold: 3"},
	} {
		if err := y.probe(probe.name, base, probe.path, probe.times); err != nil {
			return err
		}
	}
	return nil
}

// probe writes a probe that asks for a path at a URL without one.
func (y *yamlText) probe(name, base, path, times string) error {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" || u.Port() == "" || u.Path != "" {
		return fmt.Errorf("URL %q of the probes is not of the form http://127.0.0.1:8080", base)
	}
	host := u.Hostname()
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	y.add("    %s:\n      httpGet:\n        scheme: HTTP\n        host: %s\n        port: %s\n        path: %s\n      %s\n",
		name, scalar(host), u.Port(), path, times)
	return nil
}
