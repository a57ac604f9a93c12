package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// value reads a key of the cluster, "" if it is not there.
func (w *testCluster) value(t *testing.T, key string) (value string) {
	t.Helper()
	testwait.For(t, "an answer", func(ctx context.Context) error {
		r, err := w.api(t).Get(ctx, key)
		if err == nil && len(r.Kvs) == 1 {
			value = string(r.Kvs[0].Value)
		}
		return err
	})
	return value
}

// files are the names in a directory.
func files(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// TestSnapshots goes through what can be done with snapshots of one cluster,
// for each minor version.
func TestSnapshots(t *testing.T) {
	for _, version := range []string{"3.5.35", "3.6.16", "3.7.3"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := newTestCluster(t, version, 1, newPKI(t))
			for i := range 20 {
				if _, err := w.api(t).Put(t.Context(), fmt.Sprint("k", i), "v"); err != nil {
					t.Fatal(err)
				}
			}
			dir := t.TempDir()
			file := filepath.Join(dir, "s.db")
			s := decoded[saved](t, w.with("snapshot", "save", file)...)
			if s.File != file || s.Revision != 22 || s.Keys != 21 || !s.Digest || s.Member == 0 {
				t.Errorf("saved %+v", s)
			}
			if got := files(t, dir); got != "s.db" {
				t.Errorf("the directory has %s", got)
			}
			t.Run("is not overwritten", func(t *testing.T) {
				fails(t, 7, file+" exists", w.with("snapshot", "save", file)...)
				r := ok(t, w.with("snapshot", "save", "--force", file)...)
				if !strings.Contains(r.stdout, "FILE ") || !strings.Contains(r.stdout, "sha256 matches") || r.stderr != "" {
					t.Errorf("%+v", r)
				}
			})
			t.Run("status", func(t *testing.T) { status(t, file, w) })
			t.Run("restore", func(t *testing.T) { restores(t, file, w) })
			t.Run("store", func(t *testing.T) { stores(t, w) })
		})
	}
}

func status(t *testing.T, file string, w *testCluster) {
	r := ok(t, "snapshot", "status", file)
	for _, want := range []string{
		"REVISION", " 22\n", "KEYS", " 21\n", "CLUSTER VERSION  " + fmt.Sprintf("3.%d.0\n", w.bin.Version.Minor),
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is not in\n%s", want, r.stdout)
		}
	}
	if r := ok(t, "snapshot", "status", file, "-o", "yaml"); !strings.Contains(r.stdout, "revision: 22\n") {
		t.Errorf("%s", r.stdout)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	bad := filepath.Join(t.TempDir(), "bad.db")
	if err := os.WriteFile(bad, b, 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, 1, "snapshot is damaged: its digest is wrong", "snapshot", "status", bad)
	fails(t, 1, "digest is wrong",
		append([]string{"snapshot", "restore", bad}, restoreFlags(w, filepath.Join(t.TempDir(), "data"))...)...)
}

// restoreFlags are those of a restore of the one member of w.
func restoreFlags(w *testCluster, dir string) []string {
	return []string{
		"--data-dir=" + dir, "--name=a", "--initial-advertise-peer-urls=" + w.members[0].PeerURL,
		"--install-dir=" + w.bin.Dir,
		"--environment-dir=" + filepath.Dir(dir),
	}
}

// on runs an etcd on restored data.
func on(t *testing.T, w *testCluster, dir string) *testCluster {
	t.Helper()
	m := etcdtest.New(t, "a")
	m.DataDir = dir
	m.Start(t, w.bin)
	return &testCluster{bin: w.bin, members: []*etcdtest.Member{m}}
}

