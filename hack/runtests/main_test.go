package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	r.read(strings.NewReader(`{"Action":"output","Package":"p","Test":"TestA","Output":"a says\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1.5}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:1: no root\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"skip","Package":"p","Test":"TestC/one"}
{"Action":"output","Package":"p","Test":"TestD","Output":"=== RUN   TestD\n"}
{"Action":"output","Package":"p","Test":"TestD","Output":"d is wrong\n"}
{"Action":"fail","Package":"p","Test":"TestD"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t2s\n"}
{"Action":"fail","Package":"p"}
{"Action":"output","Package":"q","Test":"TestHangs","Output":"panic: timed out\n"}
{"Action":"fail","Package":"q"}
{"Action":"output","Package":"o","Output":"PASS\n"}
{"Action":"output","Package":"o","Output":"ok  \to\t1s\n"}
{"Action":"pass","Package":"o","Elapsed":1}
not json
`))
	if n := r.close([][2]string{{"p", "TestC/*"}}); n != 1 {
		t.Errorf("%d unexpected skips, want TestB alone", n)
	}
	for _, want := range []string{
		"d is wrong\n", "FAIL\tp\t2s\n", "panic: timed out\n", "ok  \to\t1s\n", "not json\n",
		"not expected to be: p TestB\n    b_test.go:1: no root\n",
		"-- failed: p TestD\nd is wrong\n-- 1 passed, 2 failed, 2 skipped of which 1 are not expected",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
	for _, not := range []string{"a says", "PASS", "TestC"} {
		if strings.Contains(out.String(), not) {
			t.Errorf("%q is in:\n%s", not, out.String())
		}
	}
}

// What a test logs before its error is not why it failed.
func TestReason(t *testing.T) {
	dir := t.TempDir()
	text := "package a\nt.Logf(\"%s\", out)\nt.Error(err)\n"
	if err := os.WriteFile(filepath.Join(dir, "a_test.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	logged := []string{"=== RUN   TestA\n", "    a_test.go:2: a$ init\n", "        a line of it\n"}
	if got := reason(dir, logged); got != "    a_test.go:2: a$ init\n        a line of it\n" {
		t.Errorf("logs alone: %q", got)
	}
	failed := append(logged, "    a_test.go:3: it is down\n", "        and more\n", "    a_test.go:2: end\n",
		"--- FAIL: TestA (1s)\n")
	if got := reason(dir, failed); got != "    a_test.go:3: it is down\n        and more\n" {
		t.Errorf("an error among logs: %q", got)
	}
	if got := reason(dir, []string{"    gone_test.go:2: no source\n"}); !strings.Contains(got, "no source") {
		t.Errorf("a source that is not there: %q", got)
	}
}

func TestClean(t *testing.T) {
	got := clean([]string{"PATH=/bin", "ETCD_NAME=x", "ETCDADM_ETCD_DIR=/e", "ETCDADM_NAME=x", "AWS_PROFILE=x",
		"ETCDADM_E2E_BESIDE=1h", "HOME=/root"})
	want := []string{"PATH=/bin", "ETCDADM_ETCD_DIR=/e", "ETCDADM_E2E_BESIDE=1h", "HOME=/root"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestReadExpected(t *testing.T) {
	file := filepath.Join(t.TempDir(), "skips")
	if err := os.WriteFile(file, []byte("# a comment\n\npkg/x TestY needs a moon\npkg/z TestZ\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readExpected(file); err == nil || !strings.Contains(err.Error(), "pkg/z TestZ") {
		t.Errorf("a line without a reason: %v", err)
	}
	if list, err := readExpected("../skips.txt"); err != nil || len(list) == 0 {
		t.Errorf("the list of the tree: %v, %v", list, err)
	}
}

func TestSkipOthers(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/p\n")
	write("a_test.go", "package p\nfunc TestMain(m *testing.M) {}\nfunc TestA(t *testing.T) {}\nfunc TestB(t *testing.T) {}\n")
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	if skip, err := skipOthers("go", "long", []string{"./..."}); err == nil {
		t.Errorf("no test has the tag, and %q", skip)
	}
	write("long_test.go", "//go:build long\n\npackage p\nfunc TestC(t *testing.T) {}\n")
	if skip, err := skipOthers("go", "long", []string{"./..."}); err != nil || skip != "^(TestA|TestB)$" {
		t.Errorf("%q, %v", skip, err)
	}
	if err := os.Mkdir("q", 0o700); err != nil {
		t.Fatal(err)
	}
	write("q/q_test.go", "//go:build long\n\npackage q\nfunc TestA(t *testing.T) {}\n")
	if skip, err := skipOthers("go", "long", []string{"./..."}); err == nil || !strings.Contains(err.Error(), "TestA") {
		t.Errorf("two packages have TestA: %q, %v", skip, err)
	}
}
