// Command runtests runs go test, and reports what the go command does not: which
// tests were skipped, and what each package costs. The go command's own closing
// lines (ok, FAIL) are passed on as they come, and the output of tests that fail.
//
//	go run ./hack/runtests [-expect FILE] [-strict] [-only-tag TAG] [-beside NAME:NAME] -- GO-TEST-ARGUMENT...
//
// Tests run without the settings of whoever started them: no variable in the
// environment that etcd, our programs or the clients of stores read is passed on.
// With -only-tag those tests alone run that need this build tag. With -beside two
// go commands run at the same time: one for the packages whose paths end with one of
// the names, whose tests mostly wait, and one for the others.
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
	beside := flag.String("beside", "", "run the packages whose paths end with the `names` at the same time as the others")
	flag.Parse()
	good, err := runAll(*gocmd, *tag, *beside, *expect, *strict, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "runtests:", err)
	}
	if err != nil || !good {
		os.Exit(1)
	}
}
