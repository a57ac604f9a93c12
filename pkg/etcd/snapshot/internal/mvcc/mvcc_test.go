package mvcc

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/internal/pages"
)

// at is a revision as a key.
func at(main, sub byte, tail string) []byte {
	return []byte("\x00\x00\x00\x00\x00\x00\x00" + string(main) + "_\x00\x00\x00\x00\x00\x00\x00" + string(sub) + tail)
}

func TestEntries(t *testing.T) {
	e, err := Parse(at(5, 1, ""), []byte("\x0a\x01k\x10\x02\x18\x05\x20\x03\x2a\x03abc\x30\x07"))
	if err != nil || e.Revision != (Revision{5, 1}) || string(e.Key) != "k" || e.Create != 2 || e.Mod != 5 ||
		e.Version != 3 || string(e.Value) != "abc" || e.ValueAt != 11 || e.Lease != 7 {
		t.Errorf("%+v, %v", e, err)
	}
	// Unknown fields are nothing, and the last of a number counts.
	e, err = Parse(at(5, 0, ""),
		[]byte("\x52\x02xx\x0a\x01a\x0a\x01k\x10\x05\x18\x05\x20\x01\x59\x00\x00\x00\x00\x00\x00\x00\x00"))
	if err != nil || string(e.Key) != "k" {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err = Parse(at(5, 0, "t"), []byte("\x0a\x01k")); err != nil || !e.Deleted || string(e.Key) != "k" {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err = Parse(at(9, 0, ""), nil); err != nil || e.Deleted || len(e.Key) != 0 {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestWhatIsNoEntry(t *testing.T) {
	for name, tc := range map[string]struct{ k, v, want string }{
		"short":              {"123", "", "not a revision"},
		"no line":            {strings.Replace(string(at(5, 0, "")), "_", "-", 1), "", "not a revision"},
		"another mark":       {string(at(5, 0, "x")), "", "not a revision"},
		"long":               {string(at(5, 0, "tt")), "", "not a revision"},
		"deletes nothing":    {string(at(5, 0, "t")), "", "deletes no key"},
		"deletes with value": {string(at(5, 0, "t")), "\x0a\x01k\x18\x05", "deletes no key"},
		"cut off tag":        {string(at(5, 0, "")), "\xff", "5.0"},
		"cut off key":        {string(at(5, 0, "")), "\x0a\x05k", "5.0"},
		"cut off number":     {string(at(5, 0, "")), "\x10", "5.0"},
		"cut off unknown":    {string(at(5, 0, "")), "\x59\x00", "5.0"},
		"no version":         {string(at(5, 0, "")), "\x0a\x01k\x10\x02\x18\x05", "version 0"},
	} {
		if _, err := Parse([]byte(tc.k), []byte(tc.v)); !errors.Is(err, pages.ErrDamaged) ||
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOrderOfRevisions(t *testing.T) {
	a, b, c := Revision{1, 5}, Revision{2, 0}, Revision{2, 1}
	if !b.After(a) || !c.After(b) || a.After(b) || b.After(c) || a.After(a) {
		t.Error("the order is wrong")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(at(5, 1, ""), []byte("\x0a\x01k\x10\x02\x18\x05\x20\x03\x2a\x03abc\x30\x07"))
	f.Add(at(5, 1, "t"), []byte("\x0a\x01k"))
	f.Fuzz(func(t *testing.T, k, v []byte) {
		e, err := Parse(k, v)
		if err == nil && len(e.Value) > 0 && !bytes.Equal(v[e.ValueAt:][:len(e.Value)], e.Value) {
			t.Errorf("the value is not at %d", e.ValueAt)
		}
		if _, err := ParseLease(k, v); err != nil && !errors.Is(err, pages.ErrDamaged) {
			t.Error(err)
		}
	})
}
