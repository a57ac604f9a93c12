// Package machineflags has the flags of etcdadm's commands that work on one
// machine: one table says which flag sets which field of a machine.Config.
package machineflags

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
)

// A Group is a set of flags that commands have in common.
type Group int

// The groups.
const (
	// Member: --name, --version, listening, init system, and all that init and
	// join have in common, with Certificates, Binaries and Paths in it.
	Member Group = iota
	// Certificates: --certs-dir, extra names, key algorithm, lifetimes, and --name
	// and --bind-address, on which the names in certificates depend.
	Certificates
	// Binaries: --version, --release-url and the other sources, --install-dir.
	Binaries
	// Paths: --data-dir, --certs-dir, --install-dir, --init-system, the manifest
	// directory and the address: what reset, info and status need to find the
	// member of this machine.
	Paths
	// Snapshot: --snapshot and --skip-hash-check.
	Snapshot
	// Join: --retry and the waiting of a join.
	Join
)

// Flags are the flags of one command.
type Flags struct {
	cmd    *cobra.Command
	values []*value
	config string
	retry  bool
}

// Add gives cmd the flag --config and the flags of the groups. Each is also
// read from the environment, --bind-address from ETCDADM_BIND_ADDRESS.
func Add(cmd *cobra.Command, groups ...Group) *Flags {
	f := &Flags{cmd: cmd, retry: true}
	fs := cmd.Flags()
	fs.StringVar(&f.config, "config", "", "`file` with the configuration, - for standard input; flags override it")
	// These fail only for a flag that does not exist.
	_ = cmd.MarkFlagFilename("config", "yaml", "yml", "json")
	for i := range table {
		e := &table[i]
		if !slices.ContainsFunc(groups, e.in) {
			continue
		}
		v := newValue(e)
		flag := fs.VarPF(v, e.name, "", e.usage)
		if e.name == "version" && slices.Contains(groups, Join) && !slices.Contains(groups, Snapshot) {
			flag.DefValue, flag.Usage = "", e.usage+" (default: that of the cluster)"
		}
		if v.boolean() {
			flag.NoOptDefVal = "true"
		}
		if len(e.choice) > 0 {
			_ = cmd.RegisterFlagCompletionFunc(e.name, cobra.FixedCompletions(e.choice, cobra.ShellCompDirectiveNoFileComp))
		}
		f.values = append(f.values, v)
	}
	if slices.Contains(groups, Join) {
		fs.BoolVar(&f.retry, "retry", true, "retry until --membership-timeout if the cluster does not answer or accept the change")
	}
	cli.Sections(cmd, sections...)
	return f
}

// Retry is the value of --retry: whether a join asks the cluster more than
// once. It is true for a command without that flag. Config must have been
// called before.
func (f *Flags) Retry() bool { return f.retry }

// Variable returns the name of the environment variable that stands in for a
// flag.
func Variable(flag string) string {
	return "ETCDADM_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
