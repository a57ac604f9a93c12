package etcdbackup

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/backup/backupagent"
	"github.com/etcdadm/etcdadm/pkg/cli"
)

// A Line is the command line of an etcd-backup on another machine.
type Line struct {
	// Args are its words, without the program.
	Args                 []string
	ClusterName, Metrics string
	// Dir is the store, where that is a directory, and "" for others. Local says that
	// each machine has a store of its own.
	Dir   string
	Local bool
	// Once says that it ends with the first backup, which may take Timeout.
	Once    bool
	Timeout time.Duration
	// Files are the files that it reads, by their absolute paths.
	Files []string
}

// ParseLine reads and checks flags as etcd-backup does, except for what is in the
// files that they name, and for variables of this process.
func ParseLine(args []string) (Line, error) {
	var f flags
	cmd := &cobra.Command{Use: "etcd-backup"}
	f.add(cmd)
	cli.AddOutput(cmd, cli.Table, cli.JSON, cli.YAML)
	if err := cmd.ParseFlags(args); err != nil {
		return Line{}, cli.Usagef("%v", err)
	}
	if rest := cmd.Flags().Args(); len(rest) > 0 {
		return Line{}, cli.Usagef("flags alone are expected, not %q", rest[0])
	}
	if !cmd.Flags().Changed("backup-store") {
		return Line{}, cli.Usagef("--backup-store is required")
	}
	if _, err := f.settings(func(string) string { return "" }); err != nil {
		return Line{}, err
	}
	l := Line{
		Args: args, ClusterName: f.clusterName, Metrics: f.listenMetrics,
		Local: f.prefer.String() == string(backupagent.Local), Once: f.once, Timeout: f.timeout,
	}
	var err error
	if l.Dir, err = f.dir(); err != nil {
		return Line{}, err
	}
	l.Files, err = f.files()
	return l, err
}

// dir is the directory of the store, "" for other stores.
func (f *flags) dir() (string, error) {
	scheme, dir, ok := strings.Cut(f.backupStore, "://")
	switch {
	case !ok:
		dir = f.backupStore
	case scheme != "file":
		return "", nil
	}
	if !filepath.IsAbs(dir) {
		return "", cli.Usagef("--backup-store: %q is neither an absolute path nor of a form such as s3://bucket/main",
			shown(f.backupStore))
	}
	return filepath.Clean(dir), nil
}

// files are the absolute paths of the files that the flags name.
func (f *flags) files() ([]string, error) {
	if len(f.trusted) > 0 && f.signKey == "" {
		return nil, cli.Usagef("--trusted-signers needs --sign-key")
	}
	var list []string
	add := func(flag string, paths ...string) error {
		for _, p := range paths {
			if p == "" {
				continue
			}
			if !filepath.IsAbs(p) {
				return cli.Usagef("%s: %q is not an absolute path", flag, p)
			}
			list = append(list, filepath.Clean(p))
		}
		return nil
	}
	recipients := slices.DeleteFunc(slices.Clone(f.encryptTo), func(text string) bool {
		_, err := backup.ParseRecipient(text)
		return err == nil
	})
	for _, named := range []struct {
		flag  string
		paths []string
	}{
		{"--client-ca-file", []string{f.caFile}}, {"--client-cert-file", []string{f.certFile}},
		{"--client-key-file", []string{f.keyFile}}, {"--sign-key", []string{f.signKey}},
		{"--trusted-signers", f.trusted}, {"--encrypt-to", recipients},
	} {
		if err := add(named.flag, named.paths...); err != nil {
			return nil, err
		}
	}
	return list, nil
}
