package nodestate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

func TestDisk(t *testing.T) {
	const wal, db = "member/wal/0000000000000000-0000000000000000.wal", "member/snap/db"
	assigned := State{
		Assigned: &cluster.Assigned{Token: "tok-1", Version: etcdversion.Must("3.6.16")},
		MemberID: 0xabc, MemberToken: "tok-1",
	}
	etcd2 := assigned
	etcd2.Assigned = &cluster.Assigned{Token: "tok-1", Version: etcdversion.Must("2.2.1")}
	left := assigned
	left.Assigned = nil
	empty := cluster.Disk{State: cluster.DiskEmpty}
	data := func(token cluster.Token, id cluster.MemberID) cluster.Disk {
		return cluster.Disk{State: cluster.DiskData, Token: token, MemberID: id}
	}
	bad := func(problem string) cluster.Disk {
		return cluster.Disk{State: cluster.DiskUnreadable, Problem: problem}
	}
	for name, c := range map[string]struct {
		// files are paths; one that ends in "/" is a directory, one with " -> "
		// a symbolic link.
		files []string
		state State
		want  cluster.Disk
	}{
		"nothing":             {nil, assigned, empty},
		"no data directories": {[]string{"data/"}, assigned, empty},
		"what does not count": {
			[]string{"lost+found/", "data/lost+found/", "myid", "pki/tok-1/peers/ca.crt", "data-trashcan/tok-0/" + wal, "state"},
			assigned, empty,
		},
		"empty token directory": {[]string{"data/tok-1/"}, assigned, empty},
		"etcd did not get far": {
			[]string{"data/tok-1/member/snap/", "data/tok-1/member/wal/", "data/tok-1/.touch", "data/tok-1/member/wal/.touch"},
			assigned, empty,
		},
		"a log":                  {[]string{"data/tok-1/" + wal}, assigned, data("tok-1", 0xabc)},
		"a database":             {[]string{"data/tok-1/" + db}, assigned, data("tok-1", 0xabc)},
		"of nobody assigned":     {[]string{"data/tok-1/" + db}, left, data("tok-1", 0xabc)},
		"of nobody known":        {[]string{"data/tok-1/" + db}, State{}, data("tok-1", 0)},
		"of another incarnation": {[]string{"data/tok-0/" + db}, assigned, data("tok-0", 0)},
		"the assigned one first": {[]string{"data/tok-0/" + db, "data/tok-1/" + db}, assigned, data("tok-1", 0xabc)},
		"else the first name": {
			[]string{"data/tok-3/" + db, "data/tok-2/" + db, "data/tok-1/"}, assigned, data("tok-2", 0),
		},
		"behind a link": {
			[]string{"disk/member/snap/db", "data/tok-1 -> ../disk"}, assigned, data("tok-1", 0xabc),
		},
		"junk beside the assigned": {
			[]string{"data/notes.txt", "data/tok-0/junk", "data/tok-1/" + db}, assigned, data("tok-1", 0xabc),
		},

		"data of before": {[]string{"member/wal/0.wal", "member/snap/"}, State{}, bad("etcdadm migrate --data-dir=/")},
		"data of before, assigned nothing": {
			[]string{"member/wal/0.wal", "data/tok-1/"}, assigned, bad("has data of an etcd that no daemon runs"),
		},
		"data of before beside the assigned": {
			[]string{"member/wal/0.wal", "data/tok-1/" + db}, assigned, data("tok-1", 0xabc),
		},
		"data of before in the directory of incarnations": {
			[]string{"data/member/wal/0.wal"}, State{}, bad("of etcd before 3.4 it becomes a backup"),
		},
		"a log of before that cannot be read": {
			[]string{"member/wal -> wal"}, State{}, bad("too many levels of symbolic links"),
		},
		"an etcd 2 that the existing manager ran": {
			[]string{"data/tok-1/" + wal}, etcd2, bad("data/tok-1 --backup-store=STORE"),
		},

		"data is a file":           {[]string{"data"}, State{}, bad("not a directory")},
		"data is a file, assigned": {[]string{"data"}, assigned, bad("not a directory")},
		"token is a file":          {[]string{"data/tok-1"}, assigned, bad("tok-1 is not a directory")},
		"other token is a file":    {[]string{"data/tok-0"}, assigned, bad("tok-0 is not a directory")},
		"not a token":              {[]string{"data/a b/" + db}, assigned, bad("has the character ' '")},
		"link to nowhere":          {[]string{"data/tok-1 -> none"}, State{}, bad("no such file")},
		"stray file":               {[]string{"data/tok-1/notes.txt"}, assigned, bad("notes.txt but neither")},
		"stray file elsewhere": {
			[]string{"data/tok-0/notes.txt", "data/tok-2/" + db}, assigned, bad("notes.txt but neither"),
		},
		"member is a file":        {[]string{"data/tok-1/member"}, assigned, bad("member but neither")},
		"log directory is a file": {[]string{"data/tok-1/member/wal"}, assigned, bad("wal is not of the kind")},
		"database is a directory": {[]string{"data/tok-1/member/snap/db/"}, assigned, bad("db is not of the kind")},
		"unfinished log, no database": {
			[]string{"data/tok-1/member/wal.tmp/0.wal"}, assigned, bad("neither a log nor a database"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range c.files {
				lay(t, dir, f)
			}
			got := Disk(dir, c.state)
			if c.want.Problem != "" && strings.Contains(got.Problem, c.want.Problem) {
				got.Problem = c.want.Problem
			}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// lay makes a file, a directory ("x/") or a link ("x -> y") below dir.
func lay(t *testing.T, dir, what string) {
	t.Helper()
	name, target, link := strings.Cut(what, " -> ")
	path := filepath.Join(dir, name)
	var err error
	switch {
	case link:
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			err = os.Symlink(target, path)
		}
	case strings.HasSuffix(name, "/"):
		err = os.MkdirAll(path, 0o700)
	default:
		put(t, path, "x")
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestPaths(t *testing.T) {
	if got := DataDir("/v", "tok"); got != "/v/data/tok" {
		t.Error(got)
	}
	if got := PKIDir("/v", "tok"); got != "/v/pki/tok" {
		t.Error(got)
	}
}