func restores(t *testing.T, file string, w *testCluster) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "data")
	flags := restoreFlags(w, dir)
	dry := decoded[restored](t, append([]string{"snapshot", "restore", file, "--dry-run"}, flags...)...)
	if files(t, parent) != "" {
		t.Errorf("a dry run made %s", files(t, parent))
	}
	r := decoded[restored](t,
		append([]string{"snapshot", "restore", file, "--bump-revision=1000", "--mark-compacted"}, flags...)...)
	if r.Revision != 22 || r.BumpRevision != 1000 || r.Keys != 21 || r.Version != w.bin.Version || r.Token == "" ||
		r.InitialCluster != "a="+w.members[0].PeerURL {
		t.Errorf("restored %+v", r)
	}
	if dry.RevisionAfter != 22 || dry.Needed < dry.Size || dry.Free < dry.Needed {
		t.Errorf("the dry run said %+v", dry)
	}
	// Another revision gives another token.
	dry.DryRun, dry.BumpRevision, dry.RevisionAfter, dry.Token, dry.Free = false, 1000, 1022, r.Token, r.Free
	if fmt.Sprint(dry) != fmt.Sprint(r) {
		t.Errorf("the dry run said %+v, and it was %+v", dry, r)
	}
	if got := files(t, parent); got != "data" {
		t.Errorf("it left %s", got)
	}
	n := on(t, w, dir)
	if n.value(t, "k7") != "v" {
		t.Error("the key is not there")
	}
	answer, err := n.api(t).Get(t.Context(), "k7")
	if err != nil || answer.Header.Revision != 1022 {
		t.Errorf("the revision is %v, %v", answer, err)
	}
	refused := fails(t, 1, "is not empty: it has member", append([]string{"snapshot", "restore", file}, flags...)...)
	if !strings.Contains(refused.stderr, "never replaces data") {
		t.Errorf("%s", refused.stderr)
	}
	// A copied database has no digest.
	fails(t, 7, "has no digest",
		append([]string{"snapshot", "restore", raw(t, file)}, restoreFlags(w, filepath.Join(parent, "data2"))...)...)
	ok(t, append([]string{"snapshot", "restore", raw(t, file), "--skip-hash-check"},
		restoreFlags(w, filepath.Join(parent, "data2"))...)...)
	if r := ok(t, append([]string{"snapshot", "restore", file},
		restoreFlags(w, filepath.Join(parent, "data3"))...)...); !strings.Contains(r.stdout, "REVISION         22\n") ||
		!strings.Contains(r.stderr, "restored:\n") {
		t.Errorf("%+v", r)
	}
}

