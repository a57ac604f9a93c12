package etcdclient

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/sync/errgroup"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

var (
	_ Membership  = (*Client)(nil)
	_ Snapshotter = (*Client)(nil)
)

func TestAMemberReportsItself(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		a, c := initialMember(t, bin)
		if _, err := c.c.Put(short(t), "k", strings.Repeat("v", 1000)); err != nil {
			t.Fatal(err)
		}
		r, err := c.Report(short(t))
		if err != nil {
			t.Fatal(err)
		}
		if r.ID == 0 || r.ClusterID == 0 || r.Leader != r.ID || r.RaftTerm < 2 || r.Applied == 0 || r.Revision != 2 ||
			r.DBSize == 0 {
			t.Errorf("the report is %+v", r)
		}
		if r.Version != bin.Version || r.Learner || len(r.Alarms) > 0 {
			t.Errorf("version %s, learner %t, alarms %v", r.Version, r.Learner, r.Alarms)
		}
		want := cluster.Member{ID: r.ID, Name: "a", PeerURLs: []string{a.PeerURL}, ClientURLs: []string{a.ClientURL}}
		if len(r.Members) != 1 || fmt.Sprint(r.Members[0]) != fmt.Sprint(want) {
			t.Errorf("members are %+v, want %+v", r.Members, want)
		}
		list, err := c.Members(short(t))
		if err != nil || fmt.Sprint(list) != fmt.Sprint(r.Members) {
			t.Errorf("the quorum's list is %+v, %v", list, err)
		}
	})
}

// TestTheLifeOfALearner goes through every change of the member list, in the
// order in which a cluster grows and shrinks.
func TestTheLifeOfALearner(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		// On a busy machine a leader must not be lost by chance.
		patient := []string{"--heartbeat-interval=500", "--election-timeout=5000"}
		a, ca := initialMember(t, bin, patient...)
		b := etcdtest.New(t, "b")
		id, err := ca.AddLearner(short(t), []string{b.PeerURL})
		if err != nil {
			t.Fatal(err)
		}
		t.Run("cannot be added twice", func(t *testing.T) {
			_, err := ca.AddLearner(short(t), []string{b.PeerURL})
			if err == nil || !strings.Contains(err.Error(), "add learner "+b.PeerURL) {
				t.Errorf("error %v", err)
			}
		})
		t.Run("has no name before it starts", func(t *testing.T) {
			list, err := ca.Members(short(t))
			if err != nil || len(list) != 2 || list[0].ID != id || list[0].Name != "" || !list[0].Learner ||
				list[1].Name != "a" {
				t.Errorf("members are %+v, %v", list, err)
			}
		})
		t.Run("is not ready before it starts", func(t *testing.T) {
			if err := ca.Promote(short(t), id); !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), id.String()) {
				t.Errorf("error %v, want ErrNotReady with the id", err)
			}
		})
		t.Run("can go before it starts", func(t *testing.T) { removeMembers(t, ca, id) })
		// An id is made of the peer URLs and the present second, and an id that was
		// removed never comes back: etcd may refuse until the second is over.
		testwait.For(t, "its return", func(ctx context.Context) error {
			id, err = ca.AddLearner(ctx, []string{b.PeerURL})
			return err
		})
		started := time.Now() // no connection is older
		b.Start(t, bin, append(patient, "--initial-cluster="+etcdtest.Initial(a, b), "--initial-cluster-state=existing")...)
		cb := open(t, b)
		t.Run("reports without a list", func(t *testing.T) {
			testwait.For(t, "the learner's own view", func(ctx context.Context) error {
				r, err := cb.Report(ctx)
				if err == nil && (!r.Learner || r.ID != id || len(r.Members) != 0) {
					err = fmt.Errorf("the report is %+v", r)
				}
				return err
			})
		})
		promote(t, ca, id)
		t.Run("has its vote when it is promoted again", func(t *testing.T) { promote(t, ca, id) })
		t.Run("is waited for before the next change", func(t *testing.T) {
			next, err := ca.AddLearner(short(t), []string{"http://" + testport.Address(t)})
			if !errors.Is(err, ErrUnhealthy) && time.Since(started) < 4*time.Second {
				t.Errorf("error %v, want ErrUnhealthy", err)
			}
			if err == nil { // on a slow machine the five seconds are over
				testwait.For(t, "its removal", func(ctx context.Context) error { return ca.Remove(ctx, next) })
			}
		})
		t.Run("can be looked for elsewhere", func(t *testing.T) { update(t, ca, id) })
		t.Run("can lead", func(t *testing.T) { moveLeader(t, ca, cb, id) })
		if bin.Version == etcdversion.Must(etcdtest.Versions[len(etcdtest.Versions)-1]) {
			// etcd lets a voter go when all have been connected for five seconds.
			t.Run("can go as a voter", func(t *testing.T) { removeMembers(t, ca, id) })
		}
	})
}

