package etcdbuild

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A recipe says how the binaries of a version are built.
type recipe struct {
	// folder is the version's, or a copy of it that was prepared.
	folder string
	flags  []string
	tools  []tool
	// scratch is the copy, "" if there is none.
	scratch string
}

// close deletes the copy.
func (r recipe) close() error {
	if r.scratch == "" {
		return nil
	}
	return os.RemoveAll(r.scratch)
}

// prepare reads what is special about a version: a file "tags" holds build tags; a
// script "prep.sh" is run in a copy of the folder, at scratch, and what it vendors
// there is built. The recipe is to be closed, also after an error.
func (b *Builder) prepare(ctx context.Context, folder, scratch string) (recipe, error) {
	r := recipe{folder: folder}
	tags, err := os.ReadFile(filepath.Join(folder, "tags"))
	if err == nil {
		r.flags = append(r.flags, "-tags="+strings.TrimSpace(string(tags)))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	if r.tools, err = b.readTools(ctx, folder); err != nil {
		return r, err
	}
	switch _, err := os.Stat(filepath.Join(folder, "prep.sh")); {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err != nil:
		return r, err
	}
	if err := os.RemoveAll(scratch); err != nil {
		return r, fmt.Errorf("clear away an unfinished build: %w", err)
	}
	r.folder, r.scratch = scratch, scratch
	r.flags = append(r.flags, "-mod=vendor")
	if err := os.CopyFS(scratch, os.DirFS(folder)); err != nil {
		return r, fmt.Errorf("copy %s: %w", folder, err)
	}
	return r, b.script(ctx, filepath.Base(folder), scratch)
}

// script runs prep.sh in a copy of a version's folder, with the environment of builds.
func (b *Builder) script(ctx context.Context, version, folder string) error {
	cmd := exec.CommandContext(ctx, "sh", "-e", "prep.sh")
	cmd.Dir, cmd.Env, cmd.WaitDelay = folder, b.goCommand(ctx, folder).Env, 10*time.Second
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	done := b.step(version, "prepare")
	err := cmd.Run()
	done()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("run prep.sh: %w\n%s", err, tail(output.String(), 20))
}
