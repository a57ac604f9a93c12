// Command runtests runs go test, and tells what the go command does not: which
// tests were skipped, and what each package costs. The go command's own closing
// lines (ok, FAIL) are passed on as they come, and the output of tests that fail.
//
//	go run ./hack/runtests [-expect FILE] [-strict] -- GO-TEST-ARGUMENT...
//
// Tests run without the settings of whoever started them: no variable in the
// environment that etcd, our programs or the clients of stores read is passed on.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	expect := flag.String("expect", "", "`file` with the tests that may be skipped")
	strict := flag.Bool("strict", false, "fail where another test is skipped")
	gocmd := flag.String("go", "go", "the go `command`")
	flag.Parse()
	good, err := run(*gocmd, *expect, *strict, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "runtests:", err)
	}
	if err != nil || !good {
		os.Exit(1)
	}
}
