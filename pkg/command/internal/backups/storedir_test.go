package backups

import (
	"bytes"
	"compress/gzip"
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/isolate"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/snapshottest"
	"github.com/etcdadm/etcdadm/pkg/store"
)

var update = flag.Bool("update", false, "write the golden files again")

// TestMain lets the tests read snapshots in processes of their own.
func TestMain(m *testing.M) {
	if code, ok := isolate.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// A storeDir is a store in a directory, with a program that uses it.
type storeDir struct {
	t     *testing.T
	dir   string
	temp  string
	now   time.Time
	store *store.Store
}

func newStoreDir(t *testing.T) *storeDir {
	t.Helper()
	l := &storeDir{t: t, dir: filepath.Join(t.TempDir(), "store"), temp: t.TempDir(),
		now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	var err error
	if l.store, err = store.Open(t.Context(), l.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.store.Close(context.Background()); err != nil {
			t.Error(err)
		}
		entries, err := os.ReadDir(l.temp)
		if err != nil || len(entries) > 0 {
			t.Errorf("left in the directory for temporary files: %v, %v", entries, err)
		}
	})
	return l
}

// A result is what a command line gave.
type result struct {
	code        int
	out, errors string
}

// run runs a command line, with a root command as that of etcd-manager-ctl.
func (l *storeDir) run(args ...string) result {
	l.t.Helper()
	var out, errs bytes.Buffer
	root := &cobra.Command{Use: "ctl", Args: cli.Known}
	cli.AddOutput(root, cli.Table, cli.JSON, cli.YAML)
	root.AddCommand(Commands(Options{
		Open:     func(ctx context.Context) (*store.Store, error) { return store.Open(ctx, l.dir) },
		Location: func() string { return "file://STORE" },
		Timeout:  func() time.Duration { return time.Minute },
		Tool:     "ctl", Now: func() time.Time { return l.now },
	})...)
	root.SetOut(&out)
	root.SetErr(&errs)
	l.t.Setenv("TMPDIR", l.temp)
	code := cli.Run(l.t.Context(), root, args)
	return result{code, out.String(), errs.String()}
}

// must is run for a command line that must succeed, and say nothing aside.
func (l *storeDir) must(args ...string) string {
	l.t.Helper()
	r := l.run(args...)
	if r.code != 0 || r.errors != "" {
		l.t.Fatalf("%v: %d\n%s%s", args, r.code, r.out, r.errors)
	}
	return r.out
}

// fails checks the exit code and the errors.
func (l *storeDir) fails(code int, want string, args ...string) {
	l.t.Helper()
	if r := l.run(args...); r.code != code || !strings.Contains(r.errors, want) {
		l.t.Errorf("%v: %d\n%s%s\nwant %d and %q", args, r.code, r.out, r.errors, code, want)
	}
}

func (l *storeDir) put(key string, b []byte) {
	l.t.Helper()
	if err := l.store.Put(l.t.Context(), key, b); err != nil {
		l.t.Fatal(err)
	}
}

// add adds a backup as the existing tool writes it.
func (l *storeDir) add(name string, content []byte) {
	l.t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil || w.Close() != nil {
		l.t.Fatal(err)
	}
	l.put(name+"/"+retention.DataFile, b.Bytes())
	l.put(name+"/"+retention.MarkerFile, []byte(`{"etcdVersion":"3.6.16"}`))
}

// golden compares with a file, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; -update writes it again:\n%s", path, got)
	}
}

const (
	first  = "2026-11-20T09:39:37Z-000001"
	second = "2026-11-20T10:39:37Z-000002"
	third  = "2026-11-20T11:39:37Z-000003"
)

// kubernetes returns the database of a small Kubernetes.
func kubernetes() *snapshottest.DB {
	d := snapshottest.New("3.6")
	d.Lease(500, 3600)
	d.Put("compact_rev_key", "7", 0)
	d.Put("/registry/namespaces/default", "k8s\x00ns", 0)
	d.Put("/registry/namespaces/kube-system", "k8s\x00ns", 0)
	d.Put("/registry/pods/default/web-1", "k8s\x00\x0a\xff pod", 0)
	d.Put("/registry/pods/default/web-2", "k8s\x00\x0a\xff pod", 0)
	d.Put("/registry/pods/kube-system/dns", "k8s\x00\x0a\xff pod", 0)
	d.Put("/registry/events/default/web-1.17a", "k8s\x00event", 500)
	d.Put("/registry/minions/node-1", "k8s\x00node", 0)
	d.Put("/registry/services/specs/default/kubernetes", "k8s\x00svc", 0)
	d.Put("/registry/services/endpoints/default/kubernetes", "k8s\x00ep", 0)
	d.Put("/registry/apiregistration.k8s.io/apiservices/v1.", `{"kind":"APIService"}`, 0)
	d.Put("/registry/cert-manager.io/certificates/default/tls", `{"kind":"Certificate"}`, 0)
	d.Put("/registry/ranges/serviceips", "k8s\x00range", 0)
	d.Put("/coreos.com/network/config", `{"Network":"10.0.0.0/8"}`, 0)
	d.Put("plain", "text", 0)
	d.Delete("/registry/pods/default/web-2")
	return d
}

