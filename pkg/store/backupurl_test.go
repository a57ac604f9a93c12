package store_test

import (
	"testing"

	"github.com/etcdadm/etcdadm/pkg/store"
)

func TestSplitBackupURL(t *testing.T) {
	for _, c := range []struct {
		text, location, name string
		ok                   bool
	}{
		{"s3://b/main/2026-11-27T10:10:06Z-000001", "s3://b/main", "2026-11-27T10:10:06Z-000001", true},
		{"s3://b/main/x/?endpoint=https://h:9000/", "s3://b/main?endpoint=https://h:9000/", "x", true},
		{"file:///var/backups/x", "file:///var/backups", "x", true},
		{"s3://b/x", "s3://b", "x", true},
		{"s3://b", "", "", false},
		{"s3://", "", "", false},
		{"file:///", "", "", false},
		{"://", "", "", false},
		{"x?a=s3://b/y", "", "", false},
		{"/var/backups/x", "", "", false},
	} {
		location, name, ok := store.SplitBackupURL(c.text)
		if ok != c.ok || ok && (location != c.location || name != c.name) {
			t.Errorf("%s: %q, %q, %v", c.text, location, name, ok)
		}
	}
}
