// Package backups is the commands that check backups and look into them:
// list-backups, verify, drill, dump and diff. They are a part of several
// programs.
package backups

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/backup/drill"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// Options say where the commands get what they need.
type Options struct {
	// Open opens the program's store; its error is the program's. Nil is for a
	// program that has none: backups are then named with their store. The context
	// is that of the whole command: the store must not bound it.
	Open func(ctx context.Context) (*store.Store, error)
	// OpenAt opens the store at a location, by default store.Open.
	OpenAt func(ctx context.Context, location string) (*store.Store, error)
	// Location names the store in the first line of list-backups, as the existing
	// tool does; nil is for no such line.
	Location func() string
	// NoCluster, if not nil, returns the error of list-backups for a store of no cluster.
	NoCluster func() error
	// Timeout, if not nil, is how long list-backups may take.
	Timeout func() time.Duration
	// Tool is the name of the program, for the record of a result.
	Tool string
	// Now and Env default to time.Now and os.Getenv.
	Now func() time.Time
	Env func(string) string
}

// Commands returns all commands of this package.
func Commands(o Options) []*cobra.Command {
	return []*cobra.Command{newList(o), newVerify(o), newDrill(o), newDump(o), newDiff(o)}
}

// names are those of the backups in the program's store, newest first.
func (o Options) names(ctx context.Context, _ *cobra.Command) (list []string, err error) {
	if o.Open == nil {
		return nil, nil
	}
	s, err := o.Open(ctx)
	if err != nil {
		return nil, err
	}
	all, err := s.Backups(ctx)
	for _, b := range all {
		list = append(list, b.Name)
	}
	return list, errors.Join(err, s.Close(ctx))
}

func (o Options) withDefaults() Options {
	if o.OpenAt == nil {
		o.OpenAt = store.Open
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Env == nil {
		o.Env = os.Getenv
	}
	return o
}

// A reader has the flags of all commands that read the content of backups.
type reader struct {
	Options
	keys, signers []string
	signature     bool
	cluster       string
	tempDir       string
	etcdDirs      []string

	fetch backup.FetchOptions
}

func newReader(o Options) *reader { return &reader{Options: o.withDefaults()} }

func (r *reader) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&r.keys, "decrypt-key", nil,
		"`file` with secret keys of age, or an ssh private key, for encrypted backups (repeatable)")
	f.StringArrayVar(&r.signers, "trusted-signers", nil,
		"`file` with public keys (PEM, ed25519) of trusted signers (repeatable)")
	f.BoolVar(&r.signature, "require-signature", false, "refuse a backup that no trusted signer has signed")
	f.StringVar(&r.cluster, "cluster-name", "",
		"`name` of the cluster that a signed backup, or the newest one, must belong to")
	f.StringVar(&r.tempDir, "temp-dir", "",
		"`directory` with room for the fetched snapshot (default $TMPDIR, or /tmp)")
}

func (r *reader) addEtcdFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&r.etcdDirs, "etcd-dir", nil,
		"`directory` to look for etcd binaries in, before $"+etcdbin.DirVariable+" and /opt (repeatable)")
}

// prepare reads the keys.
func (r *reader) prepare() (err error) {
	if r.signature && len(r.signers) == 0 {
		return &cli.UsageError{Text: "--require-signature needs trusted signers", Next: "--trusted-signers=FILE"}
	}
	if r.fetch.Keys, err = backup.ReadIdentities(r.keys...); err != nil {
		return cli.Usagef("--decrypt-key: %v", err)
	}
	if r.fetch.Trusted, err = backup.ReadTrusted(r.signers...); err != nil {
		return cli.Usagef("--trusted-signers: %v", err)
	}
	r.fetch.RequireSignature, r.fetch.Cluster = r.signature, r.cluster
	return nil
}

func (r *reader) finder() etcdbin.Finder {
	return etcdbin.Finder{Dirs: append(r.etcdDirs, filepath.SplitList(r.Env(etcdbin.DirVariable))...)}
}

// drillOptions are those of package drill for these flags.
func (r *reader) drillOptions(cmd *cobra.Command, p *stages) drill.Options {
	return drill.Options{
		Fetch: r.fetch, TempDir: r.tempDir, By: operator(), Tool: r.Tool + " " + cli.BuildVersion(), Finder: r.finder(),
		Progress: p.report, Now: r.Now,
		Unrecorded: func(err error) { warn(cmd, "%v", err) },
	}
}

// operator names who asks, as user@host.
func operator() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

// warn prints what is no failure.
func warn(cmd *cobra.Command, format string, args ...any) {
	fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", cli.Plain(fmt.Sprintf(format, args...)))
}

// A refused is an error whose kind is "refused".
type refused struct{ error }

func (e refused) Unwrap() error { return e.error }
func (refused) Kind() string    { return cli.KindRefused }

// explained gives the errors of backups their kinds and hints.
func explained(err error) error {
	switch {
	case errors.Is(err, backup.ErrKey):
		return cli.WithHint(refused{err}, "name the file with the secret key: --decrypt-key")
	case errors.Is(err, backup.ErrSigner):
		return cli.WithHint(refused{err}, "is the signer's public key in --trusted-signers?")
	case errors.Is(err, backup.ErrFormat):
		return cli.WithHint(err, "use a later release of this program")
	case errors.Is(err, backup.ErrDamaged):
		return cli.WithHint(err, "find a good backup: etcd-manager-ctl list-backups -o wide")
	case errors.Is(err, store.ErrAbsent):
		return cli.WithHint(err, "see the names: etcd-manager-ctl list-backups")
	}
	return err
}

// closeTime bounds closing a store, also after the context has ended.
const closeTime = time.Second

// with opens a store for f, the program's for an empty location.
func (o Options) with(ctx context.Context, location string, f func(s *store.Store) error) error {
	open := o.Open
	switch {
	case location != "":
		open = func(ctx context.Context) (*store.Store, error) {
			s, err := o.OpenAt(ctx, location)
			if err != nil {
				return nil, cli.Usagef("%v", err)
			}
			return s, nil
		}
	case open == nil:
		return &cli.UsageError{Text: "no store is named for the backup", Next: "STORE-URL/NAME"}
	}
	s, err := open(ctx)
	if err != nil {
		return err
	}
	err = f(s)
	if away := errors.Is(err, store.ErrUnreachable) || errors.Is(err, store.ErrDenied); away && location == "" &&
		o.Location != nil {
		err = fmt.Errorf("store %s: %w", store.Shown(o.Location()), err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if closing := s.Close(ctx); err == nil && closing != nil {
		err = fmt.Errorf("close the store: %w", closing)
	}
	return err
}
