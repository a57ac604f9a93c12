package operate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// An etcd answers for a cluster after some time, from its nth question on.
type fakeEtcd struct {
	id    cluster.ClusterID
	after time.Duration
	from  int
	asked int
}

// asking returns how to ask them; who is not there refuses.
func asking(list map[string]*fakeEtcd) func(context.Context, string) answer {
	return func(ctx context.Context, e string) answer {
		f := list[e]
		if f == nil {
			return answer{endpoint: e, err: errors.New("refused")}
		}
		f.asked++
		if f.asked < f.from {
			return answer{endpoint: e, err: errors.New("refused")}
		}
		if err := wait.For(ctx, f.after); err != nil {
			return answer{endpoint: e, err: err}
		}
		return answer{endpoint: e, id: f.id, members: []cluster.Member{
			{ID: 1, ClientURLs: []string{e, "https://other-member"}},
		}}
	}
}

func TestEndpointsThatAreNamedGetAFairTime(t *testing.T) {
	const x, y = "https://x", "https://y"
	for _, tc := range []struct {
		name     string
		etcds    map[string]*fakeEtcd
		others   string
		known    cluster.ClusterID
		differ   bool
		reported string
		within   time.Duration
	}{
		{"one cluster", map[string]*fakeEtcd{x: {id: 1}, y: {id: 1}}, y, 0, false, "", 0},
		{"two", map[string]*fakeEtcd{x: {id: 1}, y: {id: 2}}, y, 0, true, "", 0},
		{"the other is slow", map[string]*fakeEtcd{x: {id: 1}, y: {id: 2, after: 2900 * time.Millisecond}}, y, 0, true, "",
			askTimeout},
		{"the other is slower than one question", map[string]*fakeEtcd{x: {id: 1}, y: {id: 2, after: 4 * time.Second}}, y, 0,
			true, "", namedTimeout},
		{"the other starts", map[string]*fakeEtcd{x: {id: 1}, y: {id: 2, from: 10}}, y, 0, true, "", namedTimeout},
		{"the other hangs", map[string]*fakeEtcd{x: {id: 1}, y: {id: 2, after: time.Hour}}, y, 0, false,
			"https://y does not say", namedTimeout},
		{"the other is not there", map[string]*fakeEtcd{x: {id: 1}}, y, 0, false, "https://y does not say", namedTimeout},
		{"a member hangs", map[string]*fakeEtcd{x: {id: 1}, "https://other-member": {after: time.Hour}},
			"https://other-member", 0, false, "", othersTimeout},
		{"the data shows which", map[string]*fakeEtcd{x: {id: 1}, y: {id: 2}}, y, 1, false, "", othersTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reported strings.Builder
				warned := func(_, text string) { reported.WriteString(text) }
				m := &Machine{o: Options{Endpoints: []string{x, tc.others}, Warned: warned}}
				began := time.Now()
				h := m.hear(t.Context(), m.o.Endpoints, tc.known, asking(tc.etcds))
				if took := time.Since(began); took > tc.within {
					t.Errorf("it takes %s", took)
				}
				if differ := m.differ(h, tc.known); (differ != nil) != tc.differ || h.found == nil {
					t.Errorf("different: %v, found: %v", differ, h.found)
				}
				if !strings.HasPrefix(reported.String(), tc.reported) || (reported.Len() > 0) != (tc.reported != "") {
					t.Errorf("reported: %q", reported.String())
				}
				if tc.differ { // whatever answers later
					delete(tc.etcds, y)
					if m.differ(m.hear(t.Context(), m.o.Endpoints, 0, asking(tc.etcds)), 0) == nil {
						t.Error("the second cluster is forgotten")
					}
				}
				// They are waited for once.
				began = time.Now()
				m.hear(t.Context(), []string{x}, tc.known, asking(tc.etcds))
				m.unreachable = append(m.unreachable, tc.others)
				m.hear(t.Context(), m.o.Endpoints, tc.known, asking(tc.etcds))
				if took := time.Since(began); took > othersTimeout {
					t.Errorf("the next observation takes %s", took)
				}
			})
		})
	}
}

func TestEndpointsOfWhichNoneAnswersAreAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Machine{o: Options{Endpoints: []string{"https://x", "https://y"}}}
		began := time.Now()
		h := m.hear(t.Context(), m.o.Endpoints, 0, asking(nil))
		if took := time.Since(began); took > 0 || len(h.last) != 2 || h.found != nil {
			t.Errorf("%+v after %s", h, took)
		}
	})
}

func TestARefusedCertificateCountsMoreThanADeadEndpoint(t *testing.T) {
	refuses, dead := &etcdclient.EndpointError{Text: "refuses", Refused: true}, &etcdclient.EndpointError{Text: "dead"}
	ended := &etcdclient.EndpointError{Text: "ended", Cause: cluster.CauseTLS}
	for _, tc := range []struct {
		name      string
		answers   map[string]answer
		known     cluster.ClusterID
		untrusted bool
		text      string
	}{
		{"refused", map[string]answer{"x": {err: refuses}}, 0, true, "refuses"},
		{"one is dead", map[string]answer{"x": {err: dead}, "y": {err: refuses}}, 0, true, "refuses; : dead"},
		{"all are dead", map[string]answer{"x": {err: dead}, "y": {err: dead}}, 0, false, "dead"},
		{"a connection that ends", map[string]answer{"x": {err: ended}}, 0, false, "ended"},
		{"another one trusts us", map[string]answer{"x": {err: refuses}, "y": {id: 1, err: dead}}, 0, false,
			"refuses; : dead"},
		{"of another cluster", map[string]answer{"x": {err: refuses}, "y": {id: 1}}, 2, false, "refuses; "},
		{"nobody was asked", nil, 0, false, ""},
	} {
		got := unreachable(hearing{last: tc.answers}, tc.known, func(a answer) error { return a.err })
		if got.untrusted != tc.untrusted || !strings.HasPrefix(strings.TrimPrefix(got.text, ": "), tc.text) {
			t.Errorf("%s: untrusted is %v, %q", tc.name, got.untrusted, got.text)
		}
		if got.clock {
			t.Errorf("%s: a clock may be why", tc.name)
		}
	}
	expired := &etcdclient.EndpointError{Text: "expired", Refused: true, Clock: true}
	for trusted, a := range map[bool]answer{false: {err: dead}, true: {id: 1, err: dead}} {
		h := hearing{last: map[string]answer{"x": {err: expired}, "y": a}}
		if got := unreachable(h, 0, func(a answer) error { return a.err }); got.clock == trusted {
			t.Errorf("another one trusts us: %v, and a clock may be why: %v", trusted, got.clock)
		}
	}
}
