package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

const (
	specKey    = "control/etcd-cluster-spec"
	createdKey = "control/etcd-cluster-created"
)

func spec(t *testing.T, open func() *store.Store) {
	s, ctx := open(), t.Context()
	want := store.SpecFile{MemberCount: 3, EtcdVersion: etcdversion.Must("3.5.30")}
	must(t, s.PutSpec(ctx, want))
	if got := get(t, s, specKey); got != "{\n  \"memberCount\": 3,\n  \"etcdVersion\": \"3.5.30\"\n}" {
		t.Errorf("the file is\n%s", got)
	}
	for _, text := range []string{
		`{"memberCount":3,"etcdVersion":"3.5.30"}`,
		`{"memberCount":  3,  "etcdVersion":  "v3.5.30", "unset": null}`,
		`{"member_count":"3","etcd_version":"3.5.30"}`,
	} {
		put(t, s, specKey, text)
		got, err := s.Spec(ctx)
		if err != nil || got != want {
			t.Errorf("%s is read as %+v, %v", text, got, err)
		}
	}
	put(t, s, specKey, `{"zeta":[1, 2],"member_count":5,"etcd_version":"3.4.13","alpha":{"b":null}}`)
	must(t, s.PutSpec(ctx, want))
	if got := get(t, s, specKey); got != `{
  "memberCount": 3,
  "etcdVersion": "3.5.30",
  "alpha": {
    "b": null
  },
  "zeta": [
    1,
    2
  ]
}` {
		t.Errorf("fields of others are not kept:\n%s", got)
	}
	risky := want
	risky.Risk = cluster.VersionRisk{Version: want.EtcdVersion, Reason: `it was "tried"`}
	must(t, s.PutSpec(ctx, risky))
	if got, err := s.Spec(ctx); err != nil || got != risky {
		t.Errorf("what was accepted is read as %+v, %v", got, err)
	}
	must(t, s.PutSpec(ctx, want))
	if got, err := s.Spec(ctx); err != nil || got != want {
		t.Errorf("what was deleted is read as %+v, %v", got, err)
	}
	for _, text := range []string{
		`"yes"`, `{"version":"3.5.30"}`, `{"reason":"x"}`, `{"version":"3.5.30","reason":"a\nb"}`,
	} {
		put(t, s, specKey, `{"memberCount":1,"etcdVersion":"3.5.30","acceptVersionRisk":`+text+`}`)
		if got, err := s.Spec(ctx); !errors.Is(err, store.ErrGarbage) {
			t.Errorf("%s is read as %+v, %v", text, got, err)
		}
	}
	put(t, s, specKey, `{"memberCount":1}`)
	if got, err := s.Spec(ctx); err != nil || got.MemberCount != 1 || !got.EtcdVersion.IsZero() {
		t.Errorf("a spec without a version is read as %+v, %v", got, err)
	}
}

func specGarbage(t *testing.T, open func() *store.Store) {
	s, ctx := open(), t.Context()
	for text, field := range map[string]string{
		"":                                   "empty",
		" ":                                  "empty",
		"null":                               "JSON object",
		"[]":                                 "JSON object",
		"{}":                                 "memberCount",
		`{"memberCount":0,"etcdVersion":""}`: "memberCount",
		`{"memberCount":3,"etcdVersion":"3.5.30","memberCount":1}`:        "memberCount appears more than once",
		`{"memberCount":3,"etcdVersion":"3.5.30","member_count":1}`:       "member_count appears more than once",
		`{"etcdVersion":"3.5.30","memberCount":3,"etcdVersion":"3.6.16"}`: "etcdVersion appears more than once",
		`{"memberCount":3`:            "JSON object",
		"\x00\xff":                    "JSON object",
		`{"memberCount":"three"}`:     "memberCount",
		`{"memberCount":1.5}`:         "memberCount",
		`{"memberCount":{}}`:          "memberCount",
		`{"memberCount":99999999999}`: "memberCount",
		`{"etcdVersion":3.5}`:         "etcdVersion",
		`{"etcdVersion":"latest"}`:    "etcdVersion",
		`{"etcd_version":["3.5.30"]}`: "etcdVersion",
	} {
		put(t, s, specKey, text)
		_, err := s.Spec(ctx)
		is(t, err, store.ErrGarbage)
		if err != nil && (!strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), specKey)) {
			t.Errorf("%q: the error %q does not name %s and the file", text, err, field)
		}
		v := poll(t, s)
		is(t, v.SpecErr, store.ErrGarbage)
		if v.Spec != nil || len(v.Problems) != 1 {
			t.Errorf("%q: a poll shows %+v", text, v)
		}
	}
	want := store.SpecFile{MemberCount: 1, EtcdVersion: version}
	must(t, s.PutSpec(ctx, want))
	if v := poll(t, s); v.Spec == nil || *v.Spec != want || v.SpecErr != nil {
		t.Errorf("a garbage spec cannot be replaced: %+v", v)
	}
}

