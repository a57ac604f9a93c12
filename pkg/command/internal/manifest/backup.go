package manifest

import (
	"cmp"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/backup/backupagent"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/etcdbackup"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
)

// backupOptions are the flags of "render etcd-backup".
type backupOptions struct {
	image, name, program, schedule, secret string
	env                                    []string
}

const cronJob = "cron-job"

// backupKinds are the values of --as of "render etcd-backup".
var backupKinds = []string{"static-pod", cronJob, "systemd-unit"}

// backupFlags are flags that not all kinds have.
var backupFlags = map[string][]string{
	"image": backupKinds[:2], "name": backupKinds[:2], "env": backupKinds[:2],
	"schedule": backupKinds[1:2], "secret": backupKinds[1:2],
	"program": backupKinds[2:],
}

const backupLong = `etcd-backup prints a pod or a unit that runs etcd-backup beside an etcd. The flags of
etcd-backup come after "--"; they are checked, and decide what the manifest gives to
it: the directories with its keys, its store where that is a directory, its probe.

  static-pod    a pod for /etc/kubernetes/manifests
  cron-job      a CronJob of a cluster with control-plane machines; it needs --once
  systemd-unit  a unit for /etc/systemd/system

A store that is a directory has to be on the machine before, unless --prefer=local
says that each machine has its own.`

const backupExample = `  etcdadm render etcd-backup --image=registry.example.com/etcd-backup:v1 -- \
    --cluster-name=main --backup-store=s3://bucket/main --client-url=https://127.0.0.1:2379 \
    --client-ca-file=/etc/kubernetes/pki/etcd/ca.crt \
    --client-cert-file=/etc/kubernetes/pki/etcd/healthcheck-client.crt \
    --client-key-file=/etc/kubernetes/pki/etcd/healthcheck-client.key
  etcdadm render etcd-backup --as=systemd-unit -- \
    --cluster-name=main --backup-store=/var/lib/etcd-backup --prefer=local --client-url=http://127.0.0.1:2379`

