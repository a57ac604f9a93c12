package operate

import (
	"context"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdrelease"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// written returns the init system whose files are on the machine, and the
// wanted one if there are none.
func written(cfg machine.Config) machine.InitSystem {
	switch {
	case exists(cfg.Paths.Unit()):
		return machine.Systemd
	case exists(cfg.Paths.Manifest()):
		return machine.Kubelet
	case exists(cfg.Paths.ProcessLog()):
		return machine.Process
	}
	return cfg.Service.InitSystem
}

// asWritten fills in the name and the address from the variables of the
// machine's etcd where they are not wanted otherwise, and with all also the
// ports. What cannot be read is left to the observation, which says so.
func asWritten(cfg machine.Config, all bool) machine.Config {
	vars, err := variables(cfg)
	if err != nil {
		return cfg
	}
	if name := cluster.NodeName(vars["ETCD_NAME"]); cfg.Name == "" && name.Validate() == nil {
		cfg.Name = name
	}
	host, peer, ok := hostPort(vars["ETCD_INITIAL_ADVERTISE_PEER_URLS"])
	if !ok {
		return cfg
	}
	if a := cfg.Listen.Address; a == "" || a == "0.0.0.0" || a == "::" {
		cfg.Listen.Address = host
	}
	if _, client, ok := hostPort(vars["ETCD_ADVERTISE_CLIENT_URLS"]); ok && all {
		cfg.Listen.PeerPort, cfg.Listen.ClientPort = peer, client
	}
	return cfg
}

// InstallWritten returns the directory of the etcd that the machine's unit runs, "" if
// there is no unit or it names none.
func InstallWritten(cfg machine.Config) string {
	if cfg.Paths.Units == "" {
		cfg.Paths.Units = machine.Defaults().Paths.Units
	}
	b, err := os.ReadFile(cfg.Paths.Unit())
	if err != nil {
		return ""
	}
	found := execStart.FindSubmatch(b)
	if found == nil {
		return ""
	}
	return filepath.Dir(string(found[1]))
}

// execStart finds the program in a unit, which may be in quotes.
var execStart = regexp.MustCompile(`(?m)^ExecStart=[-@:+!]*"?(/[^\s"]*/etcd)"?(?:\s|$)`)

// dataDirWritten returns where the machine's etcd has its data, "" if there is
// none.
func dataDirWritten(cfg machine.Config) string {
	vars, err := variables(cfg)
	if dir := vars["ETCD_DATA_DIR"]; err == nil && filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return ""
}

// running returns the version of the member that is on the machine, zero if
// there is none or nobody knows.
func running(ctx context.Context, cfg machine.Config) etcdversion.Version {
	if !exists(cfg.Paths.Member()) {
		return etcdversion.Version{}
	}
	if cfg.Service.InitSystem != machine.Kubelet {
		return etcdrelease.Present(ctx, cfg.Paths.Install).Etcd.Version
	}
	manifest, err := os.ReadFile(cfg.Paths.Manifest())
	if err != nil {
		return etcdversion.Version{}
	}
	tag := imageTag.FindSubmatch(manifest)
	if tag == nil {
		return etcdversion.Version{}
	}
	v, err := etcdversion.Parse(string(tag[1]))
	if err != nil {
		return etcdversion.Version{}
	}
	return v
}

// imageTag finds the version in the image of a static pod, which may have a digest too.
var imageTag = regexp.MustCompile(`image: *"?[^\s"@]+:v?([0-9][^\s"@]*)`)

// Variables returns what the machine's etcd is given, from the file that its init
// system gives it.
func Variables(cfg machine.Config) (map[string]string, error) {
	cfg.Service.InitSystem = written(cfg)
	return variables(cfg)
}

// variables reads what the machine's etcd is given.
func variables(cfg machine.Config) (map[string]string, error) {
	path, parse := cfg.Paths.EnvFile(), initfiles.ParseEnvFile
	if cfg.Service.InitSystem == machine.Kubelet {
		path, parse = cfg.Paths.Manifest(), podEnv
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parse(string(b))
}

// hostPort returns the IP address and the port of the first of some URLs.
func hostPort(urls string) (host string, port int, ok bool) {
	first, _, _ := strings.Cut(urls, ",")
	u, err := url.Parse(first)
	if err != nil {
		return "", 0, false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return "", 0, false
	}
	port, err = strconv.Atoi(u.Port())
	return ip.String(), port, err == nil
}
