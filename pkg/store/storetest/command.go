package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

func commands(t *testing.T, open func() *store.Store) {
	s, ctx := open(), t.Context()
	put(t, s, "control/2026-11-20T10:39:38Z-000000/_command.json",
		`{"timestamp":"1795171178000000000",  "restoreBackup":{"clusterSpec":{"memberCount":3,"etcdVersion":"3.5.30"},"backup":"b2"}}`)
	put(t, s, "control/2026-11-20T10:39:37Z-000000/_command.json",
		`{"timestamp":1795171177000000000,"restore_backup":{"cluster_spec":{"member_count":3},"backup":"b1"},"new_field":1}`)
	for name, text := range map[string]string{
		"empty": "", "unknown": `{"timestamp":"1","dance":{}}`, "no-backup": `{"timestamp":1,"restoreBackup":{}}`,
		"bad-time":  `{"timestamp":"x","restoreBackup":{"backup":"b"}}`,
		"bad-spec":  `{"restoreBackup":{"backup":"b","clusterSpec":3}}`,
		"bad-count": `{"restoreBackup":{"backup":"b","clusterSpec":{"memberCount":"x"}}}`,
		"escape":    `{"restoreBackup":{"backup":"../b"}}`,
	} {
		put(t, s, "control/"+name+"/_command.json", text)
	}
	v := poll(t, s)
	if len(v.Commands) != 2 || len(v.Problems) != 7 {
		t.Fatalf("commands are %+v, problems %q", v.Commands, v.Problems)
	}
	first, second := v.Commands[0], v.Commands[1]
	if first.Backup != "b1" || !first.At.Equal(at) || first.Spec.MemberCount != 3 ||
		first.Name != "2026-11-20T10:39:37Z-000000" {
		t.Errorf("the first is %+v", first)
	}
	if second.Backup != "b2" || second.Spec.EtcdVersion.String() != "3.5.30" {
		t.Errorf("the second is %+v", second)
	}
	must(t, s.DeleteCommand(ctx, first.Name))
	must(t, s.DeleteCommand(ctx, first.Name))
	if v := poll(t, s); len(v.Commands) != 1 || v.Commands[0] != second {
		t.Errorf("after a deletion commands are %+v", v.Commands)
	}
}

