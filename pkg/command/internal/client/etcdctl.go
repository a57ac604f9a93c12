package client

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/access"
	"github.com/etcdadm/etcdadm/pkg/command/internal/daemons"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// An etcdctl is the command that runs etcdctl.
type etcdctl struct {
	access *access.Access
	// program is --etcdctl, exec what takes the place of this process, finder where
	// versions of etcd are beside the directories of a daemon, byHand the etcdctl of a
	// member by hand.
	program string
	byHand  string
	exec    func(path string, argv, env []string) error
	finder  etcdbin.Finder
}

func newEtcdctl() *cobra.Command {
	return etcdctlCommand(&etcdctl{exec: unix.Exec, byHand: machine.Defaults().Paths.Binary("etcdctl"),
		finder: etcdbin.Finder{Dirs: filepath.SplitList(os.Getenv(etcdbin.DirVariable))}})
}

func etcdctlCommand(e *etcdctl) *cobra.Command {
	cmd := &cobra.Command{
		Use: "etcdctl [FLAGS] COMMAND...", DisableFlagsInUseLine: true, Short: "run etcdctl on the etcd of this machine",
		Long: `etcdctl runs etcd's own etcdctl with the endpoints and the certificates for the etcd of this machine: that of the
member by hand, or of the daemon. What follows COMMAND is etcdctl's, flags as well, and a flag such as --endpoints
there takes the place of what would be set. The flags of this command come before.

For a daemon's etcd a certificate is issued that lives a day and is on no disk. "etcdadm certs client" issues one
to keep.`,
		Example: "  etcdadm etcdctl member list -w table\n  etcdadm etcdctl get --prefix --keys-only /registry/nodes",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &cli.UsageError{Text: "the command of etcdctl is missing", Next: cmd.CommandPath() + " member list"}
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	e.access = access.Add(cmd)
	fs := cmd.Flags()
	fs.SetInterspersed(false)
	fs.StringVar(&e.program, "etcdctl", "", "`file` of etcdctl (default: the newest one of the machine's versions of etcd, or "+
		"that in the PATH)")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &cli.UsageError{Text: err.Error(),
			Next: "flags of etcdctl follow its command: " + cmd.CommandPath() + " member list -w table"}
	})
	cmd.RunE = func(_ *cobra.Command, args []string) error { return e.run(args) }
	return cmd
}

func (e *etcdctl) run(args []string) error {
	endpoints, err := e.access.Endpoints()
	if err != nil {
		return err
	}
	program, err := e.find()
	if err != nil {
		return err
	}
	ca, cert, key, err := e.access.Files(inMemory)
	if err != nil {
		return err
	}
	env := controlEnv(os.Environ(), args, [][2]string{
		{"endpoints", strings.Join(endpoints, ",")}, {"cacert", ca}, {"cert", cert}, {"key", key},
	})
	if err := e.exec(program, append([]string{program}, args...), env); err != nil {
		return fmt.Errorf("run %s: %w", program, err)
	}
	return nil
}

// controlEnv returns the environment with the variables of etcdctl's flags. etcdctl takes
// a flag or its variable: what the arguments have is left out.
func controlEnv(env, args []string, flags [][2]string) []string {
	env = slices.Clone(env)
	for _, f := range flags {
		variable := "ETCDCTL_" + strings.ToUpper(f[0]) + "="
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, variable) })
		given := slices.ContainsFunc(args, func(a string) bool {
			return a == "--"+f[0] || strings.HasPrefix(a, "--"+f[0]+"=")
		})
		if f[1] != "" && !given {
			env = append(env, variable+f[1])
		}
	}
	return env
}

// find returns the file of etcdctl: that of the flag, of the member by hand, of the newest
// of the versions of etcd, or in the PATH.
func (e *etcdctl) find() (string, error) {
	if e.program != "" {
		path, err := exec.LookPath(e.program)
		if err != nil {
			return "", cli.Usagef("--etcdctl: %v", err)
		}
		return path, nil
	}
	dirs := e.access.EtcdDirs()
	if dirs == nil {
		if path, err := exec.LookPath(e.byHand); err == nil {
			return path, nil
		}
	}
	f := e.finder
	f.Dirs = slices.Concat(dirs, f.Dirs)
	for _, v := range slices.Backward(f.Versions()) {
		b, err := f.Find(v)
		of := func(dir string) bool { return strings.HasPrefix(b.Etcdctl, filepath.Clean(dir)+"/") }
		if err == nil && b.Etcdctl != "" && (!slices.ContainsFunc(dirs, of) || daemons.Trusted(b.Etcdctl)) {
			return b.Etcdctl, nil
		}
	}
	path, err := exec.LookPath("etcdctl")
	if err != nil {
		return "", cli.WithHint(errors.New("no etcdctl is on this machine, neither with a version of etcd nor in the PATH"),
			"put it into the PATH, or name it: --etcdctl=FILE; etcdadm download fetches a release of etcd with it")
	}
	return path, nil
}

// inMemory puts text into a file that is in memory alone, and goes with the last process
// that has it.
func inMemory(name string, text []byte) (string, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, 0)
	}
	if err != nil {
		return "", fmt.Errorf("keep %s in memory: %w", name, err)
	}
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", fmt.Errorf("keep %s in memory: %w", name, err)
	}
	return path, nil
}
