package certificates

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// A bundled file is one of the three for the control plane.
type bundled struct {
	// path is without the slash in front.
	path string
	mode os.FileMode
	text []byte
}

func bundleCommand(find finder) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "bundle --out FILE.tar.gz|DIR|-", Short: "pack the files that kubeadm needs",
		Long: "bundle packs three files under the names that they have on a control plane:\n\n" +
			"  " + KubeadmCA + "\n  " + KubeadmCert + "\n  " + KubeadmKey + "\n\n" +
			`It writes an archive for "tar xzf FILE -C /" (- for standard output). If --out is an existing directory, or ends
in a slash, the files go below it. They include a private key.

Of a member by hand they are the pair apiserver-etcd-client in --certs-dir. For the etcd of a daemon on this
machine, or of --pki-dir, a pair is issued again each time, valid for a year.`,
		Example: "  etcdadm kubeadm bundle --out=/root/etcd-client.tar.gz\n  etcdadm kubeadm bundle --out=- | ssh cp1 tar " +
			"xzf - -C /",
		Args: cobra.NoArgs,
	}
	flags := addHome(cmd, find)
	cmd.Flags().StringVar(&out, "out", "", "`where` to: a file, a directory, or - (required)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if out == "" {
			return &cli.UsageError{Text: "--out is missing", Next: "etcdadm kubeadm bundle --out=etcd-client.tar.gz"}
		}
		h, err := flags.home(cmd)
		if err != nil {
			return err
		}
		files, err := h.bundle(time.Now())
		if err != nil {
			return err
		}
		return give(cmd, out, files)
	}
	return cmd
}

// apiServerName is the common name in the pair of the API servers, which is etcd's user
// where that asks for users; kubeadm has it, too.
const apiServerName = "kube-apiserver-etcd-client"

// bundle returns the three files: those of a member by hand, or new ones of a daemon's
// authority.
func (h home) bundle(now time.Time) ([]bundled, error) {
	if h.byHand() {
		return bundle(h.dir, now)
	}
	r := certs.EtcdClient(apiServerName)
	r.Organization, r.Lifetime = []string{certs.MastersGroup}, certs.MachineLifetime
	i, err := h.issue(r, now)
	if err != nil {
		return nil, err
	}
	key, err := i.leaf.KeyPEM()
	if err != nil {
		return nil, err
	}
	return inPlace(i.ca.PEM(), i.leaf.CertPEM(), key), nil
}

// inPlace are the files with their places on a control plane.
func inPlace(ca, cert, key []byte) []bundled {
	at := func(path string) string { return strings.TrimPrefix(path, "/") }
	return []bundled{{at(KubeadmCA), 0o644, ca}, {at(KubeadmCert), 0o644, cert}, {at(KubeadmKey), 0o600, key}}
}

// bundle reads the three files, if an API server can work with them.
func bundle(dir string, now time.Time) ([]bundled, error) {
	all, err := certs.Expiries(dir, now)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{certs.APIServerPair, certs.MachineCA} {
		e := all[slices.IndexFunc(all, func(e certs.Expiry) bool { return e.Name == name })]
		renew := "etcdadm certs renew " + name + dirFlag(dir)
		if name == certs.MachineCA {
			renew = "etcdadm certs check-expiration" + dirFlag(dir)
		}
		switch {
		case e.Missing:
			return nil, cli.WithHint(fmt.Errorf("there is no %s", e.File),
				"etcdadm init phase certificates"+dirFlag(dir)+" issues what is missing")
		case e.Problem != "":
			return nil, cli.WithHint(fmt.Errorf("%s cannot be used: %s", e.File, e.Problem), renew)
		case e.Left() < 0:
			return nil, cli.WithHint(fmt.Errorf("%s expired on %s", e.File, stamp(e.NotAfter)), renew)
		}
	}
	var texts [3][]byte
	for i, from := range []string{certs.MachineCA + ".crt", certs.APIServerPair + ".crt", certs.APIServerPair + ".key"} {
		if texts[i], err = os.ReadFile(filepath.Join(dir, from)); err != nil {
			return nil, err
		}
	}
	return inPlace(texts[0], texts[1], texts[2]), nil
}

// give writes the files where they are wanted, and says what comes next.
func give(cmd *cobra.Command, out string, files []bundled) error {
	report := func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
	info, err := os.Stat(out)
	switch {
	case out == "-":
		if err := archive(cmd.OutOrStdout(), files); err != nil {
			return err
		}
	case strings.HasSuffix(out, "/") || err == nil && info.IsDir():
		if err := tree(out, files); err != nil {
			return err
		}
		report("Copy what is in %s to / of the first control plane: rsync -a %s/ HOST:/", out, filepath.Clean(out))
	default:
		var b bytes.Buffer
		if err := archive(&b, files); err != nil {
			return err
		}
		if err := hostfs.WriteFile(out, b.Bytes(), 0o600); err != nil {
			return err
		}
		report("Copy %s to the first control plane, and there: tar xzf %s -C /", out, filepath.Base(out))
		report("It contains a private key: delete it afterwards.")
	}
	report("etcdadm kubeadm config prints the configuration for kubeadm init --config.")
	return nil
}

// archive writes the files as a compressed tar archive, owned by root.
func archive(w io.Writer, files []bundled) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	now := time.Now().Truncate(time.Second)
	for _, f := range files {
		h := &tar.Header{Name: f.path, Mode: int64(f.mode), Size: int64(len(f.text)), ModTime: now, Uname: "root",
			Gname: "root", Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		if _, err := t.Write(f.text); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	return nil
}

// tree writes the files below a directory.
func tree(dir string, files []bundled) error {
	for _, f := range files {
		path := filepath.Join(dir, f.path)
		if err := hostfs.MakeDir(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := hostfs.WriteFile(path, f.text, f.mode); err != nil {
			return err
		}
	}
	return nil
}
