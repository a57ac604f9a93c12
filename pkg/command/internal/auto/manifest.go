package auto

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/manifest"
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
			words := append([]string{"auto", c.BackupStore}, given(cmd, "image", "namespace")...)
			pod := manifest.Daemon{Flags: cmd.Flags(), Args: words}.Pod("etcdadm-auto", image, "etcdadm")
			pod.Namespace = namespace
			text, err := pod.Manifest()
			if err == nil {
				_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			}
			return err
		}
	})
	cmd.Short = "print a static pod that runs auto"
	cmd.Long = `manifest prints a static pod for the kubelet that runs auto with the given store and flags. The etcd binaries
are those of the machine: below /opt, or in --etcd-dir. "etcdadm render etcd-manager" prints the pod of
etcd-manager itself.`
	cmd.Example = "  etcdadm auto manifest file:///mnt/etcd-store --image=registry.example.com/etcdadm:v1 " +
		">/etc/kubernetes/manifests/etcdadm.yaml"
	cmd.Flags().StringVar(&image, "image", "", "`image` that contains etcdadm (required)")
	cmd.Flags().StringVar(&namespace, "namespace", "kube-system", "`namespace` of the pod")
	return cmd
}
