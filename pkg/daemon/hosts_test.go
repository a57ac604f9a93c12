package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/discovery"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/existing"
)

// A disk that comes from another machine, or from the existing tool, does not know where the
// others are: flags and cloud are asked before the member starts. Where this kind has run on
// this machine last, nobody has to answer.
func TestHostsAreAskedForBeforeTheMemberStarts(t *testing.T) {
	for _, c := range []struct {
		name, own string // the own address that the disk remembers
		fails     bool
		want      string
	}{
		{"of the existing tool", "", false, "10.0.0.1 a.x, 10.0.0.2 b.x, 10.0.0.3 c.x"},
		{"of another machine", "10.0.0.9", false, "10.0.0.1 a.x, 10.0.0.2 b.x, 10.0.0.3 c.x"},
		{"of this machine", "10.0.0.1", false, "10.0.0.1 a.x"},
		{"beside a cloud that fails", "", true, "10.0.0.1 a.x, 10.0.0.3 c.x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, existing.State{Token: "token", Version: "3.6.16", Nodes: []existing.Node{
				{Name: "a", Peer: []string{"https://a.x:2380"}},
			}}.Write(dir))
			state, err := nodestate.Open(dir, nodestate.Self{Name: "a"})
			must(t, err)
			t.Cleanup(func() { _ = state.Close() })
			if c.own != "" {
				must(t, state.Update(nodestate.Found([]cluster.HostEntry{{Address: c.own, Name: "a.x"}})))
			}
			file := filepath.Join(dir, "hosts")
			must(t, os.WriteFile(file, nil, 0o644))
			d := &Daemon{name: "a", state: state, log: slog.New(slog.DiscardHandler), c: Config{
				Address: "10.0.0.1", DNSSuffix: "x", HostsFile: file, GRPCPort: 3996, Seeds: []string{"c=10.0.0.3"},
				Lookup: func(context.Context) ([]discovery.Seed, error) {
					if c.fails {
						return nil, fmt.Errorf("it does not answer")
					}
					return []discovery.Seed{{Name: "b", Address: "10.0.0.2:3996"}}, nil
				},
			}}
			d.hosts.d = d
			d.hosts.ask(t.Context())
			d.hosts.write(t.Context())
			var got []string
			for _, e := range state.State().Hosts {
				got = append(got, e.Address+" "+e.Name)
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("the hosts file has %s, want %s", text, c.want)
			}
		})
	}
}
