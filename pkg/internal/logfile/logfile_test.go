package logfile

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestLogRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etcd.log")
	l, err := Open(path, 40)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		l.Line("line number " + strconv.Itoa(i)) // 14 bytes
	}
	l.Close()
	for name, want := range map[string]string{
		path: "line number 9\n", path + ".1": "line number 6\nline number 7\nline number 8\n",
	} {
		if b, err := os.ReadFile(name); string(b) != want {
			t.Errorf("%s: %q, %v, want %q", name, b, err, want)
		}
	}
	// Another one goes on in the file.
	if l, err = Open(path, 40); err != nil {
		t.Fatal(err)
	}
	l.Line("line number 10")
	l.Close()
	if b, err := os.ReadFile(path); string(b) != "line number 9\nline number 10\n" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestLogThatCannotBeRenamedIsCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etcd.log")
	if err := os.MkdirAll(path+".1/in the way", 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := Open(path, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 100 {
		l.Line("0123456789")
	}
	if b, err := os.ReadFile(path); string(b) != "0123456789\n" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestLogOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("cannot mount a small disk: %v %s", err, out)
	}
	defer func() { _ = exec.Command("umount", "--lazy", dir).Run() }()
	l, err := Open(filepath.Join(dir, "etcd.log"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 1000 {
		l.Line(strings.Repeat("x", 100)) // must return
	}
	if err := os.Truncate(filepath.Join(dir, "etcd.log"), 0); err != nil {
		t.Fatal(err)
	}
	l.Line("there is room again")
	if b, err := os.ReadFile(filepath.Join(dir, "etcd.log")); !strings.HasSuffix(string(b), "there is room again\n") {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// What logrotate does to the file, with create and with copytruncate, and what a person does, has the
// next line in the file that has the name.
func TestLogThatOthersRotate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etcd.log")
	l, err := Open(path, 20)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for what, does := range map[string]func(){
		"removed": func() { must(os.Remove(path)) },
		"renamed": func() { must(os.Rename(path, path+".old")) },
		"created": func() {
			must(os.Rename(path, path+".old"))
			must(os.WriteFile(path, nil, 0o600))
		},
		"truncated": func() { must(os.Truncate(path, 0)) },
	} {
		l.Line("before it is " + what)
		does()
		l.Line("after it was " + what) // cut by its old size, it would be renamed
		if b, err := os.ReadFile(path); string(b) != "after it was "+what+"\n" {
			t.Errorf("%s: %q, %v", what, b, err)
		}
		if _, err := os.Stat(path + ".1"); err == nil {
			t.Errorf("%s: it was full", what)
		}
		must(os.Truncate(path, 0))
	}
}
