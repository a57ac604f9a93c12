package hazards

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/snapshottest"
)

// A message is one of protocol buffers.
type message []byte

func (m message) num(n protowire.Number, v uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, n, protowire.VarintType), v)
}

func (m message) bytes(n protowire.Number, b []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, n, protowire.BytesType), b)
}

// A walFile is a file of the log as etcd writes it. The sum goes on from file to file.
type walFile struct {
	b   []byte
	sum uint32
}

func (w *walFile) record(kind uint64, data []byte) *walFile {
	w.sum = crc32.Update(w.sum, castagnoli, data)
	record := message(nil).num(1, kind).num(2, uint64(w.sum)).bytes(3, data)
	head, pad := uint64(len(record)), -len(record)&7
	if pad > 0 {
		head |= uint64(0x80|pad) << 56
	}
	w.b = append(append(binary.LittleEndian.AppendUint64(w.b, head), record...), make([]byte, pad)...)
	return w
}

func (w *walFile) entry(kind, index uint64, data []byte) *walFile {
	return w.record(recordEntry, message(nil).num(1, kind).num(2, 7).num(3, index).bytes(4, data))
}

// v2 adds a request of the v2 store, v3 one of the v3 store.
func (w *walFile) v2(index uint64, method, path string) *walFile {
	request := message(nil).bytes(2, []byte(method)).bytes(3, []byte(path))
	return w.entry(entryNormal, index, message(nil).bytes(2, request))
}

func (w *walFile) v3(index uint64) *walFile {
	return w.entry(entryNormal, index, message(nil).bytes(4, []byte("a put")))
}

func (w *walFile) change(index, kind uint64, id cluster.MemberID, of string) *walFile {
	data := message(nil).num(2, kind).num(3, uint64(id))
	if of != "" {
		data = data.bytes(4, []byte(of))
	}
	return w.entry(entryChange, index, data)
}

func (w *walFile) commit(index uint64) *walFile {
	return w.record(recordState, message(nil).num(1, 7).num(3, index))
}

func (w *walFile) snapshot(index uint64) *walFile {
	return w.record(recordSnapshot, message(nil).num(1, index).num(2, 7))
}

// next begins a file that follows w.
func (w *walFile) next() *walFile {
	f := &walFile{sum: w.sum}
	return f.record(recordChecksum, nil)
}

