package nodestate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// The numbers of the forms of etcdadm.json. A reader refuses one that it does not
// know: it would drop what it does not know, which may be a promise.
const (
	// format is that of a state that every reader understands.
	format = 1
	// formatDiffers is that of a state with [State.Differs], which readers of format
	// 1 alone do not know: they would start a member whose data is wrong.
	formatDiffers = 2
)

func formatOf(s State) int {
	if s.Differs != nil {
		return formatDiffers
	}
	return format
}

// record is the content of etcdadm.json.
type record struct {
	Format int   `json:"format"`
	State  State `json:"state"`
	// Nodes is what the existing etcd-manager wrote about the nodes when its
	// state was taken over, to be written back to the file state.
	Nodes []etcdNode `json:"nodes,omitempty"`
	// Written holds the SHA-256 of each content that the file state can have
	// without anybody else having written it.
	Written []string `json:"written"`
}

// encode returns the content of etcdadm.json.
func (r record) encode() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", "  ")
	return append(b, '\n'), err
}

// loaded is what the two files say together.
type loaded struct {
	state State
	nodes []etcdNode
	own   []byte
	maybe []string
}

func load(dir string) (loaded, error) {
	own, ownThere, err := readFile(filepath.Join(dir, ownName))
	if err != nil {
		return loaded{}, err
	}
	compat, compatThere, err := readFile(filepath.Join(dir, compatName))
	if err != nil {
		return loaded{}, err
	}
	l := loaded{own: own}
	var r record
	if ownThere {
		if r, err = parseOwn(own); err != nil {
			return loaded{}, &CorruptError{Path: filepath.Join(dir, ownName), Err: err}
		}
		l.state, l.nodes = r.State, r.Nodes
	}
	if !compatThere {
		return l, nil
	}
	l.maybe = []string{digest(compat)}
	if slices.Contains(r.Written, digest(compat)) {
		return l, nil
	}
	l.state, l.nodes, err = adopt(r.State, compat)
	if err != nil {
		return loaded{}, &CorruptError{Path: filepath.Join(dir, compatName), Err: err}
	}
	return l, nil
}

func parseOwn(b []byte) (record, error) {
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return record{}, err
	}
	if r.Format < 1 || r.Format > formatDiffers {
		return record{}, fmt.Errorf("it has format %d, this program supports 1 to %d", r.Format, formatDiffers)
	}
	return r, r.State.check()
}

func readFile(path string) (b []byte, there bool, err error) {
	b, err = os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return b, err == nil, err
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
