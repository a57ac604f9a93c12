package auto

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/manager"
	"github.com/etcdadm/etcdadm/pkg/daemon"
)

// newManifest returns "auto manifest".
func newManifest() *cobra.Command {
	var image, namespace string
	cmd := daemonCommand("manifest STORE-URL", false, func(cmd *cobra.Command) manager.Run {
		return func(_ context.Context, c daemon.Config, _ *slog.Logger) error {
			if image == "" {
				return &cli.UsageError{Text: "--image is missing", Next: "name an image that contains etcdadm: --image"}
			}
			words := append([]string{"etcdadm", "auto", c.BackupStore}, given(cmd, "image", "namespace")...)
			text, err := yaml.Marshal(pod(c, image, namespace, words))
			if err == nil {
				_, err = cmd.OutOrStdout().Write(text)
			}
			if err != nil {
				return fmt.Errorf("print: %w", err)
			}
			return nil
		}
	})
	cmd.Short = "print a static pod that runs auto"
	cmd.Long = `manifest prints a static pod for the kubelet that runs auto with the given store and flags. The etcd binaries
are those of the machine: below /opt, or in --etcd-dir.`
	cmd.Example = "  etcdadm auto manifest file:///mnt/etcd-store --image=registry.example.com/etcdadm:v1 " +
		">/etc/kubernetes/manifests/etcdadm.yaml"
	cmd.Flags().StringVar(&image, "image", "", "`image` that contains etcdadm (required)")
	cmd.Flags().StringVar(&namespace, "namespace", "kube-system", "`namespace` of the pod")
	return cmd
}

// An object is one of the Kubernetes API.
type object map[string]any

// A mount is a directory or file of the machine in the pod, at the same path.
type mount struct {
	name, path, kind string
	readOnly         bool
}

func mounts(c daemon.Config) []mount {
	list := []mount{{name: "data", path: c.DataDir, kind: "DirectoryOrCreate"}}
	if c.PKIDir != "" {
		list = append(list, mount{name: "pki", path: c.PKIDir, kind: "Directory", readOnly: true})
	}
	dirs := slices.DeleteFunc(append(slices.Clone(c.EtcdDirs), "/opt"), func(d string) bool { return d == "" })
	for i, d := range slices.Compact(dirs) {
		list = append(list, mount{name: fmt.Sprintf("etcd-%d", i), path: d, kind: "Directory", readOnly: true})
	}
	if local(c.BackupStore) {
		list = append(list, mount{
			name: "store", path: strings.TrimPrefix(c.BackupStore, "file://"), kind: "DirectoryOrCreate",
		})
	}
	if c.HostsFile != "" {
		list = append(list, mount{name: "hosts", path: c.HostsFile, kind: "File"})
	}
	return list
}

func pod(c daemon.Config, image, namespace string, words []string) object {
	container := object{
		"name": "etcdadm", "image": image, "command": words,
		"resources":       object{"requests": object{"cpu": "200m", "memory": "100Mi"}},
		"securityContext": object{"runAsUser": 0, "allowPrivilegeEscalation": false},
	}
	if c.MetricsPort > 0 {
		// It lives as long as it answers. Whether etcd is ready is not its fault.
		container["livenessProbe"] = object{
			"httpGet":             object{"host": "127.0.0.1", "path": "/healthz", "port": c.MetricsPort},
			"initialDelaySeconds": 15, "periodSeconds": 10, "timeoutSeconds": 15, "failureThreshold": 8,
		}
	}
	var volumes, inside []object
	for _, m := range mounts(c) {
		volumes = append(volumes, object{"name": m.name, "hostPath": object{"path": filepath.Clean(m.path), "type": m.kind}})
		in := object{"name": m.name, "mountPath": filepath.Clean(m.path)}
		if m.readOnly {
			in["readOnly"] = true
		}
		inside = append(inside, in)
	}
	container["volumeMounts"] = inside
	return object{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": object{
			"name": "etcdadm-auto", "namespace": namespace,
			"labels":      object{"app.kubernetes.io/name": "etcdadm", "tier": "control-plane"},
			"annotations": object{"etcdadm/cluster": c.ClusterName},
		},
		"spec": object{
			"hostNetwork": true, "priorityClassName": "system-node-critical", "terminationGracePeriodSeconds": 90,
			"containers": []object{container}, "volumes": volumes,
			"tolerations": []object{{"operator": "Exists"}},
		},
	}
}
