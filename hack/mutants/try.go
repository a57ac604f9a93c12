package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The verdicts on a mutant. All but the first are wrong.
const (
	killed      = "killed"
	survived    = "SURVIVED"
	notApplied  = "DOES NOT APPLY"
	notCompiled = "DOES NOT COMPILE"
)

const (
	// testTimeout is how long the tests may take with a mutant, which may make them wait for what never comes.
	testTimeout = 3 * time.Minute
	// tryTimeout bounds compiling and testing.
	tryTimeout = 15 * time.Minute
)

// tryAll tries the mutants and reports whether all are killed.
func tryAll(ctx context.Context, gocmd, only string, files []string, out io.Writer) (bool, error) {
	list, err := chosen(only, files)
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	began, count := time.Now(), map[string]int{}
	passed := map[[2]string]bool{}
	for _, m := range list {
		// What fails anyhow kills nothing.
		if with := [2]string{m.tests, m.run}; !passed[with] {
			if err := passes(ctx, gocmd, m); err != nil {
				return false, err
			}
			passed[with] = true
		}
		start := time.Now()
		verdict, why, err := try(ctx, gocmd, dir, m)
		if err != nil {
			return false, fmt.Errorf("%s: %w", m.name, err)
		}
		count[verdict]++
		fmt.Fprintf(out, "%-16s %s: %s (%.1fs)\n", verdict, m.name, why, time.Since(start).Seconds())
	}
	fmt.Fprintf(out, "-- %d of %d mutants killed, in %s\n", count[killed], len(list),
		time.Since(began).Round(time.Second))
	return count[killed] == len(list), nil
}

// try runs the tests on a mutant. It returns a verdict and what that is seen by.
func try(ctx context.Context, gocmd, dir string, m mutant) (verdict, why string, err error) {
	text, err := m.apply()
	if err != nil {
		return notApplied, err.Error(), nil
	}
	path, err := filepath.Abs(m.file)
	if err != nil {
		return "", "", err
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
		return "", "", err
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		return "", "", err
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		return "", "", err
	}
	r, err := runTests(ctx, gocmd, m, "-overlay="+overlay, "-count=1")
	switch {
	case err != nil:
		return "", "", err
	case r.build:
		return notCompiled, strings.TrimSpace(r.output), nil
	case r.good:
		return survived, fmt.Sprintf("no test of %s fails", m.tests), nil
	}
	return killed, r.failed, nil
}

// apply returns the text of the file with the change.
func (m mutant) apply() (string, error) {
	content, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(content), m.before); n != 1 {
		return "", fmt.Errorf("what it changes occurs %d times in %s", n, m.file)
	}
	return strings.Replace(string(content), m.before, m.after, 1), nil
}

// passes makes sure that the tests of a mutant pass without it, and that there are any.
func passes(ctx context.Context, gocmd string, m mutant) error {
	r, err := runTests(ctx, gocmd, m)
	switch {
	case err != nil:
		return err
	case !r.good:
		return fmt.Errorf("%s fails without a mutant: %s\n%s", m.tests, r.failed, r.output)
	case r.passed == 0:
		return fmt.Errorf("%s has no test %s", m.tests, m.run)
	}
	return nil
}

// A result is how tests ended.
type result struct {
	good, build bool // build says that they could not be compiled
	passed      int
	failed      string // the first test that failed
	output      string // of what failed
}

// runTests runs the tests of a mutant with further flags of go test.
func runTests(ctx context.Context, gocmd string, m mutant, flags ...string) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	// What go vet says of a mutant does not count.
	args := append([]string{"test", "-json", "-short", "-failfast", "-vet=off", "-timeout=" + testTimeout.String(),
		"-run=" + m.run}, flags...)
	cmd := exec.CommandContext(ctx, gocmd, append(args, m.tests)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return result{}, context.Cause(ctx)
	}
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return result{}, err
	}
	r := result{good: err == nil, output: stderr.String()}
	err = r.read(bytes.NewReader(out))
	return r, err
}

// read takes in what go test -json says, see go doc test2json.
func (r *result) read(in io.Reader) error {
	for d := json.NewDecoder(in); ; {
		var e struct{ Action, Test, Output, FailedBuild string }
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("read the events of the tests: %w", err)
		}
		switch {
		case e.Action == "pass" && e.Test != "":
			r.passed++
		case e.Action == "build-output":
			r.output += e.Output
		case e.Action == "fail" && e.FailedBuild != "":
			r.build = true
		case e.Action == "fail" && r.failed == "":
			r.failed = e.Test
		}
		if strings.HasPrefix(e.Output, "panic: test timed out") {
			r.failed = "the timeout"
		}
	}
	if !r.good && r.failed == "" {
		r.failed = "the test program"
	}
	return nil
}