func put(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func walName(sequence, index int) string { return fmt.Sprintf("%016x-%016x.wal", sequence, index) }

// What etcd does not keep of its log is not held against the member, and what cannot be
// read proves nothing.
func TestReadingALog(t *testing.T) {
	first := func() *walFile { return new(walFile).next() }
	wide := strings.Repeat("k", 3000)
	// torn is a file whose last record lacks a sector in the middle.
	torn := func() []byte {
		w := first().v2(1, "PUT", "/1/a")
		at := len(w.b)
		w.v2(2, "PUT", "/1/"+wide)
		clear(w.b[(at/512+2)*512 : (at/512+3)*512])
		return w.b
	}
	flipped := func() []byte {
		b := first().v2(1, "PUT", "/1/a").v2(2, "PUT", "/1/"+wide).b
		b[len(b)-1000] ^= 1
		return b
	}
	// two files, the first of which is cut to so many bytes less.
	two := func(cut int) [][]byte {
		a := first().v2(1, "PUT", "/1/a")
		b := a.next().v2(2, "PUT", "/1/b")
		return [][]byte{a.b[:len(a.b)-cut], b.b}
	}
	for name, c := range map[string]struct {
		files [][]byte
		// requests are those that were found, tail the entries behind what is committed.
		requests string
		tail     []uint64
		changes  int
		problem  string
	}{
		"what is committed is no tail": {
			files:    [][]byte{first().v2(1, "PUT", "/1/a").v3(2).commit(1).b},
			requests: "PUT /1/a at 1", tail: []uint64{2},
		},
		"reads change no keys": {
			files:    [][]byte{first().v2(1, "SYNC", "").v2(2, "QGET", "/1/a").v2(3, "DELETE", "/1/a").b},
			requests: "SYNC  at 1, QGET /1/a at 2, DELETE /1/a at 3", tail: []uint64{3},
		},
		"another leader's entry takes the place of one": {
			files: [][]byte{first().v2(1, "PUT", "/1/a").v2(2, "PUT", "/1/b").v3(2).b}, requests: "PUT /1/a at 1",
			tail: []uint64{1, 2},
		},
		"and of those behind": {
			files:    [][]byte{first().v2(1, "PUT", "/1/a").v2(2, "PUT", "/1/b").change(3, remove, 7, "").v3(4).v3(2).b},
			requests: "PUT /1/a at 1", tail: []uint64{1, 2},
		},
		"members change": {
			files: [][]byte{first().change(1, remove, 7, "").change(2, remove, 8, "").b}, changes: 2,
		},
		"a request that is damaged": {
			files:    [][]byte{first().entry(entryNormal, 1, []byte{0xff}).b},
			requests: "unreadable  at 1", tail: []uint64{1},
		},
		"a request within one that is damaged": {
			files:    [][]byte{first().entry(entryNormal, 1, message(nil).bytes(2, []byte{0xff})).b},
			requests: "\xff  at 1", tail: []uint64{1},
		},
		"the rest was never written": {
			files:    [][]byte{append(first().v2(1, "PUT", "/1/a").b, make([]byte, 4096)...)},
			requests: "PUT /1/a at 1", tail: []uint64{1},
		},
		"cut off within the last": {
			files: [][]byte{two(0)[0], two(0)[1][:20]}, requests: "PUT /1/a at 1", tail: []uint64{1},
		},
		"a sector was never written": {
			files: [][]byte{torn()}, requests: "PUT /1/a at 1", tail: []uint64{1},
		},
		"two files": {
			files: two(0), requests: "PUT /1/a at 1, PUT /1/b at 2", tail: []uint64{1, 2},
		},
		"cut off within another":  {files: two(5), problem: "ends in the middle of a record"},
		"cut off within a length": {files: [][]byte{first().b, append(first().b, 1, 2, 3)}},
		"a sector of another is not there": {
			files: [][]byte{torn(), first().b}, problem: "the checksum is wrong",
		},
		"a flipped bit is no crash": {
			files: [][]byte{flipped()}, problem: "the checksum is wrong",
		},
		"a record without an end": {
			files: [][]byte{binary.LittleEndian.AppendUint64(nil, maxRecord+1)}, problem: "a record has",
		},
		"a change that is damaged": {
			files:   [][]byte{first().change(1, addVoter, 7, "{").b},
			problem: "the change of members at 1",
		},
		"no log": {problem: "there is none"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for i, b := range c.files {
				put(t, filepath.Join(dir, walName(i, i)), b)
			}
			l, err := readLog(dir, 0)
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) {
					t.Errorf("error %v, want %q", err, c.problem)
				}
				return
			}
			var found []string
			for _, r := range l.requests {
				found = append(found, r.String())
			}
			if got := strings.Join(found, ", "); err != nil || got != c.requests || !slices.Equal(l.tail, c.tail) ||
				len(l.changes) != c.changes {
				t.Errorf("requests %q, tail %v, %d changes, %v", got, l.tail, len(l.changes), err)
			}
		})
	}
}

// Files before the one that has the first entry in question are not read: etcd may remove them.
func TestFilesOfTheLogThatAreNotNeeded(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, walName(0, 0)), []byte("damaged"))
	put(t, filepath.Join(dir, walName(1, 5)), new(walFile).next().v3(5).b)
	for from, whole := range map[uint64]bool{4: false, 5: true, 9: true} {
		if _, err := readLog(dir, from); (err == nil) != whole {
			t.Errorf("from %d: %v", from, err)
		}
	}
	put(t, filepath.Join(dir, "notes.wal"), nil)
	if _, err := readLog(dir, 5); err == nil || !strings.Contains(err.Error(), "no number in its name") {
		t.Errorf("a file that is none of etcd's: %v", err)
	}
}

// What was found counts for as long as the files are the same, wherever they are.
func TestFilesInOddPlaces(t *testing.T) {
	for _, name := range []string{"etcd", "etcd[1]*"} {
		d := datadir.At(filepath.Join(t.TempDir(), name))
		seen := map[string]bool{Files(d): true}
		for _, path := range []string{
			filepath.Join(d.Log(), walName(0, 0)), filepath.Join(d.Log(), walName(1, 9)), filepath.Join(d.Snap(), "7-4.snap"),
		} {
			put(t, path, nil)
			if now := Files(d); seen[now] || Files(d) != now {
				t.Errorf("with %s they are called %q", path, now)
			} else {
				seen[now] = true
			}
		}
	}
}

