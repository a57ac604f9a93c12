package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A shop is a store in a directory, with a clock that the test moves.
type shop struct {
	t    *testing.T
	dir  string
	s    *store.Store
	now  time.Time
	view *StoreView
}

func newShop(t *testing.T) *shop {
	t.Helper()
	h := &shop{t: t, dir: filepath.Join(t.TempDir(), "store"), now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	var err error
	if h.s, err = store.Open(t.Context(), h.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	h.view = NewStoreView(h.s, 6*time.Second, func() time.Time { return h.now })
	t.Cleanup(h.view.Close)
	return h
}

// requests returns how many requests f makes.
func (h *shop) requests(f func()) int64 {
	before := h.s.Requests()
	f()
	return h.s.Requests() - before
}

func (h *shop) put(key, content string) {
	h.t.Helper()
	must(h.t, h.s.Put(h.t.Context(), key, []byte(content)))
}

// backup puts a backup into the store, as the existing etcd-manager does.
func (h *shop) backup(name string) {
	h.t.Helper()
	h.put(name+"/etcd.backup.gz", "data")
	h.put(name+"/_etcd_backup.meta", "{}")
}

// breakdown makes the store unreachable: there is a file where its directory
// was. It returns what fixes it.
func (h *shop) breakdown() func() {
	h.t.Helper()
	must(h.t, os.Rename(h.dir, h.dir+".away"))
	must(h.t, os.WriteFile(h.dir, nil, 0o644))
	return func() {
		must(h.t, os.Remove(h.dir))
		must(h.t, os.Rename(h.dir+".away", h.dir))
	}
}

func (h *shop) answer() observe.StoreAnswer { return h.view.Answer(h.t.Context()) }

const specText = `{"memberCount": 3, "etcdVersion": "3.6.16"}`

func TestManyAnswersCostOneObservation(t *testing.T) {
	h := newShop(t)
	h.put("control/etcd-cluster-spec", specText)
	if n := h.requests(func() { h.answer() }); n != 3 { // list control/, read the spec, list backups
		t.Errorf("the first answer made %d requests", n)
	}
	n := h.requests(func() {
		for range 100 {
			h.answer()
		}
		h.now = h.now.Add(6*time.Second - 1)
		h.answer()
	})
	if n != 0 {
		t.Errorf("answers within the time made %d requests", n)
	}
	h.now = h.now.Add(1)
	if n := h.requests(func() { h.answer() }); n < 1 || n > 2 { // list control/, and the spec if it is new
		t.Errorf("the next answer made %d requests", n)
	}
	h.view.Every(time.Second)
	h.now = h.now.Add(time.Second)
	if n := h.requests(func() { h.answer() }); n < 1 {
		t.Error("a shorter time is not kept to")
	}
}

func TestStaleReadsEverythingAgain(t *testing.T) {
	h := newShop(t)
	h.answer()
	h.view.Stale()
	if n := h.requests(func() { h.answer() }); n != 2 {
		t.Errorf("it made %d requests, want two lists", n)
	}
}

func TestAnAnswerHasWhatTheStoreHolds(t *testing.T) {
	h := newShop(t)
	ctx, v := t.Context(), etcdversion.Must("3.6.16")
	if a := h.answer(); !a.Store.SpecMissing || h.view.Spec() != nil || a.Err != nil {
		t.Errorf("an empty store says %+v", a)
	}
	h.put("control/etcd-cluster-spec", specText)
	inc := cluster.Incarnation{
		Number: 1, Token: "t1", Version: v, Voters: []cluster.InitialMember{{Name: "a", PeerURLs: []string{"http://a:1"}}},
		At: h.now, By: "a",
	}
	must(t, h.s.CreateIncarnation(ctx, inc))
	must(t, h.s.MarkCreated(ctx, h.now))
	must(t, h.s.PutNode(ctx, store.NodeRecord{Name: "a", Address: "a:1", Boot: "boot", At: h.now}))
	h.view.Stale()
	a := h.answer()
	if a.Err != nil || a.Store.SpecMissing || len(a.Store.Incarnations) != 1 || !a.Store.Created.Equal(h.now) {
		t.Errorf("the answer is %+v", a)
	}
	if want := (observe.Record{Name: "a", Address: "a:1", Boot: "boot"}); len(a.Records) != 1 || a.Records[0] != want ||
		len(h.view.Records()) != 1 {
		t.Errorf("records are %+v", a.Records)
	}
	if s := h.view.Spec(); s == nil || s.MemberCount != 3 || s.EtcdVersion != v {
		t.Errorf("the spec is %+v", s)
	}
}

func TestASpecThatIsGarbageIsAProblemAndNotMissing(t *testing.T) {
	h := newShop(t)
	h.put("control/etcd-cluster-spec", "three, please")
	a := h.answer()
	if a.Err != nil || a.Store.SpecProblem == "" || a.Store.SpecMissing || h.view.Spec() != nil ||
		len(a.Store.Problems) != 1 {
		t.Errorf("the answer is %+v", a)
	}
}

func TestARecordThatCannotBeReadIsAProblemOfItsOwn(t *testing.T) {
	h := newShop(t)
	h.put("control/incarnations/1", "garbage")
	a := h.answer()
	if a.Err != nil || !a.Store.BackupsKnown || !strings.Contains(a.Store.RecordsProblem, "control/incarnations/1") {
		t.Errorf("the answer is %+v", a)
	}
}

func TestTheExistingToolsRestoreCommandIsARequest(t *testing.T) {
	h := newShop(t)
	h.put("control/2026-11-20T11:00:00Z-000001/_command.json",
		`{"timestamp": 1795172400000000000, "restoreBackup": {"clusterSpec": {"memberCount": 1, "etcdVersion": "3.6.16"}, "backup": "b7"}}`)
	a := h.answer()
	if len(a.Store.Requests) != 1 || a.Store.Requests[0].Kind != cluster.RequestRestore ||
		a.Store.Requests[0].Backup != "b7" {
		t.Errorf("requests are %+v, problems %v", a.Store.Requests, a.Store.Problems)
	}
}

func TestAfterAFailureTheLastAnswerStays(t *testing.T) {
	h := newShop(t)
	h.put("control/etcd-cluster-spec", specText)
	h.answer()
	fix := h.breakdown()
	if a := h.answer(); a.Err != nil {
		t.Errorf("within the time: %v", a.Err)
	}
	h.now = h.now.Add(6 * time.Second)
	var a observe.StoreAnswer
	h.requests(func() { a = h.answer() })
	if !errors.Is(a.Err, store.ErrUnreachable) || !a.Store.BackupsKnown || h.view.Spec() == nil {
		t.Errorf("the answer is %+v", a)
	}
	// It is not asked at each observation either.
	if n := h.requests(func() { a = h.answer() }); n != 0 || a.Err == nil {
		t.Errorf("%d requests, error %v", n, a.Err)
	}
	fix()
	h.now = h.now.Add(6 * time.Second)
	if a := h.answer(); a.Err != nil {
		t.Errorf("fixed: %v", a.Err)
	}
}

func TestWhatIsGoneFromTheStoreMakesTheBackupsUncertain(t *testing.T) {
	marked := func(h *shop) { must(h.t, h.s.MarkCreated(h.t.Context(), h.now)) }
	bootstrapped := func(h *shop) {
		must(h.t, h.s.CreateIncarnation(h.t.Context(), cluster.Incarnation{
			Number: 1, Token: "t1", Version: etcdversion.Must("3.6.16"), Voters: []cluster.InitialMember{
				{Name: "a", PeerURLs: []string{"http://a:1"}},
			},
		}))
	}
	for key, make := range map[string]func(h *shop){
		"control/etcd-cluster-created": marked,
		"control/incarnations/1":       bootstrapped,
		"control/etcd-cluster-spec":    func(h *shop) { h.put("control/etcd-cluster-spec", specText) },
	} {
		t.Run(key, func(t *testing.T) {
			h := newShop(t)
			make(h)
			h.backup("2026-11-20T11:00:00Z-000001")
			if a := h.answer(); a.Err != nil || len(a.Store.Backups) != 1 {
				t.Fatalf("the answer is %+v", a)
			}
			must(t, h.s.Delete(t.Context(), key))
			must(t, h.s.Delete(t.Context(), "2026-11-20T11:00:00Z-000001/_etcd_backup.meta"))
			h.now = h.now.Add(6 * time.Second) // long before the list is due
			if a := h.answer(); a.Err != nil || len(a.Store.Backups) != 0 {
				t.Errorf("the answer is %+v", a)
			}
		})
	}
}

// deaf is a bucket whose lists do not return before their context ends.
type deaf struct{ driver.Bucket }

func (deaf) ListPaged(ctx context.Context, _ *driver.ListOptions) (*driver.ListPage, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
func (deaf) ErrorCode(error) gcerrors.ErrorCode { return gcerrors.Unknown }
func (deaf) ErrorAs(error, any) bool            { return false }
func (deaf) Close() error                       { return nil }

func TestAStoreThatHangsSlowsFewObservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := NewStoreView(store.New(blob.NewBucket(deaf{})), time.Second, time.Now)
		waited := func() time.Duration {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			began := time.Now()
			if a := v.Answer(ctx); a.Err == nil {
				t.Fatal("it answers")
			}
			return time.Since(began)
		}
		if d := waited(); d != 2*time.Second {
			t.Errorf("the first observation waited %s", d)
		}
		whole := 0
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Second) {
			if waited() > failingTimeout {
				whole++
			}
		}
		// One of them may find a poll at its end.
		if whole < 2 || whole > 4 {
			t.Errorf("in a minute %d observations waited the whole time", whole)
		}
	})
}

