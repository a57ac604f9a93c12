// Command demo shows the life of a managed etcd cluster on this machine, with
// real daemons and a real etcd: it is bootstrapped, loses a process and a disk,
// grows and shrinks.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	var s demonstration
	flag.StringVar(&s.bin, "bin", "bin", "directory with etcdadm, etcd-manager and etcd-manager-ctl")
	flag.StringVar(&s.etcdDirs, "etcd-dir", os.Getenv("ETCDADM_ETCD_DIR"),
		"directories with etcd-v"+version+", separated by colons")
	flag.BoolVar(&s.keep, "keep", false, "leave the cluster running at the end")
	record := flag.String("record", "", "`directory` for a recording: "+castFile+" and "+pageFile)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	s.bin, s.etcdDirs = absolute(s.bin), absolute(s.etcdDirs)
	s.out = newTerminal(os.Stdout)
	if err := run(ctx, &s, *record); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run shows the demonstration, and records it into a directory where one is given.
func run(ctx context.Context, s *demonstration, dir string) error {
	if dir == "" {
		return s.run(ctx)
	}
	r, err := newRecording(os.Stdout, time.Now())
	if err != nil {
		return err
	}
	s.out = &terminal{w: r}
	if err := s.run(ctx); err != nil {
		return err
	}
	return r.save(dir)
}

// absolute makes each path of a list absolute.
func absolute(list string) string {
	paths := filepath.SplitList(list)
	for i, p := range paths {
		if abs, err := filepath.Abs(p); err == nil {
			paths[i] = abs
		}
	}
	return strings.Join(paths, string(filepath.ListSeparator))
}