// raw is a copy of a snapshot without its digest.
func raw(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, b[:len(b)-32], 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func stores(t *testing.T, w *testCluster) {
	place := t.TempDir()
	location := "file://" + place
	b := decoded[stored](t, w.with("snapshot", "save", location)...)
	if b.Store != location || b.EtcdVersion != w.bin.Version.String() || b.Name == "" {
		t.Fatalf("stored %+v", b)
	}
	st, err := store.Open(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	info, err := backup.Describe(t.Context(), st, b.Name)
	if err != nil || info.EtcdVersion != w.bin.Version || info.MemberCount != 1 || info.SpecVersion != w.bin.Version {
		t.Errorf("the marker says %+v, %v", info, err)
	}
	if r := ok(t, w.with("snapshot", "save", location)...); !strings.Contains(r.stdout, "BACKUP    20") ||
		!strings.Contains(r.stdout, "REVISION  22\n") {
		t.Errorf("%+v", r)
	}
	for i, source := range []string{
		location + "/" + b.Name, location + "/" + b.Name + "/", filepath.Join(place, b.Name),
		filepath.Join(place, b.Name, "etcd.backup.gz"),
	} {
		dir := filepath.Join(t.TempDir(), "data")
		r := decoded[restored](t, append([]string{"snapshot", "restore", source}, restoreFlags(w, dir)...)...)
		// The store knows which revisions clients may have seen; a file does not.
		after := cluster.Revision(2_000_000_000)
		if source == filepath.Join(place, b.Name, "etcd.backup.gz") {
			after = 22
		}
		if r.Revision != 22 || r.Keys != 21 || r.RevisionAfter != after ||
			r.RevisionAfter != r.Revision+cluster.Revision(r.BumpRevision) {
			t.Errorf("%s: restored %+v", source, r)
		}
		if got := files(t, filepath.Dir(dir)); got != "data" {
			t.Errorf("%s: it left %s", source, got)
		}
		if i == 0 && on(t, w, dir).value(t, "k3") != "v" {
			t.Error("the key is not there")
		}
	}
	parent := t.TempDir()
	flags := restoreFlags(w, filepath.Join(parent, "data"))
	r := ok(t, append([]string{"snapshot", "restore", "--dry-run", location + "/" + b.Name}, flags...)...)
	if !strings.Contains(r.stderr, "is of etcd "+w.bin.Version.String()+"; it would be fetched and checked first") ||
		!strings.Contains(r.stderr, "would restore:") {
		t.Errorf("%+v", r)
	}
	fails(t, 1, "has no backup none", append([]string{"snapshot", "restore", location + "/none"}, flags...)...)
	// One that is altered is found before anything is made of it.
	data := filepath.Join(place, b.Name, "etcd.backup.gz")
	content, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(data, content, 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, 1, "snapshot is damaged", append([]string{"snapshot", "restore", location + "/" + b.Name}, flags...)...)
	if got := files(t, parent); got != "" {
		t.Errorf("it left %s", got)
	}
}

// A cluster of three is restored by the same command on each machine.
func TestThreeAreRestored(t *testing.T) {
	t.Parallel()
	w := newTestCluster(t, "3.6.16", 3, "")
	file := filepath.Join(t.TempDir(), "s.db")
	ok(t, w.with("snapshot", "save", file)...)
	n := &testCluster{bin: w.bin}
	for _, name := range []string{"a", "b", "c"} {
		n.members = append(n.members, etcdtest.New(t, name))
	}
	initial, tokens := "--initial-cluster="+etcdtest.Initial(n.members...), map[string]bool{}
	for _, m := range n.members {
		r := decoded[restored](t, "snapshot", "restore", file, "--data-dir="+m.DataDir, "--name="+m.Name, initial,
			"--install-dir="+w.bin.Dir, "--environment-dir="+filepath.Dir(m.DataDir))
		if len(r.PeerURLs) != 1 || r.PeerURLs[0] != m.PeerURL {
			t.Errorf("the peer URLs are %v, want %s", r.PeerURLs, m.PeerURL)
		}
		tokens[r.Token] = true
		m.Start(t, w.bin, initial)
	}
	if len(tokens) != 1 {
		t.Errorf("the members have different tokens: %v", tokens)
	}
	if got := n.value(t, "ready"); got != "yes" {
		t.Errorf("the key is %q", got)
	}
}

func TestWhatARestoreNeeds(t *testing.T) {
	t.Parallel()
	w := newTestCluster(t, "3.7.3", 1, "")
	w.storageVersion(t)
	file := filepath.Join(t.TempDir(), "s.db")
	ok(t, w.with("snapshot", "save", file)...)
	parent := t.TempDir()
	dir := filepath.Join(parent, "data")
	etcds := filepath.Dir(w.bin.Dir)
	base := []string{"snapshot", "restore", file, "--data-dir=" + dir, "--environment-dir=" + parent}
	me := "--initial-advertise-peer-urls=http://127.0.0.1:1"
	for _, tc := range []struct {
		name string
		code int
		want string
		args []string
	}{
		{"a binary", 1, "cannot determine which etcd version will run on the data", []string{me, "--install-dir=" + parent}},
		{"its tool", 1, "no executable file etcdutl in " + parent, []string{
			me, "--install-dir=" + parent, "--version=3.6.99",
		}},
		{"the right version", 1, "has version 3.7.3; a snapshot for etcd 3.6.99", []string{
			me, "--install-dir=" + w.bin.Dir, "--version=3.6.99",
		}},
		{"a version", 2, "--version", []string{me, "--version=new"}},
		{"peer URLs", 2, "peer URLs are not known", []string{"--install-dir=" + w.bin.Dir}},
		{"a name", 2, "--name", []string{me, "--name=a b"}},
		{"to be in the cluster", 2, `has no member "z"`, []string{me, "--name=z", "--initial-cluster=a=http://127.0.0.1:1"}},
		{"a version that can read it", 7, "is of etcd 3.7, and etcd 3.6.16 does not start on it", []string{
			me, "--version=3.6.16", "--etcd-dir=" + etcds,
		}},
		{"both flags", 2, "--mark-compacted needs --bump-revision", []string{me, "--mark-compacted"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fails(t, tc.code, tc.want, append(base, tc.args...)...)
			if got := files(t, parent); got != "" {
				t.Errorf("it left %s", got)
			}
		})
	}
	fails(t, 1, "no such file", "snapshot", "restore", file+"x", me)
	fails(t, 2, "does not name a backup", "snapshot", "restore", "s3://bucket", me)
	fails(t, 2, "no driver for", "snapshot", "restore", "x://bucket/backup", me, "--install-dir="+w.bin.Dir,
		"--data-dir="+dir, "--environment-dir="+parent)
	fails(t, 1, "is a directory", "snapshot", "restore", file, "--environment-dir="+badEnv(t, true))
	fails(t, 1, "is not closed", "snapshot", "restore", file, "--environment-dir="+badEnv(t, false))
	t.Run("room on the disk", func(t *testing.T) {
		small := t.TempDir()
		if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=1m"); err != nil {
			t.Skipf("cannot mount a small file system: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(small, 0) })
		fails(t, 1, "no space left on device", "snapshot", "restore", file, me, "--install-dir="+w.bin.Dir,
			"--data-dir="+small, "--environment-dir="+parent)
		if got := files(t, small); got != "" {
			t.Errorf("it left %s", got)
		}
		if _, err := w.api(t).Put(t.Context(), "big", strings.Repeat("v", 1_400_000)); err != nil {
			t.Fatal(err)
		}
		fails(t, 1, "no space left on device", w.with("snapshot", "save", filepath.Join(small, "s.db"))...)
		if got := files(t, small); got != "" {
			t.Errorf("it left %s", got)
		}
	})
}

// badEnv is a directory with an etcd.env that cannot be read.
func badEnv(t *testing.T, isDir bool) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "etcd.env")
	err := os.WriteFile(path, []byte(`ETCD_NAME="a`), 0o600)
	if isDir {
		_ = os.Remove(path)
		err = os.Mkdir(path, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// What the machine is comes from its etcd.env.
func TestIdentityOfTheMachine(t *testing.T) {
	dir := t.TempDir()
	env := "ETCD_NAME=m1\nETCD_INITIAL_ADVERTISE_PEER_URLS=https://10.0.0.1:2380\nETCD_INITIAL_CLUSTER=m1=https://10.0.0.1:2380,m2=https://10.0.0.2:2380\n"
	if err := os.WriteFile(filepath.Join(dir, "etcd.env"), []byte(env), 0o600); err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		r    restore
		want string
	}{
		{restore{environment: dir}, "m1 [https://10.0.0.1:2380] m1=https://10.0.0.1:2380"},
		{restore{environment: dir, name: "x"}, "x [https://10.0.0.1:2380] x=https://10.0.0.1:2380"},
		{restore{environment: dir, peerURLs: []string{"http://h:1", "http://i:2"}},
			"m1 [http://h:1 http://i:2] m1=http://h:1,m1=http://i:2"},
		{restore{environment: dir, initialCluster: "m1=http://h:1,m2=http://i:2"},
			"m1 [http://h:1] m1=http://h:1,m2=http://i:2"},
		{restore{environment: dir + "/none", peerURLs: []string{"http://h:1"}},
			host + " [http://h:1] " + host + "=http://h:1"},
	} {
		var x restored
		if err := tc.r.identity(&x); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(x.Name, " ", x.PeerURLs, " ", x.InitialCluster); got != tc.want {
			t.Errorf("it is %s, want %s", got, tc.want)
		}
	}
}

func TestASaveThatIsInterrupted(t *testing.T) {
	t.Parallel()
	w := newTestCluster(t, "3.6.16", 1, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if r := runIn(t, ctx, w.with("snapshot", "save", filepath.Join(dir, "s.db"))...); r.code != 130 {
		t.Errorf("%+v", r)
	}
	if got := files(t, dir); got != "" {
		t.Errorf("it left %s", got)
	}
}

// An etcd in which nobody has written is at revision 1, also where its database has none.
func TestRevisionOfAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "empty.db")
	db, err := bbolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{"key", "meta"} {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if s := decoded[snapshot.Status](t, "snapshot", "status", file); s.Revision != 1 || s.Keys != 0 {
		t.Errorf("the status is %+v", s)
	}
}