func TestAStoreThatNeverAnsweredIsKnownForIt(t *testing.T) {
	h := newShop(t)
	must(t, os.WriteFile(h.dir, nil, 0o644))
	a := h.answer()
	if a.Err == nil || a.Store.BackupsKnown || a.Store.SpecMissing {
		t.Errorf("the answer is %+v", a)
	}
}

func TestAViewWithoutAStore(t *testing.T) {
	v := NewStoreView(nil, time.Second, time.Now)
	if a := v.Answer(t.Context()); !errors.Is(a.Err, errNoStore) || v.Spec() != nil || v.Records() != nil {
		t.Errorf("the answer is %+v", a)
	}
}

func TestWhatIsRememberedOfAnEarlierCoordinator(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	obs := cluster.Observation{
		At: at, Token: "t1", Leader: 1, Nodes: []cluster.Node{{Name: "a", Disk: cluster.Disk{State: cluster.DiskEmpty}}},
		Members: []cluster.Member{
			{ID: 7, Name: "a", ClientURLs: []string{"u"}, PeerURLs: []string{"p"}, Learner: true, Healthy: true,
				UnhealthySince: at, LearnerSince: at.Add(1), Applied: 5},
		},
		Store: cluster.Store{Reachable: true}, Gaps: []cluster.Gap{{Source: "store"}},
	}
	obs.Members[0].UnhealthySince, obs.Members[0].LearnerSince = at.Add(-time.Minute), at.Add(-time.Hour)
	now := at.Add(2 * time.Minute) // how often a status is written that stays the same
	want := cluster.Observation{
		Token: "t1", Members: []cluster.Member{
			{ID: 7, Name: "a", ClientURLs: []string{"u"}, UnhealthySince: now.Add(-time.Minute),
				LearnerSince: now.Add(-time.Hour)},
		},
	}
	if got := observe.Remembered(obs, 3, now); asJSON(t, got) != asJSON(t, want) {
		t.Errorf("remembered is %s", asJSON(t, got))
	}
	// Who observed without the lease may have been cut off from everybody.
	want.Members[0].UnhealthySince, want.Members[0].LearnerSince = time.Time{}, time.Time{}
	if got := observe.Remembered(obs, 0, now); asJSON(t, got) != asJSON(t, want) {
		t.Errorf("remembered is %s", asJSON(t, got))
	}
	// All machines were off for a night. Who was down when it began may be up again.
	if got := observe.Remembered(obs, 3, at.Add(12*time.Hour)); asJSON(t, got) != asJSON(t, want) {
		t.Errorf("remembered after a night is %s", asJSON(t, got))
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTokensAreFreshAndValid(t *testing.T) {
	seen := map[cluster.Token]bool{}
	for range 1000 {
		tok := observe.NewToken()
		if err := tok.Validate(); err != nil || len(tok) != 22 || seen[tok] {
			t.Fatalf("token %q: %v, seen %t", tok, err, seen[tok])
		}
		seen[tok] = true
	}
}