// promote promotes a learner as soon as it is ready.
func promote(t *testing.T, c *Client, id cluster.MemberID) {
	t.Helper()
	testwait.For(t, "the promotion", func(ctx context.Context) error { return c.Promote(ctx, id) })
}

// update has etcd look for a member by another URL of the same address, and by the
// first one again.
func update(t *testing.T, c *Client, id cluster.MemberID) {
	of := func() []string {
		list, err := c.Members(short(t))
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list, func(m cluster.Member) bool { return m.ID == id })
		return list[i].PeerURLs
	}
	before := of()
	other := []string{strings.Replace(before[0], "127.0.0.1", "localhost", 1)}
	for _, urls := range [][]string{other, before} {
		// etcd drops a change that comes before the last one is applied, and does not say so.
		testwait.For(t, "the update", func(ctx context.Context) error { return c.Update(ctx, id, urls) })
		if got := of(); !slices.Equal(got, urls) {
			t.Errorf("etcd has %v on record, want %v", got, urls)
		}
	}
	if err := c.Update(short(t), id+1, other); err == nil {
		t.Error("a member that is not there was updated")
	}
}

// moveLeader moves the leader from a, of ca, to b and back.
func moveLeader(t *testing.T, ca, cb *Client, b cluster.MemberID) {
	a := serving(t, ca).ID
	if err := cb.MoveLeader(short(t), b); err == nil || !strings.Contains(err.Error(), "move leader to "+b.String()) {
		t.Errorf("a follower moved the leader: %v", err)
	}
	move := func(c *Client, leader cluster.MemberID) {
		testwait.For(t, "the move of the leader", func(ctx context.Context) error {
			if r, err := c.Report(ctx); err == nil && r.Leader == leader { // by an attempt that nobody waited for
				return nil
			}
			return c.MoveLeader(ctx, leader)
		})
	}
	move(ca, b)
	follows := func(c *Client, leader cluster.MemberID) {
		testwait.For(t, "the new leader", func(ctx context.Context) error {
			r, err := c.Report(ctx)
			if err == nil && r.Leader != leader {
				err = fmt.Errorf("the leader is %s", r.Leader)
			}
			return err
		})
	}
	follows(ca, b)
	follows(cb, b)
	move(cb, a)
	follows(ca, a)
}

// removeMembers removes a member that is not there, and twice one that is.
func removeMembers(t *testing.T, c *Client, id cluster.MemberID) {
	testwait.For(t, "no removal of a member that is not there", func(ctx context.Context) error {
		return c.Remove(ctx, 0xdead)
	})
	testwait.For(t, "the removal", func(ctx context.Context) error { return c.Remove(ctx, id) })
	testwait.For(t, "the removal again", func(ctx context.Context) error { return c.Remove(ctx, id) })
	if list, err := c.Members(short(t)); err != nil || len(list) != 1 || list[0].Name != "a" {
		t.Errorf("members are %+v, %v", list, err)
	}
}

func TestASnapshotHasTheDataAndItsDigest(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		_, c := initialMember(t, bin)
		if _, err := c.c.Put(short(t), "the-key", "the-value"); err != nil {
			t.Fatal(err)
		}
		s, err := c.Snapshot(short(t))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		all, err := io.ReadAll(s)
		if err != nil {
			t.Fatal(err)
		}
		db, digest := all[:len(all)-sha256.Size], all[len(all)-sha256.Size:]
		if sum := sha256.Sum256(db); !bytes.Equal(sum[:], digest) {
			t.Errorf("the last %d of %d bytes are not the digest of those before", sha256.Size, len(all))
		}
		if !bytes.Contains(db, []byte("the-value")) {
			t.Error("the snapshot lacks a value that was written before it")
		}
	})
}

