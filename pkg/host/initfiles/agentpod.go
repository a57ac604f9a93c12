package initfiles

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// An AgentPod runs a program beside an etcd, on the network of its machine. It has
// no right but to read and write what is mounted, as root where that is anything.
type AgentPod struct {
	// App is the program, and the name of the container. Name is that of the pod or
	// the CronJob, both in the namespace kube-system.
	App, Name string
	// Image runs its entry point with Args and the environment Env, as KEY=VALUE.
	Image     string
	Args, Env []string
	Mounts    []Mount
	// ProbeURL is where the program answers /healthz, by plain HTTP, empty for no
	// probe. There is no liveness probe: to start it again helps nothing that it
	// reports.
	ProbeURL string
	// MetricsPort is the port of /metrics at the machine's address, for the annotations by
	// which a Prometheus finds it; empty for none.
	MetricsPort string
	// Secret has further variables. A static pod can have none.
	Secret string
}

// A CronJob says when an [AgentPod] runs that ends by itself.
type CronJob struct {
	// Schedule are the five fields of cron, in UTC.
	Schedule string
	// Limit ends a pod that takes longer.
	Limit time.Duration
}

// What an agent may use.
const agentCPU, agentMemory, agentMemoryLimit = "50m", "64Mi", "256Mi"

// agentName is a name that CronJobs and labels can have; jobs add eleven characters to it.
var agentName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$`)

// Manifest returns a static pod as YAML.
func (p AgentPod) Manifest() (string, error) {
	y := yamlText{}
	y.add("apiVersion: v1\nkind: Pod\n")
	p.metadata(&y)
	y.scraped(p.MetricsPort)
	y.add("spec:\n")
	err := p.validate()
	if p.Secret != "" {
		err = errors.Join(err, errors.New("a static pod can have no Secret"))
	}
	if err = errors.Join(err, p.spec(&y, "  priorityClassName: system-cluster-critical\n  priority: 2000000000\n"+
		"  tolerations:\n  - operator: Exists\n")); err != nil {
		return "", fmt.Errorf("static pod %s: %w", p.Name, err)
	}
	return y.String(), nil
}

// CronJob returns a CronJob as YAML, whose pods run on control-plane machines.
func (p AgentPod) CronJob(c CronJob) (string, error) {
	y, spec := yamlText{}, yamlText{}
	err := errors.Join(p.validate(), checkText("schedule", c.Schedule), p.spec(&spec, "  restartPolicy: Never\n"+
		"  # The certificates, and etcd, are on the control-plane machines.\n"+
		"  nodeSelector:\n    node-role.kubernetes.io/control-plane: \"\"\n"+
		"  tolerations:\n  - key: node-role.kubernetes.io/control-plane\n    operator: Exists\n    effect: NoSchedule\n"+
		"  automountServiceAccountToken: false\n"))
	if err != nil {
		return "", fmt.Errorf("CronJob %s: %w", p.Name, err)
	}
	y.add("apiVersion: batch/v1\nkind: CronJob\n")
	p.metadata(&y)
	y.add("spec:\n  schedule: %s\n  timeZone: Etc/UTC\n  concurrencyPolicy: Forbid\n  startingDeadlineSeconds: 3600\n"+
		"  successfulJobsHistoryLimit: 1\n  failedJobsHistoryLimit: 3\n  jobTemplate:\n    spec:\n      backoffLimit: 3\n"+
		"      activeDeadlineSeconds: %d\n      template:\n        metadata:\n          labels:\n"+
		"            app.kubernetes.io/name: %s\n            app.kubernetes.io/instance: %s\n        spec:\n",
		scalar(c.Schedule), max(1, int64(c.Limit.Seconds())), scalar(p.App), scalar(p.Name))
	for line := range strings.Lines(spec.String()) {
		y.add("        %s", line)
	}
	return y.String(), nil
}

func (p AgentPod) validate() error {
	if !agentName.MatchString(p.Name) || p.Secret != "" && !agentName.MatchString(p.Secret) {
		return fmt.Errorf("name %q or Secret %q is not one of at most 52 lower-case letters, digits and dashes", p.Name, p.Secret)
	}
	return checkPod(p.Image, agentCPU, agentMemory, slices.Concat([]string{p.App}, p.Args), p.Mounts)
}

func (p AgentPod) metadata(y *yamlText) {
	y.add("metadata:\n  name: %[1]s\n  namespace: kube-system\n  labels:\n    app.kubernetes.io/name: %[2]s\n"+
		"    app.kubernetes.io/instance: %[1]s\n", scalar(p.Name), scalar(p.App))
}

// spec writes the spec of the pod, which begins with the given lines.
func (p AgentPod) spec(y *yamlText, first string) error {
	y.add("  hostNetwork: true\n  enableServiceLinks: false\n%s"+
		"  # Time to break off what is under way.\n  terminationGracePeriodSeconds: 60\n"+
		"  securityContext:\n    seccompProfile:\n      type: RuntimeDefault\n"+
		"  containers:\n  - name: %s\n    image: %s\n    imagePullPolicy: IfNotPresent\n", first, scalar(p.App), scalar(p.Image))
	y.words("args", p.Args)
	if err := y.environment(p.Env); err != nil {
		return err
	}
	if p.Secret != "" {
		y.add("    envFrom:\n    - secretRef:\n        name: %s\n", scalar(p.Secret))
	}
	y.add("    resources:\n      requests:\n        cpu: %s\n        memory: %s\n      limits:\n        memory: %s\n",
		agentCPU, agentMemory, agentMemoryLimit)
	if p.ProbeURL != "" {
		if err := y.probe("readinessProbe", p.ProbeURL, "/healthz", "periodSeconds: 30"); err != nil {
			return err
		}
	}
	y.add("    securityContext:\n")
	if slices.ContainsFunc(p.Mounts, func(m Mount) bool { return cmp.Or(m.HostPath, m.Image) != "" }) {
		y.add("      # The machine's keys and directories belong to root.\n      runAsUser: 0\n")
	}
	y.add("      allowPrivilegeEscalation: false\n      readOnlyRootFilesystem: true\n" +
		"      capabilities:\n        drop:\n        - ALL\n")
	y.mounts(p.Mounts)
	return nil
}
