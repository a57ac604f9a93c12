package standin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/existing"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// The hosts file: what the leader says comes before what discovery says, a block of another
// cluster stays, its own one stands once.
func TestHostsFile(t *testing.T) {
	m := newTestMachine(t)
	block := func(cluster string, lines ...string) string {
		key := "host entries managed by etcd-manager[" + cluster + "]"
		return "# Begin " + key + " - do not edit\n" + strings.Join(lines, "") + "# End " + key + "\n"
	}
	head := "127.0.0.1\tlocalhost\n"
	a, b := "10.1.1.1\tetcd-a.internal.prod.example.com\n", "10.1.1.2\tetcd-b.internal.prod.example.com\n"
	is := func(want string) {
		t.Helper()
		got, err := os.ReadFile(m.hosts.path)
		if err != nil || string(got) != want {
			t.Errorf("the file is %v\n%s\nwant\n%s", err, got, want)
		}
	}
	if err := m.hosts.write(); err != nil {
		t.Fatal(err)
	}
	is(head + "\n" + block("etcd", a, b))
	m.Hosts(map[string]string{"b": "10.2.2.2:1", "a": "10.2.2.2:1", "etcd-b.internal.prod.example.com": "10.1.1.3:1"})
	all := block("etcd", a, strings.ReplaceAll(b, "1.2\t", "1.3\t"), "10.2.2.2\ta b\n")
	is(head + "\n" + all)
	m.Hosts(nil) // says nothing
	is(head + "\n" + all)
	file(t, m.hosts.path, head+"\n"+block("etcd")+block("etcd-events")+block("etcd", b), 0o644)
	if err := m.hosts.write(); err != nil {
		t.Fatal(err)
	}
	is(head + "\n" + block("etcd-events") + "\n" + all)
	if err := os.Chmod(m.hosts.path, 0o444); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(m.hosts.path)
	if err == nil {
		err = m.hosts.write()
	}
	after, err2 := os.Stat(m.hosts.path)
	if err := errors.Join(err, err2); err != nil || !before.ModTime().Equal(after.ModTime()) {
		t.Errorf("a file that is right was written, %v", err)
	}
}

// Which backups go: of each hour and of each day the first one stays.
func TestPrune(t *testing.T) {
	store, now := t.TempDir(), time.Date(2026, 11, 20, 12, 30, 0, 0, time.UTC)
	kept := map[string]bool{
		"2026-11-20T11:40:00Z-000001": true, "2026-11-20T11:45:00Z-000002": true, // the last hour
		"2026-11-20T09:00:00Z-000001": true, "2026-11-20T09:59:59Z-000002": false, // one hour
		"2026-11-13T12:10:00Z-000001": true,                                       // the day before
		"2026-11-13T12:40:00Z-000001": true, "2026-11-13T12:50:00Z-000002": false, // an hour
		"2026-11-13T12:20:00Z-000002": false,
		"2025-01-01T00:00:00Z-000001": true, "2025-01-01T23:59:00Z-000002": false,
		"2024-11-19T00:00:00Z-000001": false, // more than two years
		"2030-01-01T00:00:00Z-000001": true, "2030-01-01T00:00:01Z-000001": true,
		"nonsense": true, "2024-01-01T00:00:00Z": false, "2024-01-01": true,
	}
	for name := range kept {
		file(t, filepath.Join(store, name, "_etcd_backup.meta"), "{}", 0o600)
		file(t, filepath.Join(store, name, "etcd.backup.gz"), "", 0o600)
	}
	for _, name := range []string{"_etcdadm_x", "control/incarnations/1"} { // ours
		file(t, filepath.Join(store, name), "", 0o600)
	}
	if err := prune(store, now); err != nil {
		t.Fatal(err)
	}
	for name, want := range kept {
		_, err := os.Stat(filepath.Join(store, name, "_etcd_backup.meta"))
		if (err == nil) != want {
			t.Errorf("%s is there: %t", name, err == nil)
		}
		if _, err := os.Stat(filepath.Join(store, name)); err != nil {
			t.Error(err) // the directory stays
		}
	}
}

