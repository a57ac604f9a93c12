package cluster

import "testing"

func TestInitialMemberValidate(t *testing.T) {
	for _, u := range []string{
		"https://a:2380", "http://10.0.0.1:80", "https://[::1]:2380", "https://a-b.example.com:2380",
	} {
		if err := (InitialMember{Name: "a", PeerURLs: []string{u}}).Validate(); err != nil {
			t.Error(err)
		}
	}
	for _, u := range []string{
		"", "a:2380", "ftp://a:2380", "https://a", "https://:2380", "https://a:2380/x", "https://u@a:2380",
		"https://a:2380?x", "https://a,b:2380", "https://a:x", "https://a b:1", "unix://a:1",
	} {
		if (InitialMember{Name: "a", PeerURLs: []string{"https://a:2380", u}}).Validate() == nil {
			t.Errorf("%q is a peer URL", u)
		}
	}
	if (InitialMember{Name: "a"}).Validate() == nil {
		t.Error("a place needs no peer URL")
	}
	if (InitialMember{Name: "a/b", PeerURLs: []string{"https://a:2380"}}).Validate() == nil {
		t.Error("a place needs no name that can be one")
	}
}

func TestHostEntryValidate(t *testing.T) {
	for _, e := range []HostEntry{{"10.0.0.1", "a"}, {"::1", "a.internal.example"}, {"fe80::1%eth0", "a"}} {
		if err := e.Validate(); err != nil {
			t.Error(err)
		}
	}
	for _, e := range []HostEntry{
		{"", "a"}, {"a", "a"}, {"10.0.0.1:80", "a"}, {"fe80::1%e\n::1 x", "a"}, {"10.0.0.1", ""}, {"10.0.0.1", "a b"}, {
			"10.0.0.1", "a\nb",
		}, {"10.0.0.1", "a#b"}, {"10.0.0.1", "a\x00"},
	} {
		if e.Validate() == nil {
			t.Errorf("%+v is a line of a hosts file", e)
		}
	}
}
