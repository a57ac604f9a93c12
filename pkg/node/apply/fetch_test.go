package apply

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A release that cannot be fetched is tried again, later each time, and keeps no other one
// from being fetched. What is wanted no more is not spoken of.
func TestFetchesAreTriedAgain(t *testing.T) {
	good, bad := etcdversion.Must("3.6.16"), etcdversion.Must("3.7.3")
	now := time.Unix(1e9, 0)
	var asked []etcdversion.Version
	l := &Local{o: LocalOptions{
		From: "https://mirror.example", Now: func() time.Time { return now },
		Fetch: func(_ context.Context, v etcdversion.Version) error {
			asked = append(asked, v)
			if v == bad {
				return errors.New("no luck")
			}
			return nil
		},
	}}
	turn := func(wanted ...etcdversion.Version) []etcdversion.Version {
		asked = nil
		l.Fetch(t.Context(), wanted)
		return asked
	}
	if got := turn(bad, good); !slices.Equal(got, []etcdversion.Version{bad, good}) {
		t.Errorf("it asks for %v", got)
	}
	list := l.fetches.list()
	if len(list) != 1 || list[0].Version != bad || !list[0].Fetch || !strings.Contains(list[0].Why, "no luck") {
		t.Errorf("it reports %+v", list)
	}
	if got := turn(bad); len(got) != 0 {
		t.Errorf("it asks again at once: %v", got)
	}
	pause := firstFetchPause
	for range 10 {
		now = now.Add(pause)
		if got := turn(bad); len(got) != 1 {
			t.Fatalf("after %s it asks for %v", pause, got)
		}
		pause = min(2*pause, lastFetchPause)
	}
	if turn(good); len(l.fetches.list()) != 0 {
		t.Errorf("it reports %+v", l.fetches.list())
	}
}

// While it is fetched, the node says from where; a daemon that ends says nothing of it.
func TestAFetchIsReportedOf(t *testing.T) {
	v := etcdversion.Must("3.6.16")
	ctx, cancel := context.WithCancel(t.Context())
	l := &Local{o: LocalOptions{From: "https://mirror.example", Now: time.Now}}
	l.o.Fetch = func(ctx context.Context, _ etcdversion.Version) error {
		list := l.fetches.list()
		if len(list) != 1 || list[0].Why != "is being fetched from https://mirror.example" {
			t.Errorf("it reports %+v", list)
		}
		cancel()
		return ctx.Err()
	}
	l.Fetch(ctx, []etcdversion.Version{v})
	if list := l.fetches.list(); len(list) != 1 || strings.Contains(list[0].Why, "cancel") {
		t.Errorf("it reports %+v", list)
	}
}
