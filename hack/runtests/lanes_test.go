package main

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/hack/internal/testmodule"
)

func TestLanes(t *testing.T) {
	testmodule.Chdir(t, map[string]string{
		"go.mod":         "module example.com/m\n",
		"p/p_test.go":    "package p\n",
		"q/q_test.go":    "package q\n",
		"r/long_test.go": "//go:build long\n\npackage r\n",
	})
	args := []string{"-p=1", "-v", "./p", "./q"}
	for _, c := range []struct {
		tag, beside string
		args        []string
		want        string
	}{
		{"", "", args, "[[-p=1 -v ./p ./q]]"},
		{"", "m/q", args, "[[-p=1 -v example.com/m/p] [-p=1 -v example.com/m/q]]"},
		{"", "none", args, "[[-p=1 -v example.com/m/p example.com/m/q]]"},
		{"", "p:q", args, "[[-p=1 -v example.com/m/p example.com/m/q]]"},
		{"", "q:r", []string{"./..."}, "[[example.com/m/p] [example.com/m/q]]"},
		{"long", "q:r", []string{"./..."}, "[[example.com/m/p] [example.com/m/q example.com/m/r]]"},
	} {
		got, err := lanes("go", c.tag, c.beside, c.args)
		if err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%q beside, tag %q: %v, %v, want %s", c.beside, c.tag, got, err, c.want)
		}
	}
	if got, err := lanes("go", "", "q", []string{"./none"}); err == nil {
		t.Errorf("what is no package is %v", got)
	}
}

// meet is a test that passes only while the test of the other package runs: who listens
// answers when both have called.
const meet = `package p

import (
	"io"
	"net"
	"os"
	"testing"
	"time"
)

func TestMeet(t *testing.T) {
	c, err := net.Dial("tcp", os.Getenv("MEET"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal("the other one does not run: ", err)
	}
}
`

// introduce listens for two tests that meet, until the end of the test.
func introduce(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	t.Setenv("MEET", l.Addr().String())
	go func() {
		var both []net.Conn
		for len(both) < 2 {
			c, err := l.Accept()
			if err != nil {
				return
			}
			both = append(both, c)
		}
		for _, c := range both {
			_, _ = c.Write([]byte{1})
			_ = c.Close()
		}
	}()
}

// Lanes run at the same time, with one report, and a failure in any of them counts.
func TestRunLanes(t *testing.T) {
	fails := "package p\n\nimport \"testing\"\n\nfunc TestFails(t *testing.T) { t.Error(\"it is down\") }\n"
	testmodule.Chdir(t, map[string]string{
		"go.mod":      "module example.com/m\n",
		"p/p_test.go": meet,
		"q/q_test.go": meet,
		"r/r_test.go": fails,
	})
	introduce(t)
	var out strings.Builder
	r := newReport(&out)
	good, err := runLanes("go", [][]string{{"./p"}, {"./q"}}, r)
	if !good || err != nil || r.passed != 2 || len(r.pkgs) != 2 {
		t.Errorf("%t, %v, %d passed: %s", good, err, r.passed, out.String())
	}
	for _, failing := range [][][]string{{{"./r"}, {"-run=None", "./p"}}, {{"-run=None", "./p"}, {"./r"}}} {
		if good, err := runLanes("go", failing, newReport(io.Discard)); good || err != nil {
			t.Errorf("%v: %t, %v", failing, good, err)
		}
	}
	if _, err := runLanes("no-such-command", [][]string{{"./r"}}, newReport(io.Discard)); err == nil {
		t.Error("a command that is not there is no error")
	}
}
