package storetest

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// watcher has a watcher see what is queued: by this program, by kops, and by the existing
// etcd-manager-ctl, which only writes an object.
func watcher(t *testing.T, open func() *store.Store) {
	s, other, ctx := open(), open(), t.Context()
	put(t, other, "control/etcd-cluster-spec", `{"memberCount":3,"etcdVersion":"3.6.16"}`)
	w := s.NewWatcher()
	changed := func() bool {
		t.Helper()
		c, err := w.Changed(ctx, at)
		must(t, err)
		return c
	}
	for range 2 {
		if changed() {
			t.Error("a store that has not changed has changed")
		}
	}
	// The clock of a file system ticks every few milliseconds.
	tick := func() { time.Sleep(20 * time.Millisecond) } //nolint:forbidigo // there is nothing to ask
	var queued cluster.Request
	for what, change := range map[string]func(){
		"kops' spec": func() { put(t, other, "control/etcd-cluster-spec", `{"memberCount":5,"etcdVersion":"3.6.16"}`) },
		"our spec":   func() { must(t, other.PutSpec(ctx, store.SpecFile{MemberCount: 1, EtcdVersion: version})) },
		"a command": func() {
			put(t, other, "control/"+at.UTC().Format(time.RFC3339)+"-000000/_command.json", `{"restoreBackup":{"backup":"b"}}`)
		},
		"our command": func() {
			_, err := other.PutCommand(ctx, store.Command{At: at.Add(-time.Hour), Backup: "b"})
			must(t, err)
		},
		"a request": func() {
			r, err := other.PutRequest(ctx, cluster.Request{Kind: cluster.RequestPause, At: at})
			must(t, err)
			queued = r
		},
	} {
		tick()
		change()
		if !changed() {
			t.Errorf("%s is not seen", what)
		}
		if changed() {
			t.Errorf("%s is seen twice", what)
		}
	}
	tick()
	must(t, other.DeleteRequest(ctx, queued.Name))
	if !changed() {
		t.Error("that a request is gone is not seen")
	}
}
