package machine

import (
	"path/filepath"

	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
)

// Paths say where things are on the machine. All are absolute, except that
// Manifests may be relative. The fields are what an operator chooses; the methods
// name each file of etcdadm that follows from them.
type Paths struct {
	// Data is etcd's data directory, /var/lib/etcd.
	Data string `json:"data,omitempty"`
	// Certificates is the directory of the key pairs, /etc/etcd/pki.
	Certificates string `json:"certificates,omitempty"`
	// Install is where the binaries go, /opt/bin.
	Install string `json:"install,omitempty"`
	// Cache keeps release archives, /var/cache/etcdadm.
	Cache string `json:"cache,omitempty"`
	// Environment is where etcd.env and etcdctl.env are, /etc/etcd.
	Environment string `json:"environment,omitempty"`
	// Units is the directory of systemd units, /etc/systemd/system.
	Units string `json:"units,omitempty"`
	// Manifests is the kubelet's directory of static pods,
	// /etc/kubernetes/manifests.
	Manifests string `json:"manifests,omitempty"`
}

// EnvFile is the environment file of etcd.
func (p Paths) EnvFile() string { return filepath.Join(p.Environment, initfiles.EnvName) }

// ControlEnv is the environment file of etcdctl.
func (p Paths) ControlEnv() string { return filepath.Join(p.Environment, initfiles.ControlEnvName) }

// ControlScript is the wrapper of etcdctl.
func (p Paths) ControlScript() string { return filepath.Join(p.Install, initfiles.ScriptName) }

// Unit is the unit of systemd.
func (p Paths) Unit() string { return filepath.Join(p.Units, initfiles.UnitName) }

func (p Paths) inUnits(name string) string { return filepath.Join(p.Units, name) }

// Manifest is the static pod.
func (p Paths) Manifest() string { return filepath.Join(p.Manifests, initfiles.ManifestName) }

// Binary is one of the programs of etcd.
func (p Paths) Binary(name string) string { return filepath.Join(p.Install, name) }

// Certificate is a file of the key pairs, for instance ca.crt.
func (p Paths) Certificate(name string) string { return filepath.Join(p.Certificates, name) }

// Member is what etcd has in its data directory: everything.
func (p Paths) Member() string { return datadir.At(p.Data).Member() }

// Database is the file of etcd's keys.
func (p Paths) Database() string { return datadir.At(p.Data).Database() }

// Marker is the file that says that the data directory is the one that was made
// for etcd, and not what is below the mount point of its disk.
func (p Paths) Marker() string { return filepath.Join(p.Data, ".etcdadm") }

// Discarded is where data is on its way to deletion, so that a half-deleted
// member is never taken for one.
func (p Paths) Discarded() string { return filepath.Join(p.Data, "discarded") }

// SetAside keeps data that was moved out of the way.
func (p Paths) SetAside() string { return p.Data + ".set-aside" }

// Record is what etcdadm remembers of the machine. It is beside the data, so that
// it goes where the data goes, also where /etc is made again at each start.
func (p Paths) Record() string { return p.Data + ".etcdadm.json" }

// Lock is the file that a command at work has locked.
func (p Paths) Lock() string { return p.Data + ".lock" }

// Journal is the journal of a handover to etcd-manager, or back.
func (p Paths) Journal() string { return p.Data + ".handover.json" }

// Process is where a supervised process keeps its pid file and log.
func (p Paths) Process() string { return p.Data + ".run" }

// ProcessLog is the log of etcd where it is a supervised process.
func (p Paths) ProcessLog() string { return filepath.Join(p.Process(), "etcd.log") }

// WrittenPaths returns the files that etcdadm writes on this machine to have etcd run.
func WrittenPaths(cfg Config) []string {
	return append([]string{cfg.Paths.ControlEnv(), cfg.Paths.ControlScript()}, starterPaths(cfg)...)
}

// starterPaths returns those of them from which etcd is started, and its certificates renewed.
func starterPaths(cfg Config) []string {
	switch p := cfg.Paths; cfg.Service.InitSystem {
	case Kubelet:
		return []string{p.Manifest()}
	case Systemd:
		service, timer := p.RenewPaths()
		return []string{p.EnvFile(), p.Unit(), service, timer}
	default:
		return []string{p.EnvFile()}
	}
}
