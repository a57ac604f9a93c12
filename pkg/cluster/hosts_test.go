package cluster

import (
	"fmt"
	"strings"
	"testing"
)

func TestHostName(t *testing.T) {
	for _, c := range []struct {
		node         NodeName
		suffix, want string
	}{
		{"etcd-a", "", "etcd-a"}, {"etcd-a", ".internal.x", "etcd-a.internal.x"},
		{"etcd-a", "internal.x.", "etcd-a.internal.x"},
	} {
		if got := HostName(c.node, c.suffix); got != c.want {
			t.Errorf("%s with %q is %s, want %s", c.node, c.suffix, got, c.want)
		}
	}
}

func text(entries []HostEntry) string {
	var words []string
	for _, e := range entries {
		words = append(words, e.Address+"="+e.Name)
	}
	return strings.Join(words, " ")
}

func TestHostsEntries(t *testing.T) {
	member := func(name, url string) InitialMember {
		return InitialMember{Name: NodeName(name), PeerURLs: []string{url}}
	}
	for name, c := range map[string]struct {
		hosts Hosts
		want  string
	}{
		"without a suffix nothing": {Hosts{Sources: [][]NodeAddress{{{"a", "10.0.0.1"}}}}, ""},
		"the first source wins": {
			Hosts{Suffix: "x", Sources: [][]NodeAddress{{{"a", "10.0.0.1:3996"}}, {{"a", "10.0.0.9"}, {"b", "[fd00::2]:3996"}}}},
			"10.0.0.1=a.x fd00::2=b.x"},
		"what is no address is left out": {
			Hosts{Suffix: "x", Sources: [][]NodeAddress{
				{{"a", "node0.main:3996"}, {"b", "0.0.0.0:1"}, {"c", ""}, {"b", "10.0.0.2"}}}},
			"10.0.0.2=b.x"},
		"a member list with addresses is a source, the last one": {
			Hosts{Suffix: "x", Sources: [][]NodeAddress{{{"a", "10.0.0.1"}}},
				Members: []InitialMember{member("a", "https://10.0.0.7:2380"), member("b", "https://10.0.0.2:2380")}},
			"10.0.0.1=a.x 10.0.0.2=b.x"},
		"what was written last counts for members and for who is to be kept": {
			Hosts{Suffix: "x", Sources: [][]NodeAddress{{{"a", "10.0.0.1"}}},
				Members: []InitialMember{member("b", "https://b.x:2380")}, Keep: []NodeName{"c", "a"},
				Before: []HostEntry{{"10.0.0.2", "b.x"}, {"10.0.0.3", "c.x"}, {"10.0.0.4", "d.x"}, {"10.0.0.9", "a.x"}}},
			"10.0.0.1=a.x 10.0.0.2=b.x 10.0.0.3=c.x"},
		"a member that was made under another suffix keeps that name": {
			Hosts{Suffix: "x", Sources: [][]NodeAddress{{{"a", "10.0.0.1"}}},
				Members: []InitialMember{member("a", "https://a.old.example:2380"), member("b", "https://b.old.example:2380")}},
			"10.0.0.1=a.old.example 10.0.0.1=a.x"},
		"nobody gets the names of others": {
			Hosts{Suffix: "x", Sources: [][]NodeAddress{{{"a", "10.0.0.1"}, {"b", "10.0.0.2"}, {"c d", "10.0.0.3"}}},
				Members: []InitialMember{member("a", "https://b.x:2380"), member("b", "https://registry.example.com:2380")}},
			"10.0.0.1=a.x 10.0.0.2=b.x"},
	} {
		if got := text(c.hosts.Entries()); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestHostsAreBounded(t *testing.T) {
	h := Hosts{Suffix: "x", Sources: [][]NodeAddress{nil}}
	for i := range 2 * maxHosts {
		at := fmt.Sprintf("10.0.%d.%d", i/256, i%256)
		h.Sources[0] = append(h.Sources[0], NodeAddress{NodeName(fmt.Sprint("n", i)), at})
	}
	if n := len(h.Entries()); n != maxHosts {
		t.Errorf("%d entries", n)
	}
}

func TestURLsAt(t *testing.T) {
	urls := []string{"https://api.internal.x:4003", "http://10.0.0.9:4001", "https://[fd00::9]:4001", "https://name"}
	for address, want := range map[string]string{
		"10.0.0.1:3996":   "https://10.0.0.1:4003 http://10.0.0.9:4001 https://[fd00::9]:4001 https://name",
		"[fd00::1]:3996":  "https://[fd00::1]:4003 http://10.0.0.9:4001 https://[fd00::9]:4001 https://name",
		"":                strings.Join(urls, " "),
		"node0.main:3996": strings.Join(urls, " "),
		"0.0.0.0:3996":    strings.Join(urls, " "),
		"203.0.113.1":     "https://203.0.113.1:4003 http://10.0.0.9:4001 https://[fd00::9]:4001 https://name",
	} {
		if got := strings.Join(URLsAt(urls, address), " "); got != want {
			t.Errorf("at %q: %s", address, got)
		}
	}
}

// All members of Cilium's etcd have one client URL, which leads to any of them.
func TestOwnURLs(t *testing.T) {
	member := func(id MemberID, peer string, client ...string) Member {
		return Member{ID: id, PeerURLs: []string{peer}, ClientURLs: client}
	}
	const all = "https://api.internal.x:4003"
	list := []Member{
		member(1, "https://etcd-a.internal.x:2382", all),
		member(2, "https://[fd00::2]:2382", all, "https://etcd-b.internal.x:4003"),
		member(3, "https://etcd-c.internal.x:2382", "https://etcd-c.internal.x:4003"),
		member(4, "https://etcd-d.internal.x:2382"),
		{ID: 5, ClientURLs: []string{all}},
	}
	for i, want := range []string{
		"https://etcd-a.internal.x:4003", "https://[fd00::2]:4003 https://etcd-b.internal.x:4003",
		"https://etcd-c.internal.x:4003", "", all,
	} {
		if got := strings.Join(OwnURLs(list[i], list), " "); got != want {
			t.Errorf("those of member %d are %q, want %q", i+1, got, want)
		}
	}
	if got := OwnURLs(list[0], list[:1]); got[0] != all {
		t.Errorf("alone it has %q", got)
	}
	if list[0].ClientURLs[0] != all {
		t.Error("the list is changed")
	}
}
