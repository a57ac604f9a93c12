package client

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/backup"
)

// What is said of a backup that is not there names its store without the secrets in its location, and
// advises a line with the location only where it has none.
func TestABackupThatIsNotThereIsNamedWithoutSecrets(t *testing.T) {
	for dir, want := range map[string]string{
		"the store": "etcd-manager-ctl --backup-store='file://DIR' list-backups",
		"token=abc": "etcd-manager-ctl list-backups",
	} {
		dir = filepath.Join(t.TempDir(), dir)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		s, err := parseSource("file://" + dir + "/nope")
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.observe(t.Context(), io.Discard, backup.FetchOptions{})
		var hinted interface{ Hint() string }
		if !errors.As(err, &hinted) {
			t.Fatal(err)
		}
		if strings.Contains(err.Error()+s.String(), "=abc") || hinted.Hint() != strings.ReplaceAll(want, "DIR", dir) {
			t.Errorf("%s: %v; hint: %s", s, err, hinted.Hint())
		}
	}
	if _, err := parseSource("s3://me:secret@bucket"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("what is no backup: %v", err)
	}
}
