package backups

import (
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	l := newStoreDir(t)
	a := kubernetes()
	l.add(first, a.Snapshot(t))
	b := kubernetes()
	b.Put("/registry/pods/default/web-3", "k8s\x00new", 0)
	b.Put("/registry/pods/default/web-1", "k8s\x00\x0a\xff dop", 0) // the same size
	b.Put("/registry/pods/kube-system/dns", "k8s\x00longer than before", 0)
	b.Put("plain", "text", 0) // written again
	b.Delete("/registry/minions/node-1", "/registry/events/default/web-1.17a")
	b.Put("zz", "last", 0)
	l.add(second, b.Snapshot(t))
	golden(t, "diff.txt", l.must("diff", first, second))
	golden(t, "diff-keys.txt", l.must("diff", first, second, "--keys"))
	golden(t, "diff.jsonl", l.must("diff", first, second, "-o", "jsonl"))
	golden(t, "diff.json", l.must("diff", first, second, "-o", "json", "--prefix=/registry/pods/"))
	golden(t, "diff-back.txt", l.must("diff", second, first, "--keys", "--prefix=/registry/"))

	l.fails(1, "the backups differ: 2 keys added, 2 removed, 2 changed", "diff", first, second, "--exit-code")
	if out := l.must("diff", first, second, "--exit-code", "--keys", "--prefix=/registry/namespaces/"); out != "" {
		t.Error(out)
	}
	// The same data, at other revisions.
	if out := l.must("diff", first, first, "--exit-code"); !strings.Contains(out, "14") {
		t.Error(out)
	}
	file := copyOf(t, a.File(t))
	if out := l.must("diff", file, first, "--keys"); out != "" {
		t.Error(out)
	}
	l.fails(1, "list-backups", "diff", first, third)
}

// After a restore, the same revision may be another change.
func TestDiffOfOneRevisionWithTwoValues(t *testing.T) {
	l := newStoreDir(t)
	a, b := kubernetes(), kubernetes()
	a.Put("/x", "one", 0)
	b.Put("/x", "two", 0)
	if out := l.must("diff", a.File(t), b.File(t), "--keys"); out != "~ /x\n" {
		t.Error(out)
	}
}
