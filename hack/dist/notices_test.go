package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The license of each module that is linked into a program is there, and no text twice.
func TestNotices(t *testing.T) {
	got, err := tested.notices(t.Context(), "amd64")
	if err != nil {
		t.Fatal(err)
	}
	text := string(got)
	for _, want := range []string{
		"\nGo and its standard library\n", "\ngo.etcd.io/etcd/client/v3 v3.", "\ngithub.com/hashicorp/memberlist v",
		"Mozilla Public License", "\ngoogle.golang.org/grpc v", "Copyright 2014 gRPC authors.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the notices lack %q", want)
		}
	}
	if strings.Contains(text, ownModules) || strings.Contains(text, "/pkg/mod/") {
		t.Error("the notices name our own modules, or directories of this machine")
	}
	again, err := tested.notices(t.Context(), "amd64")
	if err != nil || string(again) != text {
		t.Errorf("the notices are not the same again: %v", err)
	}
}

// A package within a module may have a license of its own, and a module may not lack one.
func TestNoticesWithinAModule(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	in := func(module, dir string) linked {
		p := linked{Dir: filepath.Join(root, module, dir)}
		p.Module = &struct{ Path, Version, Dir string }{"example.com/" + module, "v1.0.0", filepath.Join(root, module)}
		return p
	}
	write("one/LICENSE", "terms A\r\n")
	write("one/license.go", "package one")
	write("one/deep/er/COPYING.txt", "terms B\n")
	write("two/LICENSE.md", "terms A")
	write("none/README.md", "terms C")
	got, err := writeNotices([]linked{in("one", ""), in("one", "deep/er"), in("two", "")})
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("-", 80) + "\n"
	want := "\n" + line + "example.com/one v1.0.0\nexample.com/two v1.0.0\n" + line + "\nterms A\n" +
		"\n" + line + "example.com/one v1.0.0 deep/er\n" + line + "\nterms B\n"
	if !strings.HasSuffix(string(got), "versions.\n"+want) {
		t.Errorf("%s", got)
	}
	if got, err = writeNotices([]linked{in("one", ""), in("none", "")}); err == nil ||
		!strings.Contains(err.Error(), "example.com/none v1.0.0") {
		t.Errorf("a module without a license gives %s, %v", got, err)
	}
}
