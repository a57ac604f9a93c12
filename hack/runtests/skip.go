package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// testFiles has go list print a package's path and a test file of it in each line.
const testFiles = `{{$p := .ImportPath}}{{$d := .Dir}}` +
	`{{range .TestGoFiles}}{{$p}} {{$d}}/{{.}}{{"\n"}}{{end}}` +
	`{{range .XTestGoFiles}}{{$p}} {{$d}}/{{.}}{{"\n"}}{{end}}`

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)

// testsOf returns the tests that the packages have with a build tag, or with none if it is empty: names, and
// for each the packages that have it.
func testsOf(gocmd, tag string, packages []string) (map[string][]string, error) {
	list := exec.Command(gocmd, append([]string{"list", "-tags=" + tag, "-f", testFiles}, packages...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the test files: %w", err)
	}
	tests := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		pkg, file, found := strings.Cut(strings.TrimSpace(line), " ")
		if !found {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			tests[string(m[1])] = append(tests[string(m[1])], pkg)
		}
	}
	return tests, nil
}

// skipOthers returns the value of go test's -skip by which only those tests of the packages run that are there
// because of the build tag. It is an error if such a test has the name of one that is always there.
func skipOthers(gocmd, tag string, packages []string) (string, error) {
	always, err := testsOf(gocmd, "", packages)
	if err != nil {
		return "", err
	}
	tagged, err := testsOf(gocmd, tag, packages)
	if err != nil {
		return "", err
	}
	names := make([]string, 0, len(always))
	for name, pkgs := range always {
		if with := tagged[name]; len(with) > len(pkgs) {
			return "", fmt.Errorf("%s is the name of a test with the build tag %s and of one without, in %s: rename one",
				name, tag, strings.Join(with, ", "))
		}
		names = append(names, name)
	}
	if len(names) == len(tagged) {
		return "", fmt.Errorf("no test has the build tag %s", tag)
	}
	slices.Sort(names)
	return "^(" + strings.Join(names, "|") + ")$", nil
}

// packagesOf returns the packages among the arguments of go test, whose flags all have the form -NAME=VALUE.
func packagesOf(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.HasPrefix(a, "-") })
}
