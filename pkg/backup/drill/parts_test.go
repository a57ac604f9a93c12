package drill

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/isolate"
	"github.com/etcdadm/etcdadm/pkg/testing/testchild"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func zipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestChoiceOfTheVersion(t *testing.T) {
	have := []etcdversion.Version{
		etcdversion.Must("3.5.9"), etcdversion.Must("3.5.35"), etcdversion.Must("3.6.11"), etcdversion.Must("3.6.16"),
		etcdversion.Must("4.7.1"),
	}
	for want, expected := range map[string]string{
		"3.5.9": "3.5.9", "3.5.10": "3.5.35", "3.5.40": "3.5.35", "3.6.0": "3.6.16", "3.4.3": "3.5.35", "3.6.16": "3.6.16",
		"3.7.1": "", "3.3.1": "", "4.5.0": "", "2.5.0": "",
	} {
		got, err := choose(have, etcdversion.Must(want))
		if expected == "" {
			missing := (*VersionError)(nil)
			if !errors.As(err, &missing) || missing.Want.String() != want || !strings.Contains(missing.Hint(), want) {
				t.Errorf("%s: %s, %v", want, got, err)
			}
			continue
		}
		if err != nil || got.String() != expected {
			t.Errorf("%s: %s, %v", want, got, err)
		}
	}
}

func TestScratchDirectories(t *testing.T) {
	parent := t.TempDir()
	s, err := NewScratch(parent, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(s.Path); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st, err)
	}
	// What is in use stays.
	other, err := NewScratch(parent, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Join("x"), nil, 0o600); err != nil {
		t.Error(err)
	}
	for _, s := range []*Scratch{s, other} {
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	}
	empty(t, parent)
	full := (*SpaceError)(nil)
	if _, err := NewScratch(parent, 1<<60); !errors.As(err, &full) || full.Need != 1<<60 ||
		!strings.Contains(full.Hint(), "--temp-dir") {
		t.Error(err)
	}
	if _, err := NewScratch(filepath.Join(parent, "none"), 0); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	empty(t, parent)
}