func putCommands(t *testing.T, open func() *store.Store) {
	s, ctx := open(), t.Context()
	c := store.Command{At: at, Backup: "2026-11-20T10:00:00Z-000001", Spec: store.SpecFile{
		MemberCount: 3, EtcdVersion: etcdversion.Must("3.5.30"),
	}}
	first, err := s.PutCommand(ctx, c)
	must(t, err)
	const text = `{"timestamp":"1795171177000000000","restoreBackup":{"clusterSpec":{"memberCount":3,"etcdVersion":"3.5.30"},"backup":"2026-11-20T10:00:00Z-000001"}}`
	if got := get(t, s, "control/2026-11-20T10:39:37Z-000000/_command.json"); got != text {
		t.Errorf("the file is\n%s\nwant\n%s", got, text)
	}
	again, err := s.PutCommand(ctx, c)
	must(t, err)
	if again != first {
		t.Errorf("the same command is queued again, as %+v", again)
	}
	put(t, s, "control/2026-11-20T10:39:37Z-000001/_command.json", "somebody's")
	second, err := s.PutCommand(ctx, store.Command{At: at.Add(time.Millisecond), Backup: "b"})
	must(t, err)
	if second.Name != "2026-11-20T10:39:37Z-000002" {
		t.Errorf("the second of its second is %s", second.Name)
	}
	if got := get(t, s, "control/"+second.Name+
		"/_command.json"); got != `{"timestamp":"1795171177001000000","restoreBackup":{"backup":"b"}}` {
		t.Errorf("a command without a spec is %s", got)
	}
	if v := poll(t, s); len(v.Commands) != 2 || v.Commands[0] != first || v.Commands[1] != second {
		t.Errorf("commands are %+v", v.Commands)
	}
	for _, bad := range []store.Command{
		{At: at}, {Backup: "b"}, {At: at, Backup: "../b"}, {At: at, Backup: "b", Spec: store.SpecFile{MemberCount: -1}},
	} {
		if c, err := s.PutCommand(ctx, bad); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

// Commands of one second, put at the same time, all stay.
func putCommandRace(t *testing.T, open func() *store.Store) {
	stores := []*store.Store{open(), open()}
	const racers = 8
	var group sync.WaitGroup
	for i := range racers {
		group.Go(func() {
			if _, err := stores[i%2].PutCommand(t.Context(), store.Command{
				At: at.Add(time.Duration(i)), Backup: fmt.Sprint("b", i),
			}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	v := poll(t, stores[0])
	if len(v.Commands) != racers {
		t.Fatalf("commands are %+v", v.Commands)
	}
	for i, c := range v.Commands {
		if c.Backup != fmt.Sprint("b", i) {
			t.Errorf("command %d is %+v", i, c)
		}
	}
}

func revision(t *testing.T, open func() *store.Store) {
	s, other, ctx := open(), open(), t.Context()
	_, err := s.Revision(ctx)
	is(t, err, store.ErrAbsent)
	for _, c := range []struct{ put, want cluster.Revision }{
		{100, 100}, {99, 100}, {100, 100}, {1 << 56, 1 << 56}, {1, 1 << 56},
	} {
		must(t, s.PutRevision(ctx, c.put, at))
		if got, err := other.Revision(ctx); got != c.want || err != nil {
			t.Errorf("after %d the revision is %d, %v", c.put, got, err)
		}
		if v := poll(t, other); v.Revision != c.want || v.RevisionErr != nil {
			t.Errorf("after %d a poll shows %d, %v", c.put, v.Revision, v.RevisionErr)
		}
	}
	if got := get(t, s, "control/revision"); got != `{"revision":72057594037927936,"at":"2026-11-20T10:39:37Z"}` {
		t.Errorf("the file is %s", got)
	}
	for _, bad := range []cluster.Revision{0, -1, 1<<56 + 1} {
		if s.PutRevision(ctx, bad, at) == nil {
			t.Errorf("the revision %d is accepted", bad)
		}
	}
	for _, text := range []string{"", "{}", "12", `{"revision":-3}`, `{"revision":"1"}`, `{"revision":1.5}`} {
		put(t, s, "control/revision", text)
		is(t, s.PutRevision(ctx, 7, at), store.ErrGarbage)
		v := poll(t, s)
		is(t, v.RevisionErr, store.ErrGarbage)
		if v.Revision != 0 || len(v.Problems) != 1 || get(t, s, "control/revision") != text {
			t.Errorf("%q: a poll shows %+v", text, v)
		}
	}
}

func closed(t *testing.T, open func() *store.Store) {
	s, other, ctx := open(), open(), t.Context()
	r := store.Closed{Name: "2026-11-20T10:39:37Z-000000", Kind: "restore", Backup: "b", Reason: "there is no backup b",
		At: at, By: "a"}
	must(t, s.PutClosed(ctx, store.Closed{Name: r.Name, Reason: "an earlier one", At: at.Add(-time.Hour)}))
	must(t, s.PutClosed(ctx, r))
	got, err := other.Closed(ctx)
	must(t, err)
	if len(got) != 1 || got[0] != r {
		t.Errorf("closed are %+v", got)
	}
	put(t, s, "control/closed/garbage", "{")
	put(t, s, "control/closed/swapped", `{"name":"other"}`)
	if got, err := other.Closed(ctx); err != nil || len(got) != 1 {
		t.Errorf("closed are %+v, %v", got, err)
	}
	if v := poll(t, other); len(v.Closed) != 1 || v.Closed[0] != r || len(v.Problems) != 2 {
		t.Errorf("a poll shows %+v", v)
	}
	for _, bad := range []string{"", "../x", "a/b"} {
		if s.PutClosed(ctx, store.Closed{Name: bad}) == nil {
			t.Errorf("the name %q is accepted", bad)
		}
	}
}

// Refusals are bounded, in the store and in a view, and the newest stay.
func closedBound(t *testing.T, open func() *store.Store) {
	s, ctx := open(), t.Context()
	for i := range store.MaxClosed + 10 {
		must(t, s.PutClosed(ctx, store.Closed{
			Name: fmt.Sprintf("r%03d", i), Reason: "x", At: at.Add(time.Duration(i) * time.Second),
		}))
	}
	got, err := s.Closed(ctx)
	must(t, err)
	v := poll(t, s)
	if len(got) != store.MaxClosed || len(v.Closed) != store.MaxClosed {
		t.Fatalf("%d are listed, %d polled", len(got), len(v.Closed))
	}
	for _, all := range [][]store.Closed{got, v.Closed} {
		if all[0].Name != "r059" || all[store.MaxClosed-1].Name != "r010" {
			t.Errorf("the newest is %s, the oldest %s", all[0].Name, all[store.MaxClosed-1].Name)
		}
	}
	if _, err := s.Get(ctx, "control/closed/r000"); !errors.Is(err, store.ErrAbsent) {
		t.Errorf("the oldest is still there: %v", err)
	}
}
