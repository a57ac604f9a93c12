// Package external finds the data directory on machines whose disks are
// mounted by somebody else: a directory below /mnt/disks whose name begins
// with the volume tag, and in it a directory mnt.
package external

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Volume is a mounted disk.
type Volume struct {
	// Name is the name of its directory, which is the node's name.
	Name string
	// DataDir is where the node keeps its data.
	DataDir string
}

// Find returns the one volume below root/mnt/disks whose name begins with
// prefix. None and several are errors: a node runs one member.
func Find(root, prefix string) (Volume, error) {
	if prefix == "" {
		return Volume{}, errors.New("provider external needs one --volume-tag, the beginning of the directory's name")
	}
	dir := filepath.Join(root, "mnt", "disks")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return Volume{}, fmt.Errorf("look for volumes: %w", err)
	}
	var found []Volume
	for _, e := range entries {
		data := filepath.Join(dir, e.Name(), "mnt")
		if st, err := os.Stat(data); strings.HasPrefix(e.Name(), prefix) && err == nil && st.IsDir() {
			found = append(found, Volume{Name: e.Name(), DataDir: data})
		}
	}
	switch len(found) {
	case 0:
		return Volume{}, fmt.Errorf("no directory %s/%s*/mnt exists; mount the volume there", dir, prefix)
	case 1:
		return found[0], nil
	}
	return Volume{}, fmt.Errorf("%s and %s both begin with %q, but a node runs one member", found[0].Name, found[1].Name,
		prefix)
}

// Address returns the machine's own address: the lowest that is neither
// loopback nor link-local, IPv4 before IPv6.
func Address() (string, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("list the machine's addresses: %w", err)
	}
	return lowest(addrs)
}

func lowest(addrs []net.Addr) (string, error) {
	var ips []net.IP
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok || n.IP.IsLoopback() || n.IP.IsLinkLocalUnicast() {
			continue
		}
		if v4 := n.IP.To4(); v4 != nil {
			ips = append(ips, v4)
		} else {
			ips = append(ips, n.IP)
		}
	}
	if len(ips) == 0 {
		return "", errors.New("the machine has no address besides loopback and link-local ones; set --address")
	}
	slices.SortFunc(ips, func(a, b net.IP) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return bytes.Compare(a, b)
	})
	return ips[0].String(), nil
}
