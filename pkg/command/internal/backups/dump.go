package backups

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/backupsource"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/keyspace"
)

const dumpLong = `Print what is in a backup, straight from the file, without an etcd.

By default it prints each key with its value, as "key => value" and without the
key's first slash, in the order of the keys. Values are printed as they are, which
is binary for most of Kubernetes; at a terminal, control characters are replaced.
With

  -o jsonl     an object for each key, with its revisions, version and lease. What is
               not UTF-8 is in keyBase64 and valueBase64
  --keys-only  only the keys, one on each line
  --summary    the number of keys and bytes of each Kubernetes resource, in each
               namespace (also with -o json)
  --out FILE   a tar.gz with one file for each key. Characters that a file name
               cannot have are written as %XX; no name leads out of the directory
               that it is unpacked into

Name the backup by its name, by STORE-URL/NAME, or as a file: a snapshot, the
database of a data directory, or the data file of a backup. --data-dir=STORE/NAME
is etcd-dump's way to name it. A backup in a store is fetched to --temp-dir.`

type dump struct {
	*reader
	dataDir, prefix, archive  string
	keysOnly, summary, latest bool
	revision                  int64
	out                       *cli.Output
}

// newDump returns the command dump.
func newDump(o Options) *cobra.Command {
	d := &dump{reader: newReader(o)}
	cmd := &cobra.Command{
		Use: "dump [NAME|FILE|--latest]", Short: "print what is in a backup", Long: dumpLong,
		Example: "  dump --latest --summary\n  dump snapshot.db --prefix=/registry/configmaps/kube-system/ -o jsonl",
		Args:    cobra.MaximumNArgs(1), RunE: d.run, ValidArgsFunction: cli.Complete(1, true, o.names),
	}
	f := cmd.Flags()
	f.StringVar(&d.dataDir, "data-dir", "", "the backup as `STORE/NAME`")
	f.BoolVar(&d.latest, "latest", false, "the newest backup in the store")
	f.StringVar(&d.prefix, "prefix", "", "only keys with this `prefix`")
	f.BoolVar(&d.keysOnly, "keys-only", false, "print no values")
	f.BoolVar(&d.summary, "summary", false, "print counts and bytes by resource and namespace")
	f.StringVar(&d.archive, "out", "", "write a tar.gz `file` with one file for each key")
	f.Int64Var(&d.revision, "revision", 0, "show the data as of this `revision` in the backup's history; 0 for the newest")
	d.addFlags(f)
	cli.Sections(cmd,
		cli.FlagSection{Title: "The backup", Common: []string{"latest", "revision", "data-dir"}, More: []string{"temp-dir"}},
		cli.FlagSection{Title: "What is printed", Common: []string{"summary", "prefix", "keys-only", "out"}},
		cli.FlagSection{Title: "Keys of backups", Common: []string{"decrypt-key"},
			More: []string{"trusted-signers", "require-signature", "cluster-name"}},
	)
	d.out = cli.AddOutput(cmd, cli.Table, JSONLines, cli.JSON, cli.YAML)
	return cmd
}

// check reports which flags do not go together.
func (d *dump) check(args []string) error {
	named := len(args)
	for _, b := range []bool{d.dataDir != "", d.latest} {
		if b {
			named++
		}
	}
	format := d.out.String()
	lines := format == string(JSONLines)
	switch {
	case named != 1:
		return &cli.UsageError{Text: "name one backup or file, or give --latest",
			Next: "see the names: etcd-manager-ctl list-backups"}
	case d.summary && (d.keysOnly || d.archive != "" || lines):
		return cli.Usagef("--summary goes with -o table, json or yaml, and without --keys-only and --out")
	case d.archive != "" && (d.keysOnly || !d.out.Text()):
		return cli.Usagef("--out goes without --keys-only and -o")
	case !d.summary && !lines && !d.out.Text():
		return &cli.UsageError{Text: "-o " + format + " needs --summary", Next: "-o jsonl has one JSON object for each key"}
	case d.revision < 0:
		return cli.Usagef("--revision is %d, it must not be negative", d.revision)
	}
	return nil
}

