package etcdlog

import (
	"slices"
	"strings"
	"testing"
)

// Of what etcd has said before its end that is shown which says why, in words.
func TestLastWords(t *testing.T) {
	const (
		env   = `{"level":"info","ts":"2026-11-27T18:41:27Z","caller":"flags/flag.go:114","msg":"recognized and used"}`
		inUse = `{"level":"error","ts":"2026-11-27T18:41:27Z","caller":"embed/etcd.go:586","msg":"creating peer listener ` +
			`failed","error":"listen tcp 0.0.0.0:2380: bind: address already in use","stacktrace":"go.etcd.io/etcd"}`
		fatal = `{"level":"fatal","ts":"2026-11-27T18:41:27Z","caller":"etcdmain/etcd.go:183","msg":"discovery failed",` +
			`"error":"listen tcp 0.0.0.0:2380: bind: address already in use","stacktrace":"go.etcd.io/etcd/server/v3`
	)
	raw := strings.Split("1 2 3 4 5 6 7", " ")
	for name, x := range map[string]struct{ lines, want []string }{
		"a port that is taken": {[]string{env, env, inUse, env, fatal}, []string{
			"creating peer listener failed: listen tcp 0.0.0.0:2380: bind: address already in use",
			"discovery failed: listen tcp 0.0.0.0:2380: bind: address already in use",
		}},
		"the same again": {[]string{inUse, inUse}, []string{
			"creating peer listener failed: listen tcp 0.0.0.0:2380: bind: address already in use",
		}},
		"a panic": {[]string{env, "panic: freepages", "goroutine 1:"},
			[]string{"panic: freepages", "goroutine 1:"}},
		"nothing that matters": {[]string{env, env, env, env, env, env}, []string{env, env, env, env, env}},
		"another program":      {raw, raw},
		"cut off":              {[]string{`{"level":"err`}, []string{`{"level":"err`}},
		"nothing":              {nil, nil},
	} {
		if got := LastWords(x.lines); !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}

// One line says why etcd ended: what ended it, and not what came before or after it.
func TestCause(t *testing.T) {
	const (
		env   = `{"level":"info","msg":"recognized and used"}`
		inUse = `{"level":"error","msg":"creating peer listener failed","error":"bind: address already in use"}`
		fatal = `{"level":"fatal","ts":"2026-11-27T18:41:27Z","msg":"discovery failed","error":"bind: address already ` +
			`in use","stacktrace":"go.etcd.io/etcd/server/v3`
		panics = `{"level":"panic","msg":"failed to open database","error":"input/output error"}`
	)
	long := strings.Repeat("x", maxCause-1)
	for name, x := range map[string]struct {
		lines []string
		want  string
	}{
		"a fatal error": {[]string{env, inUse, fatal, env}, "discovery failed: bind: address already in use"},
		"an error":      {[]string{env, inUse, env}, "creating peer listener failed: bind: address already in use"},
		"a panic":       {[]string{inUse, "panic: freepages", "", "goroutine 1:", "\tmain.go:1"}, "panic: freepages"},
		"a panic in the log": {[]string{panics, "panic: failed", "goroutine 1:"},
			"failed to open database: input/output error"},
		"another program": {[]string{"1", "exec format error", ""}, "exec format error"},
		"nothing special": {[]string{env}, "recognized and used"},
		"nothing":         {nil, ""},
		"too long":        {[]string{long + "ää"}, long + "..."},
	} {
		if got := Cause(x.lines); got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}
