package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
)

// runAll runs the tests that the tag and the arguments name, in one lane or two, and reports whether all is as
// it is to be.
func runAll(gocmd, tag, beside, expect string, strict bool, args []string) (bool, error) {
	if tag != "" {
		skip, err := skipOthers(gocmd, tag, packagesOf(args))
		if err != nil {
			return false, err
		}
		args = append([]string{"-tags=" + tag, "-skip=" + skip}, args...)
	}
	both, err := lanes(gocmd, tag, beside, args)
	if err != nil {
		return false, err
	}
	return run(gocmd, expect, strict, both)
}

// lanes divides what go test is to run into what may run at the same time: the packages whose paths do not
// end with one of the names in beside, which colons separate, and those whose paths do. Both have all flags.
// All is one lane where beside is empty.
func lanes(gocmd, tag, beside string, args []string) ([][]string, error) {
	if beside == "" {
		return [][]string{args}, nil
	}
	list := exec.Command(gocmd, append([]string{"list", "-tags=" + tag}, packagesOf(args)...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	flags := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return !strings.HasPrefix(a, "-") })
	both := [][]string{slices.Clone(flags), slices.Clone(flags)}
	names := strings.Split(beside, ":")
	for _, pkg := range strings.Fields(string(out)) {
		n := 0
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(pkg, "/"+name) }) {
			n = 1
		}
		both[n] = append(both[n], pkg)
	}
	for n, lane := range both {
		if len(lane) == len(flags) {
			return both[1-n : 2-n], nil
		}
	}
	return both, nil
}

// runLanes runs go test once for each lane, all at the same time, and reports whether each ended well.
func runLanes(gocmd string, lanes [][]string, r *report) (bool, error) {
	errs := make([]error, len(lanes))
	var wait sync.WaitGroup
	for n, args := range lanes {
		wait.Go(func() { errs[n] = runLane(gocmd, args, r) })
	}
	wait.Wait()
	good := true
	for n, err := range errs {
		if errors.As(err, new(*exec.ExitError)) {
			good, errs[n] = false, nil // it has said why
		}
	}
	return good, errors.Join(errs...)
}

func runLane(gocmd string, args []string, r *report) error {
	cmd := exec.Command(gocmd, append([]string{"test", "-json"}, args...)...)
	cmd.Env, cmd.Stderr = clean(os.Environ()), os.Stderr
	// The race detector waits for a second at the end of each process; there are thousands.
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=50")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r.read(out)
	return cmd.Wait()
}
