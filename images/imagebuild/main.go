package imagebuild

import (
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/etcdadm/etcdadm/images/etcdbuild"
	"github.com/etcdadm/etcdadm/images/sourcetree"
)

const usage = `usage:
  images build [flags] [NAME...]

Builds container images from this source tree, without Docker and without root, and
prints what it built: etcd-manager, etcd-manager-ctl, etcd-backup, etcdadm, and etcd for
all supported versions, or etcd:VERSION for one, of any version that is known here. Without a name it builds all.

flags:
`

// errUsage says that the command line makes no sense.
var errUsage = errors.New("command line")

// options are what the command line says.
type options struct {
	platforms, version, prefix string
	output, tarball, push      string
}

// Main runs the command line args, without the word "build", and returns the exit code: 0
// done, 1 failed, 2 usage. What was built goes to stdout, progress and errors to stderr.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("images build", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.platforms, "platform", "linux/"+runtime.GOARCH,
		"`platforms` of the images: linux/amd64,linux/arm64")
	flags.StringVar(&o.version, "version", "",
		"`version` of our programs and tag of their images (default: devel and the commit)")
	flags.StringVar(&o.prefix, "prefix", "docker.io/etcdadm", "`repository` that names begin with in a layout or an archive")
	flags.StringVar(&o.output, "output", "", "`directory` to make an OCI layout in")
	flags.StringVar(&o.tarball, "tarball", "", "`file` to write for docker load, of one platform")
	flags.StringVar(&o.push, "push", "", "`registry/prefix` to push to")
	names, err := parse(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	err = o.run(ctx, names, stdout, stderr)
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

// parse takes flags before, between and after the names.
func parse(flags *flag.FlagSet, args []string) (names []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if args = flags.Args(); len(args) == 0 {
			return names, nil
		}
		names, args = append(names, args[0]), args[1:]
	}
}

func (o options) run(ctx context.Context, names []string, stdout, stderr io.Writer) error {
	platforms, err := o.check()
	if err != nil {
		return err
	}
	b, err := newBuilder(ctx, o.version, platforms, stderr)
	if err != nil {
		return err
	}
	defer os.RemoveAll(b.work)
	versions, err := b.etcd.Versions()
	if err != nil {
		return err
	}
	recipes, err := choose(names, versions)
	if err != nil {
		return err
	}
	var images []*built
	for _, r := range recipes {
		if err := b.reduce(ctx, &r); err != nil {
			return err
		}
		img, err := b.image(ctx, r)
		if err != nil {
			return err
		}
		images = append(images, img)
	}
	if err := o.write(ctx, b.source.Version, images); err != nil {
		return err
	}
	return list(stdout, b.source.Version, images)
}

// reduce leaves out of a recipe the programs that its version of etcd does not have.
func (b *builder) reduce(ctx context.Context, r *recipe) error {
	if r.Etcd == "" {
		return nil
	}
	names, err := b.etcd.Binaries(ctx, r.Etcd)
	maps.DeleteFunc(r.Programs, func(name, _ string) bool { return !slices.Contains(names, name) })
	return err
}

// check returns the platforms, and an error for flags that do not go together.
func (o options) check() ([]v1.Platform, error) {
	if o.output == "" && o.tarball == "" && o.push == "" {
		return nil, fmt.Errorf("%w: say where the images go: -output=DIR, -tarball=FILE or -push=REGISTRY/PREFIX", errUsage)
	}
	var platforms []v1.Platform
	for text := range strings.SplitSeq(o.platforms, ",") {
		p, err := v1.ParsePlatform(text)
		if err != nil || p.OS != "linux" || p.Variant != "" || !slices.Contains([]string{"amd64", "arm64"}, p.Architecture) {
			return nil, fmt.Errorf("%w: there is no platform %q; there are linux/amd64 and linux/arm64", errUsage, text)
		}
		if !slices.ContainsFunc(platforms, p.Equals) {
			platforms = append(platforms, *p)
		}
	}
	if o.tarball != "" && len(platforms) > 1 {
		return nil, fmt.Errorf("%w: an archive for docker load holds one platform: give -platform one, or use -output",
			errUsage)
	}
	return platforms, nil
}

func newBuilder(ctx context.Context, version string, platforms []v1.Platform, progress io.Writer) (*builder, error) {
	b := &builder{platforms: platforms, progress: progress, done: map[string]bool{}, level: gzip.BestCompression,
		licenses: map[string][]byte{}}
	var err error
	if b.source, err = sourcetree.Find(ctx, ".", version); err != nil {
		return nil, err
	}
	b.etcd = etcdbuild.Builder{Modules: filepath.Join(b.source.Root, "images", "etcd"), Progress: progress}
	if b.etcd.Cache, err = etcdbuild.CacheRoot(); err != nil {
		return nil, err
	}
	if b.base, err = base(b.level); err != nil {
		return nil, err
	}
	if b.work, err = os.MkdirTemp("", "etcdadm-images-"); err != nil {
		return nil, fmt.Errorf("make a directory for programs: %w", err)
	}
	return b, nil
}

func (o options) write(ctx context.Context, version string, images []*built) error {
	if o.output != "" {
		if err := writeLayout(o.output, o.prefix, version, images); err != nil {
			return err
		}
	}
	if o.tarball != "" {
		if err := writeTarball(o.tarball, o.prefix, version, images); err != nil {
			return err
		}
	}
	if o.push != "" {
		return push(ctx, strings.TrimSuffix(o.push, "/"), version, images)
	}
	return nil
}

// list prints the digest of each image, and the compressed size of each platform's.
func list(w io.Writer, version string, images []*built) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "IMAGE\tPLATFORM\tCOMPRESSED\tDIGEST")
	for _, b := range images {
		for _, p := range b.Images {
			digest, err := p.Image.Digest()
			if err != nil {
				return err
			}
			size, err := p.size()
			if err != nil {
				return err
			}
			fmt.Fprintf(t, "%s\t%s\t%.1f MB\t%s\n", b.recipe.ref(version), p.Platform, float64(size)/1e6, digest)
		}
		digest, err := b.Index.Digest()
		if err != nil {
			return err
		}
		fmt.Fprintf(t, "%s\tindex\t\t%s\n", b.recipe.ref(version), digest)
	}
	return t.Flush()
}
