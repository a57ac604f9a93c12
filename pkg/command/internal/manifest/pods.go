package manifest

import (
	"cmp"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
)

// Pod returns a static pod of the daemon, with the directories of the machine
// that its flags name, and /opt, for etcd. command is empty for the entry point of the image.
func (d Daemon) Pod(name, image string, command ...string) initfiles.ProgramPod {
	p := initfiles.ProgramPod{
		Name: name, Container: "etcd-manager", Image: image, Command: command, Args: d.Args,
		CPU: "200m", Host: d.mounts(), ProbeURL: d.probeURL(),
		MetricsPort: d.scraped(),
	}
	if p.Host {
		p.Mounts = append(p.Mounts, machine...)
	}
	p.Mounts = append(p.Mounts, initfiles.Mount{Name: "tmp", Path: "/tmp"})
	hosts := ""
	if d.get("dns-suffix") != "" {
		hosts = d.get("hosts-file")
	}
	for _, m := range []struct{ name, path, kind string }{
		{"data", d.get("data-dir"), "DirectoryOrCreate"},
		{"pki", d.get("pki-dir"), "Directory"},
		// One that is not mounted must not become an empty store.
		{"store", d.store(), "Directory"},
		{"hosts", hosts, "File"},
	} {
		if m.path != "" {
			path := filepath.Clean(m.path)
			p.Mounts = append(p.Mounts, initfiles.Mount{Name: m.name, Path: path, HostPath: path, HostType: m.kind})
		}
	}
	p.Mounts = append(p.Mounts, d.binaries()...)
	return p
}

// binaries are the mounts of the images with etcd, or of the machine's
// directories with it, each of them once.
func (d Daemon) binaries() []initfiles.Mount {
	if len(d.EtcdImages) > 0 {
		return d.EtcdImages
	}
	dirs, _ := d.Flags.GetStringArray("etcd-dir") // a flag of that kind
	var list []initfiles.Mount
	for _, dir := range append(slices.Clone(dirs), "/opt") {
		dir = filepath.Clean(dir)
		if slices.ContainsFunc(list, func(m initfiles.Mount) bool { return m.Path == dir }) {
			continue // two mounts at one path make the pod invalid
		}
		list = append(list, initfiles.Mount{
			Name: fmt.Sprint("etcd-", len(list)), Path: dir, HostPath: dir, HostType: "Directory", ReadOnly: true,
		})
	}
	return list
}

// machine are the mounts of a daemon that mounts volumes on the machine.
var machine = []initfiles.Mount{
	{Name: "rootfs", Path: "/rootfs", HostPath: "/", HostType: "Directory"},
	{Name: "run", Path: "/run", HostPath: "/run", HostType: "DirectoryOrCreate"},
}

// kops is the pod that kops writes from 1.35 on, with what it gives to each
// cluster apart: the directory of the authorities and the log file.
func (o options) kops(d Daemon) initfiles.ProgramPod {
	const log = "/var/log/etcd.log"
	key := d.cluster()
	p := initfiles.ProgramPod{
		Name: d.podName(), Container: "etcd-manager", Image: o.image, CPU: "200m", Host: true,
		Command: []string{"/go-runner"},
		Args:    append([]string{"--log-file=" + log, "--also-stdout", "/ko-app/etcd-manager"}, d.Args...),

		MetricsPort: d.scraped(),
	}
	logs := map[bool]string{true: log, false: "/var/log/etcd-" + key + ".log"}[key == "main"]
	p.Mounts = append(p.Mounts, machine...)
	p.Mounts = append(p.Mounts,
		initfiles.Mount{Name: "pki", Path: cluster.ManagerPKI,
			HostPath: cluster.ManagerPKI + "-" + key, HostType: "DirectoryOrCreate"},
		initfiles.Mount{Name: "varlogetcd", Path: log, HostPath: logs, HostType: "FileOrCreate"},
	)
	p.Mounts = append(p.Mounts, d.EtcdImages...)
	return p
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

// probeURL is where the daemon says how it is, "" where it does not.
func (d Daemon) probeURL() string {
	port := d.get("etcd-manager-metrics-port")
	if port == "0" {
		return ""
	}
	host := "127.0.0.1"
	if address := d.get("etcd-manager-metrics-address"); address != "" {
		host = address
	}
	return "http://" + net.JoinHostPort(host, port)
}

// scraped is the port of the metrics at the machine's address, "" where they are not there. A daemon
// with a provider of volumes finds its address by that.
func (d Daemon) scraped() string {
	port := d.get("etcd-manager-metrics-port")
	address := cmp.Or(d.get("etcd-manager-metrics-address"), d.get("address"))
	if found := address == "" && d.get("volume-provider") != ""; port == "0" || !found && !reached(address) {
		return ""
	}
	return port
}

// reached reports whether other machines reach what listens at an IP address.
func reached(address string) bool {
	ip := net.ParseIP(address)
	return ip != nil && !ip.IsLoopback()
}
