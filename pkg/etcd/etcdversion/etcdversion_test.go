package etcdversion

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestParseAndString(t *testing.T) {
	tests := []struct {
		text string
		want Version
		form string // as written, where it differs
	}{
		{"3.6.16", Version{3, 6, 16, ""}, ""},
		{"v3.6.16", Version{3, 6, 16, ""}, "3.6.16"},
		{"0.0.1", Version{0, 0, 1, ""}, ""},
		{"3.8.0-alpha.0", Version{3, 8, 0, "alpha.0"}, ""},
		{"3.8.0-rc-1.x", Version{3, 8, 0, "rc-1.x"}, ""},
	}
	for _, tt := range tests {
		got, err := Parse(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", tt.text, got, err, tt.want)
		}
		form := tt.form
		if form == "" {
			form = tt.text
		}
		if got.String() != form {
			t.Errorf("%q is written as %q", tt.text, got.String())
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"", "v", "3", "3.6", "3.6.1.2", "3.6.x", "3.6.-1", "3.6.01", "3..1", " 3.6.1", "3.6.1 ", "3.6.1-", "3.6.1-a/b",
		"3.6.1-ä",
		"vv3.6.1", "+3.6.1", "3.6.99999999999999999999", "latest",
	} {
		if v, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %+v", text, v)
		}
	}
}

func TestOrder(t *testing.T) {
	sorted := []string{"2.3.8", "3.4.25", "3.5.9", "3.5.21", "3.6.0-alpha.0", "3.6.0-rc.1", "3.6.0", "3.6.16", "3.10.0",
		"4.0.0"}
	for i, a := range sorted {
		for j, b := range sorted {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := Must(a).Compare(Must(b)); got != want {
				t.Errorf("%s compared with %s is %d", a, b, got)
			}
		}
	}
	shuffled := []Version{Must("3.6.0"), Must("3.5.21"), Must("3.6.0-rc.1")}
	slices.SortFunc(shuffled, Version.Compare)
	if shuffled[0].String() != "3.5.21" || shuffled[2].String() != "3.6.0" {
		t.Errorf("sorted as %v", shuffled)
	}
}

func TestAtLeastAndManaged(t *testing.T) {
	tests := []struct {
		text             string
		atLeast, managed bool // 3.5 or later; can be run by the daemon
	}{
		{"2.3.8", false, false}, {"3.3.27", false, false}, {"3.4.0", false, true}, {"3.5.0", true, true}, {
			"3.10.0", true, true,
		}, {"4.0.0", true, false},
	}
	for _, tt := range tests {
		v := Must(tt.text)
		if v.AtLeast(3, 5) != tt.atLeast || v.Managed() != tt.managed {
			t.Errorf("%s: at least 3.5 is %v, managed is %v", tt.text, v.AtLeast(3, 5), v.Managed())
		}
	}
}

func TestDoubt(t *testing.T) {
	for text, want := range map[string]string{
		"3.4.0": "", "3.4.99": "", "3.5.35": "", "3.6.16": "", "3.7.3": "", "3.5.8-eks-1-26-16": "",
		"3.6.17": "the newest etcd 3.6 that this program knows is 3.6.16",
		"3.6.99": "the newest etcd 3.6 that this program knows is 3.6.16",
		"3.9.1":  "this program does not know etcd 3.9", "3.3.17": "this program does not know etcd 3.3",
		"4.6.1": "this program does not know etcd 4.6",
	} {
		if got := Must(text).Unknown(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestUnknownVersion(t *testing.T) {
	var v Version
	if !v.IsZero() || v.String() != "" || Must("3.6.16").IsZero() {
		t.Error("the zero value is not the unknown version")
	}
	type holder struct{ V Version }
	b, err := json.Marshal(holder{})
	if err != nil || string(b) != `{"V":""}` {
		t.Errorf("marshalled as %s, %v", b, err)
	}
	back := holder{Must("3.6.16")}
	if err := json.Unmarshal(b, &back); err != nil || !back.V.IsZero() {
		t.Errorf("came back as %+v, %v", back, err)
	}
}

func TestJSON(t *testing.T) {
	list := []Version{Must("3.6.16"), Must("3.8.0-alpha.0")}
	b, err := json.Marshal(list)
	if err != nil || string(b) != `["3.6.16","3.8.0-alpha.0"]` {
		t.Fatalf("marshalled as %s, %v", b, err)
	}
	var back []Version
	if err := json.Unmarshal(b, &back); err != nil || !slices.Equal(back, list) {
		t.Errorf("came back as %v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`["3.6"]`), &back); err == nil {
		t.Error("half a version was read")
	}
}

func TestMustPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a bad constant did not panic")
		}
	}()
	Must("3.6")
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"3.6.16", "v3.8.0-alpha.0", "3.6.", "-", "3.6.1--"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := Parse(s)
		if err != nil {
			return
		}
		if back, err := Parse(v.String()); err != nil || back != v && !v.IsZero() {
			t.Errorf("%q is %+v, written %q, read %+v, %v", s, v, v.String(), back, err)
		}
	})
}

// A member is upgraded from a patch that keeps its member list right, or one after it.
func TestUpgradeFloor(t *testing.T) {
	for to, want := range map[string]string{"3.6.0": "3.5.32", "3.6.16": "3.5.32", "3.7.3": "3.6.11"} {
		if got := Must(to).UpgradeFloor(); got != Must(want) {
			t.Errorf("before %s: %s, want %s", to, got, want)
		}
	}
	for _, to := range []string{"3.4.35", "3.5.0", "3.8.0", "4.6.0"} {
		if got := Must(to).UpgradeFloor(); !got.IsZero() {
			t.Errorf("before %s: %s", to, got)
		}
	}
}

// What who builds etcd has appended to a version is no part of its release; what etcd calls
// its own pre-releases is.
func TestRelease(t *testing.T) {
	for v, want := range map[string]string{
		"3.6.5": "3.6.5", "3.5.24-0": "3.5.24", "3.5.8-eks-1-26-16": "3.5.8", "3.7.0-rc.0": "3.7.0-rc.0",
		"3.7.0-alpha.1": "3.7.0-alpha.1", "3.7.0-beta.0": "3.7.0-beta.0",
	} {
		if got := Must(v).Release(); got != Must(want) {
			t.Errorf("%s is release %s, want %s", v, got, want)
		}
	}
}
