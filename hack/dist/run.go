package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// architectures are those that there is something for.
var architectures = []string{"amd64", "arm64"}

// kindsOfFiles are the ends of the files' names.
var kindsOfFiles = []string{archives, "deb", "rpm"}

const archives = "tar.gz"

// command runs the command line.
func command(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("dist", flag.ContinueOnError)
	output := flags.String("output", "dist", "`directory` for what is built; what an earlier run has made there is deleted")
	version := flags.String("version", "", "`version` such as v0.1.0 (default: devel and the commit)")
	arch := flags.String("arch", strings.Join(architectures, ","), "`architectures` to build for")
	kinds := flags.String("formats", strings.Join(kindsOfFiles, ","), "what to build")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("there are only flags, not %q", flags.Arg(0))
	}
	b := build{Out: *output}
	for name := range strings.SplitSeq(*arch, ",") {
		if !slices.Contains(architectures, name) {
			return fmt.Errorf("there is no architecture %q; there are %s", name, strings.Join(architectures, ", "))
		}
		b.Archs = append(b.Archs, name)
	}
	for name := range strings.SplitSeq(*kinds, ",") {
		if !slices.Contains(kindsOfFiles, name) {
			return fmt.Errorf("there is no format %q; there are %s", name, strings.Join(kindsOfFiles, ", "))
		}
		b.Kinds = append(b.Kinds, name)
	}
	var err error
	if b.Source, err = findSource(ctx, ".", *version); err != nil {
		return err
	}
	if b.Work, err = os.MkdirTemp("", "etcdadm-dist-"); err != nil {
		return fmt.Errorf("make a directory to work in: %w", err)
	}
	return errors.Join(b.run(ctx), os.RemoveAll(b.Work))
}

// A build is one run of the command.
type build struct {
	Source source
	Archs  []string
	// Kinds are those of [kindsOfFiles] that are built.
	Kinds []string
	// Out is where what is built goes, Work where it is made.
	Out, Work string
}

// run builds everything.
func (b build) run(ctx context.Context) error {
	if err := emptyDir(b.Out); err != nil {
		return err
	}
	written, err := pages(b.Source)
	if err != nil {
		return err
	}
	packer, err := b.packer(ctx)
	if err != nil {
		return err
	}
	for _, arch := range b.Archs {
		bin := filepath.Join(b.Work, "bin", arch)
		for _, name := range programs {
			if err := b.Source.program(ctx, name, arch, filepath.Join(bin, name)); err != nil {
				return err
			}
		}
		licenses, err := b.Source.notices(ctx, arch)
		if err != nil {
			return err
		}
		for _, set := range sets {
			if !slices.Contains(b.Kinds, archives) {
				break
			}
			if err := b.archive(set, arch, bin, written, licenses); err != nil {
				return err
			}
		}
		for _, f := range formats {
			if !slices.Contains(b.Kinds, f.Name) {
				continue
			}
			if err := b.pack(ctx, packer, f, arch, bin, written, licenses); err != nil {
				return err
			}
		}
	}
	return writeSums(b.Out)
}

// emptyDir makes dir, or deletes what an earlier run left in it: nothing else may be there.
func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the directory for what is built: %w", err)
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the directory for what is built: %w", err)
	}
	sums, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read what was built before: %w", err)
	}
	for _, e := range list {
		if e.Name() != sumsFile && !strings.Contains(string(sums), "  "+e.Name()+"\n") {
			return fmt.Errorf("%s is not of an earlier run that has ended: delete it, or name another directory with -output",
				filepath.Join(dir, e.Name()))
		}
	}
	for _, e := range list {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("delete what was built before: %w", err)
		}
	}
	return nil
}
