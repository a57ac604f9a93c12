package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/internal/backupsource"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdutl"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

func newRestore() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore FILE|DIRECTORY|STORE-URL/BACKUP-NAME",
		Short: "make a data directory from a snapshot or a backup",
		Long: `restore makes a new data directory from a snapshot file, from a backup in a store, from the data file of a
backup (.gz, .zst, .age), or from the database in another data directory. It checks everything first: that the
snapshot is whole, that etcd's own tool of the right version is there, that the disk has room, and that the
data directory is missing or empty. Existing data is never replaced. Leases are kept.

To restore a cluster of several members, run the same command on each machine, with the same file and the same
--initial-cluster. Clients may have seen later revisions than the snapshot has (a Kubernetes API server has):
the revision is raised above the highest one that the backup's store knows of, or above --above-revision.

Restoring is the last resort. Where a member still runs, take a snapshot of it: it loses less. Where all are
stopped and quorum is lost, starting one of them with --force-new-cluster loses less, too.`,
		Example: "  etcdadm snapshot restore etcd.db --data-dir=/var/lib/etcd " +
			"--initial-advertise-peer-urls=https://10.0.0.1:2380\n" +
			"  etcdadm snapshot restore file:///mnt/etcd-store/main/2026-11-20T10:39:37Z-000001 --dry-run\n" +
			"  etcdadm snapshot restore etcd.backup.zst.age --decrypt-key=key.txt --above-revision=123456",
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeSource,
	}
	r := restore{tool: &tool{cmd: cmd, out: cli.AddOutput(cmd, cli.Table, cli.JSON, cli.YAML)}}
	paths, f := machine.Defaults().Paths, cmd.Flags()
	f.StringVar(&r.dataDir, "data-dir", paths.Data, "data `directory` to create")
	f.StringVar(&r.name, "name", "", "member's name; default: that of etcd.env, or the host name")
	f.StringSliceVar(&r.peerURLs, "initial-advertise-peer-urls", nil, "member's peer `URLs`; default: those of etcd.env")
	f.StringVar(&r.initialCluster, "initial-cluster", "",
		"all members, as `a=https://10.0.0.1:2380,b=...`; default: only this one")
	f.StringVar(&r.token, "initial-cluster-token", "",
		"`token` from which the new cluster's IDs are made; default: one made from the snapshot")
	f.BoolVar(&r.skipHashCheck, "skip-hash-check", false,
		"accept a database that was copied from a data directory and has no digest")
	f.Uint64Var(&r.above, "above-revision", 0,
		"raise the `revision` to more than 1,000,000,000 above this one; default for a backup in a store: the highest "+
			"that is known there")
	f.Uint64Var(&r.bump, "bump-revision", 0, "by how `much` to raise the revision, 0 for not at all")
	f.StringArrayVar(&r.keys, "decrypt-key", nil,
		"`file` with secret keys of age, or an ssh private key, for an encrypted backup (repeatable)")
	f.StringArrayVar(&r.signers, "trusted-signers", nil,
		"`file` with public keys (PEM, ed25519) of trusted signers (repeatable)")
	f.BoolVar(&r.fetch.RequireSignature, "require-signature", false, "refuse a backup that no trusted signer has signed")
	f.BoolVar(&r.markCompacted, "mark-compacted", false,
		"mark everything before the raised revision as compacted, as --bump-revision always does")
	f.StringVar(&r.version, "version", "",
		"etcd `version` that will run on the data; default: that of the etcd in --install-dir")
	f.StringVar(&r.installDir, "install-dir", paths.Install, "`directory` of the binaries")
	f.StringArrayVar(&r.etcdDirs, "etcd-dir", nil, "`directory` to look for the binaries of --version in (repeatable)")
	f.StringVar(&r.environment, "environment-dir", paths.Environment, "`directory` of etcd.env")
	f.BoolVar(&r.dryRun, "dry-run", false, "check everything, print what would be done, and do nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args[0]) }
	return cmd
}

type restore struct {
	*tool
	dataDir, name, initialCluster, token string
	peerURLs, etcdDirs                   []string
	skipHashCheck, markCompacted, dryRun bool
	above, bump                          uint64
	keys, signers                        []string
	fetch                                backup.FetchOptions
	version, installDir, environment     string
}

