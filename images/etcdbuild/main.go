package etcdbuild

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

const usage = `usage:
  images [flags] etcd VERSION...   build the versions, print their directories
  images [flags] etcd SET          build a set: all known versions, or those that "make test" or
                                   "make e2e" runs (all, test, e2e)
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

// A sharedWriter lets builds that go on at the same time write to one place.
type sharedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sharedWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// buildAll builds versions, [atOnce] at the same time, and prints their directories in the
// order in which they are asked for. It checks all the names before it builds any.
func (b *Builder) buildAll(ctx context.Context, versions []string, stdout io.Writer) error {
	versions, err := b.resolve(versions)
	if err != nil {
		return err
	}
	b.Progress = &sharedWriter{w: b.Progress}
	dirs, errs := make([]string, len(versions)), make([]error, len(versions))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, v := range versions {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			if dirs[i], errs[i] = b.Build(ctx, v); errs[i] != nil {
				stop()
			}
			<-slots
		})
	}
	all.Wait()
	for _, dir := range dirs {
		if dir != "" {
			fmt.Fprintln(stdout, dir)
		}
	}
	return firstCause(errs)
}

// firstCause returns the error that ended the others.
func firstCause(errs []error) error {
	var first error
	for _, err := range errs {
		if err != nil && (first == nil || errors.Is(first, context.Canceled)) {
			first = err
		}
	}
	return first
}
