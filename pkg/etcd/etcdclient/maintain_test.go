package etcdclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func discard() *log.Logger { return log.New(io.Discard, "", 0) }

func put(t *testing.T, c *Client, key, value string) cluster.Revision {
	t.Helper()
	r, err := c.c.Put(short(t), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return cluster.Revision(r.Header.Revision)
}

func TestAlarmsAreListedAndDisarmed(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		_, c := initialMember(t, bin, "--quota-backend-bytes=1")
		if list, err := c.Alarms(short(t)); err != nil || len(list) > 0 {
			t.Fatalf("alarms of a new cluster: %v, %v", list, err)
		}
		if _, err := c.c.Put(short(t), "k", "v"); !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Fatalf("a write over the quota ended with %v", err)
		}
		want := []Alarm{{serving(t, c).ID, NoSpace}}
		var list []Alarm
		testwait.For(t, "the alarm", func(ctx context.Context) (err error) {
			if list, err = c.Alarms(ctx); err == nil && !slices.Equal(list, want) {
				err = fmt.Errorf("alarms are %v, want %v", list, want)
			}
			return err
		})
		if err := c.Healthy(short(t)); err != nil {
			t.Errorf("a full cluster serves reads, and is not healthy: %v", err)
		}
		for range 2 { // the second time there is nothing to do
			if err := c.Disarm(short(t), list...); err != nil {
				t.Fatal(err)
			}
		}
		if list, err := c.Alarms(short(t)); err != nil || len(list) > 0 {
			t.Errorf("alarms after all: %v, %v", list, err)
		}
		if err := c.Disarm(short(t), Alarm{1, "FIRE"}); err == nil || !strings.Contains(err.Error(), "FIRE") {
			t.Errorf("an unknown alarm was disarmed: %v", err)
		}
	})
}

func TestKeysAreCountedAsTheyWere(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		_, c := initialMember(t, bin)
		put(t, c, "a", "1")
		put(t, c, "\x00", "2")
		then := put(t, c, "a", "3")
		if _, err := c.c.Delete(short(t), "a"); err != nil {
			t.Fatal(err)
		}
		now := put(t, c, "b", "4")
		put(t, c, "c", "5")
		for _, at := range []cluster.Revision{then, now} {
			if n, err := c.CountKeys(short(t), at); n != 2 || err != nil {
				t.Errorf("at revision %d there are %d keys, %v", at, n, err)
			}
		}
		if n, err := c.CountKeys(short(t), now+100); err == nil {
			t.Errorf("in the future there are %d keys", n)
		}
	})
}

func TestDefragmentingGivesSpaceBack(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		a, c := initialMember(t, bin, "--quota-backend-bytes=123456789")
		var last cluster.Revision
		for range 20 {
			last = put(t, c, "key", strings.Repeat("v", 100_000))
		}
		if err := c.Compact(short(t), last); err != nil {
			t.Fatal(err)
		}
		if err := c.Compact(short(t), last); err != nil {
			t.Errorf("a second time: %v", err)
		}
		before, err := c.Space(short(t), a.ClientURL)
		if err != nil || before.Size < 1_000_000 || before.InUse == 0 {
			t.Fatalf("before, the space is %+v, %v", before, err)
		}
		if err := c.Defragment(short(t), a.ClientURL); err != nil {
			t.Fatal(err)
		}
		after, err := c.Space(short(t), a.ClientURL)
		if err != nil || after.Size >= before.Size/2 {
			t.Errorf("after, the space is %+v, %v", after, err)
		}
		quota, err := Quota(short(t), a.ClientURL, nil)
		if err != nil || quota != 123456789 {
			t.Errorf("the quota is %d, %v", quota, err)
		}
		if want := int64(123456789); bin.Version.AtLeast(3, 6) && after.Quota != want {
			t.Errorf("the status says that the quota is %d", after.Quota)
		}
	})
}

