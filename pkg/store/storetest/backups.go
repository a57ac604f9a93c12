package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// backupStates: what a listing shows of a backup, besides its name and time.
func backupStates(t *testing.T, open func() *store.Store) {
	s, ctx := open(), t.Context()
	const gz, zst = retention.DataFile, retention.ZstdFile
	for name, c := range map[string]struct {
		files string
		want  cluster.Backup
	}{
		"2026-11-20T10:00:00Z-000001": {gz, cluster.Backup{Size: int64(len(gz))}},
		"2026-11-20T10:00:00Z-000002": {zst, cluster.Backup{Size: int64(len(zst))}},
		"2026-11-20T10:00:00Z-000003": {gz + ".age", cluster.Backup{Size: int64(len(gz)) + 4, Encrypted: true}},
		"2026-11-20T10:00:00Z-000004": {zst + ".age", cluster.Backup{Size: int64(len(zst)) + 4, Encrypted: true}},
		"2026-11-20T10:00:00Z-000005": {gz + " " + retention.DescriptionFile + " " + retention.SignatureFile + " " +
			retention.VerifiedFile + " " + retention.DrilledFile,
			cluster.Backup{Size: int64(len(gz)), Verified: at, Drilled: at}},
		"2026-11-20T10:00:00Z-000006": {
			gz + " " + retention.DamagedFile, cluster.Backup{Size: int64(len(gz)), Damaged: true},
		},
		"2026-11-20T10:00:00Z-000007": {gz + " " + zst + ".age other", cluster.Backup{Size: int64(len(gz))}},
		"2026-11-20T10:00:00Z-000008": {gz, cluster.Backup{Size: int64(len(gz))}},
	} {
		for file := range strings.FieldsSeq(c.files) {
			put(t, s, name+"/"+file, file)
		}
		put(t, s, name+"/"+retention.MarkerFile, "{}")
		all, err := s.Backups(ctx)
		must(t, err)
		i := slices.IndexFunc(all, func(b cluster.Backup) bool { return b.Name == name })
		if i < 0 {
			t.Fatalf("%s is not listed", name)
		}
		got, want := all[i], c.want
		for field, times := range map[string][2]time.Time{
			"verified": {got.Verified, want.Verified}, "drilled": {got.Drilled, want.Drilled},
		} {
			if times[0].IsZero() != times[1].IsZero() || !times[0].IsZero() && time.Since(times[0]).Abs() > time.Minute {
				t.Errorf("%s: %s is %s", name, field, times[0])
			}
		}
		if got.Size != want.Size || got.Encrypted != want.Encrypted || got.Damaged != want.Damaged {
			t.Errorf("%s with %q is %+v", name, c.files, got)
		}
	}
}

// notBackups look like backups to who only looks for a marker.
func notBackups(t *testing.T, open func() *store.Store) {
	s, ctx := open(), t.Context()
	name := func(n int) string { return retention.Name(at, n) }
	put(t, s, name(1)+"/"+retention.DataFile, "data")
	put(t, s, name(1)+"/"+retention.MarkerFile, "{}")
	put(t, s, name(2)+"/"+retention.MarkerFile, "{}")
	put(t, s, name(3)+"/"+retention.DataFile, "")
	put(t, s, name(3)+"/"+retention.MarkerFile, "{}")
	put(t, s, name(4)+"/"+retention.DataFile, "data")
	put(t, s, name(4)+"/"+retention.MarkerFile, "")
	put(t, s, name(5)+"/"+retention.DataFile, "data")
	put(t, s, name(5)+"/"+retention.MarkerFile, strings.Repeat("x", 1<<20))
	put(t, s, name(6)+"/"+retention.DataFile, "data")
	put(t, s, name(6)+"/"+retention.MarkerFile, "{}")
	put(t, s, name(6)+"/"+retention.DescriptionFile, "")
	all, err := s.Backups(ctx)
	must(t, err)
	if len(all) != 1 || all[0].Name != name(1) {
		t.Errorf("backups are %+v", all)
	}
	listed := func(prefix string) *store.Listing {
		t.Helper()
		l := s.List(prefix)
		for !l.Done() {
			must(t, l.Next(ctx))
		}
		return l
	}
	if strange := listed("").Strange(); len(strange) != 5 || strange[4].Name != name(2) ||
		!strings.Contains(strange[4].Why, "no data") {
		t.Errorf("reported are %+v", strange)
	}
	if got := listed(name(1)[:10]).Backups(); len(got) != 1 {
		t.Errorf("of the day there is %+v", got)
	}
	if got := listed("2026-11-19").Backups(); len(got) != 0 {
		t.Errorf("of another day there is %+v", got)
	}
}

// leftovers of all kinds are found, and deleted.
func leftovers(t *testing.T, open func() *store.Store) {
	s, ctx := open(), t.Context()
	later := time.Now().Add(time.Hour)
	if later.Before(at) {
		later = at.Add(time.Hour)
	}
	const name = "2026-11-20T10:39:37Z-000001"
	for _, file := range []string{
		retention.DataFile, retention.DataFile + ".age", retention.ZstdFile, retention.ZstdFile + ".age",
		retention.DescriptionFile, retention.SignatureFile, retention.VerifiedFile, retention.DrilledFile,
		retention.DamagedFile,
	} {
		put(t, s, name+"/"+file, "x")
		put(t, s, name+"/extra", "x")
		left, err := s.Leftovers(ctx, later)
		must(t, err)
		if !slices.Equal(left, []string{name}) {
			t.Errorf("with %s leftovers are %v", file, left)
		}
		must(t, s.DeleteBackup(ctx, name))
		if left, err = s.Leftovers(ctx, later); err != nil || len(left) > 0 {
			t.Errorf("after the deletion of %s leftovers are %v, %v", file, left, err)
		}
		if there, err := s.Exists(ctx, name+"/extra"); there || err != nil {
			t.Errorf("of a backup with %s other things stay: %v", file, err)
		}
	}
}
