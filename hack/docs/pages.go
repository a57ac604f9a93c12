package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A page is a file that is made from the code.
type page struct {
	// file is its name below the root, with slashes.
	file string
	// render returns what the file should hold.
	render func() ([]byte, error)
}

// pages lists every page that is made from the code. To add one, add a line.
var pages = []page{
	{"docs/operations.md", operations},
	{"docs/phases.md", phases},
	{"docs/exit-codes.md", exitCodes},
	{"docs/holds.md", holds},
	{"docs/versions.md", versions},
	{"docs/metrics.md", metrics},
}

// write brings the pages up to date.
func write(root string, pages []page) error {
	for _, p := range pages {
		content, err := p.render()
		if err != nil {
			return fmt.Errorf("render %s: %w", p.file, err)
		}
		file := filepath.Join(root, filepath.FromSlash(p.file))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("write %s: %w", p.file, err)
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", p.file, err)
		}
	}
	return nil
}

// compare returns an error that names every page that is out of date.
func compare(root string, pages []page) error {
	var stale []error
	for _, p := range pages {
		want, err := p.render()
		if err != nil {
			return fmt.Errorf("render %s: %w", p.file, err)
		}
		have, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(p.file)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			stale = append(stale, fmt.Errorf("%s does not exist; go run ./hack/docs makes it", p.file))
		case err != nil:
			return fmt.Errorf("compare %s: %w", p.file, err)
		case !bytes.Equal(have, want):
			stale = append(stale, fmt.Errorf("%s is out of date; go run ./hack/docs brings it up to date", p.file))
		}
	}
	return errors.Join(stale...)
}
