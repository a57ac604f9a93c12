package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/backup"
)

// The daemons verify and try their own backups. One that is damaged is found
// out, does not count, and another is taken.
func TestBackupsAreVerifiedAndTried(t *testing.T) {
	t.Parallel()
	c := start(t, "--backup-verify-interval=1m", "--backup-drill-interval=1h")
	c.Bootstrap(1, v36, "a")
	put(t, c, "k", "1")
	eventually(t, c, "a backup is tried", func() error {
		r, err := c.Status()
		if _, drilled := r.Observation.Store.Inspected(); err != nil || drilled.IsZero() {
			return errors.Join(errors.New("none is"), err)
		}
		return nil
	})
	if out := ctl(t, c, "status"); !strings.Contains(out, "last drill") || !strings.Contains(out, "last verified") {
		t.Errorf("status is %s", out)
	}
	name := takeBackup(t, c)
	data := filepath.Join(c.Store, name, "etcd.backup.gz")
	b, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(data, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Ctl("verify", name); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("verify says %v", err)
	}
	// This machine alone makes it suspect; the operator says that it is damaged.
	if out := ctl(t, c, "list-backups", "-o", "wide"); !strings.Contains(out, "suspect") ||
		strings.Contains(out, "DAMAGED") {
		t.Errorf("the list is %s", out)
	}
	if _, err := c.Ctl("verify", name, "--declare-damaged"); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("verify says %v", err)
	}
	newer := takeBackup(t, c)
	if newer == name {
		t.Error("no newer backup was taken")
	}
	ctl(t, c, "verify", newer)
	ctl(t, c, "drill", newer, "--etcd-dir="+os.Getenv("ETCDADM_ETCD_DIR"))
	if out := ctl(t, c, "list-backups", "-o", "wide"); !strings.Contains(out, "DAMAGED") {
		t.Errorf("the list is %s", out)
	}
}

// Backups that only the daemons can read, and that they have signed.
func TestRestoreOfEncryptedAndSignedBackups(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	private, public, err := backup.GenerateSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	c := restoring(t,
		"--backup-compression=zstd", "--backup-encrypt-to="+id.Recipient().String(),
		"--backup-decrypt-key="+write("key", []byte(id.String()+"\n")),
		"--backup-sign-key="+write("sign", private), "--backup-trusted-signers="+write("trusted", public),
		"--backup-require-signature",
	)
	c.Bootstrap(1, v36, "a")
	put(t, c, "k", "secret-word")
	name := takeBackup(t, c)
	put(t, c, "k", "2")
	files, err := filepath.Glob(filepath.Join(c.Store, name, "*"))
	if err != nil || !strings.Contains(fmt.Sprint(files), "etcd.backup.zst.age") ||
		!strings.Contains(fmt.Sprint(files), "_etcdadm_backup.sig") {
		t.Errorf("the backup is %v, %v", files, err)
	}
	queue(t, c, name)
	restored(t, c, "k", "secret-word")

	// One that somebody else has signed is refused.
	sig := filepath.Join(c.Store, name, "_etcdadm_backup.sig")
	if err := os.Remove(sig); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Ctl("restore-backup", name, "--skip-backup", "--wait"); err == nil ||
		!strings.Contains(err.Error(), "refused") {
		t.Errorf("without a signature it says %v", err)
	}
	restored(t, c, "k", "secret-word")
}

// The store goes away in the middle of a restore, and comes back.
func TestRestoreWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	c := restoring(t, quick...)
	c.Bootstrap(3, v36, "a", "b", "c")
	put(t, c, "k", "1")
	name := takeBackup(t, c)
	put(t, c, "k", "2")
	away, said := c.Store+".away", sizes(c)
	queue(t, c, name, "--skip-backup")
	anySays(c, said, "restore stage")
	if err := os.Rename(c.Store, away); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.Store, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	anySays(c, said, "store-unreachable")
	if err := errors.Join(os.Remove(c.Store), os.Rename(away, c.Store)); err != nil {
		t.Fatal(err)
	}
	restored(t, c, "k", "1")
	c.WaitNames(harness.Soon, "a", "b", "c")
}
