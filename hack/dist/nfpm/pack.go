package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers itself
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers itself
)

// pack writes the package under the name that its format gives it.
func pack(format, dir string) error {
	// The recipe is taken as it is: nothing of the environment is put into it.
	config, err := nfpm.ParseWithEnvMapping(os.Stdin, func(name string) string { return "$" + name })
	if err != nil {
		return fmt.Errorf("read the recipe: %w", err)
	}
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(dir, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	info.Target = out.Name()
	return errors.Join(packager.Package(info, out), out.Close())
}