func created(t *testing.T, open func() *store.Store) {
	s, ctx := open(), t.Context()
	bootstrapped := at.Add(123 * time.Nanosecond)
	must(t, s.MarkCreated(ctx, bootstrapped))
	must(t, s.MarkCreated(ctx, bootstrapped.Add(time.Hour)))
	if got := get(t, s, createdKey); got != `{"timestamp":1795171177000000123}` {
		t.Errorf("the marker is %s", got)
	}
	for _, text := range []string{`{"timestamp":1795171177000000123}`, `{"timestamp": "1795171177000000123", "more": 1}`} {
		put(t, s, createdKey, text)
		if got, err := s.Created(ctx); err != nil || !got.Equal(bootstrapped) {
			t.Errorf("%s is read as %s, %v", text, got, err)
		}
		if v := poll(t, s); !v.Created.Equal(bootstrapped) {
			t.Errorf("a poll shows %s", v.Created)
		}
	}
	for _, text := range []string{"", "{}", "soon", `{"timestamp":"soon"}`, `{"timestamp":-1}`} {
		put(t, s, createdKey, text)
		_, err := s.Created(ctx)
		is(t, err, store.ErrGarbage)
		if v := poll(t, s); v.Created.IsZero() || len(v.Problems) != 1 {
			t.Errorf("the marker %q is taken for none: %+v", text, v)
		}
	}
	must(t, s.MarkCreated(ctx, bootstrapped))
	if got, err := s.Created(ctx); err != nil || !got.Equal(bootstrapped) {
		t.Errorf("a garbage marker cannot be replaced: %s, %v", got, err)
	}
	must(t, s.MarkAgain(ctx, bootstrapped.Add(time.Hour)))
	if got, err := s.Created(ctx); err != nil || !got.Equal(bootstrapped.Add(time.Hour)) {
		t.Errorf("the marker again is of %s, %v", got, err)
	}
	if s.MarkCreated(ctx, time.Time{}) == nil || s.MarkAgain(ctx, time.Time{}) == nil {
		t.Error("the zero time is accepted")
	}
}