// prepare reads the flags that hang together, and the keys.
func (r *restore) prepare(target string) (err error) {
	f := r.cmd.Flags()
	switch {
	case f.Changed("bump-revision") && f.Changed("above-revision"):
		return cli.Usagef("--bump-revision and --above-revision exclude each other")
	case r.above > uint64(cluster.MaxBegin-2*margin):
		return cli.Usagef("no restored cluster begins above --above-revision=%d: the highest is %d", r.above, cluster.MaxBegin)
	case r.markCompacted && r.bump == 0 && !f.Changed("above-revision") && !backupsource.IsStore(target):
		return cli.Usagef("--mark-compacted needs --bump-revision")
	case r.fetch.RequireSignature && len(r.signers) == 0:
		return &cli.UsageError{Text: "--require-signature needs trusted signers", Next: "--trusted-signers=FILE"}
	}
	if r.fetch.Keys, err = backup.ReadIdentities(r.keys...); err != nil {
		return cli.Usagef("--decrypt-key: %v", err)
	}
	if r.fetch.Trusted, err = backup.ReadTrusted(r.signers...); err != nil {
		return cli.Usagef("--trusted-signers: %v", err)
	}
	return nil
}

func (r *restore) run(ctx context.Context, text string) error {
	if err := r.prepare(text); err != nil {
		return err
	}
	from, err := parseSource(text)
	if err != nil {
		return err
	}
	result := restored{From: from.String(), DataDir: r.dataDir, DryRun: r.dryRun}
	if err := r.identity(&result); err != nil {
		return err
	}
	tool, err := r.find(ctx)
	if err != nil {
		return err
	}
	result.Tool, result.Version = tool.Path, tool.Version
	if err := etcdutl.Free(r.dataDir); err != nil {
		return err
	}
	release, err := from.hold(r.tool, r.skipHashCheck)
	if err != nil {
		return err
	}
	defer release()
	k, err := from.observe(ctx, r.cmd.ErrOrStderr(), r.fetch)
	if err != nil {
		return err
	}
	result.know(k)
	if err := r.space(&result, from, k.Content.Size); err != nil {
		return err
	}
	if r.dryRun && from.InStore() {
		// The rest of what it holds shows when it is fetched, which is not done now.
		if err := r.raise(k.Revision, k, tool, &result); err != nil {
			return err
		}
		r.warnOfRevision(from, k, result)
		r.say("%s is of etcd %s; it would be fetched and checked first", from, k.EtcdVersion)
		return r.report(result)
	}
	return r.make(ctx, from, k, tool, result)
}

// space finds out how much disk is needed, if the size of the snapshot is
// known, and whether it is there.
func (r *restore) space(x *restored, from source, size int64) (err error) {
	place := existing(r.dataDir)
	if x.Free, err = hostfs.FreeBytes(place); err != nil {
		return cli.WithHint(err, "name another --data-dir")
	}
	if size == 0 {
		return nil
	}
	x.Size, x.Needed = size, size+overhead
	if from.File == "" || from.Packed {
		// The fetched file lies beside the data directory until it is made.
		x.Needed += size
	}
	return room(place, x.Needed)
}

// make does what was checked.
func (r *restore) make(ctx context.Context, from source, k known, tool etcdutl.Tool, result restored) error {
	parent := existing(filepath.Dir(filepath.Clean(r.dataDir)))
	file, remove, err := from.fetch(ctx, r.tool, parent, r.fetch, k.Content.Size)
	if err != nil {
		return err
	}
	defer remove()
	s, err := read(ctx, file, r.skipHashCheck)
	if err != nil {
		return err
	}
	if err := fits(s, tool.Version); err != nil {
		return err
	}
	if x := (restored{}); from.File != "" && !from.Packed || k.Content.Size == 0 {
		if err := r.space(&x, source{backupsource.Source{File: file}}, s.Size); err != nil {
			return err
		}
		result.Size, result.Needed = x.Size, x.Needed
	}
	if err := r.raise(s.Revision, k, tool, &result); err != nil {
		return err
	}
	r.warnOfRevision(from, k, result)
	result.Keys = s.Keys
	if result.Token = r.token; result.Token == "" {
		// The same on every machine, and another than that of the cluster before,
		// whose members must not be taken for those of this one. Machines that came
		// to different revisions must not find each other.
		result.Token = fmt.Sprintf("restored-%d-%d", result.RevisionAfter, s.Size)
	}
	if !r.dryRun {
		r.say("restoring %s (%s, revision %d) into %s ...", from, render.Bytes(s.Size), s.Served().Revision, r.dataDir)
		err = tool.Restore(ctx, etcdutl.RestoreOptions{
			Snapshot: file, SkipHashCheck: r.skipHashCheck && !s.Digest, DataDir: r.dataDir,
			Name: cluster.NodeName(result.Name), PeerURLs: result.PeerURLs, InitialCluster: result.InitialCluster,
			Token:        result.Token,
			BumpRevision: result.BumpRevision,
		})
		if err != nil {
			return err
		}
	}
	result.Revision, result.RevisionAfter = s.Served().Revision, max(result.RevisionAfter, 1)
	return r.report(result)
}

