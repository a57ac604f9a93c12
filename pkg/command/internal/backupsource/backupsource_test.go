package backupsource

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhereASnapshotComesFrom(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const stamp = "2026-11-20T10:39:37Z-000001"
	backupDir, named := filepath.Join(dir, "b-1"), filepath.Join(dir, stamp)
	for _, d := range []string{backupDir, named} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	plain, zipped, empty := write("s.db", bytes.Repeat([]byte("x"), 100)), write("s.gz", []byte{0x1f, 0x8b, 8}),
		write("empty", nil)
	data := filepath.Join(dir, "data")
	db := write("data/member/snap/db", bytes.Repeat([]byte("x"), 100))
	all := Options{Names: true, DataDirs: true}
	for _, o := range []Options{{}, {Names: true}, {DataDirs: true}, all} {
		for text, want := range map[string]Source{
			plain:                       {File: plain},
			"./s.db":                    {File: "./s.db"},
			"s.db":                      {File: "s.db"},
			empty:                       {File: empty},
			zipped:                      {File: zipped, Packed: true},
			backupDir:                   {Location: dir, Name: "b-1"},
			backupDir + "/":             {Location: dir, Name: "b-1"},
			"b-1":                       {Location: dir, Name: "b-1"},
			"./" + stamp:                {Location: dir, Name: stamp},
			"s3://b/p/b-1":              {Location: "s3://b/p", Name: "b-1"},
			"s3://b/b-1":                {Location: "s3://b", Name: "b-1"},
			"s3://b/p/b-1/":             {Location: "s3://b/p", Name: "b-1"},
			"s3://b/p/b-1?region=eu":    {Location: "s3://b/p?region=eu", Name: "b-1"},
			"file:///backups/main/b-1":  {Location: "file:///backups/main", Name: "b-1"},
			"file:///backups/main/b-1/": {Location: "file:///backups/main", Name: "b-1"},
		} {
			if got, err := Parse(text, o); got != want || err != nil {
				t.Errorf("%+v: %s: %+v, %v, want %+v", o, text, got, err, want)
			}
		}
		for _, text := range []string{"s3://b", "s3://", "s3:///", dir + "/none", ""} {
			if got, err := Parse(text, o); err == nil {
				t.Errorf("%+v: %s: %+v", o, text, got)
			}
		}
		// What is a backup only by its name, and what is a data directory, depends on the command.
		bare, err := Parse("none", o)
		if o.Names && bare != (Source{Name: "none"}) || o.Names != (err == nil) {
			t.Errorf("%+v: a bare name: %+v, %v", o, bare, err)
		}
		want := Source{Location: dir, Name: stamp}
		if o.Names {
			want = Source{Name: stamp}
		}
		if got, err := Parse(stamp, o); got != want || err != nil {
			t.Errorf("%+v: the name of a backup that is a directory, too: %+v, %v", o, got, err)
		}
		for text, without := range map[string]Source{
			data: {Location: dir, Name: "data"}, data + "/member": {Location: data, Name: "member"}, db: {File: db},
		} {
			want := without
			if o.DataDirs {
				want = Source{File: db, DataDir: data}
			}
			if got, err := Parse(text, o); got != want || err != nil {
				t.Errorf("%+v: %s: %+v, %v, want %+v", o, text, got, err, want)
			}
		}
	}
}

func TestSecretsOfALocationAreNotShown(t *testing.T) {
	if _, err := Parse("s3://me:secret@bucket", Options{}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("what is no backup: %v", err)
	}
	s, err := Parse("file:///backups/token=abc/b-1", Options{})
	if err != nil || strings.Contains(s.String(), "=abc") {
		t.Errorf("%s, %v", s, err)
	}
}
