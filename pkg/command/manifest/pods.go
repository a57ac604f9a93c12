package manifest

import (
	"net"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
)

// pod is etcd-manager on a machine of no particular kind.
func (o options) pod(d daemon) (initfiles.ProgramPod, error) {
	p := initfiles.ProgramPod{
		Name: "etcd-manager-" + d.cluster(), Container: "etcd-manager", Image: o.image, Args: d.args, Env: o.env,
		CPU: "200m", Host: d.mounts(), ReadyURL: d.readyURL(),
	}
	if p.Host {
		p.Mounts = append(p.Mounts, machine...)
	}
	p.Mounts = append(p.Mounts,
		initfiles.Mount{Name: "pki", Path: d.get("pki-dir"), HostPath: d.get("pki-dir"), HostType: "Directory"},
		initfiles.Mount{Name: "tmp", Path: "/tmp"},
	)
	for _, m := range []struct{ name, dir string }{{"data", d.get("data-dir")}, {"store", d.store()}} {
		if m.dir != "" {
			p.Mounts = append(p.Mounts, initfiles.Mount{Name: m.name, Path: m.dir, HostPath: m.dir, HostType: "Directory"})
		}
	}
	etcd, err := o.etcd()
	if len(etcd) == 0 {
		etcd = []initfiles.Mount{{Name: "etcd", Path: "/opt", HostPath: "/opt", HostType: "Directory", ReadOnly: true}}
	}
	p.Mounts = append(p.Mounts, etcd...)
	return p, err
}

// machine are the mounts of a daemon that mounts volumes on the machine.
var machine = []initfiles.Mount{
	{Name: "rootfs", Path: "/rootfs", HostPath: "/", HostType: "Directory"},
	{Name: "run", Path: "/run", HostPath: "/run", HostType: "DirectoryOrCreate"},
}

// kops is the pod that kops writes from 1.35 on, with what it gives to each
// cluster apart: the directory of the authorities and the log file.
func (o options) kops(d daemon) (initfiles.ProgramPod, error) {
	const log = "/var/log/etcd.log"
	key := d.cluster()
	p := initfiles.ProgramPod{
		Name: "etcd-manager-" + key, Container: "etcd-manager", Image: o.image, Env: o.env, CPU: "200m", Host: true,
		Command: []string{"/go-runner"},
		Args:    append([]string{"--log-file=" + log, "--also-stdout", "/ko-app/etcd-manager"}, d.args...),
	}
	logs := map[bool]string{true: log, false: "/var/log/etcd-" + key + ".log"}[key == "main"]
	p.Mounts = append(p.Mounts, machine...)
	p.Mounts = append(p.Mounts,
		initfiles.Mount{Name: "pki", Path: "/etc/kubernetes/pki/etcd-manager",
			HostPath: "/etc/kubernetes/pki/etcd-manager-" + key, HostType: "DirectoryOrCreate"},
		initfiles.Mount{Name: "varlogetcd", Path: log, HostPath: logs, HostType: "FileOrCreate"},
	)
	etcd, err := o.etcd()
	p.Mounts = append(p.Mounts, etcd...)
	return p, err
}

// etcd are the image volumes of etcd's versions, where kops puts them.
func (o options) etcd() ([]initfiles.Mount, error) {
	var list []initfiles.Mount
	for _, s := range o.etcdImages {
		version, image, ok := strings.Cut(s, "=")
		v, err := etcdversion.Parse(version)
		if !ok || err != nil {
			return nil, cli.Usagef("--etcd-image=%s is not of the form VERSION=IMAGE, as in 3.6.16=registry/etcd:v3.6.16", s)
		}
		list = append(list, initfiles.Mount{
			Name: "etcd-v" + strings.ReplaceAll(v.String(), ".", "-"), Path: "/opt/etcd-v" + v.String(), Image: image,
		})
	}
	return list, nil
}

// readyURL is where the daemon says whether it is ready, "" where it does not.
func (d daemon) readyURL() string {
	port := d.get("etcd-manager-metrics-port")
	if port == "0" {
		return ""
	}
	host := "127.0.0.1"
	if address := d.get("etcd-manager-metrics-address"); address != "" {
		host = address
	}
	return "http://" + net.JoinHostPort(host, port) + "/readyz"
}
