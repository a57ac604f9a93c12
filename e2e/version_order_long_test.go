//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// An occurrence is what a log says of a member.
type occurrence struct {
	at   time.Time
	node string
	what string
	// version is that of the etcd that starts, or that its data is made to be of.
	version string
}

// What occurs to a member.
const (
	daemonKilled = "its daemon is killed"
	etcdStarts   = "etcd starts"
	etcdServes   = "etcd serves"
	etcdToEnd    = "etcd is asked to end"
	etcdHasEnded = "etcd has ended in order"
	dataChanges  = "the data becomes that of a version"
)

// etcdSays are the messages of etcd that show it, and the field with the version.
var etcdSays = map[string]struct{ what, field string }{
	"starting an etcd server":        {etcdStarts, "etcd-version"},
	"ready to serve client requests": {etcdServes, ""},
	"received signal; shutting down": {etcdToEnd, ""},
	"closed etcd server":             {etcdHasEnded, ""},
	"updated storage version":        {dataChanges, "new-storage-version"},
}

var daemonEnds = regexp.MustCompile(`^---- (\S+) ended: signal: killed`)

// occurrences reads a node's log.
func occurrences(node, log string) (list []occurrence) {
	for line := range strings.Lines(log) {
		if m := daemonEnds.FindStringSubmatch(line); m != nil {
			if at, err := time.Parse(time.RFC3339Nano, m[1]); err == nil {
				list = append(list, occurrence{at, node, daemonKilled, ""})
			}
			continue
		}
		said, ok := strings.CutPrefix(line, "etcd: ")
		var fields map[string]any
		if !ok || json.Unmarshal([]byte(said), &fields) != nil {
			continue
		}
		says, ok := etcdSays[fmt.Sprint(fields["msg"])]
		at, err := time.Parse("2006-01-02T15:04:05.999999999Z0700", fmt.Sprint(fields["ts"]))
		if ok && err == nil {
			o := occurrence{at, node, says.what, ""}
			if says.field != "" {
				o.version = fmt.Sprint(fields[says.field])
			}
			list = append(list, o)
		}
	}
	return list
}

// disorder says, from the logs of a cluster, where two of its members were down although only one
// may be, other than by kills; which etcd was asked to end and has not in order; and which was
// started on data of a later version.
func disorder(c *harness.Cluster) []string {
	var all []occurrence
	reported := map[string]bool{}
	for _, n := range c.Nodes() {
		all = append(all, occurrences(n.Name, n.Said(0))...)
	}
	for _, o := range all {
		reported[o.what] = true
	}
	var unordered []string
	for _, what := range []string{daemonKilled, etcdStarts, etcdServes, etcdToEnd, etcdHasEnded} {
		if !reported[what] {
			unordered = append(unordered, "no log reports when "+what)
		}
	}
	return append(unordered, disorderOf(all)...)
}

// A standing is how a member is at a time.
type standing struct {
	serves, ending bool
	data           etcdversion.Version
}

func disorderOf(all []occurrence) (wrong []string) {
	slices.SortStableFunc(all, func(a, b occurrence) int { return a.at.Compare(b.at) })
	members := map[string]*standing{}
	for _, o := range all {
		if members[o.node] == nil {
			members[o.node] = &standing{}
		}
	}
	for _, o := range all {
		m := members[o.node]
		say := func(format string, args ...any) {
			wrong = append(wrong, fmt.Sprintf("%s: %s, %s: ", o.at.Format(time.TimeOnly), o.node, o.what)+
				fmt.Sprintf(format, args...))
		}
		switch o.what {
		case daemonKilled:
			m.serves, m.ending = false, false
		case etcdServes:
			m.serves = true
		case etcdHasEnded:
			m.ending = false
		case etcdToEnd:
			m.serves, m.ending = false, true
			for name, other := range members {
				if name != o.node && !other.serves {
					say("%s does not serve", name)
				}
			}
		case dataChanges:
			m.data = etcdversion.Must(o.version)
		case etcdStarts:
			if m.ending {
				say("the one before has not ended in order")
			}
			if v := etcdversion.Must(o.version); m.data.Minor > v.Minor {
				say("it is %s, and the data is that of %s", v, m.data)
			}
			m.serves, m.ending = false, false
		}
	}
	return wrong
}

// Logs as they are, and what may be wrong in them.
func TestDisorder(t *testing.T) {
	t.Parallel()
	const first = `
---- 2026-11-26T21:00:00.000000001Z start etcd-manager
etcd: {"level":"info","ts":"2026-11-26T21:00:01.000Z","msg":"starting an etcd server","etcd-version":"3.6.16"}
etcd: {"level":"info","ts":"2026-11-26T21:00:02.000Z","msg":"ready to serve client requests"}
`
	other := strings.ReplaceAll(first, "21:00:0", "21:00:1")
	say := func(second int, msg string) string {
		return fmt.Sprintf(`etcd: {"ts":"2026-11-26T21:01:%02d.000Z","msg":%s}`+"\n", second, msg)
	}
	end, ended := `"received signal; shutting down"`, `"closed etcd server"`
	older, data := `"starting an etcd server","etcd-version":"3.5.35"`, `"updated storage version","new-storage-version":`
	for _, tt := range []struct {
		name, a, b string
		wrong      string
	}{
		{name: "nothing", a: "", b: ""},
		{name: "one after the other", a: say(1, data+`"3.5.0"`) + say(2, end) + say(3, ended) + say(4, older),
			b: say(1, data+`"3.5.0"`)},
		{name: "two at once", a: say(2, end) + say(5, ended), b: say(3, end) + say(6, ended), wrong: "a does not serve"},
		{name: "beside one that was killed", a: "---- 2026-11-26T21:01:01Z ended: signal: killed\n", b: say(3, end) +
			say(4, ended), wrong: "a does not serve"},
		{name: "killed in the middle", a: say(2, end) + say(4, `"starting an etcd server","etcd-version":"3.6.16"`),
			wrong: "has not ended in order"},
		{name: "too old", a: say(1, data+`"3.6.0"`) + say(2, end) + say(3, ended) + say(4, older), wrong: "that of 3.6.0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wrong := disorderOf(append(occurrences("a", first+tt.a), occurrences("b", other+tt.b)...))
			if len(wrong) > 0 != (tt.wrong != "") || !strings.Contains(strings.Join(wrong, ""), tt.wrong) {
				t.Errorf("%q, want %q", wrong, tt.wrong)
			}
		})
	}
}
