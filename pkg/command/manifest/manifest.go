// Package manifest is the command "render": it prints what has a machine run
// etcd-manager, as a static pod or a systemd unit.
package manifest

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/manager"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
)

// New returns the command render with its own commands.
func New() *cobra.Command {
	cmd := cli.Group("render", "print the static pod or systemd unit of a daemon")
	cmd.AddCommand(newManager())
	return cmd
}

// options are the flags of "render etcd-manager".
type options struct {
	image, name, program string
	etcdImages, env      []string
}

// kinds are the values of --as.
var kinds = []string{"static-pod", "kops-pod", "systemd-unit"}

const managerLong = `etcd-manager prints what has a machine run etcd-manager. The flags of etcd-manager
come after "--"; they are checked, and decide what the manifest gives to the daemon:
its directories, its store where that is a directory, its probe.

  static-pod    a pod for /etc/kubernetes/manifests, without privileges
  kops-pod      the pod as kops 1.35 and later write it
  systemd-unit  a unit for /etc/systemd/system

Directories that it names have to be on the machine before it is used.`

const managerExample = `  etcdadm render etcd-manager --image=registry.example.com/etcd-manager:v1 -- \
    --cluster-name=etcd --backup-store=s3://bucket/etcd --data-dir=/var/lib/etcd-manager --node-name=node1
  etcdadm render etcd-manager --as=systemd-unit -- \
    --cluster-name=etcd --backup-store=file:///mnt/etcd-store --data-dir=/var/lib/etcd-manager --address=10.0.0.1`

func newManager() *cobra.Command {
	var o options
	as := cli.Choice(kinds, kinds[0])
	cmd := &cobra.Command{
		Use: "etcd-manager [flags] -- FLAGS-OF-ETCD-MANAGER", Short: "print what has a machine run etcd-manager",
		Long: managerLong, Example: managerExample, DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := parse(args)
			if err != nil {
				return err
			}
			text, err := o.render(as.String(), d)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
	fs := cmd.Flags()
	fs.Var(as, "as", "what to print: "+strings.Join(kinds, ", "))
	fs.StringVar(&o.image, "image", "", "image of etcd-manager, for pods (required there)")
	fs.StringVar(&o.name, "name", "", "name of the pod (default: etcd-manager-main, or that of the cluster)")
	fs.StringVar(&o.program, "program", "/usr/local/bin/etcd-manager", "`path` of etcd-manager, for the unit")
	fs.StringArrayVar(&o.etcdImages, "etcd-image", nil,
		"VERSION=IMAGE with etcd, which the pod mounts as an image volume (repeated); by default it has the machine's /opt")
	fs.StringArrayVar(&o.env, "env", nil, "KEY=VALUE of the pod's environment (repeated)")
	return cmd
}

// A daemon is etcd-manager with its flags.
type daemon struct {
	args  []string
	flags *pflag.FlagSet
}

// parse reads flags of etcd-manager as it would itself.
func parse(args []string) (daemon, error) {
	cmd := manager.Command(nil)
	if err := cmd.ParseFlags(args); err != nil {
		return daemon{}, cli.Usagef("etcd-manager: %v", err)
	}
	d := daemon{args: args, flags: cmd.Flags()}
	if rest := d.flags.Args(); len(rest) > 0 {
		return daemon{}, cli.Usagef("etcd-manager takes flags alone, not %q", rest[0])
	}
	for _, name := range []string{"cluster-name", "backup-store"} {
		if d.get(name) == "" {
			return daemon{}, cli.Usagef("--%s of etcd-manager is missing; it comes after --", name)
		}
	}
	return d, nil
}

func (d daemon) get(name string) string { return d.flags.Lookup(name).Value.String() }

// cluster is the name by which kops calls the etcd cluster: main, events.
func (d daemon) cluster() string {
	switch name := d.get("cluster-name"); {
	case name == "etcd":
		return "main"
	default:
		return strings.TrimPrefix(name, "etcd-")
	}
}

// mounts reports whether the daemon finds and mounts its volume itself.
func (d daemon) mounts() bool {
	p := d.get("volume-provider")
	return p != "" && p != "external"
}

// store returns the directory of a store on a file system, "" for others.
func (d daemon) store() string {
	s := strings.TrimPrefix(d.get("backup-store"), "file://")
	if !strings.HasPrefix(s, "/") {
		return ""
	}
	return s
}

func (o options) render(as string, d daemon) (string, error) {
	if as == "systemd-unit" {
		return o.unit(d)
	}
	if o.image == "" {
		return "", cli.Usagef("--image is missing: the image of etcd-manager (docs/images.md says how to build it)")
	}
	pod, err := o.pod(d)
	if as == "kops-pod" {
		pod, err = o.kops(d)
	}
	if err != nil {
		return "", err
	}
	if o.name != "" {
		pod.Name = o.name
	}
	return pod.Manifest()
}

func (o options) unit(d daemon) (string, error) {
	u := initfiles.ProgramUnit{
		Description: "etcd-manager of the etcd cluster " + d.get("cluster-name"),
		Page:        "https://github.com/etcdadm/etcdadm/blob/master/README.md",
		Program:     o.program, Args: d.args, EnvFile: "/etc/etcd-manager/etcd-manager.env",
		WriteDirs: []string{d.get("pki-dir")}, Host: d.mounts(),
	}
	switch dir := d.get("data-dir"); {
	case initfiles.StateDir(dir):
		u.StateDir = dir
	case dir != "":
		u.WriteDirs = append(u.WriteDirs, dir)
	}
	if s := d.store(); s != "" {
		u.WriteDirs = append(u.WriteDirs, s)
	}
	if d.get("dns-suffix") != "" {
		u.WriteDirs = append(u.WriteDirs, d.get("hosts-file"))
	}
	return u.Unit()
}
