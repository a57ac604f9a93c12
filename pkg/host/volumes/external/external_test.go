package external

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	for _, tc := range []struct {
		name   string
		dirs   []string
		prefix string
		want   string
		err    string
	}{
		{"the one that fits", []string{"c--main--0/mnt", "c--events--0/mnt"}, "c--main--", "c--main--0", ""},
		{"none", []string{"c--events--0/mnt"}, "c--main--", "", "mount the volume there"},
		{"not mounted", []string{"c--main--0/lost+found"}, "c--main--", "", "mount the volume there"},
		{"two", []string{"c--main--0/mnt", "c--main--1/mnt"}, "c--main--", "", "a node runs one member"},
		{"no tag", []string{"c--main--0/mnt"}, "", "", "--volume-tag"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			for _, d := range tc.dirs {
				if err := os.MkdirAll(filepath.Join(root, "mnt/disks", d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			v, err := Find(root, tc.prefix)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if v.Name != tc.want || v.DataDir != filepath.Join(root, "mnt/disks", tc.want, "mnt") {
				t.Errorf("found %+v", v)
			}
		})
	}
}

func TestFindWithoutDisks(t *testing.T) {
	if _, err := Find(t.TempDir(), "c--main--"); err == nil || !strings.Contains(err.Error(), "look for volumes") {
		t.Errorf("error %v", err)
	}
}

func TestLowestAddress(t *testing.T) {
	addr := func(s string) net.Addr {
		ip, n, err := net.ParseCIDR(s)
		if err != nil {
			t.Fatal(err)
		}
		return &net.IPNet{IP: ip, Mask: n.Mask}
	}
	got, err := lowest([]net.Addr{
		addr("127.0.0.1/8"), addr("fe80::1/64"), addr("fd00::5/64"), addr("10.0.0.9/24"), addr("10.0.0.4/24"),
	})
	if err != nil || got != "10.0.0.4" {
		t.Errorf("got %q, %v", got, err)
	}
	got, err = lowest([]net.Addr{addr("::1/128"), addr("fd00::5/64")})
	if err != nil || got != "fd00::5" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := lowest([]net.Addr{addr("127.0.0.1/8")}); err == nil {
		t.Error("a machine without addresses has one")
	}
}
