package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// run runs the tests of all lanes, and reports whether all is as it is to be.
func run(gocmd, expect string, strict bool, lanes [][]string) (bool, error) {
	allowed, err := readExpected(expect)
	if err != nil {
		return false, err
	}
	r := newReport(os.Stdout)
	good, err := runLanes(gocmd, lanes, r)
	unexpected := r.close(allowed)
	return good && (unexpected == 0 || !strict), err
}

// kept are the variables that configure tests.
var kept = []string{
	"ETCDADM_ETCD_DIR", "ETCDADM_CACHE", "ETCDADM_SIM_FOR", "ETCDADM_TEST_SYSTEMD", "ETCDADM_E2E_BESIDE",
}

// foreign are the beginnings of variables that change what our programs, etcd
// and the clients of stores do.
var foreign = []string{
	"ETCD_", "ETCDCTL_", "ETCDUTL_", "ETCDADM_", "S3_", "AWS_", "AZURE_", "GOOGLE_", "STORAGE_EMULATOR_HOST=", "KOPS_",
}

func clean(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !slices.Contains(kept, name) &&
			slices.ContainsFunc(foreign, func(p string) bool { return strings.HasPrefix(v, p) })
	})
}

// readExpected reads lines of a pattern of a package's path, as of [path.Match],
// a pattern of a test's name, and the reason.
func readExpected(file string) ([][2]string, error) {
	if file == "" {
		return nil, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list [][2]string
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case len(words) < 3:
			return nil, fmt.Errorf("%s: %q lacks a package, a test or a reason", file, strings.TrimSpace(line))
		default:
			list = append(list, [2]string{words[0], words[1]})
		}
	}
	return list, nil
}

// An event is one line of go test -json, see go doc test2json.
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string
	Elapsed                       float64
}

type result struct {
	pkg, test string
	took      time.Duration
}

// A report gathers what was reported, by one lane or more.
type report struct {
	mu      sync.Mutex
	out     io.Writer
	began   time.Time
	said    map[[2]string][]string
	failed  map[string]bool
	passed  int
	failing int
	skipped []result
	why     map[result]string
	broken  []string // why tests failed
	tests   []result
	pkgs    []result
}

func newReport(out io.Writer) *report {
	return &report{out: out, began: time.Now(), said: map[[2]string][]string{}, failed: map[string]bool{},
		why: map[result]string{}}
}

func (r *report) read(in io.Reader) {
	s := bufio.NewScanner(in)
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		r.line(s.Bytes())
	}
}

func (r *report) line(text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e event
	switch {
	case json.Unmarshal(text, &e) != nil:
		fmt.Fprintf(r.out, "%s\n", text)
	case e.Test == "":
		r.pkg(e)
	default:
		r.test(e)
	}
}

func (r *report) test(e event) {
	key := [2]string{e.Package, e.Test}
	res := result{e.Package, e.Test, seconds(e.Elapsed)}
	switch e.Action {
	case "output":
		r.said[key] = append(r.said[key], e.Output)
		return
	case "pass":
		r.passed++
	case "skip":
		r.skipped = append(r.skipped, res)
		r.why[res] = strings.Join(r.said[key], "")
	case "fail":
		r.failing++
		r.failed[e.Package] = true
		fmt.Fprint(r.out, strings.Join(r.said[key], ""))
		r.broken = append(r.broken, fmt.Sprintf("%s %s\n%s", e.Package, e.Test, reason(dir(e.Package), r.said[key])))
	default:
		return
	}
	delete(r.said, key)
	if !strings.Contains(e.Test, "/") {
		r.tests = append(r.tests, res)
	}
}

// dir is the directory of a package, in the tree's root.
func dir(pkg string) string { return strings.TrimPrefix(pkg, "github.com/etcdadm/etcdadm/") }

// An entry of a test's output begins with the line of the source that wrote it.
var entry = regexp.MustCompile(`^ {4}(\w+\.go):(\d+): `)

// reason returns the beginning of what a failing test says besides its logs. The logs of many
// processes may follow, and a reader may be given the end of the output alone.
func reason(dir string, output []string) string {
	var said, errs []string
	logged := false
	for _, line := range output {
		if strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		if at := entry.FindStringSubmatch(line); at != nil {
			logged = logs(filepath.Join(dir, at[1]), at[2])
		}
		said = append(said, line)
		if !logged {
			errs = append(errs, line)
		}
	}
	if len(errs) == 0 {
		errs = said
	}
	var text strings.Builder
	for _, line := range errs {
		text.WriteString(strings.TrimSuffix(line[:min(len(line), 400)], "\n") + "\n")
		if text.Len() > 700 {
			break
		}
	}
	return text.String()
}

// logs reports whether a line of a file calls Log or Logf.
func logs(file, line string) bool {
	b, err := os.ReadFile(file)
	n, bad := strconv.Atoi(line)
	lines := strings.Split(string(b), "\n")
	if err != nil || bad != nil || n > len(lines) {
		return false
	}
	return strings.Contains(lines[n-1], ".Log(") || strings.Contains(lines[n-1], ".Logf(")
}

func (r *report) pkg(e event) {
	switch e.Action {
	case "output", "build-output":
		if e.Output != "PASS\n" {
			fmt.Fprint(r.out, e.Output)
		}
	case "fail":
		// Tests that have not ended when a package ends are what it died of.
		for key, lines := range r.said {
			if key[0] == e.Package {
				fmt.Fprint(r.out, strings.Join(lines, ""))
				delete(r.said, key)
			}
		}
		if !r.failed[e.Package] {
			r.failing++
		}
		fallthrough
	case "pass":
		r.pkgs = append(r.pkgs, result{e.Package, "", seconds(e.Elapsed)})
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// How many of the slowest are named.
const (
	slowPackages = 12
	slowTests    = 20
)

// close prints the summary, and returns how many tests were skipped that are
// not expected to be.
func (r *report) close(allowed [][2]string) int {
	bySlowness := func(a, b result) int { return cmp.Compare(b.took, a.took) }
	slices.SortStableFunc(r.pkgs, bySlowness)
	slices.SortStableFunc(r.tests, bySlowness)
	fmt.Fprintln(r.out, "-- the slowest packages")
	for _, p := range r.pkgs[:min(len(r.pkgs), slowPackages)] {
		fmt.Fprintf(r.out, "%8.1fs  %s\n", p.took.Seconds(), p.pkg)
	}
	fmt.Fprintln(r.out, "-- the slowest tests")
	for _, t := range r.tests[:min(len(r.tests), slowTests)] {
		fmt.Fprintf(r.out, "%8.1fs  %s %s\n", t.took.Seconds(), t.pkg, t.test)
	}
	unexpected := 0
	for _, s := range r.skipped {
		if !expected(allowed, s) {
			unexpected++
			fmt.Fprintf(r.out, "-- skipped, and not expected to be: %s %s\n%s", s.pkg, s.test, r.why[s])
		}
	}
	for _, text := range r.broken {
		fmt.Fprint(r.out, "-- failed: ", text)
	}
	fmt.Fprintf(r.out, "-- %d passed, %d failed, %d skipped of which %d are not expected to be, in %s\n",
		r.passed, r.failing, len(r.skipped), unexpected, time.Since(r.began).Round(time.Second))
	return unexpected
}

func expected(allowed [][2]string, s result) bool {
	return slices.ContainsFunc(allowed, func(p [2]string) bool {
		pkg, err1 := path.Match(p[0], strings.TrimPrefix(s.pkg, "github.com/etcdadm/etcdadm/"))
		test, err2 := path.Match(p[1], s.test)
		return err1 == nil && err2 == nil && pkg && test
	})
}
