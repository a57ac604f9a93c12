package client

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/command/internal/backupsource"
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
}

// A backup is completed after the location of its store; a word that names none is a file.
func TestBackupsAreCompletedAfterTheirStore(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"2026-11-20T10:39:37Z-000001", "2026-11-20T11:39:37Z-000001"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{retention.MarkerFile, "etcd.backup.gz"} {
			if err := os.WriteFile(filepath.Join(dir, name, file), []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	first, second := "file://"+dir+"/2026-11-20T10:39:37Z-000001", "file://"+dir+"/2026-11-20T11:39:37Z-000001"
	for begun, want := range map[string][]string{
		"file://" + dir + "/":             {second, first},
		"file://" + dir + "/2026-11-20T1": {second, first},
		second[:len(second)-12]:           {second},
		"file://" + dir + "/2027":         nil,
		"file://":                         nil,
		dir + "/":                         nil,
	} {
		cmd := newRestore()
		cmd.SetContext(t.Context())
		got, directive := cmd.ValidArgsFunction(cmd, nil, begun)
		files := directive&cobra.ShellCompDirectiveNoFileComp == 0
		if !slices.Equal(got, want) || files == backupsource.IsStore(begun) {
			t.Errorf("%s: %q, want %q; files: %t", begun, got, want, files)
		}
	}
}
