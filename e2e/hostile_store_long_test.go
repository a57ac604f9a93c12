//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// nasty are objects that somebody who can write the store puts there, by their names below
// control. first is the record of what runs.
func nasty(t *testing.T, first cluster.Incarnation) [][2]string {
	t.Helper()
	var list [][2]string
	add := func(name, text string) { list = append(list, [2]string{name, text}) }
	for _, count := range []string{"-1", "0", "1e9", "1000000000", "9223372036854775807", `"x"`, "null"} {
		add("etcd-cluster-spec", fmt.Sprintf(`{"memberCount":%s,"etcdVersion":"3.6.16"}`, count))
	}
	for _, v := range []string{
		"999999999999999999.0.0", "3.6.16-../../../tmp/x", "3.6.16-a/b", `3.6.16\u0000`, "2.2.1", "",
	} {
		add("etcd-cluster-spec", fmt.Sprintf(`{"memberCount":3,"etcdVersion":"%s"}`, v))
	}
	add("etcd-cluster-spec", strings.Repeat("[", 1_000_000))
	add("etcd-cluster-spec", strings.Repeat(`{"a":`, 500_000))
	record := func(number int, change func(*cluster.Incarnation)) {
		i := first
		i.Number, i.Token = number, "evil"
		change(&i)
		b, err := json.Marshal(i)
		if err != nil {
			t.Fatal(err)
		}
		add(fmt.Sprintf("incarnations/%d", number), string(b))
	}
	record(2, func(i *cluster.Incarnation) {
		i.Voters = []cluster.InitialMember{{Name: "x", PeerURLs: []string{"https://1.2.3.4:1"}}}
	})
	record(2, func(i *cluster.Incarnation) { i.Restored = &cluster.Restored{Request: "r", Backup: "b", Revision: 5} })
	record(2, func(i *cluster.Incarnation) { i.Restored = &cluster.Restored{Backup: "../../x", Revision: -5} })
	record(2, func(i *cluster.Incarnation) {
		i.Voters, i.Restored = []cluster.InitialMember{{}}, &cluster.Restored{Revision: 1<<63 - 1}
	})
	record(1<<63-1, func(*cluster.Incarnation) {})
	record(2, func(i *cluster.Incarnation) { i.Token = ".." })
	record(2, func(i *cluster.Incarnation) { i.Token, i.At = first.Token, time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC) })
	for _, n := range []string{
		`{"name":"zz","address":"127.102.8.77:1","boot":"x","at":"2999-01-01T00:00:00Z"}`,
		`{"name":"zz","address":"[::1%lo]:99999999","boot":"","at":"x"}`,
		`{"name":"zz","address":"169.254.169.254:80","boot":"x"}`,
	} {
		add("nodes/zz", n)
	}
	for _, r := range []string{
		`{"name":"q","kind":"restore","backup":"nope","at":"2999-01-01T00:00:00Z"}`,
		`{"name":"q","kind":"restore","backup":"control","at":"2026-11-22T07:00:00Z"}`,
		`{"name":"q","kind":"restore","backup":"nope","memberCount":-5,"etcdVersion":"9.9.9","lost":["a","b","c",""]}`,
		`{"name":"q","kind":"backup","at":"0001-01-01T00:00:00Z"}`, `{"name":"q","kind":"pause","until":"x"}`,
	} {
		add("requests/q", r)
	}
	add("revision", `{"revision":4611686018427387904}`)
	add("revision", `{"revision":72057594037927936}`)
	add("revision", `{"revision":-1}`)
	add("revision", `{}`)
	add("etcd-cluster-created", strings.Repeat("x", 100_000))
	add("history", `[{"at":"x"}]`)
	add("closed/q", `{"x":1}`)
	return list
}

// Somebody writes what they can think of into the store, one object after the other, each
// of which lies there for some looks. Daemons and members go on, no write that was
// acknowledged is lost, and when all of it is gone, a machine can be replaced.
func TestNastyObjects(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	before := etcdPIDs(c)
	var first cluster.Incarnation
	b, err := os.ReadFile(filepath.Join(c.Store, "control/incarnations/1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &first); err != nil {
		t.Fatal(err)
	}
	for _, n := range nasty(t, first) {
		path := filepath.Join(c.Store, "control", n[0])
		old, had := os.ReadFile(path)
		putFile(t, path, n[1])
		pause(c, 2500*time.Millisecond)
		w.WaitMore(harness.Soon, 10)
		if had == nil {
			putFile(t, path, string(old))
		} else if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, d := range c.Nodes() {
			if !d.Running() {
				t.Fatalf("%s: the daemon %s has ended", n[0]+" "+n[1][:min(90, len(n[1]))], d.Name)
			}
		}
	}
	if after := etcdPIDs(c); after != before {
		t.Errorf("etcd processes were %s and are %s", before, after)
	}
	c.Node("c").Kill()
	c.Start("d")
	c.WaitNames(harness.Soon, "a", "b", "d")
	w.WaitMore(harness.Soon, 10)
}