// overhead is what a data directory has besides the database: the first file of
// the write-ahead log is 64 MB from the beginning.
const overhead = 70 << 20

// identity fills in who the member is.
func (r *restore) identity(x *restored) error {
	env, err := environment(filepath.Join(r.environment, "etcd.env"))
	if err != nil {
		return cli.WithHint(err, "it has the member's name and URLs: fix it, or name another --environment-dir")
	}
	if x.Name = r.name; x.Name == "" {
		x.Name = env["ETCD_NAME"]
	}
	if x.Name == "" {
		if x.Name, err = os.Hostname(); err != nil {
			return cli.WithHint(err, "name the member with --name")
		}
	}
	if err := cluster.NodeName(x.Name).Validate(); err != nil {
		return cli.Usagef("--name: %v", err)
	}
	x.PeerURLs, x.InitialCluster = r.peerURLs, r.initialCluster
	if len(x.PeerURLs) == 0 {
		x.PeerURLs = urlsOf(x.Name, x.InitialCluster)
	}
	if known := env["ETCD_INITIAL_ADVERTISE_PEER_URLS"]; len(x.PeerURLs) == 0 && known != "" {
		x.PeerURLs = strings.Split(known, ",")
	}
	if len(x.PeerURLs) == 0 {
		return &cli.UsageError{Text: "the member's peer URLs are not known",
			Next: "--initial-advertise-peer-urls=https://ADDRESS:2380"}
	}
	if x.InitialCluster == "" {
		var own []string
		for _, u := range x.PeerURLs {
			own = append(own, x.Name+"="+u)
		}
		x.InitialCluster = strings.Join(own, ",")
	} else if len(urlsOf(x.Name, x.InitialCluster)) == 0 {
		return &cli.UsageError{Text: fmt.Sprintf("--initial-cluster has no member %q", x.Name),
			Next: "add this member to it under the name of --name"}
	}
	return nil
}

// urlsOf returns the peer URLs of a member in "a=https://10.0.0.1:2380,b=...".
func urlsOf(name, initialCluster string) []string {
	var urls []string
	for part := range strings.SplitSeq(initialCluster, ",") {
		if n, u, ok := strings.Cut(strings.TrimSpace(part), "="); ok && n == name {
			urls = append(urls, u)
		}
	}
	return urls
}

// environment reads etcd.env; one that is not there is empty.
func environment(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	env, err := initfiles.ParseEnvFile(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return env, nil
}

// find returns the tool of the etcd that will run on the data.
func (r *restore) find(ctx context.Context) (etcdutl.Tool, error) {
	if r.version == "" {
		v, err := etcdbin.Probe(ctx, filepath.Join(r.installDir, "etcd"))
		if err != nil {
			return etcdutl.Tool{}, cli.WithHint(fmt.Errorf("cannot determine which etcd version will run on the data: %w", err),
				"install it (etcdadm download), or name it: --version with --etcd-dir, or --install-dir")
		}
		return etcdutl.Find(ctx, r.installDir, v)
	}
	v, err := etcdversion.Parse(r.version)
	if err != nil {
		return etcdutl.Tool{}, cli.Usagef("--version: %v", err)
	}
	dirs := append(append([]string(nil), r.etcdDirs...), filepath.SplitList(os.Getenv(etcdbin.DirVariable))...)
	if bin, err := (etcdbin.Finder{Dirs: dirs}).Find(v); err == nil {
		return etcdutl.Find(ctx, bin.Dir, v)
	}
	return etcdutl.Find(ctx, r.installDir, v)
}

// fits reports whether an etcd of version v starts on the data: from 3.6 on, it
// refuses what a later minor has written.
func fits(s snapshot.Status, v etcdversion.Version) error {
	if w := s.StorageVersion; v.AtLeast(3, 6) && w.AtLeast(v.Major, v.Minor+1) {
		return &cli.RefusedError{
			Text: fmt.Sprintf("the snapshot is of etcd %d.%d, and etcd %s does not start on it", w.Major, w.Minor, v),
			Next: fmt.Sprintf("restore with the binaries of %d.%d: --version and --etcd-dir, or --install-dir", w.Major,
				w.Minor),
		}
	}
	return nil
}

// existing returns the nearest directory at or above dir that exists.
func existing(dir string) string {
	for {
		if st, err := os.Stat(dir); err == nil && st.IsDir() || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// members are the entries of "a=https://10.0.0.1:2380,b=...".
func members(initialCluster string) []string { return strings.Split(initialCluster, ",") }
