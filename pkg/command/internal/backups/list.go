package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

const (
	// Wide is the output format with a row of facts for each backup.
	Wide cli.Format = "wide"
	// JSONLines has one JSON object on each line.
	JSONLines cli.Format = "jsonl"
)

// describers is how many descriptions are read at the same time.
const describers = 16

const listLong = `Print the names of the backups in the store, sorted, one on each line.

With -o wide, json or yaml it also prints their time, age, etcd version, revision,
size, whether they are encrypted, when they were last verified and drilled with
success, and whether they are damaged (or suspect: found by one machine only, see
verify). Everything but version and revision comes from the listing of the store,
which takes one request for each thousand objects (a backup is two to six objects).
Version and revision are read for the newest --limit backups only: two small objects
of each, 16 at a time.

A store without any backup is said to be one on standard error. It ends with 9 where
the store is of no cluster at all: its URL may have a mistake in it.`

type list struct {
	Options
	limit   int
	signers []string
	cluster string
	out     *cli.Output
}

// newList returns the command list-backups.
func newList(o Options) *cobra.Command {
	l := &list{Options: o.withDefaults()}
	cmd := &cobra.Command{
		Use: "list-backups", Short: "print the names of the backups, and their state", Long: listLong,
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return l.run(cmd) },
	}
	cmd.Flags().IntVar(&l.limit, "limit", 100,
		"read version and revision of this many of the newest backups; 0 for none")
	cmd.Flags().StringArrayVar(&l.signers, "trusted-signers", nil,
		"`file` with public keys (PEM, ed25519): print only backups that one of them has signed "+
			"(repeatable)")
	cmd.Flags().StringVar(&l.cluster, "cluster-name", "", "`name` of the cluster that signed backups must belong to")
	l.out = cli.AddOutput(cmd, cli.Table, Wide, cli.JSON, cli.YAML)
	return cmd
}

// A listed is what is said of one backup.
type listed struct {
	cluster.Backup
	EtcdVersion etcdversion.Version `json:"etcdVersion,omitzero"`
	Revision    cluster.Revision    `json:"revision,omitempty"`
	// Keys is absent where it is not known.
	Keys   int64  `json:"keys,omitempty"`
	Signer string `json:"signer,omitempty"`
	Tool   string `json:"tool,omitempty"`
	// ContentSize is the snapshot's, in bytes.
	ContentSize int64 `json:"contentSize,omitempty"`
	// Problem is why the description could not be read.
	Problem string `json:"problem,omitempty"`
}

func (l *list) run(cmd *cobra.Command) error {
	if l.limit < 0 {
		return cli.Usagef("--limit is %d, it must not be negative", l.limit)
	}
	if l.out.Text() && l.Location != nil {
		if location := l.Location(); location != "" {
			fmt.Fprintf(cmd.OutOrStdout(), "Backup Store: %s\n", store.Shown(location))
		}
	}
	ctx := cmd.Context()
	if l.Timeout != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.Timeout())
		defer cancel()
	}
	return l.with(ctx, "", func(s *store.Store) error {
		all, err := s.Backups(ctx)
		if err != nil {
			return fmt.Errorf("list backups: %w", err)
		}
		if err := l.none(ctx, cmd, s, len(all)); err != nil {
			return err
		}
		if all, err = l.counted(ctx, cmd, s, all); err != nil {
			return fmt.Errorf("list backups: %w", err)
		}
		rows := make([]listed, len(all))
		for i, b := range all {
			rows[i].Backup = b
		}
		if !l.out.Text() {
			// They come newest first.
			describe(ctx, s, rows[:min(len(rows), l.limit)])
			if ctx.Err() != nil {
				return fmt.Errorf("read descriptions: %w", ctx.Err())
			}
		}
		slices.SortFunc(rows, func(a, b listed) int { return strings.Compare(a.Name, b.Name) })
		return l.out.Print(cmd.OutOrStdout(), rows, func(w io.Writer) error { return l.write(w, rows) })
	})
}

