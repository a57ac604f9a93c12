package discovery

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A Seed is an address at which a daemon may be found.
type Seed struct {
	// Name is the node that is there, empty where it is not known.
	Name cluster.NodeName
	// Address is host:port; the host is an IP address or a DNS name.
	Address string
}

func (s Seed) String() string {
	if s.Name == "" {
		return s.Address
	}
	return string(s.Name) + "=" + s.Address
}

// ParseSeeds reads seeds: name=host:port, host:port, name=host or host. A seed
// without a port gets defaultPort. An IPv6 address with a port has brackets;
// without one it may have them. DNS names are kept. A seed that is listed twice
// is returned once.
func ParseSeeds(list []string, defaultPort int) ([]Seed, error) {
	var seeds []Seed
	seen := make(map[Seed]bool)
	for _, text := range list {
		s, err := parseSeed(strings.TrimSpace(text), defaultPort)
		if err != nil {
			return nil, fmt.Errorf("seed %q: %w", text, err)
		}
		if !seen[s] {
			seen[s] = true
			seeds = append(seeds, s)
		}
	}
	return seeds, nil
}

func parseSeed(text string, defaultPort int) (Seed, error) {
	var s Seed
	address := text
	if name, rest, named := strings.Cut(text, "="); named {
		s.Name, address = cluster.NodeName(name), rest
		if err := s.Name.Validate(); err != nil {
			return Seed{}, err
		}
	}
	host, port, err := splitAddress(address, defaultPort)
	if err != nil {
		return Seed{}, err
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return Seed{}, fmt.Errorf("port %q is not a number from 1 to 65535", port)
	}
	if err := checkHost(host); err != nil {
		return Seed{}, err
	}
	s.Address = net.JoinHostPort(host, port)
	return s, nil
}

func splitAddress(address string, defaultPort int) (host, port string, err error) {
	port = strconv.Itoa(defaultPort)
	if _, err := netip.ParseAddr(address); err == nil {
		return address, port, nil
	}
	if inner, ok := strings.CutPrefix(address, "["); ok && strings.HasSuffix(inner, "]") {
		return strings.TrimSuffix(inner, "]"), port, nil
	}
	if !strings.Contains(address, ":") {
		return address, port, nil
	}
	if host, port, err = net.SplitHostPort(address); err != nil {
		return "", "", errors.New("it is not host:port; an IPv6 address with a port needs brackets")
	}
	return host, port, nil
}

func checkHost(host string) error {
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" || ip.IsUnspecified() {
			return fmt.Errorf("other nodes are not reached at %s", host)
		}
		return nil
	}
	if host == "" {
		return errors.New("the host is missing")
	}
	for _, r := range host {
		ok := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_'
		if !ok {
			return fmt.Errorf("%q is neither an IP address nor a host name", host)
		}
	}
	return nil
}

// SeedsDir reads the directory that names seeds by its files, as provider
// external has it: each file's name is the IP address of a node, whatever is
// in it. A directory that does not exist has no seeds. Hidden files are
// ignored; other names that are no address are an error, with which the seeds
// that are good are returned.
func SeedsDir(dir string, port int) ([]Seed, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read seeds: %w", err)
	}
	var seeds []Seed
	var bad []string
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		ip, err := netip.ParseAddr(name)
		if err != nil || ip.Zone() != "" || ip.IsUnspecified() {
			bad = append(bad, name)
			continue
		}
		seeds = append(seeds, Seed{Address: net.JoinHostPort(ip.Unmap().String(), strconv.Itoa(port))})
	}
	if bad != nil {
		return seeds, fmt.Errorf("read seeds: in %s, these names are not IP addresses: %s", dir, strings.Join(bad, ", "))
	}
	return seeds, nil
}
