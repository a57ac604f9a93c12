package standin

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
)

// A hostsFile is /etc/hosts with a block of its own, which has the nodes that the leader
// named, and of the others those that discovery reports.
type hostsFile struct {
	path       string
	mu         sync.Mutex
	begin, end string
	found, led map[string]string // name to address
}

func (h *hostsFile) of(o options) {
	key := fmt.Sprintf("host entries managed by etcd-manager[%s]", o.cluster)
	h.path = "/etc/hosts"
	h.begin, h.end = "# Begin "+key+" - do not edit\n", "# End "+key+"\n"
	h.find(o)
}

// find takes what discovery reports.
func (h *hostsFile) find(o options) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found = map[string]string{}
	for name, address := range o.places.known() {
		if host, _, _ := net.SplitHostPort(address); net.ParseIP(host) != nil {
			h.found[o.host(name)] = host
		}
	}
}

// ownHosts refuses a process for which /etc/hosts is that of who has started it.
func ownHosts() error {
	own, err := os.Stat("/etc/hosts")
	if err != nil {
		return err
	}
	parent := max(os.Getppid(), 1) // the first process of the machine, where that has process numbers of its own
	theirs, err := os.Stat(fmt.Sprintf("/proc/%d/root/etc/hosts", parent))
	if err != nil {
		return err
	}
	if os.SameFile(own, theirs) {
		return errors.New("refused to write the hosts file of this machine: start it where another one is mounted")
	}
	return nil
}

// report takes what a leader reports, unless that is nothing.
func (h *hostsFile) report(addresses map[string]string) {
	if len(addresses) == 0 {
		return
	}
	h.mu.Lock()
	h.led = map[string]string{}
	for name, address := range addresses {
		h.led[name], _, _ = net.SplitHostPort(address)
	}
	h.mu.Unlock()
	if err := h.write(); err != nil {
		log.Printf("write the hosts file: %v", err)
	}
}

func (h *hostsFile) write() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	old, err := os.ReadFile(h.path)
	if err != nil {
		return err
	}
	all := maps.Clone(h.found)
	maps.Copy(all, h.led)
	byAddress := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		byAddress[all[name]] = append(byAddress[all[name]], name)
	}
	var lines []string
	for address, names := range byAddress {
		lines = append(lines, address+"\t"+strings.Join(names, " ")+"\n")
	}
	slices.Sort(lines)
	kept := string(old)
	for {
		before, rest, ok := strings.Cut(kept, h.begin)
		if !ok {
			break
		}
		_, after, _ := strings.Cut(rest, h.end)
		kept = before + after
	}
	now := []byte(strings.TrimRight(kept, "\n") + "\n\n" + h.begin + strings.Join(lines, "") + h.end)
	if bytes.Equal(now, old) {
		return nil
	}
	return os.WriteFile(h.path, now, 0o644)
}
