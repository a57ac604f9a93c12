package backups

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/backup/drill"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/backupsource"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/keyspace"
	"github.com/etcdadm/etcdadm/pkg/store"
)

const verifyLong = `Fetch backups and check all that is known of them: the digests of the stored object
and of the snapshot, etcd's own digest, the signature if there are trusted signers,
and that the two descriptions of a backup belong together. Then open the database,
read every page and entry of it, and compare the revision and number of keys with
those in the backup's description.

A backup is named by its name, by STORE-URL/NAME, or as a file. The result is
recorded in the store beside the backup, where list-backups -o wide shows it; if the
store denies that, there is a warning. Needs room for one snapshot in --temp-dir.

A backup that one machine finds damaged is suspect: that machine may be to blame. It
counts as damaged, for the daemons too, when another machine also finds it damaged,
or with --declare-damaged.

With --object-only only the digest of the stored object is compared; the data is not
decrypted, uncompressed or opened. That is for a machine without the keys, and is not
recorded as a success.

Exits with 0 if all are whole, and with 1 if one is damaged or could not be read.`

type verify struct {
	*reader
	latest, all, objectOnly bool
	declareDamaged          bool
	out                     *cli.Output
}

// newVerify returns the command verify.
func newVerify(o Options) *cobra.Command {
	v := &verify{reader: newReader(o)}
	cmd := &cobra.Command{
		Use: "verify [NAME...|--latest|--all]", Short: "check that backups are whole", Long: verifyLong,
		Example: "  verify --latest\n  verify --all --object-only\n  verify 2026-11-20T10:39:37Z-000001 " +
			"--decrypt-key=key.txt",
		RunE: v.run, ValidArgsFunction: cli.Complete(math.MaxInt, false, o.names),
	}
	f := cmd.Flags()
	f.BoolVar(&v.latest, "latest", false, "the newest backup in the store")
	f.BoolVar(&v.all, "all", false, "all backups in the store, newest first")
	f.BoolVar(&v.objectOnly, "object-only", false, "compare only the digest of the stored object; needs no key")
	f.BoolVar(&v.declareDamaged, "declare-damaged", false,
		"declare a backup that is found damaged to be damaged for all daemons")
	v.addFlags(f)
	v.out = cli.AddOutput(cmd, cli.Table, cli.JSON, cli.YAML)
	return cmd
}

// A verdict is what was found out of one backup.
type verdict struct {
	drill.Verified
	// Result is one of the words below.
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`

	err error
}

// What a check ends with.
const (
	whole      = "whole"
	objectGood = "object-whole"
	damaged    = "DAMAGED"
	unknown    = "unknown"
)

func (v *verify) run(cmd *cobra.Command, args []string) error {
	given := 0
	for _, b := range []bool{v.latest, v.all, len(args) > 0} {
		if b {
			given++
		}
	}
	if given != 1 {
		return &cli.UsageError{Text: "name backups, or give --latest or --all",
			Next: "see the names: etcd-manager-ctl list-backups"}
	}
	if err := v.prepare(); err != nil {
		return err
	}
	sources, err := v.sources(cmd.Context(), args)
	if err != nil {
		return err
	}
	var verdicts []verdict
	for _, s := range sources {
		verdicts = append(verdicts, v.one(cmd, s))
		if cmd.Context().Err() != nil {
			break
		}
	}
	err = v.out.Print(cmd.OutOrStdout(), verdicts, func(w io.Writer) error { return write(w, verdicts) })
	return errors.Join(err, conclude(verdicts))
}

func (v *verify) sources(ctx context.Context, args []string) ([]backupsource.Source, error) {
	var list []backupsource.Source
	for _, text := range args {
		s, err := parseSource(text)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	if v.latest {
		s, err := v.newest(ctx)
		return []backupsource.Source{s}, err
	}
	if !v.all {
		return list, nil
	}
	err := v.with(ctx, "", func(objects *store.Store) error {
		all, err := objects.Backups(ctx)
		for _, b := range all {
			list = append(list, backupsource.Source{Name: b.Name})
		}
		return err
	})
	return list, err
}

// one checks one backup.
func (v *verify) one(cmd *cobra.Command, from backupsource.Source) verdict {
	p := newStages(cmd)
	defer p.end()
	o := v.drillOptions(cmd, p)
	o.MarkDamaged = v.declareDamaged
	d := verdict{Result: whole}
	switch {
	case from.File != "":
		d.Verified, d.err = v.file(cmd.Context(), from, o)
	default:
		d.err = v.with(cmd.Context(), from.Location, func(objects *store.Store) (err error) {
			if v.objectOnly {
				d.Result = objectGood
				d.Verified, err = drill.VerifyObject(cmd.Context(), objects, from.Name, o)
				return err
			}
			d.Verified, err = drill.Verify(cmd.Context(), objects, from.Name, o)
			return err
		})
	}
	d.Name = cmp.Or(from.File, from.Name)
	if d.err != nil {
		d.Result, d.Error = unknown, d.err.Error()
		if errors.Is(d.err, backup.ErrDamaged) {
			d.Result = damaged
		}
	}
	return d
}

// file checks a file. There is no place for a record.
func (v *verify) file(ctx context.Context, from backupsource.Source, o drill.Options) (d drill.Verified, err error) {
	began := v.Now()
	s, err := v.fetchSource(ctx, from, o)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	s.Space, err = keyspace.Open(ctx, s.path, keyspace.Options{Progress: func(done, total int64) {
		o.Progress("read the whole database", done, total)
	}})
	if err != nil {
		return d, err
	}
	sum := s.Summary()
	return drill.Verified{
		At: v.Now().UTC(), By: o.By, Tool: o.Tool, Took: drill.Took(v.Now().Sub(began)),
		Size: sum.Size, Revision: sum.Newest, Keys: int64(sum.Keys),
	}, nil
}

func write(w io.Writer, verdicts []verdict) error {
	table := [][]string{{"NAME", "RESULT", "REVISION", "KEYS", "SIZE", "TOOK"}}
	for _, d := range verdicts {
		row := []string{d.Name, d.Result, "-", "-", "-", "-"}
		if d.Result == whole {
			row = []string{d.Name, d.Result, fmt.Sprint(d.Revision), fmt.Sprint(d.Keys), render.Bytes(d.Size),
				time.Duration(d.Took).Round(time.Millisecond).String()}
		}
		table = append(table, row)
	}
	return cli.Rows(w, table...)
}

// conclude returns the error for what was found out: that of a single backup,
// or else how many are not whole.
func conclude(verdicts []verdict) error {
	var errs []error
	bad := 0
	for _, d := range verdicts {
		if d.err != nil {
			errs = append(errs, d.err)
		}
		if d.Result == damaged {
			bad++
		}
	}
	if len(errs) == 0 {
		return nil
	}
	first := explained(errs[0])
	if len(verdicts) == 1 {
		return first
	}
	if bad == 0 {
		return fmt.Errorf("%d of %d backups could not be checked; the first: %w", len(errs), len(verdicts), first)
	}
	return &severalError{fmt.Sprintf("%d of %d backups are damaged, %d could not be checked; the first: ", bad,
		len(verdicts), len(errs)-bad), first}
}

// A severalError is damage among other errors, whose kinds do not count.
type severalError struct {
	text  string
	first error
}

func (e *severalError) Error() string { return e.text + e.first.Error() }

// Kind is that of damage.
func (e *severalError) Kind() string { return cli.KindFailed }

// Hint says what to do next.
func (e *severalError) Hint() string {
	return "find a good one: etcd-manager-ctl list-backups -o wide"
}