func TestASnapshotThatBreaksOffIsAnError(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		a, c := initialMember(t, bin)
		for i := range 8 {
			if _, err := c.c.Put(short(t), fmt.Sprint(i), strings.Repeat("v", 1<<20)); err != nil {
				t.Fatal(err)
			}
		}
		s, err := c.Snapshot(short(t))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := io.ReadFull(s, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		a.Kill()
		if _, err := io.Copy(io.Discard, s); err == nil {
			t.Error("the stream of a member that was killed ended as if it were complete")
		}
	})
}

func TestAFullMemberReportsItsAlarm(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		_, c := initialMember(t, bin, "--quota-backend-bytes=1")
		if _, err := c.c.Put(short(t), "k", "v"); !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Fatalf("a write over the quota ended with %v", err)
		}
		testwait.For(t, "the alarm", func(ctx context.Context) error {
			r, err := c.Report(ctx)
			if err == nil && !slices.Equal(r.Alarms, []string{"NOSPACE"}) {
				err = fmt.Errorf("alarms are %v", r.Alarms)
			}
			return err
		})
	})
}

func TestAReportNeedsNoQuorumAndAListDoes(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		a, ca := initialMember(t, bin)
		b := etcdtest.New(t, "b")
		id, err := ca.AddLearner(short(t), []string{b.PeerURL})
		if err != nil {
			t.Fatal(err)
		}
		b.Start(t, bin, "--initial-cluster="+etcdtest.Initial(a, b), "--initial-cluster-state=existing")
		promote(t, ca, id)
		b.Kill()
		testwait.For(t, "the loss of the leader", func(ctx context.Context) error {
			r, err := ca.Report(ctx)
			if err == nil && (r.Leader != 0 || len(r.Members) != 2) {
				err = fmt.Errorf("the report is %+v", r)
			}
			return err
		})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if list, err := ca.Members(ctx); err == nil {
			t.Errorf("half a cluster gave the quorum's list %+v", list)
		}
	})
}

// calls are all calls of a client.
var calls = map[string]func(ctx context.Context, c *Client) error{
	"report":  func(ctx context.Context, c *Client) error { _, err := c.Report(ctx); return err },
	"members": func(ctx context.Context, c *Client) error { _, err := c.Members(ctx); return err },
	"add learner": func(ctx context.Context, c *Client) error {
		_, err := c.AddLearner(ctx, []string{"http://x:1"})
		return err
	},
	"promote":     func(ctx context.Context, c *Client) error { return c.Promote(ctx, 1) },
	"remove":      func(ctx context.Context, c *Client) error { return c.Remove(ctx, 1) },
	"update":      func(ctx context.Context, c *Client) error { return c.Update(ctx, 1, []string{"http://x:1"}) },
	"move leader": func(ctx context.Context, c *Client) error { return c.MoveLeader(ctx, 1) },
	"snapshot": func(ctx context.Context, c *Client) error {
		s, err := c.Snapshot(ctx)
		if err != nil {
			return err
		}
		defer s.Close()
		_, err = io.Copy(io.Discard, s)
		return err
	},
}

func TestEveryCallEndsWithItsContext(t *testing.T) {
	unreachable, err := net.Listen("tcp", "127.0.0.1:0") // accepts in the kernel, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer unreachable.Close()
	for where, url := range map[string]string{
		"nobody listens": "http://" + testport.Address(t), "no node answers": "http://" + unreachable.Addr().String(),
	} {
		for name, call := range calls {
			t.Run(where+"/"+name, func(t *testing.T) {
				t.Parallel()
				c, err := Open(Options{Endpoints: []string{url}})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				began := time.Now()
				if err := call(ctx, c); err == nil {
					t.Error("it succeeded")
				}
				if took := time.Since(began); took > 20*time.Second {
					t.Errorf("it took %s, its context 100ms", took)
				}
			})
		}
	}
}