// Requests: the oldest by its time comes first, and what it does not know is an error.
func TestCommands(t *testing.T) {
	store := t.TempDir()
	put := func(name, text string) { file(t, filepath.Join(store, "control", name, "_command.json"), text, 0o600) }
	put("2026-11-20T10:39:37Z-000000", `{"timestamp":"2","restoreBackup":{"clusterSpec":{"memberCount":3},"backup":"b"}}`)
	put("2026-11-20T10:39:38Z-000000", `{"timestamp":"1","restoreBackup":{"backup":"a"}}`)
	list, err := readCommands(store)
	if err != nil || len(list) != 2 || list[0].backup != "a" || list[1].spec.Count != 3 {
		t.Errorf("they are %+v, %v", list, err)
	}
	put("2026-11-20T10:39:39Z-000000", `{"timestamp":"3","pause":{}}`)
	if _, err := readCommands(store); err == nil {
		t.Error("what it does not know is no error")
	}
}

// A leader alone, with a real etcd: it makes a cluster when there is a spec, lifts the
// quarantine, backs it up, has the record follow another peer URL, and wipes it when the
// marker is lost.
func TestALeader(t *testing.T) {
	etcdtest.Binaries(t, etcdtest.V36)
	m := newTestMachine(t)
	m.o.etcd = filepath.SplitList(os.Getenv("ETCDADM_ETCD_DIR"))
	m.o.address, m.o.interval = "127.0.0.1", time.Millisecond
	m.o.places.at = map[string]string{"etcd-a": testport.Address(t)}
	for _, u := range []*string{&m.o.client, &m.o.peer, &m.o.quarantine} {
		*u = "https://" + testport.Address(t)
	}
	c := &controller{m: m, every: 100 * time.Millisecond}
	d, err := existing.Start(t.Context(), existing.Options{
		Name: "etcd-a", Cluster: "etcd", Address: m.o.places.at["etcd-a"], Machine: m, Act: c.act,
		Discovery: m.o.places.known,
		PingEvery: 50 * time.Millisecond, Healthy: time.Second, Round: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	spec := filepath.Join(m.o.store, "control", "etcd-cluster-spec")
	testwait.Until(t, "rounds without a spec", func() bool { n, _ := d.Rounds(); return n > 3 })
	if _, err := os.Stat(c.marker()); err == nil || m.Info().State.Token != "" {
		t.Fatal("there is a cluster without a spec")
	}
	file(t, spec, fmt.Sprintf(`{"memberCount":1,"etcdVersion":%q}`, etcdtest.V36), 0o600)
	open := func() (token string) {
		testwait.Until(t, "an open cluster and a backup", func() bool {
			metas, err := filepath.Glob(filepath.Join(m.o.store, "*Z-00000*", "_etcd_backup.meta"))
			s := m.Info().State
			token = s.Token
			return err == nil && len(metas) > 0 && token != "" && !s.Quarantined
		})
		return token
	}
	first := open()
	other := &controller{m: m}
	elsewhere := []string{strings.Replace(m.o.peer, "127.0.0.1", "localhost", 1)}
	testwait.For(t, "another peer URL on record", func(ctx context.Context) error {
		list, err := other.list(ctx, []string{m.o.client})
		if err != nil {
			return err
		}
		return other.with(ctx, []string{m.o.client}, func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.MemberUpdate(ctx, list[0].ID, elsewhere)
			return err
		})
	})
	testwait.For(t, "the peer URL of the flags", func(ctx context.Context) error {
		list, err := other.list(ctx, []string{m.o.client})
		if err == nil && (len(list) != 1 || !slices.Equal(list[0].PeerURLs, []string{m.o.peer})) {
			err = fmt.Errorf("it is %v", list)
		}
		return err
	})
	if err := os.WriteFile(c.marker(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if isNew, err := c.isNew(); isNew || err == nil {
		t.Errorf("an empty marker is %t, %v", isNew, err)
	}
	if err := os.Remove(c.marker()); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "another cluster", func() bool { return open() != first })
	if _, err := os.Stat(filepath.Join(m.o.data, "data-trashcan", first)); err != nil {
		t.Error(err)
	}
}

// A leader that finds fewer daemons than a quorum makes no cluster, nor one whose quorum
// would be another one.
func TestTooFewForACluster(t *testing.T) {
	for _, c := range []struct {
		count, there int
		ok           bool
	}{
		{1, 0, false}, {1, 1, true}, {3, 1, false}, {3, 2, true}, {3, 4, true}, {4, 2, false}, {4, 3, false},
		{5, 3, false}, {5, 4, true},
	} {
		if ok := enough(c.there, c.count); ok != c.ok {
			t.Errorf("%d of %d are enough: %t", c.there, c.count, ok)
		}
	}
}
