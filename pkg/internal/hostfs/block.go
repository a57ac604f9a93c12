package hostfs

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A block finds and writes the lines of one key in the text of a hosts file.
// The two guard lines are those of the existing etcd-manager.
type block struct {
	begin, end string
}

func newBlock(key string) block {
	return block{
		begin: "# Begin host entries managed by " + key + " - do not edit",
		end:   "# End host entries managed by " + key,
	}
}

// render returns content with its blocks of this key replaced by one, at the
// end. Content that is right stays as it is, wherever the block stands:
// otherwise the blocks of two keys would push each other from the end forever.
func (b block) render(content string, entries []cluster.HostEntry) string {
	rest, inside, found := b.split(content)
	want := b.lines(entries)
	if b.right(content, inside, want) || !found && len(want) == 0 {
		return content
	}
	for len(rest) > 0 && blank(rest[len(rest)-1]) {
		rest = rest[:len(rest)-1]
	}
	if len(rest) > 0 && len(want) > 0 {
		rest = append(rest, "")
	}
	return text(append(rest, want...))
}

// right reports whether content has one block, with these lines, at its
// beginning or after a blank line.
func (b block) right(content string, inside, want []string) bool {
	if len(want) == 0 || !slices.Equal(inside, want) {
		return false
	}
	return strings.HasPrefix(content, text(want)) || strings.Contains(content, "\n\n"+text(want))
}

// lines returns the lines of the block, none for no entries.
func (b block) lines(entries []cluster.HostEntry) []string {
	if len(entries) == 0 {
		return nil
	}
	return slices.Concat([]string{b.begin}, hostLines(entries), []string{b.end})
}

func text(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// entries returns what the blocks of this key in content say.
func (b block) entries(content string) []cluster.HostEntry {
	_, inside, _ := b.split(content)
	var entries []cluster.HostEntry
	for _, line := range inside {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		for i := 1; i < len(words); i++ {
			entries = append(entries, cluster.HostEntry{Address: words[0], Name: words[i]})
		}
	}
	slices.SortFunc(entries, compareEntries)
	return slices.Compact(entries)
}

// split separates the lines of the blocks of this key, guards included, from
// all others. The blank line before a block belongs to the block.
func (b block) split(content string) (rest, inside []string, found bool) {
	lines := strings.Split(content, "\n")
	for i := 0; i < len(lines); {
		switch strings.TrimSpace(lines[i]) {
		case b.begin:
			next := b.after(lines, i)
			inside = append(inside, lines[i:next]...)
			if len(rest) > 0 && blank(rest[len(rest)-1]) {
				rest = rest[:len(rest)-1]
			}
			i, found = next, true
		case b.end: // without a beginning
			inside = append(inside, lines[i])
			i, found = i+1, true
		default:
			rest = append(rest, lines[i])
			i++
		}
	}
	return rest, inside, found
}

// after returns the index of the first line after the block that begins at
// line i. A block whose end is missing reaches as far as the lines look like
// lines of ours, so that nobody else's lines are lost with it.
func (b block) after(lines []string, i int) int {
	depth := 0
	for j := i; j < len(lines); j++ {
		switch strings.TrimSpace(lines[j]) {
		case b.begin:
			depth++
		case b.end:
			depth--
		}
		if depth == 0 {
			return j + 1
		}
	}
	j := i + 1
	for j < len(lines) && looksOurs(lines[j]) {
		j++
	}
	return j
}

// looksOurs reports whether hostLines may have written line. Loopback lines
// are taken for somebody else's: a machine without localhost is worse off than
// one with a stale line.
func looksOurs(line string) bool {
	address, names, ok := strings.Cut(line, "\t")
	if !ok || names == "" {
		return false
	}
	a, err := netip.ParseAddr(address)
	return err == nil && !a.IsLoopback()
}

// hostLines returns one line for each address, sorted, each with its names,
// sorted.
func hostLines(entries []cluster.HostEntry) []string {
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, compareEntries)
	sorted = slices.Compact(sorted)
	var lines []string
	for i, e := range sorted {
		if i > 0 && e.Address == sorted[i-1].Address {
			lines[len(lines)-1] += " " + e.Name
			continue
		}
		lines = append(lines, e.Address+"\t"+e.Name)
	}
	slices.Sort(lines)
	return lines
}

func compareEntries(a, b cluster.HostEntry) int {
	return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Name, b.Name))
}

// checkHosts refuses what would break the file for its other readers.
func checkHosts(key string, entries []cluster.HostEntry) error {
	if key == "" || strings.ContainsAny(key, "\r\n") {
		return fmt.Errorf("key %q is not one line of text", key)
	}
	for _, e := range entries {
		if _, err := netip.ParseAddr(e.Address); err != nil {
			return fmt.Errorf("address %q of %q is not an IP address", e.Address, e.Name)
		}
		if e.Name == "" || strings.ContainsFunc(e.Name, notHostRune) {
			return fmt.Errorf("name %q of %s is not a host name", e.Name, e.Address)
		}
	}
	return nil
}

func notHostRune(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	}
	return r != '-' && r != '_' && r != '.'
}

func blank(line string) bool { return strings.TrimSpace(line) == "" }
