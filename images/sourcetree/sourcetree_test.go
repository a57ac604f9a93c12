package sourcetree

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A tree is named by its commit, also where it belongs to somebody else, and never by what
// is around it. A commit that git cannot name is no tree without one.
func TestFind(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "")
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	tree := t.TempDir()
	unpacked := filepath.Join(tree, "unpacked")
	for _, dir := range []string{tree, unpacked} {
		if err := os.MkdirAll(filepath.Join(dir, "images", "etcd"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "-q"}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "a"},
	} {
		if out, err := exec.Command("git", append([]string{"-C", tree}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	if os.Getuid() == 0 {
		if err := os.Chown(tree, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(filepath.Join(tree, ".git"), 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Find(t.Context(), filepath.Join(tree, "images"), "")
	if err != nil || !regexp.MustCompile("^devel-[0-9a-f]{12}$").MatchString(s.Version) || s.Time.Unix() == 0 {
		t.Errorf("a clone is %+v, %v", s, err)
	}
	if s, err = Find(t.Context(), unpacked, ""); err != nil || s.Version != "devel" || s.Time.Unix() != 0 {
		t.Errorf("what is unpacked within it is %+v, %v", s, err)
	}
	if err := os.Remove(filepath.Join(tree, ".git", "HEAD")); err != nil {
		t.Fatal(err)
	}
	if s, err = Find(t.Context(), tree, ""); err == nil {
		t.Errorf("a clone that is damaged is %+v", s)
	}
}

func TestVersionAndTime(t *testing.T) {
	s, err := Find(t.Context(), ".", "")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.Version, "devel") || s.Root == "" {
		t.Errorf("%+v", s)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	if s, err = Find(t.Context(), ".", "v1"); err != nil || s.Version != "v1" || s.Time.Unix() != 1_700_000_000 {
		t.Errorf("%+v, %v", s, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := Find(t.Context(), ".", ""); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("error %v", err)
	}
	if _, err := Find(t.Context(), t.TempDir(), ""); err == nil || !strings.Contains(err.Error(), "no source tree") {
		t.Errorf("error %v", err)
	}
}

// Programs in packages and images are built as those of "make build".
func TestFlagsOfMakeBuild(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	want := "build -tags " + BuildTags + " -trimpath -ldflags '" + LinkFlags + "'"
	if !strings.Contains(string(makefile), want) {
		t.Errorf("the Makefile does not build with %s", want)
	}
}
