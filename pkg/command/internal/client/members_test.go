package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func tlsOf(t *testing.T, pki string) *tls.Config {
	t.Helper()
	pool := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(pki, "ca.crt"))
	if err != nil || !pool.AppendCertsFromPEM(ca) {
		t.Fatal("no CA")
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(pki, "etcdctl-etcd-client.crt"),
		filepath.Join(pki, "etcdctl-etcd-client.key"))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
}

// TestALifeOfThree goes through what a cluster of three with TLS can do, in an
// order in which each step leaves it healthy for the next.
func TestALifeOfThree(t *testing.T) {
	t.Parallel()
	// On a busy machine the leader would be another one every now and then.
	w := newTestCluster(t, "3.6.16", 3, newPKI(t), "--heartbeat-interval=500", "--election-timeout=5000")
	t.Run("no alarms", func(t *testing.T) {
		if r := ok(t, w.with("alarm", "list")...); r.stdout != "" || r.stderr != "there are no alarms\n" {
			t.Errorf("%+v", r)
		}
		if r := ok(t, w.with("alarm", "list", "-o", "json")...); !strings.Contains(r.stdout, `"alarms": []`) {
			t.Errorf("%+v", r)
		}
		if r := ok(t, w.with("alarm", "disarm")...); !strings.Contains(r.stderr, "nothing to do") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("the leader moves", func(t *testing.T) { movesTheLeader(t, w) })
	t.Run("all are defragmented", func(t *testing.T) { defragmentsAll(t, w) })
	t.Run("one is defragmented", func(t *testing.T) {
		list := decoded[defragmentation](t, append([]string{"defrag"}, w.flagsFor(w.members[1].ClientURL)...)...).Members
		if len(list) != 1 || list[0].Name != "b" || list[0].Endpoint != w.members[1].ClientURL {
			t.Errorf("the result is %+v", list)
		}
	})
	t.Run("corruption", func(t *testing.T) { disarmsCorrupt(t, w) })
	w.timeout = 10 * time.Second // what does not answer is waited for as long
	t.Run("a member that hangs", func(t *testing.T) { hangs(t, w) })
	t.Run("a member that is down", func(t *testing.T) { isDown(t, w) })
	t.Run("no quorum", func(t *testing.T) { noQuorum(t, w) })
}

func movesTheLeader(t *testing.T, w *testCluster) {
	was, id := w.leader(t)
	to := w.another(was).Name
	if r := fails(t, 2, `there is no member "z"`, w.with("move-leader", "z")...); !strings.Contains(r.stderr,
		"the members are a (") {
		t.Errorf("the members are not named: %s", r.stderr)
	}
	if r := ok(t, w.with("move-leader", was)...); r.stdout != was+" is the leader: nothing to do\n" {
		t.Errorf("%+v", r)
	}
	complete := append([]string{"__complete", "move-leader"}, append(w.flags(), "")...)
	if r := ok(t, complete...); !strings.HasPrefix(r.stdout, "a\nb\nc\n:") {
		t.Errorf("the shell is offered %q", r.stdout)
	}
	l := decoded[leadership](t, w.with("move-leader", to)...)
	if !l.Moved || string(l.From) != was || string(l.To) != to || l.FromID != cluster.MemberID(id) || l.RaftTerm < 3 {
		t.Errorf("the result is %+v", l)
	}
	if now, _ := w.leader(t); now != to {
		t.Errorf("%s leads, want %s", now, to)
	}
	// Back by id, and then to whoever is best.
	if r := ok(t, w.with("move-leader", cluster.MemberID(id).String())...); r.stdout != "the leader was "+to+" and is "+
		was+"\n" {
		t.Errorf("%+v", r)
	}
	l = decoded[leadership](t, w.with("move-leader")...)
	if now, _ := w.leader(t); !l.Moved || now == was || now != string(l.To) {
		t.Errorf("%s leads: %+v", now, l)
	}
}

func defragmentsAll(t *testing.T, w *testCluster) {
	api := w.api(t)
	var rev int64
	for range 30 {
		r, err := api.Put(t.Context(), "k", strings.Repeat("v", 100_000))
		if err != nil {
			t.Fatal(err)
		}
		rev = r.Header.Revision
	}
	if _, err := api.Compact(t.Context(), rev, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	was, _ := w.leader(t)
	list := decoded[defragmentation](t, w.with("defrag", "--cluster")...).Members
	if len(list) != 3 || string(list[2].Name) != was {
		t.Fatalf("the leader was %s, and the result is %+v", was, list)
	}
	for _, m := range list {
		if m.Before < 2<<20 || m.After > m.Before/2 || m.Seconds <= 0 {
			t.Errorf("%+v", m)
		}
	}
	r := ok(t, w.with("defrag", "--cluster")...)
	if lines := strings.Split(r.stdout, "\n"); len(lines) != 5 || !strings.HasPrefix(lines[0], "MEMBER  ID") ||
		strings.Count(r.stderr, "defragmenting ") != 3 {
		t.Errorf("%+v", r)
	}
}

func disarmsCorrupt(t *testing.T, w *testCluster) {
	leader, _ := w.leader(t)
	name := w.another(leader).Name
	id := w.id(t, name)
	w.raise(t, id, etcdserverpb.AlarmType_CORRUPT)
	list := decoded[alarms](t, w.with("alarm", "list")...).Alarms
	if len(list) != 1 || list[0].Kind != "CORRUPT" || list[0].Member != cluster.MemberID(id) ||
		string(list[0].Name) != name {
		t.Fatalf("alarms are %+v", list)
	}
	if r := ok(t, w.with("alarm", "list")...); !strings.Contains(r.stdout,
		name+"       "+cluster.MemberID(id).String()+"  CORRUPT\n") {
		t.Errorf("%s", r.stdout)
	}
	fails(t, 5, "a member is unhealthy: "+name+": its data differs from that of the others: etcd has raised the alarm CORRUPT; without ",
		append([]string{"defrag"}, w.flagsFor(w.named(leader).ClientURL)...)...)
	fails(t, 7, "has raised the alarm CORRUPT", w.with("move-leader", name)...)
	if r := ok(t, w.with("alarm", "disarm", "--member="+leader)...); !strings.Contains(r.stderr, "nothing to do") {
		t.Errorf("the alarm of another was meant: %+v", r)
	}
	fails(t, 2, "there is no member", w.with("alarm", "disarm", "--member=z")...)
	// All members hold the same data.
	list = decoded[alarms](t, w.with("alarm", "disarm", "--member="+name)...).Alarms
	if len(list) != 1 || !list[0].Disarmed {
		t.Errorf("the result is %+v", list)
	}
	ok(t, w.with("defrag")...)
}

// A member that is stopped takes connections, and answers nothing.
func hangs(t *testing.T, w *testCluster) {
	was, _ := w.leader(t)
	victim := w.another(was)
	if err := victim.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	testwait.InTime(t, "a member that hangs", 20*time.Second, func() {
		fails(t, 5, victim.Name+" does not answer: "+victim.ClientURL+": it accepts connections but does not answer",
			append([]string{"defrag"}, w.flagsFor(w.named(was).ClientURL)...)...)
	})
	if err := victim.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	testwait.For(t, "its return", func(ctx context.Context) error {
		_, err := w.api(t).Status(ctx, victim.ClientURL)
		return err
	})
}

func isDown(t *testing.T, w *testCluster) {
	was, _ := w.leader(t)
	victim := w.another(was)
	victim.Kill()
	r := fails(t, 5, "a member is unhealthy: "+victim.Name+" does not answer",
		append([]string{"defrag"}, w.flagsFor(w.named(was).ClientURL)...)...)
	if !strings.Contains(r.stderr, "nothing listens there") || strings.Contains(r.stderr, "defragmenting") {
		t.Errorf("%s", r.stderr)
	}
	fails(t, 5, "; without "+was+" only 1 of 3 voters are healthy, and 2 are needed",
		append([]string{"defrag"}, w.flagsFor(w.named(was).ClientURL)...)...)
	ok(t, append([]string{"defrag", "--force"}, w.flagsFor(w.named(was).ClientURL)...)...)
	fails(t, 7, "does not answer", w.with("defrag", "--cluster", "--force")...) // it cannot be defragmented
	fails(t, 7, victim.Name+" does not answer", w.with("move-leader", victim.Name)...)
	// The one that is left can lead.
	if l := decoded[leadership](t, w.with("move-leader")...); !l.Moved || string(l.To) == victim.Name ||
		string(l.To) == was {
		t.Errorf("%+v", l)
	}
}

func noQuorum(t *testing.T, w *testCluster) {
	was, _ := w.leader(t)
	w.named(was).Kill()
	left := ""
	for _, c := range w.members {
		if !c.Killed() {
			left = c.Name
		}
	}
	testwait.For(t, "the loss of the leader", func(ctx context.Context) error {
		s, err := w.api(t).Status(ctx, w.named(left).ClientURL)
		if err == nil && s.Leader != 0 {
			err = fmt.Errorf("it still has a leader")
		}
		return err
	})
	flags := w.flagsFor(w.named(left).ClientURL)
	for _, words := range [][]string{{"defrag"}, {"move-leader"}, {"alarm", "list"}, {"alarm", "disarm"}} {
		fails(t, 5, "the cluster has no leader", slices.Concat(words, flags)...)
	}
	// A snapshot of what is left can still be taken.
	r := ok(t, append([]string{"snapshot", "save", filepath.Join(t.TempDir(), "s.db")}, flags...)...)
	if !strings.Contains(r.stderr, "warning: "+w.named(left).ClientURL+" sees no leader") {
		t.Errorf("%+v", r)
	}
}

func TestALearnerDoesNotLead(t *testing.T) {
	t.Parallel()
	w := newTestCluster(t, "3.6.16", 1, "")
	a := w.members[0]
	fails(t, 7, "no other healthy voter", w.with("move-leader")...)
	b := etcdtest.New(t, "b")
	added, err := w.api(t).MemberAddAsLearner(t.Context(), []string{b.PeerURL})
	if err != nil {
		t.Fatal(err)
	}
	id := cluster.MemberID(added.Member.ID).String()
	fails(t, 7, id+" is a learner", w.with("move-leader", id)...)
	fails(t, 7, "a member is unhealthy: "+id+" has not started yet", w.with("defrag")...)
	b.Start(t, w.bin, "--initial-cluster="+etcdtest.Initial(a, b), "--initial-cluster-state=existing")
	testwait.For(t, "the learner", func(ctx context.Context) error {
		_, err := w.api(t).Status(ctx, b.ClientURL)
		return err
	})
	fails(t, 7, "b is a learner", w.with("move-leader", "b")...)
	// etcd does not defragment learners, and there is only one voter.
	fails(t, 7, "b is a learner, which etcd does not defragment",
		append([]string{"defrag"}, w.flagsFor(b.ClientURL, a.ClientURL)...)...)
	fails(t, 1, "rpc not supported for learner", append([]string{"defrag"}, w.flagsFor(b.ClientURL)...)...)
	r := ok(t, w.with("defrag", "--cluster")...)
	if !strings.Contains(r.stderr, "warning: b is a learner, which") ||
		!strings.Contains(r.stderr, "warning: the cluster has 1 voting member(s)") ||
		strings.Count(r.stderr, "defragmenting ") != 1 {
		t.Errorf("%+v", r)
	}
	// A snapshot is of a voter, whatever the order of the endpoints is.
	s := decoded[saved](t, append([]string{"snapshot", "save", filepath.Join(t.TempDir(), "s.db")},
		w.flagsFor(b.ClientURL, a.ClientURL)...)...)
	if s.Member.String() == id {
		t.Error("the snapshot is the learner's")
	}
}

// A database that is full is disarmed when it has room again, and not before.
func TestNoSpace(t *testing.T) {
	for _, version := range []string{"3.5.35", "3.6.16"} { // with and without the quota in the status
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := newTestCluster(t, version, 1, newPKI(t), "--quota-backend-bytes=2000000")
			api := w.api(t)
			var rev int64
			testwait.For(t, "a full database", func(ctx context.Context) error {
				r, err := api.Put(ctx, "k", strings.Repeat("v", 200_000))
				if err == nil {
					rev = r.Header.Revision
					return fmt.Errorf("there is room")
				}
				if !strings.Contains(err.Error(), "database space exceeded") {
					return err
				}
				return nil
			})
			r := fails(t, 7, "the database of a takes ", w.with("alarm", "disarm")...)
			if !strings.Contains(r.stderr, "of its quota of 1.9 MiB") ||
				!strings.Contains(r.stderr, "compact the history (etcdctl compact ") {
				t.Errorf("%s", r.stderr)
			}
			if _, err := api.Compact(t.Context(), rev, clientv3.WithCompactPhysical()); err != nil {
				t.Fatal(err)
			}
			ok(t, w.with("defrag")...)
			if r := ok(t, w.with("alarm", "disarm")...); !strings.Contains(r.stderr, "disarmed NOSPACE of a\n") ||
				!strings.Contains(r.stdout, "NOSPACE") {
				t.Errorf("%+v", r)
			}
			if _, err := api.Put(t.Context(), "k", "v"); err != nil {
				t.Errorf("there is room, and a write fails: %v", err)
			}
		})
	}
}

func TestAlarmsByForceAndOfMembersThatAreGone(t *testing.T) {
	t.Parallel()
	w := newTestCluster(t, "3.6.16", 1, "")
	w.raise(t, 4711, etcdserverpb.AlarmType_NOSPACE)
	if list := decoded[alarms](t, w.with("alarm", "list")...).Alarms; len(list) != 1 || list[0].Name != "" ||
		list[0].Member != 4711 {
		t.Errorf("alarms are %+v", list)
	}
	if r := ok(t, w.with("alarm", "disarm")...); !strings.Contains(r.stderr, "disarmed NOSPACE of 1267\n") {
		t.Errorf("%+v", r)
	}
	_, id := w.leader(t)
	w.raise(t, id, etcdserverpb.AlarmType_CORRUPT)
	if r := ok(t, w.with("alarm", "disarm", "--force")...); !strings.Contains(r.stderr, "disarmed CORRUPT of a\n") {
		t.Errorf("%+v", r)
	}
}

func TestAnEndpointThatIsDown(t *testing.T) {
	at := testport.Address(t)
	for _, words := range [][]string{
		{"defrag"}, {"defrag", "--cluster"}, {"alarm", "list"}, {"alarm", "disarm"}, {"move-leader"}, {
			"snapshot", "save", filepath.Join(t.TempDir(), "s.db"),
		},
	} {
		fails(t, 1, "http://"+at+": nothing listens there", append(words, "--insecure", "--endpoints="+at)...)
		fails(t, 2, "neither http:// nor https://", append(words, "--endpoints=x://y")...)
	}
}

func TestWrongCommandLines(t *testing.T) {
	for args, want := range map[string]string{
		"alarm":                               "needs a command: disarm, list",
		"snapshot":                            "needs a command: restore, save, status",
		"alarm lst":                           "did you mean etcdadm alarm list?",
		"defrag a":                            "unknown command",
		"move-leader a b":                     "there are too many arguments: the command is etcdadm move-leader ",
		"snapshot save":                       "an argument is missing: the command is etcdadm snapshot save ",
		"snapshot restore x --mark-compacted": "",
	} {
		if r := run(t, strings.Fields(args)...); r.code != 2 || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %+v", args, r)
		}
	}
}
