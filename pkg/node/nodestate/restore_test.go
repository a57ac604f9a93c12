package nodestate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// Restored data takes the place of nothing but an empty directory, and is moved once.
func TestAdopt(t *testing.T) {
	const db, staged, theirs = "member/snap/db", "restore/tok-1/data/", "data/tok-1/"
	absent := fs.ErrNotExist.Error()
	for name, c := range map[string]struct {
		files []string
		// there is what is in place then, left what is still staged.
		there, left bool
		problem     string
	}{
		"staged":                    {[]string{staged + db}, true, false, ""},
		"done before":               {[]string{theirs + db}, true, false, ""},
		"beside data":               {[]string{staged + db, theirs + db}, true, true, ""},
		"over an empty directory":   {[]string{staged + db, theirs}, true, false, ""},
		"nothing staged":            {nil, false, false, absent},
		"not all of it staged":      {[]string{staged}, false, false, absent},
		"of another incarnation":    {[]string{"restore/tok-2/data/" + db}, false, false, absent},
		"something else in its way": {[]string{staged + db, theirs + "notes.txt"}, false, true, "neither a log nor"},
		"something else staged":     {[]string{staged + "notes.txt"}, false, false, "neither a log nor"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range c.files {
				lay(t, dir, f)
			}
			err := Adopt(dir, "tok-1")
			if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) ||
				errors.Is(err, fs.ErrNotExist) != (c.problem == absent) {
				t.Errorf("error %v, want %q", err, c.problem)
			}
			left, _ := Staged(dir, "tok-1") // what cannot be read is not staged
			if there := exists(filepath.Join(dir, theirs, db)); there != c.there || left != c.left {
				t.Errorf("in place %t, still staged %t", there, left)
			}
		})
	}
}

func TestStagedDataOfOtherIncarnationsGoes(t *testing.T) {
	for name, c := range map[string]struct {
		keep []cluster.Token
		left []string
	}{
		"none is kept": {nil, nil},
		"one":          {[]cluster.Token{"tok-2"}, []string{"tok-2"}},
		"none of them": {[]cluster.Token{"tok"}, nil},
		"two":          {[]cluster.Token{"tok-1", "tok-3"}, []string{"tok-1", "tok-3"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := KeepStaged(dir, c.keep...); err != nil {
				t.Fatalf("where nothing is: %v", err)
			}
			for _, token := range []string{"tok-1", "tok-2", "tok-3"} {
				lay(t, dir, "restore/"+token+"/data/member/snap/db")
			}
			lay(t, dir, "data/tok-1/member/snap/db")
			for range 2 {
				if err := KeepStaged(dir, c.keep...); err != nil {
					t.Fatal(err)
				}
				entries, _ := os.ReadDir(filepath.Join(dir, restoreName)) // none where all is gone
				var left []string
				for _, e := range entries {
					left = append(left, e.Name())
				}
				if !slices.Equal(left, c.left) || exists(filepath.Join(dir, restoreName)) != (c.left != nil) {
					t.Errorf("%v is left, want %v", left, c.left)
				}
			}
			if !exists(filepath.Join(dir, "data/tok-1/member/snap/db")) {
				t.Error("the data in use is gone")
			}
		})
	}
}

// Data is removed only where the log shows that the member has committed nothing.
func TestDataOfAStartThatWasCutOff(t *testing.T) {
	state := func(fields ...byte) string { return string(frame(3, fields)) }
	head := string(frame(4, nil)) + string(frame(1, metadata(5, 7)))
	for name, c := range map[string]struct {
		log, snap string
		begun     bool
		problem   bool
	}{
		"no log":                           {},
		"an empty log":                     {log: strings.Repeat("\x00", 4096)},
		"the head alone":                   {log: head},
		"the first term":                   {log: head + state(8, 1, 16, 0, 24, 0)},
		"cut off within a record":          {log: head + state(8, 1)[:9]},
		"the snapshot that all begin with": {log: head, snap: "0000000000000000-0000000000000000.snap"},
		"a file that is no snapshot":       {log: head, snap: "0000000000000002-000000000000000f.snap.broken"},
		"a vote":                           {log: head + state(8, 1, 16, 5), begun: true},
		"a later term":                     {log: head + state(8, 2), begun: true},
		"committed":                        {log: head + state(8, 1, 24, 1), begun: true},
		"a state that is damaged":          {log: head + state(8), begun: true},
		"a raft snapshot":                  {log: head, snap: "0000000000000002-000000000000000f.snap", begun: true},
		"much without a state":             {log: head + string(frame(2, make([]byte, firstBytes/2+1))), begun: true},
		"a log that cannot be read":        {log: " -> wal", problem: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			member := filepath.Join(DataDir(dir, "tok-1"), "member")
			switch {
			case strings.HasPrefix(c.log, " -> "):
				lay(t, member, "wal"+c.log)
			case c.log != "":
				put(t, filepath.Join(member, "wal", "0000000000000000-0000000000000000.wal"), c.log)
			}
			put(t, filepath.Join(member, "snap", "db"), "keys")
			if c.snap != "" {
				put(t, filepath.Join(member, "snap", c.snap), "")
			}
			lay(t, dir, "data/tok-2/member/snap/db")
			if begun, err := Begun(DataDir(dir, "tok-1")); begun != c.begun || (err != nil) != c.problem {
				t.Errorf("begun %t, %v", begun, err)
			}
			err := DropUncommitted(dir, "tok-1")
			if kept := exists(member); kept != (c.begun || c.problem) || (err != nil) != c.problem {
				t.Errorf("kept %t, %v", kept, err)
			}
			if !exists(filepath.Join(dir, "data/tok-2/member/snap/db")) {
				t.Error("the data of another incarnation is gone")
			}
		})
	}
}

func TestResetTerm(t *testing.T) {
	const far = 1 << 40
	dir := t.TempDir()
	if _, err := ResetTerm(dir, 7); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("where no node is: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("it has made %v, %v", entries, err)
	}
	f := open(t, dir)
	update(t, f, func(s *State) {
		s.Term, s.Revision = far, 123
		s.Grant = lease.Grant{Term: far, Holder: "b", Released: true}
		s.LeaseVoters = cluster.LeaseVoters{Token: "tok-1", Term: 5, Seq: 2, Names: []cluster.NodeName{"a"}}
	})
	var locked *hostfs.LockedError
	if _, err := ResetTerm(dir, 7); !errors.As(err, &locked) {
		t.Errorf("beside a daemon: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, term := range []cluster.Term{0, far - 1, far + 1} {
		if _, err := ResetTerm(dir, term); err == nil {
			t.Errorf("it was reset to %d", term)
		}
	}
	before, err := ResetTerm(dir, 7)
	if err != nil || before.Term != far || before.Grant.Term != far {
		t.Errorf("before it was %+v, %v", before, err)
	}
	got := open(t, dir).State()
	if got.Term != 7 || got.Grant != (lease.Grant{Term: 7, Holder: "b"}) || got.LeaseVoters.Term != 5 ||
		got.Revision != 123 {
		t.Errorf("afterwards it is %+v", got)
	}
	broken := t.TempDir()
	put(t, filepath.Join(broken, ownName), "{")
	var corrupt *CorruptError
	if _, err := ResetTerm(broken, 7); !errors.As(err, &corrupt) || slurp(t, filepath.Join(broken, ownName)) != "{" {
		t.Errorf("of a file that is damaged: %v", err)
	}
}
