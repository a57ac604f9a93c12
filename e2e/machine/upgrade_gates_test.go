package machine

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// What holds a change of the version in the daemons' plan holds it by hand, and nothing is
// touched: no binary, no file, and etcd runs on.
func TestGatesOfAChangeOfTheVersionByHand(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v35) }, 3)
	a, b, c := hosts[0], hosts[1], hosts[2]
	found(hosts...)
	a.put("kept", "intact")
	a.vars["ETCDADM_MEMBERSHIP_TIMEOUT"] = "3s" // as long as what passes is waited for
	join := []string{"join", "--version=" + v36, "--binaries-dir=" + etcdDir(t, v36), b.clientURL() + "," + c.clientURL()}
	refused := func(what string, code int, words ...string) {
		t.Helper()
		_, pid := a.onStatusFile()
		a.unchanged("a change of the version with "+what, func() { a.fails(code, words, join...) })
		if _, now := a.onStatusFile(); now != pid || pid == 0 {
			t.Errorf("%s: etcd was process %d and is %d", what, pid, now)
		}
	}
	client := a.client(hosts...)
	ask := func(what string, f func(context.Context) error) {
		t.Helper()
		a.ask(what, f)
	}

	id := c.id()
	ask("raise an alarm", func(ctx context.Context) error { return raiseAlarm(ctx, a, id) })
	refused("an alarm", 3,
		"alarm: the change to etcd "+v36+" waits until the alarm of c is disarmed", "etcdadm alarm disarm")
	r := a.fails(3, []string{"# hold alarm: ", "the alarm of c"}, "upgrade", "plan", "--to="+v36)
	if strings.Contains(r.stdout, "\netcdadm join") {
		t.Errorf("a line all the same: %s", r)
	}
	ask("disarm it", func(ctx context.Context) error {
		_, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{})
		return err
	})

	var learner uint64
	eventually(t, commandTime, "a learner", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), askTime)
		defer cancel()
		r, err := client.MemberAddAsLearner(ctx, []string{"https://127.0.0.1:1"})
		if err == nil {
			learner = r.Member.ID
		}
		return err
	})
	refused("a learner", 3, "learner-pending: ", "is a voter")
	ask("remove it", func(ctx context.Context) error {
		_, err := client.MemberRemove(ctx, learner)
		return err
	})

	_, etcd := c.onStatusFile()
	if err := syscall.Kill(etcd, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	refused("a member that hangs", 5, "quorum-margin: ")
	if err := syscall.Kill(etcd, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}

	c.kill()
	spoil(c)
	c.vars["ETCDADM_ETCD_FLAG"] = "experimental-initial-corrupt-check=false" // or etcd itself would not start
	c.ok("join", a.clientURL())
	refused("other data", 3, "data-differs: at revision ", "the data of c is not that of a and b")
	delete(c.vars, "ETCDADM_ETCD_FLAG")
	c.ok("reset")
	c.ok("join", a.clientURL())

	delete(a.vars, "ETCDADM_MEMBERSHIP_TIMEOUT")
	a.lead()
	r = a.fails(0, []string{"LeaderLast", "EtcdBackup", "etcdadm snapshot save", "member move-leader"}, join...)
	if got := a.serves(); got != v36 {
		t.Errorf("a runs etcd %s: %s", got, r)
	}
}

// raiseAlarm raises an alarm of a member, as etcd does where its database is full.
func raiseAlarm(ctx context.Context, h *host, member uint64) error {
	_, err := etcdserverpb.NewMaintenanceClient(h.client(h).ActiveConnection()).Alarm(ctx, &etcdserverpb.AlarmRequest{
		Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: member, Alarm: etcdserverpb.AlarmType_NOSPACE,
	})
	return err
}

// spoil changes the value of the last key in the database of a host whose etcd does not run.
func spoil(h *host) {
	h.t.Helper()
	db, err := bbolt.Open(filepath.Join(h.path("data"), "member", "snap", "db"), 0o600, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(tx *bbolt.Tx) error {
		keys := tx.Bucket([]byte("key"))
		rev, value := keys.Cursor().Last()
		if !bytes.Contains(value, []byte("intact")) {
			return fmt.Errorf("the last value is %q", value)
		}
		return keys.Put(slices.Clone(rev), bytes.Replace(value, []byte("intact"), []byte("spoilt"), 1))
	})
	if err != nil {
		h.t.Fatal(err)
	}
}
