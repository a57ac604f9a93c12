package machines

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
)

// That the cluster is gone is said only of its last member: one that was removed before leaves
// the others behind.
func TestWasLast(t *testing.T) {
	for last, first := range map[bool]machine.Operation{
		true:  &machine.Remember{Record: machine.Record{Action: machine.Reset, Last: true}},
		false: &machine.Remember{Record: machine.Record{Action: machine.Reset}},
	} {
		r := operate.Result{Steps: []machine.Step{{Do: first}, {Do: &machine.SetDataAside{}}, {Do: &machine.Remember{}}}}
		var reported bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetErr(&reported)
		(&task{cmd: cmd}).began(r.Steps[0])
		if warned := strings.Contains(reported.String(), "warning: this is the last member of its cluster"); warned != last {
			t.Errorf("it is the last one: %v, and says: %q", last, reported.String())
		}
		if wasLast(r) != last {
			t.Errorf("it was the last one: %v, want %v", !last, last)
		}
	}
}
