package migrate

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// big is the value of a key of 1 MiB.
var big = strings.Repeat("0123456789abcdef", 1<<16)

// putV2 writes a v2 key, with a time to live in seconds if it is not zero.
func putV2(t *testing.T, m *etcdtest.Member, key, value string, ttl int) {
	t.Helper()
	form := url.Values{"value": {value}}
	if ttl > 0 {
		form.Set("ttl", fmt.Sprint(ttl))
	}
	m.V2(t, http.MethodPut, key, form)
}

// old starts an etcd of an early version.
func old(t *testing.T, version string) *etcdtest.Member {
	t.Helper()
	m := etcdtest.New(t, "a")
	m.Flags = nil
	m.Start(t, etcdtest.Binaries(t, version))
	awaitVersion(t, m)
	return m
}

// awaitVersion waits until the cluster has its version, which is in the log then.
func awaitVersion(t *testing.T, m *etcdtest.Member) {
	t.Helper()
	testwait.For(t, "the cluster version", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.ClientURL+"/version", nil)
		if err != nil {
			return err
		}
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = r.Body.Close() }()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		if !strings.Contains(string(body), "etcdcluster") || strings.Contains(string(body), "not_decided") {
			return fmt.Errorf("it says %s", body)
		}
		return nil
	})
}

// fill writes what the v2 store is to have, and returns the keys that come over.
func fill(t *testing.T, m *etcdtest.Member) map[string]string {
	t.Helper()
	want := map[string]string{
		"/registry/pods/default/a": "pod", "/registry/_hidden/b": "hidden", "/big": big, "/empty": "",
		"/registry/events/e": "event", "/a/b/c/d/e/f/g/h/i/j/k/l/m/n": "deep", "/registry/uni/\u00e4 b": "\u00fc",
	}
	putV2(t, m, "/gone", "1", 0)
	for key, value := range want {
		ttl := 0
		if key == "/registry/events/e" {
			ttl = 5000
		}
		putV2(t, m, (&url.URL{Path: key}).EscapedPath(), value, ttl)
	}
	m.V2(t, http.MethodPut, "/registry/pods/default/a", url.Values{"value": {"pod 2"}, "prevExist": {"true"}})
	want["/registry/pods/default/a"] = "pod 2"
	m.V2(t, http.MethodPut, "/emptydir", url.Values{"dir": {"true"}})
	m.V2(t, http.MethodPut, "/withttl", url.Values{"dir": {"true"}, "ttl": {"4000"}})
	putV2(t, m, "/withttl/x", "goes with its directory", 0)
	want["/withttl/x"] = "goes with its directory"
	m.V2(t, http.MethodDelete, "/gone", nil)
	return want
}

// kill kills an etcd that has written all that was put. One that is alone may answer before
// its log has the entry, which is lost with it then (etcd issue 14370), but it has all entries
// before. The last one makes a directory, which is not migrated.
func kill(t *testing.T, m *etcdtest.Member) {
	t.Helper()
	m.V2(t, http.MethodPut, "/killed", url.Values{"dir": {"true"}})
	m.Kill()
}

func options(t *testing.T, m *etcdtest.Member) Options {
	t.Helper()
	return Options{
		Dir: datadir.At(m.DataDir), Work: filepath.Join(t.TempDir(), "work"), Finder: etcdtest.Finder(t),
		Say: t.Logf,
	}
}

func fresh(string) (bool, error) { return false, nil }