// none says of a store without a backup that it is one, and is an error where it is of no
// cluster either.
func (l *list) none(ctx context.Context, cmd *cobra.Command, s *store.Store, n int) error {
	if n > 0 {
		return nil
	}
	switch begun, err := s.Begun(ctx); {
	case err != nil:
		return fmt.Errorf("look for the cluster: %w", err)
	case !begun && l.NoCluster != nil:
		return l.NoCluster()
	}
	if l.out.Text() || l.out.String() == string(Wide) {
		fmt.Fprintln(cmd.ErrOrStderr(), cli.Pasteable(cmd,
			"note: there is no backup yet; to ask for one: etcd-manager-ctl take-backup"))
	}
	return nil
}

// counted returns the backups that count: all, or those that a trusted signer has signed,
// where signers are trusted. It says on standard error how many do not.
func (l *list) counted(ctx context.Context, cmd *cobra.Command, s *store.Store, all []cluster.Backup) (
	[]cluster.Backup, error) {
	if len(l.signers) == 0 {
		return all, nil
	}
	trusted, err := backup.ReadTrusted(l.signers...)
	if err != nil {
		return nil, cli.Usagef("--trusted-signers: %v", err)
	}
	good, bad, err := (&backup.Vetter{Store: s, Fetch: backup.FetchOptions{Trusted: trusted, Cluster: l.cluster}}).Vet(
		ctx, all)
	if err == nil && len(bad) > 0 {
		warn(cmd, "%d backups do not count, among them %s: %s", len(all)-len(good), bad[0].Name, bad[0].Why)
	}
	return good, err
}

// describe reads what the backups say of themselves.
func describe(ctx context.Context, objects backup.Objects, rows []listed) {
	var all sync.WaitGroup
	next := make(chan *listed)
	for range min(describers, len(rows)) {
		all.Go(func() {
			for r := range next {
				r.describe(ctx, objects)
			}
		})
	}
	for i := range rows {
		next <- &rows[i]
	}
	close(next)
	all.Wait()
}

// An absentIsNotExist says of what is absent that it does not exist, which saves package
// backup the question whether it does: most stores of the existing tool have no
// descriptions.
type absentIsNotExist struct{ backup.Objects }

func (a absentIsNotExist) Get(ctx context.Context, key string) ([]byte, error) {
	b, err := a.Objects.Get(ctx, key)
	if errors.Is(err, store.ErrAbsent) {
		err = fmt.Errorf("%w: %w", err, fs.ErrNotExist)
	}
	return b, err
}

func (r *listed) describe(ctx context.Context, objects backup.Objects) {
	d, err := backup.Describe(ctx, absentIsNotExist{objects}, r.Name)
	if err != nil {
		r.Problem = err.Error()
		return
	}
	r.EtcdVersion, r.Revision, r.Signer, r.Tool, r.ContentSize = d.EtcdVersion, d.Revision, d.Signer, d.Tool,
		d.Content.Size
	r.Keys = max(d.Keys, 0)
}

func (l *list) write(w io.Writer, rows []listed) error {
	if l.out.Text() {
		for _, r := range rows {
			if _, err := fmt.Fprintln(w, cli.Plain(r.Name)); err != nil {
				return err
			}
		}
		return nil
	}
	table := [][]string{{"NAME", "AGE", "VERSION", "REVISION", "SIZE", "ENCRYPTED", "VERIFIED", "DRILLED", "STATE"}}
	for _, r := range rows {
		table = append(table, r.cells(l.Now()))
	}
	return cli.Rows(w, table...)
}

func (r listed) cells(now time.Time) []string {
	ago := func(at time.Time) string {
		if at.IsZero() {
			return "never"
		}
		return render.Age(now.Sub(at))
	}
	version, revision, encrypted, state := "-", "-", "no", "-"
	if !r.EtcdVersion.IsZero() {
		version = r.EtcdVersion.String()
	}
	if r.Revision > 0 {
		revision = fmt.Sprint(r.Revision)
	}
	if r.Encrypted {
		encrypted = "yes"
	}
	switch {
	case r.Damaged:
		state = "DAMAGED"
	case r.Suspect:
		state = "suspect"
	case r.Problem != "":
		state = "unreadable"
	case !r.Verified.IsZero() || !r.Drilled.IsZero():
		state = "good"
	}
	return []string{r.Name, ago(r.At), version, revision, render.Bytes(r.Size), encrypted, ago(r.Verified),
		ago(r.Drilled), state}
}
