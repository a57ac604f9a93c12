// Command docs writes the pages of docs/ that are made from the code, or with
// -check says which of them are out of date.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", ".", "`folder` of the source tree")
	check := flag.Bool("check", false, "write nothing; fail if a page is out of date")
	flag.Parse()
	do := write
	if *check {
		do = compare
	}
	if err := do(*root, pages); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}