// run migrates a directory, which must not be changed by it.
func run(t *testing.T, o Options) (Result, string) {
	t.Helper()
	before := listing(t, o.Dir.Data)
	out := filepath.Join(t.TempDir(), "snapshot.db")
	r, _, err := Make(t.Context(), o, out, fresh)
	if err != nil {
		t.Fatal(err)
	}
	if after := listing(t, o.Dir.Data); after != before {
		t.Errorf("the directory was changed:\n%s\n%s", before, after)
	}
	if exists(o.Work) {
		t.Error("the copy is still there")
	}
	return r, out
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	var text strings.Builder
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil {
			var st os.FileInfo
			if st, err = e.Info(); err == nil {
				fmt.Fprintln(&text, path, st.Size(), st.ModTime(), st.Mode())
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// restored runs the present etcd on a snapshot.
func restored(t *testing.T, snapshot string) *clientv3.Client {
	t.Helper()
	return restoredAs(t, etcdtest.V36, snapshot)
}

// restoredAs runs a version on what its own tool has made of a snapshot.
func restoredAs(t *testing.T, version, snapshot string) *clientv3.Client {
	t.Helper()
	bin := etcdtest.Binaries(t, version)
	m := etcdtest.New(t, "a")
	out, err := exec.CommandContext(t.Context(), bin.Etcdutl, "snapshot", "restore", snapshot, "--name=a",
		"--data-dir="+m.DataDir, "--initial-cluster="+etcdtest.Initial(m), "--initial-advertise-peer-urls="+m.PeerURL).
		CombinedOutput()
	if err != nil {
		t.Fatalf("restore: %v\n%s", err, out)
	}
	m.Start(t, bin)
	c := etcdtest.Dial(t, m)
	etcdtest.AwaitRead(t, c)
	return c
}

// same compares all that an etcd has, and the leases of the keys that had a time to live.
func same(t *testing.T, c *clientv3.Client, want map[string]string, ttls map[string]int64) *clientv3.GetResponse {
	t.Helper()
	all, err := c.Get(t.Context(), "", clientv3.WithFromKey())
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Kvs) != len(want) {
		t.Errorf("there are %d keys, want %d", len(all.Kvs), len(want))
	}
	for _, kv := range all.Kvs {
		if value, ok := want[string(kv.Key)]; !ok || value != string(kv.Value) {
			t.Errorf("%s is %.80q, want %.80q (%v)", kv.Key, kv.Value, value, ok)
		}
		seconds, leased := ttls[string(kv.Key)]
		if leased != (kv.Lease != 0) {
			t.Errorf("%s has the lease %x", kv.Key, kv.Lease)
		}
		if !leased || kv.Lease == 0 {
			continue
		}
		left, err := c.TimeToLive(t.Context(), clientv3.LeaseID(kv.Lease))
		if err != nil || left.TTL > seconds || left.TTL < seconds-600 {
			t.Errorf("%s lives %+v, want %d: %v", kv.Key, left, seconds, err)
		}
	}
	return all
}

var filledTTLs = map[string]int64{"/registry/events/e": 5000, "/withttl/x": 4000}

// What an etcd 2 had, the present etcd has.
func testV2(t *testing.T, version string) {
	t.Parallel()
	m := old(t, version)
	want := fill(t, m)
	kill(t, m)
	r, out := run(t, options(t, m))
	if r.V2Keys != len(want) || r.V3Keys != 0 || r.Leases != 2 || r.Version.String() != version {
		t.Errorf("result is %+v", r)
	}
	all := same(t, restored(t, out), want, filledTTLs)
	for _, kv := range all.Kvs {
		if string(kv.Key) == "/registry/pods/default/a" && kv.CreateRevision >= kv.ModRevision {
			t.Errorf("its indexes are not kept: %+v", kv)
		}
	}
	if all.Header.Revision < int64(r.Revision) {
		t.Errorf("revision is %d, was %d", all.Header.Revision, r.Revision)
	}
}

func TestEtcd2(t *testing.T) { testV2(t, "2.3.8") }

// patient are flags of an etcdctl that has a minute.
func patient(m *etcdtest.Member) []string {
	return []string{"--endpoints=" + m.ClientURL, "--dial-timeout=60s", "--command-timeout=60s"}
}

// testBoth has keys in both stores.
func testBoth(t *testing.T, version string) {
	t.Parallel()
	m := old(t, version)
	want := fill(t, m)
	bin := etcdtest.Binaries(t, version)
	v3 := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), bin.Etcdctl, append(patient(m), args...)...)
		cmd.Env = []string{"ETCDCTL_API=3"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("etcdctl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	for i := range 30 {
		v3("put", fmt.Sprintf("/v3/%d", i%10), fmt.Sprint(i))
		want[fmt.Sprintf("/v3/%d", i%10)] = fmt.Sprint(i)
	}
	lease := strings.Fields(v3("lease", "grant", "3000"))[1]
	v3("put", "--lease="+lease, "/v3/leased", "x")
	want["/v3/leased"] = "x"
	kill(t, m)
	r, out := run(t, options(t, m))
	if r.V2Keys+r.V3Keys != len(want) || r.V3Keys != 11 {
		t.Errorf("result is %+v", r)
	}
	ttls := map[string]int64{"/v3/leased": 3000}
	for key, seconds := range filledTTLs {
		ttls[key] = seconds
	}
	for _, kv := range same(t, restored(t, out), want, ttls).Kvs {
		var i int64
		if _, err := fmt.Sscanf(string(kv.Key), "/v3/%d", &i); err == nil && (kv.ModRevision != 22+i || kv.Version != 3) {
			t.Errorf("%s has another revision: %+v", kv.Key, kv)
		}
	}
}

func TestBothStores(t *testing.T) { testBoth(t, "3.3.27") }

// The log may be in a directory of its own (--wal-dir), which is not changed either.
func TestALogElsewhere(t *testing.T) {
	t.Parallel()
	m := old(t, "2.3.8")
	want := fill(t, m)
	kill(t, m)
	o := options(t, m)
	o.Dir.WAL = filepath.Join(t.TempDir(), "log")
	if err := os.Rename(datadir.At(m.DataDir).Log(), o.Dir.WAL); err != nil {
		t.Fatal(err)
	}
	before := listing(t, o.Dir.WAL)
	_, out := run(t, o)
	if after := listing(t, o.Dir.WAL); after != before {
		t.Errorf("the log was changed:\n%s\n%s", before, after)
	}
	same(t, restored(t, out), want, filledTTLs)
	o.Dir.WAL = ""
	if _, _, err := Make(t.Context(), o, filepath.Join(t.TempDir(), "none.db"), fresh); err == nil {
		t.Error("without its log, the data was migrated")
	}
}

// A key in both stores is named, and nothing is decided by itself.
func TestOneNameInBothStores(t *testing.T) {
	t.Parallel()
	m := old(t, "3.3.27")
	putV2(t, m, "/both", "two", 0)
	bin := etcdtest.Binaries(t, "3.3.27")
	cmd := exec.CommandContext(t.Context(), bin.Etcdctl, append(patient(m), "put", "/both", "three")...)
	cmd.Env = []string{"ETCDCTL_API=3"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	kill(t, m)
	o := options(t, m)
	out := filepath.Join(t.TempDir(), "snapshot.db")
	_, _, err := Make(t.Context(), o, out, fresh)
	if err == nil || !strings.Contains(err.Error(), "in the v2 store and in the v3 store: /both") || exists(out) {
		t.Errorf("error is %v", err)
	}
	for keep, want := range map[string]string{KeepV2: "two", KeepV3: "three"} {
		o.Keep = keep
		r, out := run(t, o)
		if r.Replaced+r.Dropped != 1 {
			t.Errorf("result is %+v", r)
		}
		same(t, restored(t, out), map[string]string{"/both": want}, nil)
	}
}

// The log ends in the middle of a record.
func TestATornLog(t *testing.T) { testTornLog(t, "2.3.8") }

func testTornLog(t *testing.T, version string) {
	t.Parallel()
	m := old(t, version)
	want := fill(t, m)
	kill(t, m)
	files, err := filepath.Glob(datadir.At(m.DataDir).LogFiles())
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	last := files[len(files)-1]
	f, err := os.OpenFile(last, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	// The length of a record of 200 bytes, and the beginning of it.
	if _, err := f.Write(append([]byte{200, 0, 0, 0, 0, 0, 0, 0}, 8, 2, 16, 1)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	_, out := run(t, options(t, m))
	same(t, restored(t, out), want, filledTTLs)
}

// One directory of a cluster of three, whose other members are gone.
func testOneOfThree(t *testing.T, version string) {
	t.Parallel()
	bin := etcdtest.Binaries(t, version)
	members := []*etcdtest.Member{etcdtest.New(t, "a"), etcdtest.New(t, "b"), etcdtest.New(t, "c")}
	for _, m := range members {
		m.Flags = nil
	}
	for _, m := range members {
		m.Start(t, bin, "--initial-cluster="+etcdtest.Initial(members...))
	}
	awaitVersion(t, members[0])
	want := fill(t, members[0])
	// The last one is through the member whose directory is read, which then knows that all
	// before was committed.
	for _, m := range []*etcdtest.Member{members[0], members[2], members[1]} {
		putV2(t, m, "/through/"+m.Name, "x", 0)
		want["/through/"+m.Name] = "x"
	}
	for _, m := range []*etcdtest.Member{members[1], members[0], members[2]} {
		m.Stop(t)
	}
	r, out := run(t, options(t, members[1]))
	if r.Members != 3 {
		t.Errorf("result is %+v", r)
	}
	same(t, restored(t, out), want, filledTTLs)
}
