package contexts

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// Nodes is the value of --nodes.
type Nodes []string

// String, Set and Type make it a flag.
func (l *Nodes) String() string { return strings.Join(*l, ",") }

// Set adds one or more nodes, with commas in between.
func (l *Nodes) Set(s string) error {
	for word := range strings.SplitSeq(s, ",") {
		word = strings.TrimSpace(word)
		address := word
		if name, rest, named := strings.Cut(word, "="); named {
			if err := cluster.NodeName(name).Validate(); err != nil {
				return err
			}
			address = rest
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil || host == "" {
			return fmt.Errorf("%q is not of the form HOST:PORT or NAME=HOST:PORT", word)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("%q has no port from 1 to 65535", word)
		}
		*l = append(*l, word)
	}
	return nil
}

// Type names the value in help texts.
func (l *Nodes) Type() string { return "nodes" }
