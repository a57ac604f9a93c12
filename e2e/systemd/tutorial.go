//go:build e2e

package systemd

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// blocks returns the fenced blocks below a heading of a page.
func blocks(t testing.TB, page, heading string) []string {
	t.Helper()
	return harness.Blocks(t, "../..", page, heading)
}

// block returns one of the blocks below a heading, which has as many as are given.
func block(t testing.TB, page, heading string, i, of int) string {
	t.Helper()
	return harness.Block(t, "../..", page, heading, i, of)
}

// A tutorial runs the commands of a page on machines.
type tutorial struct {
	t        testing.TB
	machines []*Machine
	// texts takes the place of what the page has as examples: addresses, names.
	texts []string
}

// onNodes finds the machines that a comment names: "on node1", "# node2 and node3".
var onNodes = regexp.MustCompile(`node([1-9])`)

// copied is a line with which a person copies files from the first machine.
var copied = regexp.MustCompile(`^scp root@\S+:(\S+) (\S+/)$`)

// begin returns a tutorial whose page calls the machines node1, node2 and so on, with the
// addresses 10.0.0.1, 10.0.0.2 and so on. Further texts are pairs of what the page has and
// what it stands for.
func begin(t testing.TB, machines []*Machine, texts ...string) *tutorial {
	for i, m := range machines {
		texts = append(texts, fmt.Sprintf("10.0.0.%d", i+1), m.IP, fmt.Sprintf("node%d", i+1), m.Name)
	}
	return &tutorial{t, machines, texts}
}

// each runs the lines of a block, one after the other: on the machines that the comment of
// a line names, or else on those given. It returns what the last one printed.
func (u *tutorial) each(block string, on ...*Machine) (out string) {
	u.t.Helper()
	block = strings.ReplaceAll(block, "\\\n", " ")
	for line := range strings.Lines(block) {
		command, comment, _ := strings.Cut(strings.TrimSpace(line), "# ")
		if command = strings.TrimSpace(command); command == "" {
			continue
		}
		there := on
		if names := onNodes.FindAllStringSubmatch(comment, -1); len(names) > 0 {
			there = nil
			for _, n := range names {
				there = append(there, u.machines[n[1][0]-'1'])
			}
		}
		if len(there) == 0 {
			u.t.Fatalf("nothing says where this is to be run: %s", line)
		}
		for _, m := range there {
			out = u.one(m, command)
		}
	}
	return out
}

// ssh gives a machine an ssh with which it reaches itself in place of another one.
func ssh(m *Machine) {
	m.t.Helper()
	m.Write("/usr/local/bin/ssh", "#!/bin/sh\nshift\nexec sh -c \"$*\"\n", 0o755)
}

// one runs a command on a machine.
func (u *tutorial) one(m *Machine, command string) string {
	u.t.Helper()
	if files := copied.FindStringSubmatch(command); files != nil {
		// There is no ssh between the machines.
		u.machines[0].Give(m, strings.Fields(u.machines[0].Do("ls "+files[1]))...)
		if to := path.Clean(files[2]); to != path.Dir(files[1]) {
			u.t.Fatalf("%s copies into another directory", command)
		}
		return ""
	}
	command = strings.NewReplacer(u.texts...).Replace(command)
	say(u.t, "%s# %s", m.Name, command)
	return m.Do(command)
}
