package existing

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Node is a member, as the file state and the calls have it.
type Node struct {
	Name                         string
	Peer, Client, QuarantineURLs []string
	TLS                          bool
}

// A State is the file state of a machine.
type State struct {
	Token, Version   string
	Nodes            []Node
	New, Quarantined bool
}

// Write writes the file, in place as the existing tool does.
func (s State) Write(dir string) error {
	return os.WriteFile(filepath.Join(dir, "state"), s.encode(), 0o600)
}

// ReadState reads the file state; there may be none, or an empty one.
func ReadState(dir string) (State, error) {
	b, err := os.ReadFile(filepath.Join(dir, "state"))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	return decodeState(b), err
}

// Node returns the node with a name.
func (s State) Node(name string) (Node, bool) {
	for _, n := range s.Nodes {
		if n.Name == name {
			return n, true
		}
	}
	return Node{}, false
}

func (s State) encode() []byte {
	b := flag(nil, 1, s.New)
	if s.Token != "" {
		c := text(nil, 5, s.Token)
		for _, n := range s.Nodes {
			c = message(c, 7, n.encode())
		}
		b = message(b, 2, c)
	}
	if s.Version != "" {
		b = text(b, 3, s.Version)
	}
	return flag(b, 4, s.Quarantined)
}

func decodeState(b []byte) State {
	c := field(b, 2)
	s := State{
		Token: string(field(c, 5)), Version: string(field(b, 3)), New: isSet(b, 1), Quarantined: isSet(b, 4),
	}
	for _, n := range fields(c, 7) {
		s.Nodes = append(s.Nodes, decodeNode(n))
	}
	return s
}

func (n Node) encode() []byte {
	b := text(nil, 1, n.Name)
	for i, urls := range [][]string{n.Peer, n.Client, n.QuarantineURLs} {
		for _, u := range urls {
			b = text(b, protowire.Number(i+2), u)
		}
	}
	return flag(b, 5, n.TLS)
}

func decodeNode(b []byte) Node {
	return Node{
		Name: string(field(b, 1)), Peer: texts(b, 2), Client: texts(b, 3), QuarantineURLs: texts(b, 4), TLS: isSet(b, 5),
	}
}
