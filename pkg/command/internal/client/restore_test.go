package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// write makes a file and returns its path.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// put writes keys k0 to k(n-1) with a value.
func (w *testCluster) put(t *testing.T, n int, value string) {
	t.Helper()
	for i := range n {
		if _, err := w.api(t).Put(t.Context(), fmt.Sprint("k", i), value); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEncryptedAndSigned(t *testing.T) {
	t.Parallel()
	w := newTestCluster(t, "3.6.16", 1, "")
	w.put(t, 5, "v")
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	private, public, err1 := backup.GenerateSigningKey()
	_, stranger, err2 := backup.GenerateSigningKey()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	place := t.TempDir()
	location := "file://" + place
	b := decoded[stored](t, w.with("snapshot", "save", location, "--compression=zstd",
		"--encrypt-to="+key.Recipient().String(), "--sign-key="+write(t, string(private)), "--cluster-name=main")...)
	trusted, err := backup.ReadTrusted(write(t, string(public)))
	if err != nil {
		t.Fatal(err)
	}
	// It counts for daemons of its cluster, and of no other.
	for name, counts := range map[string]int{"main": 1, "other": 0} {
		err := withStore(t.Context(), location, io.Discard, func(st *store.Store) error {
			v := backup.Vetter{Store: st, Fetch: backup.FetchOptions{Trusted: trusted, Cluster: name}}
			good, bad, err := v.Vet(t.Context(), []cluster.Backup{b.Backup})
			if len(good) != counts {
				t.Errorf("for cluster %s count %v, not %v", name, good, bad)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !b.Encrypted || b.Size == 0 || b.Revision != 7 || len(b.Signer) != 16 {
		t.Errorf("stored %+v", b)
	}
	recipients := write(t, "# the other one\n"+other.Recipient().String()+"\n")
	plain := ok(t, w.with("snapshot", "save", location, "--encrypt-to="+recipients)...)
	if !strings.Contains(plain.stdout, "ENCRYPTED  for 1 recipients\n") {
		t.Errorf("%s", plain.stdout)
	}
	parent := t.TempDir()
	from := append([]string{"snapshot", "restore", location + "/" + b.Name},
		restoreFlags(w, filepath.Join(parent, "data"))...)
	secret, signers := "--decrypt-key="+write(t, key.String()), "--trusted-signers="+write(t, string(public))
	fails(t, 7, "backup is encrypted, and none of the given keys decrypts it", from...)
	fails(t, 7, "backup is encrypted, and none of the given keys decrypts it", append(from, "--decrypt-key="+write(t, other.String()))...)
	fails(t, 7, b.Signer, append(from, secret, "--require-signature", "--trusted-signers="+write(t, string(stranger)))...)
	fails(t, 2, "needs trusted signers", append(from, secret, "--require-signature")...)
	fails(t, 2, "AGE-SECRET-KEY", append(from, "--decrypt-key="+recipients)...)
	fails(t, 2, "--trusted-signers", append(from, "--trusted-signers="+recipients)...)
	if got := files(t, parent); got != "" {
		t.Errorf("it left %s", got)
	}
	r := decoded[restored](t, append(from, secret, signers, "--require-signature")...)
	if r.Signer != b.Signer || !r.Encrypted || r.Revision != 7 || r.TakenOf != w.bin.Version || !r.Taken.Equal(b.At) {
		t.Errorf("restored %+v", r)
	}
	// Its data as a file of its own.
	bare := filepath.Join(place, b.Name, retention.ZstdFile+retention.EncryptedSuffix)
	from = append([]string{"snapshot", "restore", bare}, restoreFlags(w, filepath.Join(t.TempDir(), "data"))...)
	fails(t, 7, "--decrypt-key", from...)
	fails(t, 7, "has no signature", append(from, secret, signers, "--require-signature")...)
	if r := decoded[restored](t, append(from, secret)...); r.Revision != 7 || r.RevisionAfter != 7 {
		t.Errorf("restored %+v", r)
	}
	for _, wrong := range [][]string{
		{"--encrypt-to=age1nothing"}, {"--sign-key=" + recipients, "--cluster-name=main"}, {
			"--sign-key=" + write(t, string(private)),
		}, {"--compression=lzma"},
	} {
		fails(t, 2, strings.Split(wrong[0], "=")[0], w.with(append([]string{"snapshot", "save", location}, wrong...)...)...)
	}
	fails(t, 2, "needs a backup store as target",
		w.with("snapshot", "save", filepath.Join(parent, "s.db"), "--compression=zstd")...)
}

// A directory of data is the last resort, and the command says what is better.
func TestDataDirectories(t *testing.T) {
	for _, version := range []string{"3.5.35", "3.6.16", "3.7.3"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := newTestCluster(t, version, 1, "")
			w.put(t, 20, "v")
			dir := w.members[0].DataDir
			// Etcd writes to its database every 100 ms.
			testwait.For(t, "the keys in the database", func(context.Context) error {
				if r, err := w.api(t).Status(t.Context(), w.members[0].ClientURL); err != nil || r.DbSizeInUse == 0 {
					return fmt.Errorf("%v, %w", r, err)
				}
				return nil
			})
			parent := t.TempDir()
			flags := append(restoreFlags(w, filepath.Join(parent, "data")), "--skip-hash-check")
			for _, source := range []string{dir, dir + "/member", dir + "/member/snap/db"} {
				r := fails(t, 7, "an etcd runs on "+dir, append([]string{"snapshot", "restore", source}, flags...)...)
				if !strings.Contains(r.stderr, "etcdadm snapshot save") {
					t.Error(r.stderr)
				}
			}
			w.commit(t)
			w.members[0].Kill()
			for i, source := range []string{dir, dir + "/member", dir + "/member/snap/db"} {
				refused := fails(t, 7, "the last writes may be only in its write-ahead log",
					append([]string{"snapshot", "restore", source}, restoreFlags(w, filepath.Join(parent, "data"))...)...)
				if !strings.Contains(refused.stderr, "--force-new-cluster") {
					t.Error(refused.stderr)
				}
				before := tree(t, dir)
				target := filepath.Join(t.TempDir(), "data")
				flags := append(restoreFlags(w, target), "--skip-hash-check", "--above-revision=5000000000")
				r := decoded[restored](t, append([]string{"snapshot", "restore", source}, flags...)...)
				if r.Revision < 2 || r.RevisionAfter != 6_000_000_000 || r.From != "data directory "+dir ||
					r.LostRevisions != 5_000_000_000-r.Revision {
					t.Errorf("%s: restored %+v", source, r)
				}
				if after := tree(t, dir); after != before {
					t.Errorf("the directory was\n%s\nand is\n%s", before, after)
				}
				if i == 0 && on(t, w, target).value(t, "k7") != "v" {
					t.Error("the key is not there")
				}
			}
			fails(t, 1, "is not empty",
				append([]string{"snapshot", "restore", dir, "--skip-hash-check"}, restoreFlags(w, dir)...)...)
		})
	}
}

// tree lists the files of a directory with their sizes.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.Walk(dir, func(path string, st os.FileInfo, err error) error {
		if err == nil {
			fmt.Fprintln(&all, path, st.Size(), st.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// While a restore works on a data directory, no etcd gets to it.
func TestHeldDataDirectory(t *testing.T) {
	dir := t.TempDir()
	db := datadir.At(dir).Database()
	if err := errors.Join(os.MkdirAll(filepath.Dir(db), 0o700), os.WriteFile(db, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	s, err := parseSource(dir)
	if err != nil || s.DataDir != dir {
		t.Fatalf("it is not taken for a data directory: %+v, %v", s, err)
	}
	f, err := os.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	exclusive := func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
	tool := &tool{cmd: newRestore()}
	release, err := s.hold(tool, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := exclusive(); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("an etcd gets the lock: %v", err)
	}
	release()
	if err := exclusive(); err != nil {
		t.Errorf("the lock is still held: %v", err)
	}
	if _, err := s.hold(tool, true); err == nil || !strings.Contains(err.Error(), "an etcd runs on") {
		t.Error(err)
	}
}

// The revision never goes back, whatever is restored in whatever order, as
// long as its store is used.
func TestRevisionsOnlyGrow(t *testing.T) {
	t.Parallel()
	w := newTestCluster(t, "3.6.16", 1, "")
	location := "file://" + t.TempDir()
	w.put(t, 10, "old")
	names := []string{decoded[stored](t, w.with("snapshot", "save", location)...).Name}
	w.put(t, 10, "new")
	names = append(names, decoded[stored](t, w.with("snapshot", "save", location)...).Name)
	revision := cluster.Revision(22)
	for round, name := range []string{names[0], names[1], names[0], names[0], names[1]} {
		w.members[0].Kill()
		dir := filepath.Join(t.TempDir(), "data")
		from := append([]string{"snapshot", "restore", location + "/" + name}, restoreFlags(w, dir)...)
		dry := ok(t, append(from, "--dry-run")...)
		for _, want := range []string{
			"LOST ", fmt.Sprintf("revisions up to %d, the highest that is known", revision), " needed, ", "(in the", "TAKEN  ",
		} {
			// The newest backup has lost nothing that is known of.
			if strings.Contains(want, "revisions up to") && round == 1 && name == names[1] && revision == 22 ||
				want == "(in the" {
				continue
			}
			if !strings.Contains(dry.stdout, want) {
				t.Errorf("%q is not in\n%s", want, dry.stdout)
			}
		}
		r := decoded[restored](t, from...)
		if r.RevisionAfter < revision+margin || r.Highest != revision {
			t.Errorf("round %d: the revision was %d, restored %+v", round, revision, r)
		}
		w = on(t, w, dir)
		if got, want := w.value(t, "k3"), map[bool]string{true: "old", false: "new"}[name == names[0]]; got != want {
			t.Errorf("round %d: the key is %s", round, got)
		}
		answer, err := w.api(t).Put(t.Context(), "round", fmt.Sprint(round))
		if err != nil || answer.Header.Revision <= int64(revision) {
			t.Fatalf("round %d: the revision is %v, %v, was %d", round, answer, err, revision)
		}
		saved := decoded[stored](t, w.with("snapshot", "save", location)...)
		if saved.Revision <= revision || saved.Revision < cluster.Revision(answer.Header.Revision) {
			t.Errorf("round %d: the revision is %d, was %d", round, saved.Revision, revision)
		}
		revision = saved.Revision
	}
}

// What is not known is said.
func TestWarningsOfRevisions(t *testing.T) {
	t.Parallel()
	w := newTestCluster(t, "3.6.16", 1, "")
	place := t.TempDir()
	location := "file://" + place
	b := decoded[stored](t, w.with("snapshot", "save", location)...)
	from := append([]string{"snapshot", "restore", location + "/" + b.Name},
		restoreFlags(w, filepath.Join(t.TempDir(), "data"))...)
	st, err := store.Open(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.PutRevision(t.Context(), 1_999_999_999, time.Now()); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"warning: revision 2 is not above 1999999999":    {"--bump-revision=0"},
		"warning: revision 1002 is not above 1999999999": {"--bump-revision=1000"},
	} {
		if r := ok(t, append(append(from, "--dry-run"), args...)...); !strings.Contains(r.stderr, want) {
			t.Errorf("%v: %s", args, r.stderr)
		}
	}
	fails(t, 2, "exclude each other", append(from, "--bump-revision=1", "--above-revision=1")...)
	for _, high := range []uint64{math.MaxUint64, math.MaxInt64, 1 << 56, 1 << 55} {
		fails(t, 2, "no restored cluster begins above", append(from, fmt.Sprintf("--above-revision=%d", high))...)
	}
	ok(t, append(from, "--dry-run", fmt.Sprintf("--above-revision=%d", cluster.MaxBegin-2*margin))...)
	// On several machines each must come to the same revision.
	several := append(from, "--dry-run", "--initial-cluster=a="+w.members[0].PeerURL+",b=http://127.0.0.1:1")
	if r := ok(t, several...); !strings.Contains(r.stdout,
		"REVISION         3000000000 (2 in the snapshot; everything before is compacted)\n") ||
		!strings.Contains(r.stderr, "the other machines must arrive at revision 3000000000, too") {
		t.Errorf("%+v", r)
	}
	// Somebody wrote a mark above which no backup would count.
	for _, mark := range []cluster.Revision{cluster.MaxBegin, cluster.MaxMark} {
		if err := st.PutRevision(t.Context(), mark, time.Now()); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{nil, {"--dry-run"}, {"--dry-run", "--above-revision=7"}} {
			fails(t, 7, fmt.Sprintf("control/revision says that clients have seen revision %d, and no restored", mark),
				append(from, args...)...)
		}
		r := ok(t, append(from, "--dry-run", "--bump-revision=7")...)
		if !strings.Contains(r.stderr, "revision 9 is not above") {
			t.Errorf("%+v", r)
		}
	}
	// A store of the existing tool knows nothing of revisions.
	if err := errors.Join(os.Remove(filepath.Join(place, b.Name, retention.DescriptionFile)),
		st.Delete(t.Context(), "control/revision")); err != nil {
		t.Fatal(err)
	}
	if r := ok(t, append(from, "--dry-run")...); !strings.Contains(r.stderr,
		"does not say which revisions clients have seen") || strings.Contains(r.stdout, "REVISION") {
		t.Errorf("%+v", r)
	}
	if err := os.WriteFile(filepath.Join(place, "control/revision"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := ok(t, append(from, "--dry-run")...); !strings.Contains(r.stderr, "cannot determine which revisions clients have seen: ") {
		t.Errorf("%+v", r)
	}
	if r := decoded[restored](t, append(from, "--above-revision=7")...); r.Revision != 2 || r.RevisionAfter != 2*margin {
		t.Errorf("%+v", r)
	}
}

func TestAbove(t *testing.T) {
	for known, want := range map[cluster.Revision]cluster.Revision{
		0: margin, 1: 2 * margin, margin - 1: 2 * margin, margin: 2 * margin, margin + 1: 3 * margin,
		7*margin + 5: 9 * margin,
	} {
		if got := above(known); got != want || got < known+margin {
			t.Errorf("above %d is %d, want %d", known, got, want)
		}
	}
}

// Each error says what leaves no room, and what to do.
func TestNoRoomAbove(t *testing.T) {
	newest := highest{revision: 1 << 55, why: "the newest backup, b1"}
	for want, got := range map[string]error{
		"the newest backup, b1 says that clients have seen revision 36028797018963968": noRoom(2, newest),
		"the snapshot has revision 36028797018963969":                                  noRoom(1<<55+1, newest),
	} {
		var refused *cli.RefusedError
		if !errors.As(got, &refused) || !strings.Contains(refused.Text, want) ||
			!strings.Contains(refused.Next, "--bump-revision") {
			t.Errorf("%v, want %q", got, want)
		}
	}
}

// A Kubernetes API server has watches and leases. After a restore a watch of
// before ends, and leases still expire.
func TestWatchesAndLeases(t *testing.T) {
	for _, version := range []string{"3.5.35", "3.6.16", "3.7.3"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := newTestCluster(t, version, 1, "")
			api := w.api(t)
			lease, err := api.Grant(t.Context(), 5)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := api.Put(t.Context(), "leased", "yes", clientv3.WithLease(lease.ID)); err != nil {
				t.Fatal(err)
			}
			location := "file://" + t.TempDir()
			b := decoded[stored](t, w.with("snapshot", "save", location)...)
			// What is written after the backup is lost, and seen by a watcher.
			w.put(t, 50, "lost")
			seen, err := api.Get(t.Context(), "k49")
			if err != nil {
				t.Fatal(err)
			}
			if again := decoded[stored](t, w.with("snapshot", "save", location)...); again.Revision < cluster.Revision(
				seen.Header.Revision) {
				t.Errorf("saved %+v", again)
			}
			w.members[0].Kill()
			dir := filepath.Join(t.TempDir(), "data")
			decoded[restored](t, append([]string{"snapshot", "restore", location + "/" + b.Name}, restoreFlags(w, dir)...)...)
			n := on(t, w, dir)
			testwait.For(t, "the restored etcd", func(ctx context.Context) error {
				_, err := n.api(t).Get(ctx, "leased")
				return err
			})
			ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
			defer cancel()
			// The watcher goes on behind what it has seen.
			answer := <-n.api(t).Watch(ctx, "k", clientv3.WithPrefix(), clientv3.WithRev(seen.Header.Revision+1))
			if !errors.Is(answer.Err(), rpctypes.ErrCompacted) || len(answer.Events) > 0 {
				t.Errorf("the watcher gets %+v, %v", answer, answer.Err())
			}
			testwait.For(t, "the end of the lease", func(ctx context.Context) error {
				r, err := n.api(t).Get(ctx, "leased")
				if err == nil && len(r.Kvs) > 0 {
					err = errors.New("it is still there")
				}
				return err
			})
		})
	}
}

// What a killed command has left is removed by the next one; what another one
// works on is not.
func TestScratch(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, ".etcdadm-snapshot-123")
	theirs := filepath.Join(dir, "etcdadm-snapshot-123")
	for _, path := range []string{dead, theirs} {
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one, err := newScratch(dir)
	if err != nil {
		t.Fatal(err)
	}
	two, err := newScratch(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*scratch{one, two} {
		if _, err := os.Stat(s.Name()); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was left is still there: %v", err)
	}
	one.remove()
	two.remove()
	if got := files(t, dir); got != "etcdadm-snapshot-123" {
		t.Errorf("the directory has %s", got)
	}
	if _, err := newScratch(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