func (d *dump) run(cmd *cobra.Command, args []string) (err error) {
	if err := d.check(args); err != nil {
		return err
	}
	if err := d.prepare(); err != nil {
		return err
	}
	ctx := cmd.Context()
	var from backupsource.Source
	switch {
	case d.latest:
		from, err = d.newest(ctx)
	case d.dataDir != "":
		from, err = parsePlace(d.dataDir)
	default:
		from, err = parseSource(args[0])
	}
	if err != nil {
		return err
	}
	s, err := d.openSource(ctx, cmd, from, d.revision)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	switch {
	case d.summary:
		sum := newDigest(s.Space, d.prefix)
		return d.out.Print(cmd.OutOrStdout(), sum, sum.write)
	case d.archive != "":
		return d.writeArchive(cmd, s.Space)
	}
	return d.print(ctx, cmd.OutOrStdout(), s.Space)
}

// parsePlace is parseSource for the flag of etcd-dump, in which the last
// component is always the name of a backup.
func parsePlace(text string) (backupsource.Source, error) {
	if !strings.Contains(text, "/") {
		text = "./" + text
	}
	s, err := parseSource(text)
	if err == nil && s.Name == "" {
		err = cli.Usagef("--data-dir: %s is not STORE/NAME", text)
	}
	return s, err
}

// print writes all keys.
func (d *dump) print(ctx context.Context, to io.Writer, s *keyspace.Space) error {
	w := bufio.NewWriterSize(to, 1<<16)
	write := d.writer(w, isTerminal(to))
	var buffer []byte
	var err error
	for i, k := range s.Keys(d.prefix) {
		if i%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !d.keysOnly {
			if buffer, err = s.Value(k, buffer); err != nil {
				return explained(err)
			}
		}
		if err := write(k, buffer); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// writer returns the function that prints a key.
func (d *dump) writer(w io.Writer, terminal bool) func(keyspace.Key, []byte) error {
	shown := func(s string) string { return s }
	if terminal {
		shown = func(s string) string { return cli.Plain(strings.ToValidUTF8(s, "\uFFFD")) }
	}
	switch {
	case !d.out.Text():
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return func(k keyspace.Key, value []byte) error { return e.Encode(newLine(k, value, !d.keysOnly)) }
	case d.keysOnly:
		return func(k keyspace.Key, _ []byte) error {
			_, err := fmt.Fprintln(w, shown(k.Key))
			return err
		}
	}
	return func(k keyspace.Key, value []byte) error {
		text := string(value)
		_, err := fmt.Fprintf(w, "%s => %s\n", shown(strings.TrimPrefix(k.Key, "/")), shown(text))
		return err
	}
}

// A line is a key as JSON. JSON has no bytes that are not text.
type line struct {
	Key            *string `json:"key,omitempty"`
	KeyBase64      []byte  `json:"keyBase64,omitempty"`
	CreateRevision int64   `json:"createRevision"`
	ModRevision    int64   `json:"modRevision"`
	Version        int64   `json:"version"`
	Lease          int64   `json:"lease,omitempty"`
	Size           int     `json:"size"`
	Value          *string `json:"value,omitempty"`
	ValueBase64    []byte  `json:"valueBase64,omitempty"`
}

func newLine(k keyspace.Key, value []byte, withValue bool) line {
	l := line{
		CreateRevision: int64(k.CreateRevision), ModRevision: int64(k.ModRevision), Version: k.Version, Lease: k.Lease,
		Size: k.Size,
	}
	l.Key, l.KeyBase64 = text([]byte(k.Key))
	if withValue {
		l.Value, l.ValueBase64 = text(value)
	}
	return l
}

// text returns b as text, or as it is if it is none.
func text(b []byte) (*string, []byte) {
	if !utf8.Valid(b) {
		return nil, b
	}
	s := string(b)
	return &s, nil
}
