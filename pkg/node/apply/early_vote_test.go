package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
)

// A laggard is an etcd that refuses a promotion some times.
type laggard struct {
	fakeEtcd
	refusals *int
	err      error
}

func (l laggard) Promote(ctx context.Context, id cluster.MemberID) error {
	if *l.refusals > 0 {
		*l.refusals--
		return fmt.Errorf("promote %s: %w", id, l.err)
	}
	return l.fakeEtcd.Promote(ctx, id)
}

// The vote is asked for until the leader says that the learner has caught up, and of the
// leader alone. Where the others are no majority of the new list it is not asked for.
func TestPromoteEarly(t *testing.T) {
	other := errors.New("something else")
	for name, c := range map[string]struct {
		refusals int
		err      error
		change   func(*stage)
		voted    bool
		want     func(error) bool
	}{
		"at once":   {voted: true},
		"after ten": {refusals: 10, err: etcdclient.ErrNotReady, voted: true},
		"never": {refusals: 1 << 20, err: etcdclient.ErrNotReady,
			want: func(err error) bool { return errors.Is(err, etcdclient.ErrNotReady) }},
		"another error": {refusals: 1, err: other, want: func(err error) bool { return errors.Is(err, other) }},
		"nobody leads": {change: func(st *stage) { st.obs.Leader = 0 },
			want: func(err error) bool { return err != nil }},
		"a voter was removed": {change: func(st *stage) { st.members = st.members[1:] },
			want: func(err error) bool { var stale *plan.StaleError; return errors.As(err, &stale) }},
		"its vote is needed": {change: func(st *stage) { st.late = []string{"http://b:4001"} },
			want: func(err error) bool { var unsafe *plan.UnsafeError; return errors.As(err, &unsafe) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newStage()
				learner := cluster.Member{ID: 9, Learner: true, PeerURLs: []string{"http://d:2380"}}
				st.members = append(st.members, learner) // without a name, until it serves
				learner.Name, learner.ClientURLs = "d", []string{"http://d:4001"}
				st.obs.Members = append(st.obs.Members, learner)
				if c.change != nil {
					c.change(st)
				}
				var promotedAt []string
				connect := func(urls []string) (Etcd, error) {
					promotedAt = urls
					return laggard{fakeEtcd{st, urls}, &c.refusals, c.err}, nil
				}
				began := time.Now()
				op := &plan.Promote{Name: "d", ExpectVoters: 3}
				err := PromoteEarly(t.Context(), func(urls []string) (Etcd, error) {
					if promotedAt == nil {
						return connect(urls)
					}
					return fakeEtcd{st, urls}, nil
				}, st.obs, op, 20*time.Millisecond)
				if c.voted != (err == nil) || c.want != nil && !c.want(err) {
					t.Errorf("it ended with %v", err)
				}
				if did := slices.Contains(st.protocol, "promote 9"); did != c.voted {
					t.Errorf("it did %q", st.protocol)
				}
				if name != "nobody leads" && !slices.Equal(promotedAt, []string{"http://a:4001"}) {
					t.Errorf("it asked %q, and a leads", promotedAt)
				}
				if took := time.Since(began); took > servesTime+time.Second {
					t.Errorf("it asked for %s", took)
				}
			})
		})
	}
}
