package render

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// statusFor is the status of a member that runs a version where another one is wanted.
func statusFor(runs, want string, hazards []cluster.Hazard, has ...string) Status {
	n := cluster.Node{Name: "a", Reachable: true, Assigned: &cluster.Assigned{Version: etcdversion.Must(runs)},
		Hazards: hazards}
	for _, v := range has {
		n.Versions = append(n.Versions, etcdversion.Must(v))
	}
	return NewStatus(&reconcile.Report{
		At: now, Spec: cluster.Spec{MemberCount: 1, EtcdVersion: etcdversion.Must(want)},
		Observation: cluster.Observation{At: now, Nodes: []cluster.Node{n}, Members: []cluster.Member{{Name: "a", ID: 1}}},
	}, now)
}

func TestStatusShowsTheUpgradePath(t *testing.T) {
	all := []string{"3.4.25", "3.5.21", "3.5.35", "3.6.16", "3.7.3"}
	warning := "\nwarning      etcd advises 3.5.32 before 3.6, and a runs 3.5.21: what that guards against (v2-content, " +
		"members, v2-log) was looked for in their data, and is not there\n"
	for _, c := range []struct {
		runs, want string
		has        []string
		line, json string
	}{
		{"3.4.25", "3.7.3", all, "\nupgrade      3.4.25 -> 3.5.35 -> 3.6.16 -> 3.7.3\n", `["3.4.25","3.5.35","3.6.16","3.7.3"]`},
		{"3.7.3", "3.5.35", all, "\ndowngrade    3.7.3 -> 3.6.16 -> 3.5.35\n", `["3.7.3","3.6.16","3.5.35"]`},
		{"3.5.21", "3.6.16", all, "\nupgrade      3.5.21 -> 3.6.16\n", `["3.5.21","3.6.16"]`},
		{"3.4.25", "3.7.3", []string{"3.5.35", "3.7.3"},
			"\nupgrade      3.4.25 -> 3.5.35, and from there no way to 3.7.3 yet\n", `["3.4.25","3.5.35"]`},
		{"3.6.16", "3.6.16", all, "", "null"},
		{"3.5.35", "3.4.25", all, "", "null"},
	} {
		s := statusFor(c.runs, c.want, cluster.NoHazards(), c.has...)
		var b strings.Builder
		if err := s.Write(&b, now); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		if c.line != "" && !strings.Contains(text, c.line) ||
			c.line == "" && (strings.Contains(text, "\nupgrade") || strings.Contains(text, "\ndowngrade")) {
			t.Errorf("from %s to %s: status does not say %q:\n%s", c.runs, c.want, c.line, text)
		}
		warns := c.runs == "3.5.21"
		if strings.Contains(text, warning) != warns || strings.Contains(text, "\nwarning") != warns {
			t.Errorf("from %s to %s: whether status warns is not %v:\n%s", c.runs, c.want, warns, text)
		}
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Upgrade, Warnings json.RawMessage }
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if is := string(got.Upgrade); is != c.json && (is != "" || c.json != "null") {
			t.Errorf("from %s to %s: programs read %s, want %s", c.runs, c.want, is, c.json)
		}
		if (len(got.Warnings) > 0) != warns {
			t.Errorf("from %s to %s: programs read %s", c.runs, c.want, got.Warnings)
		}
	}
}