func TestHashesReportDataApart(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		a, c := initialMember(t, bin)
		first := put(t, c, "k", "1")
		one, err := c.HashKV(short(t), a.ClientURL, 0)
		if err != nil || one.Revision != first {
			t.Fatalf("the hash is %+v, %v", one, err)
		}
		put(t, c, "k", "2")
		two, err := c.HashKV(short(t), a.ClientURL, 0)
		if err != nil || two.Hash == one.Hash {
			t.Errorf("the hash stays %+v, %v", two, err)
		}
		again, err := c.HashKV(short(t), a.ClientURL, first)
		if err != nil || again != one {
			t.Errorf("the hash of revision %d is %+v, and was %+v, %v", first, again, one, err)
		}
		if _, err := c.HashKV(short(t), a.ClientURL, first+100); !errors.Is(err, rpctypes.ErrFutureRev) {
			t.Errorf("the hash of a revision to come: %v", err)
		}
	})
}

// A member of 3.4 that was restored, or has compacted all, reports its present revision
// by the number, too, to clients and to peers.
func TestHashesAtTheLastCompaction(t *testing.T) {
	t.Parallel()
	a, c := initialMember(t, etcdtest.Binaries(t, "3.4.25"), "--logger=zap")
	put(t, c, "k", "1")
	rev := put(t, c, "k", "2")
	if err := c.Compact(short(t), rev); err != nil {
		t.Fatal(err)
	}
	now, err := c.HashKV(short(t), a.ClientURL, 0)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := c.HashKV(short(t), a.ClientURL, rev); err != nil || h != now {
		t.Errorf("the hash is %+v, and at revision %d %+v, %v", now, rev, h, err)
	}
	p := OpenPeer(nil)
	if h, err := p.HashKV(short(t), a.PeerURL, rev); err != nil || h != now {
		t.Errorf("the hash is %+v, and a peer receives %+v, %v", now, h, err)
	}
	if _, err := c.HashKV(short(t), a.ClientURL, rev-1); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Errorf("the hash of a revision before: %v", err)
	}
	if _, err := p.HashKV(short(t), a.PeerURL, rev-1); err == nil || !strings.Contains(err.Error(), mvccCompacted) {
		t.Errorf("a peer asks for the hash of a revision before: %v", err)
	}
}

func TestRefusingIsHealthy(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		_, c := initialMember(t, bin)
		if err := c.Healthy(short(t)); err != nil {
			t.Fatal(err)
		}
		ctx := short(t)
		_, err1 := c.c.UserAdd(ctx, "root", "secret")
		_, err2 := c.c.RoleAdd(ctx, "root")
		_, err3 := c.c.UserGrantRole(ctx, "root", "root")
		_, err4 := c.c.AuthEnable(ctx)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			t.Fatal(err)
		}
		if _, err := c.c.Get(short(t), "k"); err == nil {
			t.Fatal("authentication is not on")
		}
		if err := c.Healthy(short(t)); err != nil {
			t.Errorf("a refusal counts as unhealthy: %v", err)
		}
	})
}

// half returns a member of two, the other of which was killed.
func half(t *testing.T, bin etcdbin.Binaries) (*etcdtest.Member, *Client) {
	t.Helper()
	a, b := etcdtest.New(t, "a"), etcdtest.New(t, "b")
	for _, m := range []*etcdtest.Member{a, b} {
		m.Start(t, bin, "--initial-cluster="+etcdtest.Initial(a, b))
	}
	c := open(t, a)
	serving(t, c)
	b.Kill()
	return a, c
}

func TestHalfAClusterIsNotHealthy(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		a, c := half(t, bin)
		if _, err := c.Space(short(t), a.ClientURL); err != nil {
			t.Errorf("the member itself does not answer: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), probeTimeout)
		defer cancel()
		if err := c.Healthy(ctx); err == nil || !strings.Contains(err.Error(), "read through the quorum") {
			t.Errorf("the error is %v", err)
		}
	})
}

