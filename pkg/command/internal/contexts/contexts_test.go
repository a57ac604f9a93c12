package contexts

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// file puts text, after the two lines that each file has, where the contexts are.
func file(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv(Variable, "")
	if err := os.Mkdir(filepath.Join(dir, "etcdadm"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(Path(), []byte("apiVersion: etcdadm.dev/v1\nkind: Contexts\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "etcdadm")
}

// Every field stands for the flag of its name, and for no other.
func TestFlagsOfAContext(t *testing.T) {
	dir := file(t, `contexts:
- {name: all, backup-store: s, cluster-name: c, nodes: ["a:1", "b:2"], pki-dir: p, cert: ce, key: k, cacert: ca,
   etcd-cert: ec, etcd-key: ek, etcd-cacert: ea, insecure: true, etcd-insecure: true, published: true}
- name: none
`)
	f, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"backup-store": dir + "/s", "cluster-name": "c", "nodes": "a:1,b:2", "pki-dir": dir + "/p", "cert": dir + "/ce",
		"key": dir + "/k", "cacert": dir + "/ca", "etcd-cert": dir + "/ec", "etcd-key": dir + "/ek",
		"etcd-cacert": dir + "/ea",
		"insecure":    "true", "etcd-insecure": "true", "published": "true",
	}
	if got := f.Contexts[0].Flags(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := f.Contexts[1].Flags(); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestFilesThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"contexts: [":                                            "line ",
		"contexts:\n- name: a\n  store: s\n":                     "line 5: field store not found",
		"contexts:\n- backup-store: s\n":                         "name is empty",
		"contexts: [{name: a}, {name: a}]":                       `the context "a" is there twice`,
		"kind: Contexts":                                         "already",
		strings.Repeat("#"+strings.Repeat("x", 1023)+"\n", 1024): "more than",
	} {
		file(t, text)
		if _, err := Read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
	file(t, "")
	if err := os.WriteFile(Path(), []byte("kind: Member\napiVersion: etcdadm.dev/v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(); err == nil || !strings.Contains(err.Error(), `it is "Member"`) {
		t.Error(err)
	}
}

// Without a home there are no contexts, and none can be made.
func TestNoHome(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("HOME", "")
	t.Setenv(Variable, "")
	if _, _, ok, err := Choose(""); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	if err := Edit(func(*File) error { return nil }); err == nil {
		t.Error("it was written somewhere")
	}
}

func TestAFileOfAnotherUserIsNotRead(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	file(t, "")
	if err := os.Chown(Path(), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(); err == nil || !strings.Contains(err.Error(), "belongs to another user (65534)") {
		t.Error(err)
	}
}

// What others write meanwhile stays, and what fails changes nothing.
// What a person wrote stays: paths that are relative to the file, and where it is kept.
func TestAFileMadeByHandStaysWhereItIs(t *testing.T) {
	dir := file(t, `contexts:
- {name: lab, backup-store: store, cert: bob.crt}
`)
	kept := filepath.Join(t.TempDir(), "kept")
	if err := errors.Join(os.Rename(Path(), kept), os.Symlink(kept, Path())); err != nil {
		t.Fatal(err)
	}
	if err := Edit(func(f *File) error { f.Current = "lab"; return nil }); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(kept)
	if err != nil || !strings.Contains(string(text), "current-context: lab") ||
		!strings.Contains(string(text), "cert: bob.crt") || !strings.Contains(string(text), "backup-store: store") {
		t.Errorf("%v: %s", err, text)
	}
	c, _, _, err := Choose("")
	if err != nil || c.Cert != filepath.Join(dir, "bob.crt") {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestEditing(t *testing.T) {
	file(t, "")
	var all sync.WaitGroup
	var want []string
	for i := range 20 {
		name := fmt.Sprintf("c%02d", i)
		want = append(want, name)
		all.Go(func() {
			for {
				err := Edit(func(f *File) error {
					_, err := f.Set(Context{Name: name})
					return err
				})
				if err == nil {
					return
				}
				if !strings.Contains(err.Error(), "lock") {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	f, err := Read()
	if err != nil || !slices.Equal(f.Names(), want) {
		t.Fatalf("%v, %v", f, err)
	}
	before, err := os.ReadFile(Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := Edit(func(f *File) error { return f.Delete("c99") }); err == nil {
		t.Error("a context that is not there can be deleted")
	}
	if after, err := os.ReadFile(Path()); err != nil || string(after) != string(before) {
		t.Errorf("%v: it has changed", err)
	}
}

// Each field that a context has can be forgotten, and no other changes.
func TestUnset(t *testing.T) {
	whole := Context{Name: "a.example.com", BackupStore: "/s", ClusterName: "c", Nodes: []string{"x:1"}, PKIDir: "/p",
		Cert: "/ce", Key: "/k", CACert: "/ca", EtcdCert: "/ec", EtcdKey: "/ek", EtcdCACert: "/ea", Insecure: true,
		EtcdInsecure: true, Published: true}
	all := whole.Flags()
	if got := fields(); !slices.Equal(got, slices.Sorted(maps.Keys(all))) {
		t.Errorf("the fields are %v", got)
	}
	for _, field := range fields() {
		f := File{Current: "b", Contexts: []Context{{Name: "b", Cert: "x"}, whole}}
		if err := f.Unset("contexts.a.example.com." + field); err != nil {
			t.Fatal(err)
		}
		want := maps.Clone(all)
		delete(want, field)
		if got := f.Contexts[1].Flags(); !maps.Equal(got, want) || f.Contexts[0].Cert != "x" || f.Current != "b" {
			t.Errorf("%s: %v", field, got)
		}
	}
	f := File{Current: "b", Contexts: []Context{{Name: "b"}}}
	for _, wrong := range []string{
		"", "b", "contexts", "contexts.b", "contexts.b.", "contexts.c.nodes", "contexts.b.name",
	} {
		if err := f.Unset(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
	if err := f.Unset("current-context"); err != nil || f.Current != "" {
		t.Errorf("%q %v", f.Current, err)
	}
}

// The error of a context that is not there says which file was looked into.
func TestWhereContextsAre(t *testing.T) {
	dir := file(t, "")
	t.Setenv("SUDO_USER", "")
	_, _, _, err := Choose("a")
	if want := `no context "a" in ` + dir + "/config"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	t.Setenv("SUDO_USER", "ann")
	if got := Where(); os.Geteuid() == 0 && got != dir+"/config (under sudo, not that of ann)" {
		t.Errorf("under sudo: %s", got)
	}
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("HOME", "")
	_, _, _, err = Choose("a")
	if err == nil || !strings.Contains(err.Error(), "neither HOME nor XDG_CONFIG_HOME is set") {
		t.Errorf("without a home: %v", err)
	}
}