func newBackup() *cobra.Command {
	var o backupOptions
	as := cli.Choice(backupKinds, backupKinds[0])
	cmd := &cobra.Command{
		Use: "etcd-backup [flags] -- FLAGS-OF-ETCD-BACKUP", Short: "print a pod or a unit that runs etcd-backup",
		Long: backupLong, Example: backupExample, DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := unused(cmd.Flags(), as.String()); err != nil {
				return err
			}
			line, err := etcdbackup.ParseLine(args)
			if err != nil {
				return fmt.Errorf("etcd-backup: %w", err)
			}
			text, err := o.render(as.String(), line)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
	fs := cmd.Flags()
	fs.Var(as, "as", "what to print: "+strings.Join(backupKinds, ", "))
	fs.StringVar(&o.image, "image", "", "image of etcd-backup, for pods (required there)")
	fs.StringVar(&o.name, "name", "", "name of the pod or CronJob (default: etcd-backup-CLUSTER)")
	fs.StringVar(&o.program, "program", "/usr/local/bin/etcd-backup", "`path` of etcd-backup, for the unit")
	fs.StringVar(&o.schedule, "schedule", "17 */6 * * *", "when the CronJob runs: the five fields of cron, in UTC")
	fs.StringVar(&o.secret, "secret", "", "name of a Secret whose keys are variables of the CronJob's pods")
	fs.StringArrayVar(&o.env, "env", nil, "KEY=VALUE of the pod's environment (repeatable)")
	return cmd
}

// unused refuses flags that have no effect on what is printed.
func unused(fs *pflag.FlagSet, as string) error {
	var wrong error
	fs.Visit(func(f *pflag.Flag) {
		if list, ok := backupFlags[f.Name]; ok && !slices.Contains(list, as) && wrong == nil {
			wrong = cli.Usagef("--%s has no effect with --as=%s", f.Name, as)
		}
	})
	return wrong
}

func (o backupOptions) render(as string, l etcdbackup.Line) (string, error) {
	probe, err := backupProbe(l.Metrics)
	switch {
	case err != nil:
		return "", err
	case as == cronJob && !l.Once:
		return "", cli.Usagef("a CronJob ends with each backup: add --once to the flags of etcd-backup")
	case as != cronJob && l.Once:
		return "", cli.Usagef("with --once it would be started again after each backup: use --interval or --cron, or " +
			"--as=" + cronJob)
	case as == "systemd-unit":
		return o.unit(l)
	case o.image == "":
		return "", cli.Usagef("--image is missing: the image of etcd-backup (docs/images.md says how to build it)")
	}
	pod := initfiles.AgentPod{
		App: "etcd-backup", Name: o.name, Image: o.image, Args: l.Args, Env: o.env, Secret: o.secret,
	}
	if pod.Name == "" {
		pod.Name = "etcd-backup-" + l.ClusterName
	}
	if pod.Mounts, err = backupMounts(l); err != nil {
		return "", err
	}
	if as == cronJob {
		if err := (backupagent.Schedule{Cron: o.schedule}).Validate(); err != nil || o.schedule == "" {
			return "", cli.Usagef("--schedule=%q is not of a form such as \"17 */6 * * *\"", o.schedule)
		}
		return pod.CronJob(initfiles.CronJob{Schedule: o.schedule, Limit: l.Timeout})
	}
	pod.ProbeURL = probe
	if host, port, err := net.SplitHostPort(l.Metrics); err == nil && port != "0" && (host == "" || reached(host)) {
		pod.MetricsPort = port
	}
	return pod.Manifest()
}

func (o backupOptions) unit(l etcdbackup.Line) (string, error) {
	u := initfiles.ProgramUnit{
		Description: "backups of the etcd cluster " + l.ClusterName,
		Page:        "https://github.com/etcdadm/etcdadm/blob/master/docs/etcd-backup.md",
		Program:     o.program, Args: l.Args, EnvFile: "/etc/etcd-backup/etcd-backup.env",
		Background: true, ReadFiles: l.Files,
	}
	switch {
	case l.Local && initfiles.StateDir(l.Dir):
		u.StateDir = l.Dir
	case l.Dir != "":
		u.WriteDirs = []string{l.Dir}
	}
	return u.Unit()
}

// ownDirs are directories of the image of etcd-backup, which a mount would hide.
var ownDirs = []string{
	"/", "/etc", "/etc/ssl", "/etc/ssl/certs", "/ko-app", "/tmp", "/usr", "/usr/local", "/usr/local/bin",
}

// backupMounts are the directories of the machine that the flags name. Whole
// directories are mounted: of a file alone the pod would never see the next one
// of its name, and certificates are renewed that way.
func backupMounts(l etcdbackup.Line) ([]initfiles.Mount, error) {
	var dirs []string
	for _, file := range l.Files {
		if dir := filepath.Dir(file); dir != l.Dir {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	dirs = slices.Compact(dirs)
	var list []initfiles.Mount
	for i, dir := range dirs {
		list = append(list, initfiles.Mount{
			Name: fmt.Sprint("files-", i), Path: dir, HostPath: dir, HostType: "Directory", ReadOnly: true,
		})
	}
	if l.Dir != "" {
		m := initfiles.Mount{Name: "store", Path: l.Dir, HostPath: l.Dir, HostType: "Directory"}
		if l.Local {
			m.HostType = "DirectoryOrCreate"
		}
		list = append(list, m)
		dirs = append(dirs, l.Dir)
	}
	for _, dir := range dirs {
		if slices.Contains(ownDirs, dir) {
			return nil, cli.Usagef("the machine's %s would hide that of the image: use a directory of its own", dir)
		}
	}
	return list, nil
}

// backupProbe is the URL of what etcd-backup says at an address, "" for none.
func backupProbe(address string) (string, error) {
	if address == "" {
		return "", nil
	}
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	switch {
	case err != nil:
		return "", cli.Usagef("etcd-backup: --listen-metrics: %q is not of the form 127.0.0.1:2391", address)
	case port == "0": // the kernel chooses
		return "", nil
	}
	return "http://" + net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port), nil
}
