package auto

import (
	"crypto/tls"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

func tlsOf(ca *certs.CA, leaf certs.Leaf) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.Pool(), Certificates: []tls.Certificate{leaf.TLS()}}
}

func TestSeed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	r := run(t, "seed", dir, "version=v3.6.16", "nodes=3")
	want := "the spec is 3 nodes of etcd 3.6.16\nrun on each of the machines:\n\n\tetcdadm auto " + dir + "\n"
	if r.code != 0 || r.stdout != want || !strings.Contains(r.stderr, "shared by all machines") {
		t.Fatalf("%+v, want %s", r, want)
	}
	b, err := os.ReadFile(filepath.Join(dir, "control", "etcd-cluster-spec"))
	if want := "{\n  \"memberCount\": 3,\n  \"etcdVersion\": \"3.6.16\"\n}"; string(b) != want || err != nil {
		t.Errorf("the file is %s, %v", b, err)
	}
	t.Run("again", func(t *testing.T) {
		r := run(t, "seed", dir, "nodes=3", "version=3.6.16", "-o", "json", "--cluster-name=it's mine")
		var s seeded
		if err := json.Unmarshal([]byte(r.stdout), &s); r.code != 0 || err != nil {
			t.Fatalf("%+v, %v", r, err)
		}
		want := seeded{Store: dir, MemberCount: 3, EtcdVersion: etcdversion.Must("3.6.16"),
			Command: "etcdadm auto " + dir + ` '--cluster-name=it'\''s mine'`}
		if s != want {
			t.Errorf("%+v, want %+v", s, want)
		}
		if r := run(t, "seed", dir, "nodes=3", "version=3.6.16"); !strings.HasPrefix(r.stdout,
			"the spec already is: 3 nodes") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("something else", func(t *testing.T) {
		for _, words := range [][]string{{"nodes=1", "version=3.6.16"}, {"nodes=3", "version=3.5.21"}} {
			r := run(t, append([]string{"seed", dir}, words...)...)
			if r.code != 7 || !strings.Contains(r.stderr, "another spec: 3 nodes of etcd 3.6.16") ||
				!strings.Contains(r.stderr, "--force") {
				t.Errorf("%+v", r)
			}
		}
		if r := run(t, "seed", dir, "nodes=5", "version=3.5.21", "--force"); r.code != 0 ||
			!strings.HasPrefix(r.stdout, "the spec is 5 nodes of etcd 3.5.21\n") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("one", func(t *testing.T) {
		r := run(t, "seed", filepath.Join(t.TempDir(), "store"), "nodes=1", "version=3.6.16")
		if r.code != 0 || !strings.HasPrefix(r.stdout, "the spec is 1 node of etcd 3.6.16\n") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("an even number", func(t *testing.T) {
		r := run(t, "seed", filepath.Join(t.TempDir(), "store"), "nodes=4")
		if r.code != 0 || !strings.Contains(r.stderr, "warning: 4 members tolerate no more failures than 3, ") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("garbage", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(dir, "control", "etcd-cluster-spec"), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := run(t, "seed", dir, "nodes=1"); r.code != 7 || !strings.Contains(r.stderr, "cannot be read") {
			t.Errorf("%+v", r)
		}
		if r := run(t, "seed", dir, "nodes=1", "--force"); r.code != 0 || r.stderr != "" {
			t.Errorf("%+v", r)
		}
	})
}

// What may be a mistake is written and reported: a directory that was not there, as the daemons do, and a
// version that nobody knows, as configure-cluster does.
func TestSeedsThatMayBeMistakes(t *testing.T) {
	dir := t.TempDir()
	typo := filepath.Join(dir, "typo")
	for _, tc := range []struct{ location, version, want string }{
		{dir, "3.6.16", ""},
		{"file://" + typo, "3.6.16", "warning: " + typo + " is not there, and will be made: check whether that is mistyped, or " +
			"a volume is not mounted; the daemons of all machines need the same store\n"},
		{"file://" + typo, "3.6.16", ""},
		{filepath.Join(dir, "relative"), "3.6.16", "warning: " + filepath.Join(dir, "relative") + " is not there"},
		{"mem://", "3.6.16", ""},
		{"mem://", "3.6.99", "warning: the newest etcd 3.6 that this program knows is 3.6.16: members run 3.6.99 only where " +
			"their machines have it\n"},
	} {
		r := run(t, "seed", tc.location, "nodes=1", "version="+tc.version)
		if r.code != 0 || !strings.HasPrefix(r.stderr, tc.want) || tc.want == "" && r.stderr != "" {
			t.Errorf("%+v: %+v", tc, r)
		}
	}
}

func TestSeedsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		words string
		code  int
		want  string
	}{
		{"", 2, "the number of nodes is missing"},
		{"version=3.6.16", 2, "the number of nodes is missing"},
		{"nodes=many", 2, "nodes=many: "},
		{"nodes", 2, "nodes: "},
		{"nodes=-1", 2, "member count is -1"},
		{"nodes=3 version=new", 2, "version=new: "},
		{"nodes=3 version=2.2.1", 2, "cannot be run by auto"},
		{"nodes=3 color=red", 2, `"color=red" is not known`},
	} {
		if r := run(t, append([]string{"seed", dir}, strings.Fields(tc.words)...)...); r.code != tc.code ||
			!strings.Contains(r.stderr, tc.want) {
			t.Errorf("%s: %+v", tc.words, r)
		}
	}
	if r := run(t, "seed"); r.code != 2 {
		t.Errorf("%+v", r)
	}
	if r := run(t, "seed", "x://bucket", "nodes=3"); r.code != 2 || !strings.Contains(r.stderr, "no driver for x://") {
		t.Errorf("%+v", r)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run(t, "seed", file, "nodes=3"); r.code != 6 || !strings.Contains(r.stderr, "not a directory") {
		t.Errorf("%+v", r)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("something was written: %v", left)
	}
}

// Of two who seed at the same time the second is reported.
func TestARaceForTheSpec(t *testing.T) {
	st, err := store.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close(t.Context())
	one := cluster.Spec{MemberCount: 1, EtcdVersion: etcdversion.Must("3.6.16")}
	three := one
	three.MemberCount = 3
	s := &seed{}
	if written, err := s.write(t.Context(), st, one); !written || err != nil {
		t.Fatal(written, err)
	}
	if written, err := s.write(t.Context(), st, three); written || err == nil {
		t.Error("the other's spec was replaced")
	}
	if written, err := s.write(t.Context(), st, one); written || err != nil {
		t.Error(written, err)
	}
}
