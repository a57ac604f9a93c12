package plan

import (
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// What a machine has set aside may be all the room that it lacks.
func TestLackOfRoomReportsOfDataThatWasSetAside(t *testing.T) {
	l := &view{obs: cluster.Observation{Members: []cluster.Member{{DBSize: 70 << 20}}}}
	aside := []cluster.SetAside{{Bytes: 200 << 20}, {Bytes: 58 << 20}}
	n := &cluster.Node{Name: "c", FreeBytes: 192 << 20, SetAside: aside}
	want := "192 MiB free and needs 332 MiB; its data-trashcan has 258 MiB of earlier data"
	if got := l.lacksRoom(n); !l.tooSmall(n) || !strings.HasSuffix(got, want) {
		t.Errorf("it says %q", got)
	}
}