func incarnations(t *testing.T, open func() *store.Store) {
	s, other, ctx := open(), open(), t.Context()
	first := incarnation(1, "one")
	must(t, s.CreateIncarnation(ctx, first))
	must(t, other.CreateIncarnation(ctx, first))
	err := other.CreateIncarnation(ctx, incarnation(1, "other"))
	var exists *store.ExistsError
	if !errors.As(err, &exists) || exists.Existing.Token != "one" || exists.Existing.Voters[0].Name != "a" {
		t.Errorf("the loser gets %v", err)
	}
	for n := 2; n <= 11; n++ {
		must(t, s.CreateIncarnation(ctx, incarnation(n, fmt.Sprint("token-", n))))
	}
	v := poll(t, other)
	if len(v.Incarnations) != 11 || v.IncarnationsErr != nil {
		t.Fatalf("a poll shows %+v", v)
	}
	for i, inc := range v.Incarnations {
		if inc.Number != i+1 || !inc.At.Equal(at) || inc.Version != version {
			t.Errorf("incarnation %d is %+v", i+1, inc)
		}
	}
	for _, bad := range []cluster.Incarnation{
		{}, incarnation(0, "x"), incarnation(1, ""), incarnation(1, "../x"), {Number: 1, Token: "x", Version: version},
	} {
		if err := s.CreateIncarnation(ctx, bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	put(t, s, "control/incarnations/12", "garbage")
	err = s.CreateIncarnation(ctx, incarnation(12, "twelve"))
	is(t, err, store.ErrGarbage)
	if get(t, s, "control/incarnations/12") != "garbage" {
		t.Error("a garbage record was replaced")
	}
}

// incarnationRace lets two stores on one place race from many goroutines.
func incarnationRace(t *testing.T, open func() *store.Store) {
	stores := []*store.Store{open(), open()}
	const rounds, racers = 20, 8
	for n := 1; n <= rounds; n++ {
		won := make([]bool, racers)
		seen := make([]cluster.Token, racers)
		start := make(chan struct{})
		var group sync.WaitGroup
		for i := range racers {
			group.Go(func() {
				<-start
				err := stores[i%2].CreateIncarnation(t.Context(), incarnation(n, fmt.Sprint("racer-", i)))
				var exists *store.ExistsError
				switch {
				case err == nil:
					won[i], seen[i] = true, cluster.Token(fmt.Sprint("racer-", i))
				case errors.As(err, &exists):
					seen[i] = exists.Existing.Token
				default:
					t.Error(err)
				}
			})
		}
		close(start)
		group.Wait()
		winners := slices.DeleteFunc(slices.Clone(won), func(w bool) bool { return !w })
		if len(winners) != 1 || len(slices.Compact(slices.Clone(seen))) != 1 {
			t.Fatalf("round %d: winners %v, tokens %v", n, won, seen)
		}
	}
}

func nodes(t *testing.T, open func() *store.Store) {
	s, other, ctx := open(), open(), t.Context()
	for _, name := range []cluster.NodeName{"c", "a", "b"} {
		must(t, s.PutNode(ctx, store.NodeRecord{Name: name, Address: "10.0.0.1:3996", Boot: "first", At: at}))
	}
	must(t, s.PutNode(ctx, store.NodeRecord{Name: "b", Address: "10.0.0.2:3996", Boot: "second", At: at}))
	got := poll(t, other).Nodes
	if len(got) != 3 || got[0].Name != "a" ||
		got[1] != (store.NodeRecord{Name: "b", Address: "10.0.0.2:3996", Boot: "second", At: at}) {
		t.Errorf("nodes are %+v", got)
	}
	if s.PutNode(ctx, store.NodeRecord{Name: "../x"}) == nil || s.PutNode(ctx, store.NodeRecord{}) == nil {
		t.Error("a bad name is accepted")
	}
}

func requests(t *testing.T, open func() *store.Store) {
	s, other, ctx := open(), open(), t.Context()
	later, err := s.PutRequest(ctx, cluster.Request{Kind: cluster.RequestBackup, At: at.Add(time.Nanosecond), By: "ops"})
	must(t, err)
	first, err := s.PutRequest(ctx, cluster.Request{
		Kind: cluster.RequestRestore, At: at, Backup: "2026-11-20T10:39:37Z-000001", Reason: "lost it",
	})
	must(t, err)
	pause, err := s.PutRequest(ctx, cluster.Request{Name: "pause", Kind: cluster.RequestPause, At: at.Add(time.Hour)})
	must(t, err)
	_, err = s.PutRequest(ctx, pause)
	must(t, err)
	if first.Name >= later.Name {
		t.Errorf("the names %s and %s do not sort by time", first.Name, later.Name)
	}
	if got := poll(t, other).Requests; !reflect.DeepEqual(got, []cluster.Request{first, later, pause}) {
		t.Errorf("requests are %+v", got)
	}
	must(t, other.DeleteRequest(ctx, first.Name))
	if got := poll(t, s).Requests; len(got) != 2 {
		t.Errorf("after a deletion requests are %+v", got)
	}
	for _, bad := range []cluster.Request{
		{Kind: cluster.RequestBackup},
		{Kind: "dance", At: at},
		{Kind: cluster.RequestRestore, At: at},
		{Kind: cluster.RequestRestore, At: at, Backup: "../x"},
		{Kind: cluster.RequestBackup, At: at, Name: "a/b"},
		{Kind: cluster.RequestBackup, At: at, Name: "pause"},
	} {
		if r, err := s.PutRequest(ctx, bad); err == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
}

func history(t *testing.T, open func() *store.Store) {
	s, other, ctx := open(), open(), t.Context()
	must(t, s.AppendHistory(ctx))
	var batch []store.HistoryEntry
	for i := range store.MaxHistory - 1 {
		batch = append(batch, store.HistoryEntry{
			At: at, Term: 3, By: "a", Line: fmt.Sprint("etcdadm step ", i), Took: time.Second,
		})
	}
	must(t, s.AppendHistory(ctx, batch...))
	must(t, other.AppendHistory(ctx, store.HistoryEntry{At: at, Line: "x"}, store.HistoryEntry{
		At: at, Line: "y", Why: "because", Error: "quorum lost",
	}))
	got, err := s.History(ctx)
	must(t, err)
	if len(got) != store.MaxHistory || got[0] != batch[1] || got[store.MaxHistory-1].Error != "quorum lost" {
		t.Errorf("%d entries, first %+v, last %+v", len(got), got[0], got[len(got)-1])
	}
}

func historyGarbage(t *testing.T, open func() *store.Store) {
	s, ctx := open(), t.Context()
	for _, text := range []string{"", "{", `{"a":1}`, `[{"at":"yesterday"}]`, `[1]`} {
		put(t, s, "control/history", text)
		_, err := s.History(ctx)
		is(t, err, store.ErrGarbage)
		must(t, s.AppendHistory(ctx, store.HistoryEntry{At: at, Line: "after " + text}))
		got, err := s.History(ctx)
		if err != nil || len(got) != 1 || got[0].Line != "after "+text {
			t.Errorf("after garbage %q the history is %+v, %v", text, got, err)
		}
		if kept := get(t, s, "control/history.damaged"); kept != text {
			t.Errorf("garbage %q is kept as %q", text, kept)
		}
	}
	must(t, s.Put(ctx, "control/history", make([]byte, 5<<20)))
	must(t, s.AppendHistory(ctx, store.HistoryEntry{At: at, Line: "x"}))
}

func status(t *testing.T, open func() *store.Store) {
	s, other, ctx := open(), open(), t.Context()
	must(t, s.PutStatus(ctx, json.RawMessage(`{"holds":[]}`)))
	if got, err := other.Status(ctx); err != nil || string(got) != `{"holds":[]}` {
		t.Errorf("status is %s, %v", got, err)
	}
	for _, bad := range []string{"", "{", `"` + strings.Repeat("x", 1<<20) + `"`} {
		if s.PutStatus(ctx, json.RawMessage(bad)) == nil {
			t.Errorf("a status of %d bytes, %.10q, is accepted", len(bad), bad)
		}
	}
	put(t, s, "control/status", "torn")
	_, err := s.Status(ctx)
	is(t, err, store.ErrGarbage)
}