// page answers everything with a text.
func page(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

func TestQuotasThatMetricsDoNotReport(t *testing.T) {
	read := func(text string) (float64, error) {
		s := httptest.NewServer(page(text))
		defer s.Close()
		return metric(t.Context(), s.URL, nil, quotaMetric)
	}
	for text, want := range map[string]string{
		"":                                           "do not have it",
		"etcd_server_quota_backend_bytes_x 1\n":      "do not have it",
		"etcd_server_quota_backend_bytes many\n":     "many",
		"etcd_server_quota_backend_bytes NaN\n":      "NaN",
		"etcd_server_quota_backend_bytes -1\n":       "-1",
		"etcd_server_quota_backend_bytes 1e300\n":    "1e300",
		strings.Repeat("x", 100_000):                 "token too long",
		"# TYPE etcd_server_quota_backend_bytes x\n": "do not have it",
	} {
		if q, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %f, %v", text, q, err)
		}
	}
	text := "# HELP x\netcd_server_quota_backend_bytes 2.147483648e+09\n"
	if q, err := read(text); err != nil || q != 2<<30 {
		t.Errorf("%f, %v", q, err)
	}
}

func TestMetricsThatAreNotThere(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	if q, err := Quota(t.Context(), s.URL, nil); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("%d, %v", q, err)
	}
	if q, err := Quota(short(t), "http://"+testport.Address(t), nil); err == nil {
		t.Errorf("no node answers with %d", q)
	}
	if q, err := Quota(short(t), "http://a b", nil); err == nil {
		t.Errorf("a URL that is none answers with %d", q)
	}
}

// maintenance are the calls of this file's subject; those of the client are in
// calls.
var maintenance = map[string]func(ctx context.Context, c *Client) error{
	"alarms":     func(ctx context.Context, c *Client) error { _, err := c.Alarms(ctx); return err },
	"disarm":     func(ctx context.Context, c *Client) error { return c.Disarm(ctx, Alarm{1, NoSpace}) },
	"defragment": func(ctx context.Context, c *Client) error { return c.Defragment(ctx, c.endpoints[0]) },
	"hash":       func(ctx context.Context, c *Client) error { _, err := c.HashKV(ctx, c.endpoints[0], 0); return err },
	"space":      func(ctx context.Context, c *Client) error { _, err := c.Space(ctx, c.endpoints[0]); return err },
	"compact":    func(ctx context.Context, c *Client) error { return c.Compact(ctx, 1) },
	"healthy":    func(ctx context.Context, c *Client) error { return c.Healthy(ctx) },
}

func TestMaintenanceEndsWithItsContext(t *testing.T) {
	url := "http://" + testport.Address(t)
	for name, call := range maintenance {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Open(Options{Endpoints: []string{url}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), probeTimeout/20)
			defer cancel()
			if err := call(ctx, c); !Unanswered(err) {
				t.Errorf("nobody answered, and the error is %v", err)
			}
		})
	}
}

func TestWhatALeaderHasCounted(t *testing.T) {
	good := `etcd_server_is_leader 1
etcd_network_peer_received_bytes_total{From="a"} 9
etcd_network_peer_received_bytes_total{From="b7"} 1.5e+06
etcd_network_snapshot_send_failures{To="b7"} 3
`
	for text, want := range map[string]LeaderView{
		good:                                 {Received: 1500000, FailedSnapshots: 3},
		"etcd_server_is_leader 1\n":          {},
		strings.Replace(good, " 1", " 0", 1): {}, // a follower
		"<html>login</html>\n":               {},
	} {
		s := httptest.NewServer(page(text))
		got, err := AsLeader(t.Context(), s.URL, nil, 0xb7)
		s.Close()
		if leads := strings.Contains(text, "leader 1"); got != want || leads != (err == nil) {
			t.Errorf("%.40q: %+v, %v", text, got, err)
		}
	}
}