// made is a data directory whose newest raft snapshot is of index 4.
type made struct {
	// applied is what the database has reached, members those that it has.
	applied uint64
	members map[string]string
	wal     *walFile
	// snaps are the raft snapshots by index.
	snaps map[uint64][]byte
}

const memberA = `{"id":10,"peerURLs":["http://a"],"name":"a"}`

// snap returns a raft snapshot with member 10 and keys of clients.
func snap(index uint64, keys ...string) []byte {
	text := func(v string) map[string]any { return map[string]any{"Value": v} }
	dir := func(children map[string]any) map[string]any { return map[string]any{"Children": children} }
	client := map[string]any{}
	for _, k := range keys {
		client[k] = text("v")
	}
	store, err := json.Marshal(map[string]any{"Root": dir(map[string]any{
		"0": dir(map[string]any{
			"version":         text("3.5.0"),
			"members":         dir(map[string]any{"a": dir(map[string]any{"raftAttributes": text(memberA)})}),
			"removed_members": dir(map[string]any{"b": dir(nil)}),
		}),
		"1": dir(client),
	})})
	if err != nil {
		panic(err) // it is made of texts
	}
	meta := message(nil).bytes(1, message(nil).num(1, 10)).num(2, index)
	data := message(nil).bytes(1, store).bytes(2, meta)
	return message(nil).num(1, uint64(crc32.Checksum(data, castagnoli))).bytes(2, data)
}

func (m made) lay(t *testing.T) datadir.Dir {
	t.Helper()
	d := datadir.At(t.TempDir())
	db := snapshottest.New("3.5")
	db.Values["meta"]["consistent_index"] = string(binary.BigEndian.AppendUint64(nil, m.applied))
	db.Values["members"] = m.members
	put(t, d.Database(), db.Database(t))
	put(t, filepath.Join(d.Log(), walName(0, 0)), m.wal.b)
	for index, b := range m.snaps {
		put(t, filepath.Join(d.Snap(), fmt.Sprintf("%016x-%016x.snap", 7, index)), b)
	}
	return d
}

// A hazard is absent only where all parts of the data are there and fit together.
func TestDataThatDoesNotFitTogether(t *testing.T) {
	base := func() *walFile {
		return new(walFile).next().v3(1).v3(2).snapshot(2).v3(3).v3(4).snapshot(4).v3(5).v3(6).commit(6)
	}
	broken := snap(4)
	broken[len(broken)-1] ^= 1
	for name, c := range map[string]struct {
		change  func(*made)
		present []cluster.HazardKind
		unknown string
	}{
		"all fits":                {func(*made) {}, nil, ""},
		"no database":             {func(m *made) { m.members = nil }, nil, "it has no bucket members"},
		"a member without a text": {func(m *made) { m.members["b"] = "{" }, nil, "member b"},
		"the database is behind the snapshot": {func(m *made) { m.applied = 3 }, nil,
			"the database is at 3, but the raft snapshot at 4"},
		"the database is ahead of the log": {func(m *made) { m.applied = 7 }, nil, "the log ends at 6"},
		"the log begins too late": {func(m *made) { m.wal = new(walFile).next().snapshot(4).v3(6) }, nil,
			"the log begins at 6, but the raft snapshot is at 4"},
		"the snapshot is gone": {
			func(m *made) { m.snaps = nil }, nil, "names one that does not exist",
		},
		"the snapshot is damaged": {
			func(m *made) { m.snaps[4] = broken }, nil, "the checksum is wrong",
		},
		"the snapshot is cut off": {
			func(m *made) { m.snaps[4] = m.snaps[4][:9] }, nil, "unexpected EOF",
		},
		"a newer snapshot that the log does not name": {
			func(m *made) { m.snaps[6] = snap(6, "key") }, nil, "",
		},
		"a key": {
			func(m *made) { m.snaps[4] = snap(4, "key") },
			[]cluster.HazardKind{cluster.HazardV2Content}, "",
		},
		"a request behind the snapshot": {
			func(m *made) { m.wal.v2(7, "PUT", "/1/key") },
			[]cluster.HazardKind{cluster.HazardOldLog, cluster.HazardV2Log}, "",
		},
		"one of etcd's own": {
			func(m *made) { m.wal.v2(7, "PUT", "/0/version") },
			[]cluster.HazardKind{cluster.HazardOldLog}, "",
		},
		"one that nobody understands": {
			func(m *made) { m.wal.entry(entryNormal, 7, []byte{0xff}) },
			[]cluster.HazardKind{cluster.HazardOldLog, cluster.HazardV2Log}, "",
		},
		"a removed member": {
			func(m *made) { m.members["b"] = `{"id":11,"peerURLs":["http://b"],"name":"b"}` },
			[]cluster.HazardKind{cluster.HazardMembers}, "",
		},
		"a missing member": {
			func(m *made) { m.members = map[string]string{} },
			[]cluster.HazardKind{cluster.HazardMembers}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := made{
				applied: 6, members: map[string]string{"a": memberA}, wal: base(), snaps: map[uint64][]byte{4: snap(4)},
			}
			c.change(&m)
			for _, h := range Examine(m.lay(t)) {
				want := cluster.HazardAbsent
				switch {
				case c.unknown != "":
					want = cluster.HazardUnknown
				case slices.Contains(c.present, h.Kind):
					want = cluster.HazardPresent
				}
				if h.State != want || c.unknown != "" && !strings.Contains(h.What, c.unknown) {
					t.Errorf("%s, want %s %s", h, want, c.unknown)
				}
			}
		})
	}
}

