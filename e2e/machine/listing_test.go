package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A file is what is known of one entry of a directory. Directories have neither
// time nor content.
type file struct {
	mode    fs.FileMode
	changed time.Time
	content string // a digest
}

// A listing is a directory with all that is below it, by paths relative to it.
type listing map[string]file

// own are the directories that etcd and its supervisor write to while they run.
var own = []string{"data/member", "data.run", "data.set-aside"}

// tree lists dir, without what a running etcd writes by itself and without
// locks, which hold nothing.
func tree(t *testing.T, dir string) listing {
	t.Helper()
	l := listing{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, ".lock") {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		f := file{mode: info.Mode()}
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(b)
			f.changed, f.content = info.ModTime(), hex.EncodeToString(sum[:4])
		}
		l[name] = f
		if slices.Contains(own, name) {
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l listing) names() []string { return slices.Sorted(maps.Keys(l)) }

// differences returns what has become of a directory.
func (l listing) differences(now listing) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		switch before, there := l[name]; {
		case !there:
			found = append(found, name+" is new")
		case before != now[name]:
			found = append(found, fmt.Sprintf("%s was %+v and is %+v", name, before, now[name]))
		}
	}
	for _, name := range l.names() {
		if _, there := now[name]; !there {
			found = append(found, name+" is gone")
		}
	}
	return found
}

// unchanged runs f and fails the test if it changes anything on the host.
func (h *host) unchanged(what string, f func()) {
	h.t.Helper()
	before := tree(h.t, h.root)
	f()
	if found := before.differences(tree(h.t, h.root)); len(found) > 0 {
		h.t.Errorf("%s: %s changes files:\n%s", h.name, what, strings.Join(found, "\n"))
	}
}

// normal returns a file of the host with what is the host's own replaced by
// words, so that the files of two hosts can be compared.
func (h *host) normal(path string) string {
	h.t.Helper()
	text := strings.ReplaceAll(h.read(path), h.root+"/", "ROOT/")
	for word, port := range map[string]int{"CLIENT": h.clientPort, "PEER": h.peerPort} {
		text = strings.ReplaceAll(text, fmt.Sprintf(":%d", port), ":"+word)
	}
	return text
}

// variables returns what is in the host's etcd.env, in which no value of the
// tests is quoted.
func (h *host) variables() map[string]string {
	h.t.Helper()
	return assignments(h.read(h.path("etc", "etcd.env")))
}

func assignments(text string) map[string]string {
	vars := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			vars[k] = v
		}
	}
	return vars
}

func hasIPv6() bool {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		return false
	}
	return l.Close() == nil
}