// The names are taken as ours only where nobody else could have put something
// there.
func TestSweepTakesOnlyItsOwn(t *testing.T) {
	parent := t.TempDir()
	make := func(name string, mode os.FileMode) {
		path := filepath.Join(parent, name)
		if err := os.MkdirAll(filepath.Join(path, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	make(scratchPrefix+"left", 0o700)
	make(scratchPrefix+"open", 0o777)
	make("other", 0o700)
	if err := os.Symlink(filepath.Join(parent, "other"), filepath.Join(parent, scratchPrefix+"link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(parent, scratchPrefix+"file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{scratchPrefix + "file", scratchPrefix + "link", scratchPrefix + "open", "other"}
	if os.Geteuid() == 0 {
		make(scratchPrefix+"theirs", 0o700)
		if err := os.Chown(filepath.Join(parent, scratchPrefix+"theirs"), 12345, 12345); err != nil {
			t.Fatal(err)
		}
		want = append(want, scratchPrefix+"theirs")
	}
	if err := removeLeftovers(parent); err != nil {
		t.Error(err)
	}
	entries, _ := os.ReadDir(parent)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	for _, name := range want {
		if _, err := os.Lstat(filepath.Join(parent, name)); err != nil {
			t.Errorf("%s is gone; there are %v", name, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %v, want %v", got, want)
	}
}

// The helpers of the next tests: one makes a scratch directory in a directory,
// one begins a trial of a file.
const (
	helperVariable = "ETCDADM_DRILL_HELPER"
	trialVariable  = "ETCDADM_DRILL_TRIAL"
)

func TestMain(m *testing.M) {
	if code, ok := isolate.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout); ok {
		os.Exit(code)
	}
	if parent := os.Getenv(helperVariable); parent != "" {
		if _, err := NewScratch(parent, 0); err != nil {
			os.Exit(3)
		}
		os.Stdout.WriteString("made\n")
		time.Sleep(time.Minute)
		os.Exit(4)
	}
	if file := os.Getenv(trialVariable); file != "" {
		_, err := Trial{
			File: file, TempDir: filepath.Dir(file), Finder: etcdbin.Finder{
				Dirs: filepath.SplitList(os.Getenv(etcdbin.DirVariable)), Opt: "/nonexistent",
			},
			Progress: func(stage string) {
				if stage == "compare its content" {
					os.Stdout.WriteString("made\n")
					time.Sleep(time.Minute)
				}
			},
		}.Run(context.Background())
		os.Stdout.WriteString(err.Error())
		os.Exit(4)
	}
	os.Exit(m.Run())
}

// helper starts a helper and waits until it says that it is there.
func helper(t *testing.T, variable, value string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), variable+"="+value)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := testchild.Start(cmd); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 300)
	n, err := out.Read(said)
	if err != nil || string(said[:n]) != "made\n" {
		t.Fatalf("%s, %v", said[:n], err)
	}
	return cmd
}

// etcds returns the nice values of the processes that work in a directory.
func etcds(t *testing.T, dir string) (nice []string) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range list {
		line, _ := os.ReadFile(path)
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if strings.Contains(string(line), "--data-dir="+dir) && len(fields) > 17 && fields[0] != "Z" {
			nice = append(nice, fields[16]) // field 19 of proc_pid_stat(5)
		}
	}
	return nice
}

// The etcd of a trial has the lowest priority, and dies with who started it.
func TestWhatAKilledTrialLeft(t *testing.T) {
	t.Parallel()
	finder(t)
	file := scenario("3.6").File(t)
	cmd := helper(t, trialVariable, file)
	dir := filepath.Dir(file)
	if got := etcds(t, dir); len(got) != 1 || got[0] != "19" {
		t.Errorf("there are etcds of the nice values %v", got)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	testwait.Until(t, "the end of the etcd", func() bool { return len(etcds(t, dir)) == 0 })
	if err := removeLeftovers(dir); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("there are %v, %v", entries, err)
	}
}

func TestWhatAKilledProcessLeft(t *testing.T) {
	parent := t.TempDir()
	cmd := helper(t, helperVariable, parent)
	count := func() int {
		entries, err := os.ReadDir(parent)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	if err := removeLeftovers(parent); err != nil || count() != 1 {
		t.Errorf("while it lives: %v, %d entries", err, count())
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err := removeLeftovers(parent); err != nil || count() != 0 {
		t.Errorf("after it was killed: %v, %d entries", err, count())
	}
}

func TestWhatAProcessSaid(t *testing.T) {
	for said, want := range map[string]string{
		"":                                    "",
		"a\nb\nc\n":                           "b; c",
		"a\nb\npanic: x\n\ngoroutine 1\nmain": "b; panic: x",
	} {
		s := &tail{}
		for _, c := range []byte(said) {
			if _, err := s.Write([]byte{c}); err != nil {
				t.Fatal(err)
			}
		}
		if s.String() != want {
			t.Errorf("%q became %q", said, s)
		}
	}
	s := &tail{}
	_, _ = s.Write(bytes.Repeat([]byte("x"), 100_000))
	if len(s.String()) != maxSaid || len(s.b) != tailSize {
		t.Errorf("%d bytes were kept, %d are shown", len(s.b), len(s.String()))
	}
}

func TestTook(t *testing.T) {
	d := Took(1234567 * time.Microsecond)
	b, err := d.MarshalText()
	if err != nil || string(b) != "1.235s" {
		t.Errorf("%s, %v", b, err)
	}
	var back Took
	if err := back.UnmarshalText(b); err != nil || time.Duration(back) != 1235*time.Millisecond {
		t.Errorf("%v, %v", back, err)
	}
	if back.UnmarshalText([]byte("x")) == nil {
		t.Error("nonsense is a duration")
	}
}

func TestAMismatchIsDamage(t *testing.T) {
	err := error(&MismatchError{"database", "number of keys", "5", "4"})
	if !errors.Is(err, snapshot.ErrDamaged) || errors.Is(err, os.ErrNotExist) ||
		err.Error() != "the database has the number of keys 4, it should be 5" {
		t.Error(err)
	}
}
