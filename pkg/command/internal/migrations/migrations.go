// Package migrations is the command that makes a backup of the data directory of an etcd 2,
// or of an early etcd 3.
package migrations

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/internal/backupflags"
	"github.com/etcdadm/etcdadm/pkg/command/internal/storewait"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/migrate"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// readable is the version that a backup is said to be of: the oldest one of those that
// restore it, whatever the data was of.
var readable = etcdversion.Must("3.5.0")

const long = `migrate makes a backup in a store from the data directory of a stopped member of etcd 2.2, 2.3 or 3.0 to 3.3.
Every supported etcd can restore it. The keys of the v2 store become v3 keys of the same names, their times to
live become leases, and directories are dropped. v3 keys stay as they are, with their revisions.

The directory is only read. The etcd of the data's own version has to be on this machine: it runs on a copy, in a
network namespace of its own. An interrupted migration can be run again; one that is complete is found in the
store.`

// New returns the command.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate --data-dir=DIR --backup-store=STORE-URL",
		Short: "make a backup from the data directory of etcd 2 or early etcd 3",
		Long:  long,
		Example: "  etcdadm migrate --data-dir=/var/etcd/data --backup-store=file:///mnt/etcd-store/main " +
			"--etcd-dir=/opt/old --dry-run\n" +
			"  etcdadm migrate --data-dir=/var/lib/etcd --wal-dir=/wal --backup-store=s3://bucket/etcd/main -o json",
		Args: cobra.NoArgs,
	}
	m := &migration{cmd: cmd, keep: cli.Choice([]string{"none", migrate.KeepV2, migrate.KeepV3}, "none")}
	f := cmd.Flags()
	f.StringVar(&m.o.Dir.Data, "data-dir", "", "`directory` of the stopped member's data")
	f.StringVar(&m.o.Dir.WAL, "wal-dir", "", "`directory` of its write-ahead log, where etcd had --wal-dir")
	f.StringVar(&m.store, "backup-store", "", "`URL` of the store that gets the backup, overrides $"+storeVariable)
	m.backup = backupflags.Add(f)
	f.StringArrayVar(&m.dirs, "etcd-dir", nil,
		"`directory` with etcd binaries, such as etcd-v2.3.8/etcd (repeatable; default: $"+etcdbin.DirVariable+", then /opt)")
	f.StringVar(&m.version, "etcd-version", "",
		"`version` of etcd to read the data with (default: the newest on this machine of the data's minor version)")
	f.StringVar(&m.o.Work, "work-dir", "",
		"`directory` to create for the copy (default: the data directory's name and .migrate)")
	f.Var(m.keep, "keep",
		"which key to keep if both stores have one of the same name: v2, v3, or none to refuse")
	f.BoolVar(&m.o.DiscardTail, "discard-uncommitted", false,
		"leave out entries at the log's end that were not known to be committed")
	f.BoolVar(&m.o.ShareNetwork, "share-network", false,
		"run the copy on this machine's loopback; only if no other member of that cluster runs here")
	f.BoolVar(&m.dry, "dry-run", false, "print what would be done, and do nothing")
	cli.Sections(cmd,
		cli.FlagSection{Title: "The old member", Common: []string{"data-dir", "etcd-version", "etcd-dir"},
			More: []string{"wal-dir", "work-dir", "keep", "discard-uncommitted", "share-network"}},
		cli.FlagSection{Title: "The backup", Common: []string{"backup-store", "cluster-name"},
			More: []string{"compression", "encrypt-to", "sign-key"}},
	)
	m.out = cli.AddOutput(cmd, cli.Table, cli.JSON, cli.YAML)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return m.run(cmd.Context()) }
	return cmd
}

type migration struct {
	cmd            *cobra.Command
	out            *cli.Output
	o              migrate.Options
	keep           pflag.Value
	backup         *backupflags.Flags
	take           backup.TakeOptions
	store, version string
	dirs           []string
	dry            bool
}

// A report is the result of the command.
type report struct {
	Store  string `json:"store"`
	Backup string `json:"backup,omitempty"`
	// Before says that the backup was made by an earlier run.
	Before bool `json:"before,omitempty"`
	DryRun bool `json:"dryRun,omitempty"`
	// Recipients are those who can decrypt the backup, Signer the id of the key it is
	// signed with.
	Recipients []string `json:"recipients,omitempty"`
	Signer     string   `json:"signer,omitempty"`
	migrate.Result
}

// storeVariable says where the store is, as it does to the other commands.
const storeVariable = "ETCDADM_BACKUP_STORE"

func (m *migration) complete() (err error) {
	m.store = cmp.Or(m.store, os.Getenv(storeVariable))
	switch {
	case m.o.Dir.Data == "":
		return cli.Usagef("--data-dir is missing")
	case m.store == "":
		return &cli.UsageError{Text: "--backup-store is missing",
			Next: "give the store that gets the backup, or set " + storeVariable + " in the environment"}
	}
	if m.take, err = m.backup.Options(); err != nil {
		return err
	}
	if m.o.Dir.Data, err = filepath.Abs(m.o.Dir.Data); err != nil {
		return err
	}
	if m.o.Work == "" {
		m.o.Work = m.o.Dir.Data + ".migrate"
	}
	if m.version != "" {
		if m.o.Version, err = etcdversion.Parse(m.version); err != nil {
			return cli.Usagef("--etcd-version: %v", err)
		}
	}
	if keep := m.keep.String(); keep != "none" {
		m.o.Keep = keep
	}
	m.o.Finder.Dirs = m.dirs
	if len(m.dirs) == 0 {
		m.o.Finder.Dirs = filepath.SplitList(os.Getenv(etcdbin.DirVariable))
	}
	m.o.Say = func(format string, args ...any) {
		fmt.Fprintln(m.cmd.ErrOrStderr(), cli.Plain(fmt.Sprintf(format, args...)))
	}
	return nil
}

