package initfiles

import (
	"fmt"
	"strings"
)

// yaml writes the pod. The names, the label k8s-app and the paths are those of
// the retired etcdadm; the labels component and tier, the annotation and the
// numbers of the probes are those of kubeadm.
//
// It is not a text/template: with one, the linker keeps every exported method of
// every type, and etcdadm has 20 MB more.
func (d podData) yaml() string {
	var y yamlText
	y.add(header)
	y.add("apiVersion: v1\nkind: Pod\nmetadata:\n  name: etcd\n  namespace: kube-system\n")
	if d.Advertised != "" {
		y.add("  annotations:\n    kubeadm.kubernetes.io/etcd.advertise-client-urls: %s\n", scalar(d.Advertised))
	}
	y.add("  labels:\n    k8s-app: etcd\n    component: etcd\n    tier: control-plane\n" +
		"spec:\n  hostNetwork: true\n  priorityClassName: system-cluster-critical\n  priority: 2000000000\n" +
		"  enableServiceLinks: false\n  tolerations:\n  - operator: Exists\n")
	d.podSecurity(&y)
	y.add("  containers:\n  - name: etcd\n    image: %s\n    imagePullPolicy: IfNotPresent\n    command:\n    - etcd\n"+
		"    env:\n", scalar(d.Image))
	for _, v := range d.Variables {
		y.add("    - name: %s\n      value: %s\n", scalar(v.Name), scalar(v.Value))
	}
	y.add("    resources:\n      requests:\n        cpu: %s\n        memory: %s\n", scalar(d.CPU), scalar(d.Memory))
	d.containerSecurity(&y)
	if d.Probe != nil {
		y.add("    startupProbe:\n")
		y.check(*d.Probe, d.Probe.Live)
		y.add("      initialDelaySeconds: 2\n      periodSeconds: 5\n      timeoutSeconds: 15\n      failureThreshold: 120\n")
		y.add("    readinessProbe:\n")
		y.check(*d.Probe, d.Probe.Ready)
		y.add("      periodSeconds: 5\n      timeoutSeconds: 15\n      failureThreshold: 3\n")
	}
	d.volumes(&y)
	return y.String()
}

type yamlText struct{ strings.Builder }

func (y *yamlText) add(format string, args ...any) { fmt.Fprintf(y, format, args...) }

// check writes how a probe asks: for a path, or whether the port accepts connections.
func (y *yamlText) check(p probe, path string) {
	if p.Live != "" {
		y.add("      httpGet:\n        scheme: HTTP\n")
	} else {
		y.add("      tcpSocket:\n")
	}
	y.add("        host: %s\n        port: %s\n", scalar(p.Host), p.Port)
	if path != "" {
		y.add("        path: %s\n", scalar(path))
	}
}

func (d podData) podSecurity(y *yamlText) {
	if d.UID == nil && d.GID == nil && d.HardeningOff {
		return
	}
	y.add("  securityContext:\n")
	if d.UID != nil {
		y.add("    runAsUser: %d\n", *d.UID)
	}
	if d.GID != nil {
		y.add("    runAsGroup: %d\n", *d.GID)
	}
	if !d.HardeningOff {
		y.add("    seccompProfile:\n      type: RuntimeDefault\n")
	}
}

func (d podData) containerSecurity(y *yamlText) {
	if d.HardeningOff {
		return
	}
	y.add("    securityContext:\n      privileged: false\n      allowPrivilegeEscalation: false\n" +
		"      capabilities:\n        drop:\n        - ALL\n")
	for i, c := range d.AddCaps {
		if i == 0 {
			y.add("        add:\n")
		}
		y.add("        - %s\n", scalar(c))
	}
}

func (d podData) volumes(y *yamlText) {
	y.add("    volumeMounts:\n    - name: etcd-certs\n      mountPath: %s\n      readOnly: true\n"+
		"    - name: etcd-data\n      mountPath: %s\n", scalar(d.CertsDir), scalar(d.DataDir))
	if d.Marker != "" {
		y.add("    - name: etcd-marker\n      mountPath: /run/etcdadm-marker\n      readOnly: true\n")
	}
	if d.LogFile != "" {
		y.add("    - name: etcd-log\n      mountPath: %s\n", scalar(d.LogFile))
	}
	y.add("  volumes:\n")
	volume := func(name, path, kind string) {
		if path != "" {
			y.add("  - name: %s\n    hostPath:\n      path: %s\n      type: %s\n", name, scalar(path), kind)
		}
	}
	volume("etcd-certs", d.CertsDir, "Directory")
	volume("etcd-data", d.DataDir, "Directory")
	volume("etcd-marker", d.Marker, "File")
	volume("etcd-log", d.LogFile, "FileOrCreate")
}
