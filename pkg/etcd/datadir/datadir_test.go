package datadir

import "testing"

func TestPaths(t *testing.T) {
	plain, split := At("/d"), Dir{Data: "/d", WAL: "/log"}
	for _, c := range []struct{ got, want string }{
		{plain.Member(), "/d/member"},
		{plain.Log(), "/d/member/wal"},
		{plain.LogFiles(), "/d/member/wal/*.wal"},
		{plain.Snap(), "/d/member/snap"},
		{plain.SnapFiles(), "/d/member/snap/*.snap"},
		{plain.Database(), "/d/member/snap/db"},
		{split.Log(), "/log"},
		{split.LogFiles(), "/log/*.wal"},
		{split.Database(), "/d/member/snap/db"},
		{At("").Database(), "member/snap/db"},
	} {
		if c.got != c.want {
			t.Errorf("path is %s, want %s", c.got, c.want)
		}
	}
}