func (m *migration) run(ctx context.Context) error {
	if err := m.complete(); err != nil {
		return err
	}
	if m.dry {
		p, err := migrate.Examine(ctx, m.o)
		if err != nil {
			return err
		}
		return m.print(m.report(migrate.Result{Plan: p}))
	}
	st, err := storewait.Open(ctx, m.store, 0, m.cmd.ErrOrStderr())
	if err != nil {
		return cli.Usagef("--backup-store: %v", err)
	}
	defer st.Close(context.WithoutCancel(ctx))
	r := m.report(migrate.Result{})
	file := m.o.Work + ".db"
	defer os.Remove(file)
	r.Result, r.Before, err = migrate.Make(ctx, m.o, file, func(source string) (bool, error) {
		r.Backup, err = m.made(ctx, st, source)
		return r.Backup != "", err
	})
	if err != nil {
		return err
	}
	if !r.Before {
		if r.Backup, err = m.upload(ctx, st, r.Result, file); err != nil {
			return err
		}
	}
	return m.print(r)
}

func (m *migration) report(r migrate.Result) report {
	return report{Store: m.store, DryRun: m.dry, Recipients: m.recipients(), Signer: m.signer(), Result: r}
}

// made returns the name of the backup that was made of a source as this one would be: for
// the same readers, signed by the same key for the same cluster; "" for none.
func (m *migration) made(ctx context.Context, st *store.Store, source string) (string, error) {
	all, err := st.Backups(ctx)
	if err != nil {
		return "", fmt.Errorf("look for an earlier migration: %w", err)
	}
	for _, b := range all {
		// What cannot be read is not one of this command.
		d, err := backup.Inspect(ctx, st, b.Name, backup.FetchOptions{})
		switch {
		case err != nil || d.Source != source:
		case slices.Equal(d.Recipients, m.recipients()) && d.Signer == m.signer() && d.Cluster == m.backup.Cluster &&
			d.Compression == m.take.Compression:
			return b.Name, nil
		case d.Encryption == "" && len(m.take.Recipients) > 0:
			m.o.Say("backup %s has the same data and is not encrypted: delete it if it must not be read", b.Name)
		}
	}
	return "", nil
}

// recipients are those who can decrypt the backup, as a description names them.
func (m *migration) recipients() (names []string) {
	for _, r := range m.take.Recipients {
		names = append(names, r.String())
	}
	return names
}

// signer is the id of the key that signs the backup, "" for none.
func (m *migration) signer() string {
	if m.take.Signer == nil {
		return ""
	}
	return m.take.Signer.ID()
}

// A snapshotFile streams a file.
type snapshotFile string

func (f snapshotFile) Snapshot(context.Context) (io.ReadCloser, error) { return os.Open(string(f)) }

func (m *migration) upload(ctx context.Context, st *store.Store, r migrate.Result, file string) (string, error) {
	o := m.take
	o.Source, o.Store = snapshotFile(file), st
	o.Info = backup.Info{EtcdVersion: readable, MemberCount: r.Members}
	o.Facts = backup.Facts{
		Revision: r.Revision, Cluster: m.backup.Cluster, Keys: int64(r.V2Keys + r.V3Keys), Source: r.Source,
	}
	b, err := backup.Take(ctx, o)
	return b.Name, err
}

func (m *migration) print(r report) error {
	made := cli.Versioned("Migration", r)
	return m.out.Print(m.cmd.OutOrStdout(), made, func(w io.Writer) error { return cli.Rows(w, rows(r)...) })
}

func rows(r report) [][]string {
	list := [][]string{
		{"STORE", r.Store}, {"READ WITH", fmt.Sprintf("etcd %s (%s)", r.Version, r.Binary)},
		{"SIZE", render.Bytes(r.Bytes)}, {"MEMBERS", fmt.Sprint(r.Members)},
	}
	if len(r.Recipients) > 0 {
		list = append(list, []string{"ENCRYPTED", "for " + strings.Join(r.Recipients, ", ")})
	}
	if r.Signer != "" {
		list = append(list, []string{"SIGNED", "with key " + r.Signer})
	}
	if r.Uncommitted > 0 {
		list = append(list, []string{"LEFT OUT",
			fmt.Sprintf("%d entries that were not known to be committed", r.Uncommitted)})
	}
	switch {
	case r.DryRun:
		return append(list, []string{"DRY RUN", "nothing was written"})
	case r.Before:
		return append(list, []string{"BACKUP", r.Backup + ", made from this data before"})
	}
	list = append(list, []string{"BACKUP", r.Backup}, []string{"V2 KEYS", fmt.Sprint(r.V2Keys)},
		[]string{"V3 KEYS", fmt.Sprint(r.V3Keys)}, []string{"LEASES", fmt.Sprintf("%d made from times to live", r.Leases)},
		[]string{"DIRECTORIES", fmt.Sprintf("%d dropped", r.Directories)},
		[]string{"REVISION", fmt.Sprint(cluster.Revision(r.Revision))})
	for _, extra := range []struct {
		n    int
		text string
	}{
		{r.Expired, "expired keys were left out"},
		{r.Users, "users and roles of v2's authentication were left out"},
		{r.Replaced, "v3 keys were replaced by v2 keys"}, {r.Dropped, "v2 keys were left out for v3 keys"},
	} {
		if extra.n > 0 {
			list = append(list, []string{"NOTE", fmt.Sprintf("%d %s", extra.n, extra.text)})
		}
	}
	return list
}