func TestOpenNeedsAnEndpoint(t *testing.T) {
	if _, err := Open(Options{}); err == nil {
		t.Error("a client without endpoints was opened")
	}
}

func TestAlarmsAreThoseOfTheMemberAskedFor(t *testing.T) {
	for _, tc := range []struct {
		name  string
		texts []string
		want  []string
	}{
		{"none", nil, nil},
		{"its own", []string{"memberID:10501334649042878790 alarm:NOSPACE "}, []string{"NOSPACE"}},
		{"another's", []string{"memberID:1 alarm:NOSPACE "}, nil},
		{"of a member whose id begins or ends alike", []string{
			"memberID:105013346490428787901 alarm:CORRUPT ", "memberID:210501334649042878790 alarm:CORRUPT ",
		}, nil},
		{"two, sorted, and each once", []string{
			"memberID:10501334649042878790 alarm:NOSPACE ", "memberID:10501334649042878790 alarm:CORRUPT ",
			"memberID:10501334649042878790 alarm:NOSPACE ",
		}, []string{"CORRUPT", "NOSPACE"}},
		{"other errors", []string{"etcdserver: no leader"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := alarms(10501334649042878790, tc.texts); !slices.Equal(got, tc.want) {
				t.Errorf("alarms are %v, want %v", got, tc.want)
			}
		})
	}
}

func TestErrorsThatCallersDecideBy(t *testing.T) {
	other := errors.New("other")
	for _, tc := range []struct{ err, want error }{
		{rpctypes.ErrMemberLearnerNotReady, ErrNotReady},
		{rpctypes.ErrUnhealthy, ErrUnhealthy},
		{rpctypes.ErrMemberNotEnoughStarted, ErrUnhealthy},
		{other, other},
	} {
		if got := plain(tc.err); !errors.Is(got, tc.want) {
			t.Errorf("%v became %v, want %v", tc.err, got, tc.want)
		}
	}
}

func TestMembersAreSortedByNameAndThenID(t *testing.T) {
	list := members([]*etcdserverpb.Member{
		{ID: 3, Name: "b"}, {ID: 0x11, IsLearner: true}, {ID: 0x9}, {
			ID: 1, Name: "a", PeerURLs: []string{"p"}, ClientURLs: []string{"c"},
		},
	})
	var got []string
	for _, m := range list {
		got = append(got, fmt.Sprintf("%s/%s/%t", m.Name, m.ID, m.Learner))
	}
	want := "/11/true /9/false a/1/false b/3/false"
	if strings.Join(got, " ") != want {
		t.Errorf("members are %v, want %s", got, want)
	}
}

// The log before the snapshot is gone, so the learner gets the snapshot; nobody writes
// afterwards.
func TestALearnerOfAnIdleClusterServes(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		flags := []string{"--snapshot-count=100", "--experimental-snapshot-catchup-entries=100"}
		if bin.Version.AtLeast(3, 6) {
			flags[1] = "--snapshot-catchup-entries=100"
		}
		a, voter := initialMember(t, bin, flags...)
		writers := new(errgroup.Group)
		kv := etcdtest.Dial(t, a)
		for range 16 { // 6,000 entries: a member that is 5,000 behind takes no requests, its own neither
			writers.Go(func() (err error) {
				for i := 0; i < 375 && err == nil; i++ {
					_, err = kv.Put(t.Context(), "k", "v")
				}
				return err
			})
		}
		if err := writers.Wait(); err != nil {
			t.Fatal(err)
		}
		b := etcdtest.New(t, "b")
		if _, err := voter.AddLearner(t.Context(), []string{b.PeerURL}); err != nil {
			t.Fatal(err)
		}
		b.Start(t, bin, "--initial-cluster="+etcdtest.Initial(a, b), "--initial-cluster-state=existing")
		learner := open(t, b)
		testwait.For(t, "the learner to serve", func(ctx context.Context) error {
			if _, err := voter.Report(ctx); err != nil {
				return err
			}
			r, err := learner.Report(ctx)
			if err == nil && r.Applied == 0 {
				err = errors.New("it has applied nothing")
			}
			return err
		})
	})
}
