// Package release is the command that fetches a release of etcd.
package release

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machineflags"
	"github.com/etcdadm/etcdadm/pkg/command/internal/progress"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdrelease"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

const long = `Fetch the release archive of etcd into the cache, so that init and join need no
network later. It is compared with --binaries-sha256, or with the digest of etcd's own
archive where this program knows it, or with the SHA256SUMS beside it. An interrupted
download is resumed. Proxies are taken from HTTPS_PROXY, HTTP_PROXY and NO_PROXY.

An archive that is in the cache is not fetched again. You can put one there by hand:

  /var/cache/etcdadm/etcd/v3.6.16/etcd-v3.6.16-linux-amd64.tar.gz

--release-url is the part before /v3.6.16/ in the URL of the archive. A URL that ends
in .gz is the archive itself; a file URL is a mirror on this machine.`

// Result is what the command prints.
type Result struct {
	Version etcdversion.Version `json:"version"`
	// Fetched is false if there was nothing to do.
	Fetched bool `json:"fetched"`
	// Path of the archive in the cache, its digest and its size. They are empty
	// if etcd does not come from the cache.
	Path   string `json:"path,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	// Source is where etcd comes from in place of the cache.
	Source string `json:"source,omitempty"`
}

// New returns the command download.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "download",
		Short: "fetch a release of etcd into the cache",
		Long:  long,
		Example: "  etcdadm download --version=3.6.16\n" +
			"  etcdadm download --version=3.6.16 --release-url=https://mirror.example/etcd\n" +
			"  etcdadm download --version=3.6.16 -o json",
		Args: cobra.NoArgs,
	}
	flags := machineflags.Add(cmd, machineflags.Binaries)
	out := cli.AddOutput(cmd, cli.Table, cli.JSON, cli.YAML)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := flags.Config()
		if err != nil {
			return err
		}
		r, err := download(cmd, c, out)
		if err != nil {
			return err
		}
		return out.Print(cmd.OutOrStdout(), cli.Versioned("Release", r), r.text)
	}
	return cmd
}

// download fetches what the configuration asks for.
func download(cmd *cobra.Command, c machine.Config, out *cli.Output) (Result, error) {
	r := Result{Version: c.Version}
	b := c.Binaries
	if r.Source = cmp.Or(b.Dir, b.Archive); r.Source != "" {
		return r, nil
	}
	if b.Image != "" {
		if _, err := os.Stat(b.Image); err != nil {
			return r, &cli.UsageError{
				Text: fmt.Sprintf("images are not kept in the cache: %s is pulled when etcd is installed", cli.Plain(b.Image)),
				Next: "to need no network then, give --binaries-image the path of a docker save archive or of an " +
					"OCI layout",
			}
		}
		r.Source = b.Image
		return r, nil
	}
	if machine.PlainHTTP(b.ReleaseURL) {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", machine.PlainHTTPWarning)
	}
	o := etcdrelease.For(c)
	defer report(cmd, &o, out.Text())()
	path, fetched, err := etcdrelease.Download(cmd.Context(), o)
	if err != nil {
		return r, err
	}
	r.Path, r.Fetched = path, fetched
	if r.SHA256, err = etcdrelease.Digest(path); err != nil {
		return r, err
	}
	st, err := os.Stat(path)
	if err != nil {
		return r, err
	}
	r.Bytes = st.Size()
	return r, nil
}

// report has a download report what it does: to a person also from where, and why a try failed.
func report(cmd *cobra.Command, o *etcdrelease.Options, person bool) (finish func()) {
	if quiet(cmd) {
		return func() {}
	}
	w := cmd.ErrOrStderr()
	o.Progress, finish = progress.Bar(w, "download etcd "+o.Version.String())
	if person {
		o.Fetching = func(url string) { fmt.Fprintf(w, "downloading %s\n", cli.Plain(url)) }
		o.Failed = func(text string) {
			finish() // a bar is drawn again when the download goes on
			fmt.Fprintf(w, "waiting: %s\n", cli.Plain(text))
		}
	}
	return finish
}

// quiet says whether --log-level leaves progress out.
func quiet(cmd *cobra.Command) bool {
	f := cmd.Flags().Lookup("log-level")
	return f != nil && !slices.Contains([]string{"debug", "info"}, f.Value.String())
}

// text writes the result for people.
func (r Result) text(w io.Writer) error {
	var err error
	switch {
	case r.Source != "":
		_, err = fmt.Fprintf(w, "nothing to do: etcd %s comes from %s\n", r.Version, cli.Plain(r.Source))
	case r.Fetched:
		_, err = fmt.Fprintf(w, "downloaded etcd %s to %s (%.1f MiB, sha256 %s)\n", r.Version, cli.Plain(r.Path),
			float64(r.Bytes)/(1<<20), r.SHA256)
	default:
		_, err = fmt.Fprintf(w, "nothing to do: etcd %s is at %s (sha256 %s)\n", r.Version, cli.Plain(r.Path), r.SHA256)
	}
	return err
}
