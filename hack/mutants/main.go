// Command mutants checks that the tests notice what would harm users. It changes the
// code in one place after the other, runs the tests of one package each time, and says
// which changes no test fails for: a test is missing there, or the place is of no use.
//
//	go run ./hack/mutants [-only REGEXP] [FILE...]
//
// The changes are listed in hack/mutants/*.txt, whose form [read] describes. The tree is
// left alone: the go command gets each change as an overlay.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	only := flag.String("only", "", "try those mutants alone whose names match the `regexp`")
	gocmd := flag.String("go", "go", "the go `command`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	good, err := tryAll(ctx, *gocmd, *only, flag.Args(), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if err != nil || !good {
		os.Exit(1)
	}
}
