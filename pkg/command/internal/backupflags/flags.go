// Package backupflags has the flags of the commands that make one backup: how it is
// compressed, for whom it is encrypted, and what it is signed with.
package backupflags

import (
	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cli"
)

// Names are the names of the flags.
var Names = []string{"compression", "encrypt-to", "sign-key", "cluster-name"}

// Flags are what was given.
type Flags struct {
	// Cluster is the name of the cluster that the backup is of, empty for none.
	Cluster string

	compression pflag.Value
	encryptTo   []string
	signKey     string
}

// Add adds the flags to those of a command.
func Add(fs *pflag.FlagSet) *Flags {
	f := &Flags{compression: cli.Choice([]string{backup.Gzip, backup.Zstd}, backup.Gzip)}
	fs.Var(f.compression, "compression", "of a backup in a store: gzip, which the existing tools can restore, or zstd")
	fs.StringArrayVar(&f.encryptTo, "encrypt-to", nil,
		"age `recipient` (age1..., ssh-ed25519 ...), or a file of them, that can decrypt the backup (repeatable)")
	fs.StringVar(&f.signKey, "sign-key", "", "`file` of an ed25519 private key (PEM) to sign the backup with")
	fs.StringVar(&f.Cluster, "cluster-name", "",
		"`name` of the cluster, the same as the daemons'; a signed backup counts for this cluster only")
	return f
}

// Options are those of the backup, without what it is of and where it goes. It reads the
// keys; an error names the flag.
func (f *Flags) Options() (o backup.TakeOptions, err error) {
	o.Compression, o.Tool = f.compression.String(), "etcdadm "+cli.BuildVersion()
	if o.Recipients, err = backup.Recipients(f.encryptTo...); err != nil {
		return o, cli.Usagef("--encrypt-to: %v", err)
	}
	if f.signKey == "" {
		return o, nil
	}
	if f.Cluster == "" {
		return o, &cli.UsageError{
			Text: "--sign-key needs --cluster-name: where signers are trusted, a backup counts only for the cluster that it " +
				"is signed for", Next: "--cluster-name=NAME, the same as the daemons'",
		}
	}
	if o.Signer, err = backup.ReadSigner(f.signKey); err != nil {
		return o, cli.Usagef("--sign-key: %v", err)
	}
	return o, nil
}
