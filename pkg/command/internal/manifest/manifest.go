// Package manifest is the command "render": it prints what has a machine run
// etcd-manager or etcd-backup, as a static pod, a CronJob or a systemd unit.
package manifest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/manager"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
)

// New returns the command render with its own commands.
func New() *cobra.Command {
	cmd := cli.Group("render", "print a static pod or systemd unit that runs a daemon")
	cmd.AddCommand(newManager(), newBackup())
	return cmd
}

// options are the flags of "render etcd-manager".
type options struct {
	image, name, program string
	etcdImages, env      []string
}

// kinds are the values of --as.
var kinds = []string{"static-pod", "kops-pod", "systemd-unit"}

const managerLong = `etcd-manager prints a pod or a unit that runs etcd-manager. The flags of etcd-manager
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
		Use: "etcd-manager [flags] -- FLAGS-OF-ETCD-MANAGER", Short: "print a pod or a unit that runs etcd-manager",
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
		"VERSION=IMAGE with etcd, which the pod mounts as an image volume (repeatable); by default it has the machine's /opt")
	fs.StringArrayVar(&o.env, "env", nil, "KEY=VALUE of the pod's environment (repeatable)")
	return cmd
}

// A Daemon is etcd-manager as a command line runs it.
type Daemon struct {
	// Flags are those of etcd-manager, as they were parsed.
	Flags *pflag.FlagSet
	// Args are the words behind the program.
	Args []string
	// EtcdImages are image volumes with etcd, for pods. Without any they have the
	// machine's directories.
	EtcdImages []initfiles.Mount
}

// parse reads flags of etcd-manager as it would itself.
func parse(args []string) (Daemon, error) {
	cmd := manager.Command(nil)
	if err := cmd.ParseFlags(args); err != nil {
		return Daemon{}, cli.Usagef("etcd-manager: %v", err)
	}
	d := Daemon{Flags: cmd.Flags(), Args: args}
	if rest := d.Flags.Args(); len(rest) > 0 {
		return Daemon{}, cli.Usagef("etcd-manager takes flags alone, not %q", rest[0])
	}
	for _, name := range []string{"cluster-name", "backup-store"} {
		if d.get(name) == "" {
			return Daemon{}, cli.Usagef("--%s of etcd-manager is missing; it comes after --", name)
		}
	}
	return d, nil
}

func (d Daemon) get(name string) string { return d.Flags.Lookup(name).Value.String() }

// cluster is the name by which kops calls the etcd cluster: main, events.
func (d Daemon) cluster() string {
	switch name := d.get("cluster-name"); {
	case name == "etcd":
		return "main"
	default:
		return strings.TrimPrefix(name, "etcd-")
	}
}

// mounts reports whether the daemon finds and mounts its volume itself.
func (d Daemon) mounts() bool {
	p := d.get("volume-provider")
	return p != "" && p != "external"
}

// store returns the directory of a store on a file system, "" for others.
func (d Daemon) store() string {
	s := strings.TrimPrefix(d.get("backup-store"), "file://")
	if !strings.HasPrefix(s, "/") {
		return ""
	}
	return s
}

// podName is what kops calls the pod of the cluster.
func (d Daemon) podName() string { return "etcd-manager-" + d.cluster() }

func (o options) render(as string, d Daemon) (string, error) {
	if as == "systemd-unit" {
		return d.Unit("etcd-manager of the etcd cluster "+d.get("cluster-name"), o.program)
	}
	if o.image == "" {
		return "", cli.Usagef("--image is missing: the image of etcd-manager (docs/images.md says how to build it)")
	}
	var err error
	if d.EtcdImages, err = o.etcd(); err != nil {
		return "", err
	}
	pod := d.Pod(d.podName(), o.image)
	if as == "kops-pod" {
		pod = o.kops(d)
	}
	pod.Env = o.env
	if o.name != "" {
		pod.Name = o.name
	}
	return pod.Manifest()
}

// Unit returns a systemd unit that runs the daemon. It may write to the
// directories that the flags name, and nowhere else.
func (d Daemon) Unit(description, program string) (string, error) {
	u := initfiles.ProgramUnit{
		Description: description, Page: "https://github.com/etcdadm/etcdadm/blob/master/README.md",
		Program: program, Args: d.Args, EnvFile: "/etc/etcd-manager/etcd-manager.env", Host: d.mounts(),
	}
	dirs := []string{d.get("data-dir"), d.get("pki-dir"), d.store()}
	if initfiles.StateDir(dirs[0]) {
		u.StateDir, dirs = dirs[0], dirs[1:]
	}
	if d.get("dns-suffix") != "" {
		dirs = append(dirs, d.get("hosts-file"))
	}
	u.WriteDirs = slices.DeleteFunc(dirs, func(dir string) bool { return dir == "" })
	return u.Unit()
}
