package etcdbuild

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBuildTagsOfAVersion(t *testing.T) {
	f := newFixture(t)
	f.write(t, "1.2.3/server/main.go", "//go:build !old\n\n"+program("server new"))
	f.write(t, "1.2.3/server/old.go", "//go:build old\n\n"+program("server old"))
	f.write(t, "1.2.3/tags", "old\n")
	if got := output(t, filepath.Join(f.build(t), "etcd")); got != "server old" {
		t.Errorf("etcd says %q", got)
	}
}

// What a script changes is a copy: the folder stays as it is, and so does the key.
func TestAScriptPreparesACopy(t *testing.T) {
	f := newFixture(t)
	f.write(t, "1.2.3/prep.sh", "go mod vendor\nsed -i 's/server one/server two/' server/main.go\n")
	key := f.keyOf(t)
	dir := f.build(t)
	if got := output(t, filepath.Join(dir, "etcd")); got != "server two" {
		t.Errorf("etcd says %q", got)
	}
	source, err := os.ReadFile(filepath.Join(f.Modules, "1.2.3", "server", "main.go"))
	if err != nil || !strings.Contains(string(source), "server one") || f.keyOf(t) != key {
		t.Errorf("the folder was changed: %s, %v", source, err)
	}
	if got := f.entries(t, "etcd"); len(got) != 1 {
		t.Errorf("the cache has %v", got)
	}
}

func TestAScriptThatFails(t *testing.T) {
	f := newFixture(t)
	f.write(t, "1.2.3/prep.sh", "echo no such thing\nfalse\necho went on\n")
	_, err := f.Build(t.Context(), "1.2.3")
	if err == nil || !strings.Contains(err.Error(), "run prep.sh: exit status 1\nno such thing") ||
		strings.Contains(err.Error(), "went on") {
		t.Errorf("error is %v", err)
	}
	if got := f.entries(t, "etcd"); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}

// A third builder waits while two others build.
func TestTwoBuildAtOnce(t *testing.T) {
	f := newFixture(t)
	for range atOnce {
		free, err := f.slot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer free()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.log.on = func(line string) {
		if strings.Contains(line, "waiting") {
			cancel()
		}
	}
	if _, err := f.Build(ctx, "1.2.3"); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if got := f.entries(t, "etcd"); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}

// One version that cannot be built ends the others, and its error is the one reported.
func TestSeveralVersions(t *testing.T) {
	f := newFixture(t)
	for _, v := range []string{"1.2.4", "1.2.5"} {
		f.write(t, v+"/go.mod", fixtureMod)
		f.write(t, v+"/server/main.go", program("server "+v))
		f.write(t, v+"/etcdctl/main.go", program("ctl "+v))
	}
	code, stdout, stderr := f.main(t, "etcd", "1.2.5", "1.2.3", "1.2.4")
	if lines := strings.Fields(stdout); code != 0 || len(lines) != 3 || !strings.Contains(lines[0], "1.2.5-") {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
	f.write(t, "1.2.4/server/main.go", "package main\n\nfunc main() { nonesuch() }\n")
	if code, _, stderr := f.main(t, "etcd", "1.2.4", "1.2.3"); code != 1 || !strings.Contains(stderr, "nonesuch") {
		t.Errorf("code %d, %s", code, stderr)
	}
}