func TestUsage(t *testing.T) {
	l := newStoreDir(t)
	l.add(first, kubernetes().Snapshot(t))
	for _, args := range [][]string{
		{"list-backups", "--limit=-1"}, {"list-backups", "x"}, {"list-backups", "-o", "xml"},
		{"verify"}, {"verify", "--latest", "--all"}, {"verify", first, "--latest"}, {"verify", first, "--require-signature"},
		{"verify", first, "--decrypt-key=/nonexistent"}, {"verify", first, "--trusted-signers=/nonexistent"}, {"verify", ""},
		{"drill"}, {"drill", first, second}, {"drill", first, "--latest"}, {"drill", first, "--version=x"},
		{"dump"}, {"dump", first, "--latest"}, {"dump", first, "--data-dir=/x/y"}, {
			"dump", first, "--summary", "--keys-only",
		},
		{"dump", first, "--summary", "-o", "jsonl"}, {"dump", first, "-o", "json"}, {"dump", first, "--out=x", "-o", "jsonl"},
		{"dump", first, "--revision=-1"}, {"dump", "s3://bucket"}, {"dump", "nodriver://bucket/" + first}, {
			"dump", "--data-dir=/dev/null",
		},
		{"diff", first}, {"diff", first, second, third},
	} {
		if r := l.run(args...); r.code != 2 || !strings.Contains(r.errors, "error: ") &&
			!strings.Contains(r.errors, `"kind":"usage"`) {
			t.Errorf("%v: %d %s", args, r.code, r.errors)
		}
	}
}

func TestNamesOfWhatIsNotThere(t *testing.T) {
	l := newStoreDir(t)
	for _, command := range []string{"verify", "drill", "dump"} {
		l.fails(1, "there is no backup", command, "--latest")
		l.fails(1, "list-backups", command, first)
		l.fails(1, "no such file", command, "./none.db")
	}
	if out := l.must("verify", "--all"); !strings.HasPrefix(out, "NAME") {
		t.Error(out)
	}
}

func TestListOfNames(t *testing.T) {
	l := newStoreDir(t)
	const none = "note: there is no backup yet; to ask for one: etcd-manager-ctl take-backup\n"
	r := l.run("list-backups")
	if r.code != 0 || r.out != "Backup Store: file://STORE\n" || r.errors != none {
		t.Errorf("%+v", r)
	}
	l.add(second, nil)
	l.add(first, nil)
	l.put(third+"/"+retention.DataFile, nil) // not complete
	if out := l.must("list-backups"); out != "Backup Store: file://STORE\n"+first+"\n"+second+"\n" {
		t.Errorf("%q", out)
	}
	// As the flags of the existing tool, before the command.
	if out := l.must("-o", "json", "list-backups"); strings.Count(out, `"name"`) != 2 ||
		strings.Contains(out, "Backup Store") {
		t.Error(out)
	}
}

// age makes the objects of a result as old as the test needs.
func (l *storeDir) age(key string, age time.Duration) {
	l.t.Helper()
	if err := os.Chtimes(filepath.Join(l.dir, key), l.now.Add(-age), l.now.Add(-age)); err != nil {
		l.t.Fatal(err)
	}
}

func TestWideList(t *testing.T) {
	l := newStoreDir(t)
	for _, name := range []string{first, second, third} {
		l.add(name, kubernetes().Snapshot(t))
	}
	l.put(first+"/"+retention.VerifiedFile, []byte("{}"))
	l.age(first+"/"+retention.VerifiedFile, 3*time.Hour)
	l.put(first+"/"+retention.DrilledFile, []byte("{}"))
	l.age(first+"/"+retention.DrilledFile, 50*time.Hour)
	l.put(second+"/"+retention.DamagedFile, []byte("{}"))
	l.put(third+"/"+retention.MarkerFile, []byte("{nonsense"))
	l.put("2026-11-20T11:59:00Z-000004/"+retention.DataFile+retention.EncryptedSuffix, make([]byte, 5000))
	l.put("2026-11-20T11:59:00Z-000004/"+retention.MarkerFile, []byte(`{"etcdVersion":"3.5.35"}`))
	sizes := regexp.MustCompile(`\d+ B `) // what gzip makes of it may change
	golden(t, "list-wide.txt", sizes.ReplaceAllString(l.must("list-backups", "-o", "wide"), "N B "))
	golden(t, "list-wide-limit.txt", sizes.ReplaceAllString(l.must("list-backups", "-o", "wide", "--limit=1"), "N B "))
}

// The number of requests is bounded, as the help says.
func TestRequestsOfTheList(t *testing.T) {
	l := newStoreDir(t)
	for i := range 300 {
		name := retention.Name(l.now.Add(time.Duration(i)*time.Minute), 1)
		l.put(name+"/"+retention.MarkerFile, []byte(`{"etcdVersion":"3.6.16"}`))
		l.put(name+"/"+retention.DataFile, []byte("x"))
	}
	all, err := l.store.Backups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]listed, 100)
	for i := range rows {
		rows[i].Backup = all[i]
	}
	before := l.store.Requests()
	describe(t.Context(), l.store, rows)
	if n := l.store.Requests() - before; n > 200 {
		t.Errorf("%d requests for 100 backups", n)
	}
	for _, r := range rows {
		if r.EtcdVersion.IsZero() || r.Problem != "" {
			t.Errorf("%+v", r)
		}
	}
}

func TestAStoreThatIsNotThere(t *testing.T) {
	l := newStoreDir(t)
	if err := os.WriteFile(l.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.fails(6, "store", "list-backups")
	l.fails(6, "store", "verify", "--all")
	l.fails(6, "store", "dump", first)
}

func copyOf(t *testing.T, from string) string {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	return snapshottest.Write(t, b)
}
