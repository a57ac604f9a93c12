package etcdbuild

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

const usage = `usage:
  images [flags] etcd VERSION...   build the versions, print their directories
  images [flags] etcd all          build every known version
  images [flags] versions          list the known versions
  images [flags] path              print the directory to give as --etcd-dir
  images build [flags] [NAME...]   build container images; see images build -help

flags:
`

// errUsage says that the command line makes no sense.
var errUsage = errors.New("unknown command line, see -help")

// Main runs the command line args and returns the exit code: 0 done, 1
// failed, 2 usage. Results go to stdout, progress and errors to stderr.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	b := &Builder{Progress: stderr}
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&b.Modules, "modules", "",
		"`folder` with one Go module per version (default: images/etcd of the source tree around the working directory)")
	flags.StringVar(&b.Cache, "cache", "",
		"root `folder` of the cache (default: $ETCDADM_CACHE, or etcdadm in the user's cache directory)")
	flags.IntVar(&b.Parallel, "p", 2, "`number` of packages to compile at once")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	err := b.run(ctx, flags.Args(), stdout)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintln(stderr, "error:", err)
		return 2
	default:
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
}

// run fills in the defaults and carries out one command.
func (b *Builder) run(ctx context.Context, args []string, stdout io.Writer) error {
	if err := b.locate(); err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "path":
		fmt.Fprintln(stdout, b.Bin())
		return nil
	case len(args) == 1 && args[0] == "versions":
		known, err := b.Versions()
		for _, v := range known {
			fmt.Fprintln(stdout, v)
		}
		return err
	case len(args) >= 2 && args[0] == "etcd":
		return b.buildAll(ctx, args[1:], stdout)
	default:
		return errUsage
	}
}

func (b *Builder) locate() (err error) {
	if b.Cache == "" {
		b.Cache, err = CacheRoot()
	} else {
		b.Cache, err = filepath.Abs(b.Cache)
	}
	if err != nil || b.Modules != "" {
		return err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the source tree: %w", err)
	}
	b.Modules, err = FindModules(cwd)
	return err
}

// buildAll builds the versions one after the other, as the go command uses
// all the machine by itself. It checks all the names before it builds any.
func (b *Builder) buildAll(ctx context.Context, versions []string, stdout io.Writer) error {
	if slices.Equal(versions, []string{"all"}) {
		known, err := b.Versions()
		if err != nil {
			return err
		}
		versions = known
	}
	for _, v := range versions {
		if _, err := b.folder(v); err != nil {
			return err
		}
	}
	for _, v := range versions {
		dir, err := b.Build(ctx, v)
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, dir)
	}
	return nil
}