// A change that etcd refused when it carried it out is in the log all the same.
func TestChangesOfMembers(t *testing.T) {
	of := func(name, url, more string) string {
		return fmt.Sprintf(`{"id":1,"peerURLs":["http://%s"],"name":%q%s}`, url, name, more)
	}
	promote := `,"isPromote":true`
	learner := func(w *walFile, index uint64, id cluster.MemberID, name string) *walFile {
		return w.change(index, addLearner, id, of(name, name, `,"isLearner":true`))
	}
	for name, c := range map[string]struct {
		log  func(*walFile)
		want string
	}{
		"added": {
			func(w *walFile) { w.change(1, addVoter, 11, of("b", "b", "")) },
			"a voter http://a, b voter http://b",
		},
		"a URL that is in use": {
			func(w *walFile) { w.change(1, addVoter, 11, of("b", "a", "")) }, "a voter http://a",
		},
		"there already": {
			func(w *walFile) { w.change(1, addVoter, 10, of("x", "x", "")) }, "a voter http://a",
		},
		"removed": {func(w *walFile) { w.change(1, remove, 10, "") }, ""},
		"removed, and never back": {
			func(w *walFile) { w.change(1, remove, 10, "").change(2, addVoter, 10, of("a", "a", "")) }, "",
		},
		"of nobody": {
			func(w *walFile) { w.change(1, remove, 11, "").change(2, update, 11, of("b", "b", "")) },
			"a voter http://a",
		},
		"moved": {
			func(w *walFile) { w.change(1, update, 10, of("", "c", "")) }, "a voter http://c",
		},
		"a learner": {
			func(w *walFile) { learner(w, 1, 11, "b") }, "a voter http://a, b learner http://b",
		},
		"one learner too many": {
			func(w *walFile) { learner(learner(w, 1, 11, "b"), 2, 12, "c") }, "a voter http://a, b learner http://b",
		},
		"a learner that may vote": {
			func(w *walFile) { learner(w, 1, 11, "b").change(2, addVoter, 11, of("", "", promote)) },
			"a voter http://a, b voter http://b",
		},
		"a voter that may vote": {
			func(w *walFile) { w.change(1, addVoter, 10, of("", "", promote)) }, "a voter http://a",
		},
		"nobody who may vote": {
			func(w *walFile) { w.change(1, addVoter, 11, of("b", "b", promote)) }, "a voter http://a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := new(walFile).next()
			c.log(w)
			dir := t.TempDir()
			put(t, filepath.Join(dir, walName(0, 0)), w.b)
			l, err := readLog(dir, 0)
			if err != nil {
				t.Fatal(err)
			}
			s := newState()
			s.members[10], s.raft[10] = member{Name: "a", PeerURLs: []string{"http://a"}}, false
			for _, change := range l.changes {
				s.apply(change, 1)
			}
			var found []string
			for _, id := range slices.Sorted(maps.Keys(s.members)) {
				m := s.members[id]
				found = append(found, m.Name+" "+role(m.Learner)+" "+strings.Join(m.PeerURLs, ","))
				if s.raft[id] != m.Learner {
					t.Errorf("raft has %s as a %s", m.Name, role(s.raft[id]))
				}
			}
			if got := strings.Join(found, ", "); got != c.want {
				t.Errorf("members are %q, want %q", got, c.want)
			}
		})
	}
}
