package cluster

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestNodeNameAndTokenValidate(t *testing.T) {
	long := strings.Repeat("a", 128)
	for _, s := range []string{"a", "A-1_b.c", "node-1.example.com", "...", long} {
		if err := NodeName(s).Validate(); err != nil {
			t.Errorf("name: %v", err)
		}
		if err := Token(s).Validate(); err != nil {
			t.Errorf("token: %v", err)
		}
	}
	for _, s := range []string{"", ".", "..", "a/b", "a b", "a=b", "a,b", "ä", "a\x00", "a\n", long + "a", "../../etc"} {
		if NodeName(s).Validate() == nil {
			t.Errorf("%q is a node name", s)
		}
		if Token(s).Validate() == nil {
			t.Errorf("%q is a token", s)
		}
	}
}

func TestMemberID(t *testing.T) {
	tests := []struct {
		text string
		want MemberID
	}{{"0", 0}, {"a", 10}, {"8e9e05c52164694d", 0x8e9e05c52164694d}, {"0xff", 255}, {"FF", 255}, {
		"ffffffffffffffff", 1<<64 - 1,
	}}
	for _, tt := range tests {
		got, err := ParseMemberID(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("ParseMemberID(%q) = %v, %v", tt.text, got, err)
		}
		if back, err := ParseMemberID(got.String()); err != nil || back != got {
			t.Errorf("%s came back as %s, %v", got, back, err)
		}
	}
	for _, text := range []string{"", "0x", "g", "-1", "1.5", "1ffffffffffffffff", " 1"} {
		if id, err := ParseMemberID(text); err == nil {
			t.Errorf("%q is member %s", text, id)
		}
	}
}

// TestIDsInJSON makes sure that ids are exact: a JSON number would not be.
func TestIDsInJSON(t *testing.T) {
	type ids struct {
		M MemberID
		C ClusterID
		L map[MemberID]string
	}
	v := ids{1<<64 - 1, 1<<63 + 1, map[MemberID]string{0xa: "x"}}
	b, err := json.Marshal(v)
	if err != nil || string(b) != `{"M":"ffffffffffffffff","C":"8000000000000001","L":{"a":"x"}}` {
		t.Fatalf("marshalled as %s, %v", b, err)
	}
	var back ids
	if err := json.Unmarshal(b, &back); err != nil || back.M != v.M || back.C != v.C || back.L[0xa] != "x" {
		t.Errorf("came back as %+v, %v", back, err)
	}
	for _, bad := range []string{`{"M":"xyz"}`, `{"C":"xyz"}`, `{"M":5}`} {
		if json.Unmarshal([]byte(bad), &back) == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

func TestInitialMemberAndHostEntryText(t *testing.T) {
	initialMembers := map[string]InitialMember{
		"a=https://a:2380":                     {"a", []string{"https://a:2380"}},
		"a=https://a:2380,https://10.0.0.1:80": {"a", []string{"https://a:2380", "https://10.0.0.1:80"}},
		"a=unix://x?y=z":                       {"a", []string{"unix://x?y=z"}},
	}
	for text, want := range initialMembers {
		var s InitialMember
		if err := s.UnmarshalText([]byte(text)); err != nil || s.Name != want.Name ||
			strings.Join(s.PeerURLs, ",") != strings.Join(want.PeerURLs, ",") {
			t.Errorf("%q was read as %+v, %v", text, s, err)
		}
		if b, err := s.MarshalText(); err != nil || string(b) != text {
			t.Errorf("%q was written as %q, %v", text, b, err)
		}
	}
	for _, text := range []string{"", "a", "a=", "=https://a:2380", "a/b=https://a:2380"} {
		if (&InitialMember{}).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is a place", text)
		}
	}
	var e HostEntry
	if err := e.UnmarshalText([]byte("10.0.0.1=a.x")); err != nil || e != (HostEntry{"10.0.0.1", "a.x"}) {
		t.Errorf("host entry read as %+v, %v", e, err)
	}
	if b, err := e.MarshalText(); err != nil || string(b) != "10.0.0.1=a.x" {
		t.Errorf("host entry written as %q, %v", b, err)
	}
	for _, text := range []string{"", "10.0.0.1", "10.0.0.1=", "=a"} {
		if (&HostEntry{}).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is a host entry", text)
		}
	}
}
