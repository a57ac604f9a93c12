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
	// from is what it is made from, below the root.
	from string
	// render returns what the file should hold.
	render func() ([]byte, error)
}

// content returns all of the file: where it comes from, and the page with its prose wrapped.
func (p page) content() ([]byte, error) {
	body, err := p.render()
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", p.file, err)
	}
	mark := fmt.Sprintf("<!-- Made from %s by go run ./hack/docs; change it there. -->\n\n", p.from)
	return append([]byte(mark), wrap(body)...), nil
}

// pages lists every page that is made from the code. To add one, add a line.
var pages = []page{
	{"docs/operations.md", "pkg/cluster/plan", operations},
	{"docs/phases.md", "pkg/host/machine", phases},
	{"docs/exit-codes.md", "pkg/cli", exitCodes},
	{"docs/holds.md", "pkg/cluster/plan", holds},
	{"docs/versions.md", "pkg/cluster/plan, hack/docs/versions.md.tmpl", versions},
	{"docs/metrics.md", "pkg/daemon, hack/docs/metrics.md.tmpl", metrics},
}

// write brings the pages up to date.
func write(root string, pages []page) error {
	for _, p := range pages {
		content, err := p.content()
		if err != nil {
			return err
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
		want, err := p.content()
		if err != nil {
			return err
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
