package manager

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/daemon"
	"github.com/etcdadm/etcdadm/pkg/internal/bytesize"
)

// backupFlags say how backups are written and read.
type backupFlags struct {
	compression        string
	encryptTo, decrypt []string
	signKey            string
	trusted            []string
	requireSignature   bool
	maxCount           int
	maxSize            string
	verify, drill      string
	tempDir            string
}

func (f *backupFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.compression, "backup-compression", backup.Gzip,
		"gzip, which the existing etcd-manager restores too, or zstd")
	fs.StringArrayVar(&f.encryptTo, "backup-encrypt-to", nil,
		"age `recipient`, or a file of them, that can decrypt the backups (repeatable)")
	fs.StringArrayVar(&f.decrypt, "backup-decrypt-key", nil, "`file` of age identities to decrypt backups with (repeatable)")
	fs.StringVar(&f.signKey, "backup-sign-key", "", "`file` of the private key to sign backups with")
	fs.StringArrayVar(&f.trusted, "backup-trusted-signers", nil, "`file` of public keys of trusted signers (repeatable)")
	cli.Alias(fs, "backup-trusted-signers", "trusted-signers")
	fs.BoolVar(&f.requireSignature, "backup-require-signature", false, "restore only what a trusted signer has signed")
	fs.IntVar(&f.maxCount, "backup-max-count", 0, "keep at most this many backups; 0 for no limit but their age")
	fs.StringVar(&f.maxSize, "backup-max-size", "", "keep at most this much in backups, such as 200GiB; empty for no limit")
	fs.StringVar(&f.verify, "backup-verify-interval", "",
		"time between two verifications of the newest backup, such as 1d; empty for never")
	fs.StringVar(&f.drill, "backup-drill-interval", "",
		"time between two trial restores of the newest backup, such as 7d; empty for never")
	fs.StringVar(&f.tempDir, "backup-temp-dir", "",
		"`directory` for backups that are verified or drilled, not on etcd's disk; default: $TMPDIR or /tmp")
}

// policy reads the limits and intervals.
func (f *backupFlags) policy(p *cluster.Policy) error {
	if f.maxCount < 0 {
		return fmt.Errorf("--backup-max-count is %d, it must not be negative", f.maxCount)
	}
	p.MaxBackups = f.maxCount
	var err error
	if f.maxSize != "" {
		if p.MaxBackupBytes, err = bytesize.Parse(f.maxSize); err != nil {
			return fmt.Errorf("--backup-max-size: %w", err)
		}
	}
	for _, d := range []struct {
		flag, text string
		to         *time.Duration
	}{{"verify", f.verify, &p.VerifyInterval}, {"drill", f.drill, &p.DrillInterval}} {
		if d.text == "" || d.text == "0" {
			continue
		}
		v, err := retention.ParseDuration(d.text)
		if err == nil && v < time.Minute {
			err = fmt.Errorf("%s is less than a minute", d.text)
		}
		if err != nil {
			return fmt.Errorf("--backup-%s-interval: %w", d.flag, err)
		}
		*d.to = v
		if len(f.encryptTo) > 0 && len(f.decrypt) == 0 {
			return fmt.Errorf("--backup-%s-interval needs --backup-decrypt-key: backups are encrypted", d.flag)
		}
	}
	return nil
}

// config reads the keys that the flags name.
func (f *backupFlags) config() (daemon.Backups, error) {
	b := daemon.Backups{Compression: f.compression, TempDir: f.tempDir, Tool: "etcd-manager " + cli.BuildVersion()}
	if f.compression != backup.Gzip && f.compression != backup.Zstd {
		return b, fmt.Errorf("--backup-compression=%s is not %s or %s", f.compression, backup.Gzip, backup.Zstd)
	}
	if f.requireSignature && len(f.trusted) == 0 {
		return b, errors.New("--backup-require-signature needs --backup-trusted-signers")
	}
	var err error
	if b.Recipients, err = backup.Recipients(f.encryptTo...); err != nil {
		return b, fmt.Errorf("--backup-encrypt-to: %w", err)
	}
	if f.signKey != "" {
		if b.Signer, err = backup.ReadSigner(f.signKey); err != nil {
			return b, fmt.Errorf("--backup-sign-key: %w", err)
		}
	}
	if b.Fetch.Keys, err = backup.ReadIdentities(f.decrypt...); err != nil {
		return b, fmt.Errorf("--backup-decrypt-key: %w", err)
	}
	if b.Fetch.Trusted, err = backup.ReadTrusted(f.trusted...); err != nil {
		return b, fmt.Errorf("--backup-trusted-signers: %w", err)
	}
	b.Fetch.RequireSignature = f.requireSignature
	return b, nil
}
