// Package daemons finds the daemons that run on this machine, and what their command
// lines say of the cluster.
package daemons

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A Daemon is an etcd-manager, or an etcdadm auto, that runs on this machine, or is to run.
type Daemon struct {
	// PID is its process, 0 where it does not run.
	PID int
	// Store is the location of its control and backup store, Cluster the name of its
	// cluster, empty where the command line does not say it.
	Store, Cluster string
	// Elsewhere says that Store is a directory in the daemon's container that is not the
	// one of that name here.
	Elsewhere bool
	// written is where it is written down, nil for one that runs.
	written *written
}

// Where says how the daemon was found.
func (d Daemon) Where() string {
	if d.written != nil {
		return "not running, by " + d.written.file
	}
	return fmt.Sprintf("process %d", d.PID)
}

// Find returns the daemons that run as root or as the user who asks, in the network of
// this process, the lowest process first: others' processes, and those of pods, whose root
// may be anybody, are not trusted to say where a store is. A daemon uses the machine's
// network. A process that ends meanwhile is none. Where none runs it returns those that systemd
// or the kubelet are to run: a cluster has its settings also while its daemon is down.
func Find() ([]Daemon, error) {
	found, err := find("/proc")
	if err == nil && len(found) == 0 {
		found = machine.writtenDown()
	}
	return found, err
}

func find(proc string) ([]Daemon, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("look for daemons on this machine: %w", err)
	}
	own, _ := os.Readlink(filepath.Join(proc, "self", "ns", "net"))
	var found []Daemon
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(proc, e.Name())
		info, err := os.Stat(dir)
		if err != nil {
			continue
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !ok || owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
			continue
		}
		if network, err := os.Readlink(filepath.Join(dir, "ns", "net")); err == nil && network != own {
			continue
		}
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || gained(dir) {
			continue
		}
		if d, ok := parse(strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")); ok {
			d.PID = pid
			d.Elsewhere = elsewhere(dir, d.Store)
			found = append(found, d)
		}
	}
	slices.SortFunc(found, func(a, b Daemon) int { return cmp.Compare(a.PID, b.PID) })
	return found, nil
}

// parse reads a command line; ok says that it is a daemon's.
func parse(argv []string) (d Daemon, ok bool) {
	switch program := filepath.Base(argv[0]); {
	case program == "etcd-manager":
		d.Store = value(argv, "backup-store")
	case program == "etcdadm" && len(argv) > 2 && argv[1] == "auto" && isLocation(argv[2]):
		d.Store = argv[2]
	default:
		return Daemon{}, false
	}
	d.Cluster = value(argv, "cluster-name")
	return d, d.Store != ""
}

// isLocation distinguishes the store of etcdadm auto from its flags and its commands.
func isLocation(arg string) bool { return strings.HasPrefix(arg, "/") || strings.Contains(arg, "://") }

// value returns the last value of a flag, with one dash or two, "" without it.
func value(argv []string, flag string) string {
	if all := values(argv, flag); len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// values returns all values of a flag.
func values(argv []string, flag string) (all []string) {
	for i, arg := range argv {
		name, v, given := strings.Cut(arg, "=")
		if name != "-"+flag && name != "--"+flag {
			continue
		}
		switch {
		case given:
			all = append(all, v)
		case i+1 < len(argv):
			all = append(all, argv[i+1])
		}
	}
	return all
}

// elsewhere says that a store is a directory that the process in dir sees, and this one
// does not. A directory of which neither shows it is taken for the same.
func elsewhere(dir, store string) bool {
	path := strings.TrimPrefix(store, "file://")
	if strings.Contains(path, "://") {
		return false
	}
	if !filepath.IsAbs(path) {
		return true // it is relative to where the daemon was started
	}
	its, err := os.Stat(filepath.Join(dir, "root", path))
	if err != nil {
		return false
	}
	here, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(its, here)
}
