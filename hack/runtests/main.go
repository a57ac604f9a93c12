// Command runtests runs go test, and tells what the go command does not: which
// tests were skipped, and what each package costs. The go command's own closing
// lines (ok, FAIL) are passed on as they come, and the output of tests that fail.
//
//	go run ./hack/runtests [-expect FILE] [-strict] [-only-tag TAG] -- GO-TEST-ARGUMENT...
//
// Tests run without the settings of whoever started them: no variable in the
// environment that etcd, our programs or the clients of stores read is passed on.
// With -only-tag those tests alone run that need this build tag.
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
	tag := flag.String("only-tag", "", "run the tests alone that need this build `tag`; the arguments are packages")
	flag.Parse()
	args := flag.Args()
	if *tag != "" {
		skip, err := skipOthers(*gocmd, *tag, packagesOf(args))
		if err != nil {
			fmt.Fprintln(os.Stderr, "runtests:", err)
			os.Exit(1)
		}
		args = append([]string{"-tags=" + *tag, "-skip=" + skip}, args...)
	}
	good, err := run(*gocmd, *expect, *strict, args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "runtests:", err)
	}
	if err != nil || !good {
		os.Exit(1)
	}
}
