package etcdadm

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// The shell is offered nodes, members and their IDs for the flags of the single steps.
func TestFlagsOfOperationsAreCompleted(t *testing.T) {
	w, err := bootstrappedWorld(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	w.Observation.Nodes = append(w.Observation.Nodes, cluster.Node{Name: "d"})
	open := func(context.Context, ConnectOptions) (Cluster, error) { return &fake{w: w}, nil }
	for line, want := range map[string]string{
		"member start --nodes=x:1 --insecure --node ":    "a\nb\nc\nd\n:",
		"member start --nodes=x:1 --insecure --node=b":   "b\n:",
		"member promote --nodes=x:1 --insecure --name ":  "a\nb\nc\nd\n:",
		"member remove --nodes=x:1 --insecure --id ":     "1\n2\n3\n:",
		"quarantine lift --nodes=x:1 --insecure --node ": "a\nb\nc\nd\n:",
	} {
		root := newTree(open, findFake)
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(new(bytes.Buffer))
		code := cli.Run(t.Context(), root, append([]string{"__complete"}, strings.Split(line, " ")...))
		if code != 0 || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s: code %d, %q, want %q", line, code, &out, want)
		}
	}
}
