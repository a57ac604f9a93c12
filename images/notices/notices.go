// Package notices collects the licenses of what is linked into programs. Most of them ask that
// their text goes with each copy.
package notices

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Name is what the file with the licenses is called.
const Name = "THIRD-PARTY-NOTICES"

// licenseName matches the names of files with a license, or with what goes with it.
var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents|unlicense)([-._].*)?$`)

// ownModules is the beginning of the paths of this repository's modules.
const ownModules = "github.com/etcdadm/etcdadm/"

// library has the license of Go and its standard library, which not every installation of Go has.
//
//go:embed go
var library embed.FS

// A Build says what programs are built from.
type Build struct {
	// Dir is where the go command is run, with Env on top of this process's environment.
	Dir string
	Env []string
	// Flags are those of "go build" that decide what is linked.
	Flags []string
	// Packages are the programs.
	Packages []string
}

// A Linked package is one that a program is made of, as "go list" prints it.
type Linked struct {
	ImportPath, Dir string
	Module          *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Path, Version string }
	}
}

// foreign reports whether the package is of a module that is not in this tree.
func (p Linked) foreign() bool {
	m := p.Module
	return m != nil && !m.Main && !strings.HasPrefix(m.Path, ownModules) && (m.Replace == nil || m.Replace.Version != "")
}

// List returns the packages of other modules that are linked into the programs of a build. It downloads
// modules that are not there.
func List(ctx context.Context, b Build) ([]Linked, error) {
	args := append([]string{"list", "-deps", "-json=ImportPath,Dir,Module"}, b.Flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, b.Packages...)...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = b.Dir, append(os.Environ(), b.Env...), 10*time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("list the modules of the programs: %w\n%s", err, bytes.TrimSpace(said.Bytes()))
	}
	var list []Linked
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Linked
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the modules of the programs: %w", err)
		}
		if p.foreign() {
			list = append(list, p.rooted())
		}
	}
}

// name returns the path and version of the module that the package is really of.
func (p Linked) name() string {
	if r := p.Module.Replace; r != nil && r.Version != "" {
		return r.Path + " " + r.Version
	}
	return p.Module.Path + " " + p.Module.Version
}

// rooted fills in the directory of the module of a vendored package, which the go command does not report.
func (p Linked) rooted() Linked {
	if p.Module.Dir == "" {
		m := *p.Module
		m.Dir = strings.TrimSuffix(p.Dir, filepath.FromSlash(strings.TrimPrefix(p.ImportPath, m.Path)))
		p.Module = &m
	}
	return p
}

// Text returns the licenses of packages, each text once, below the modules that it is of: those
// in a package's directory and in all above it, up to its module's. A module without a license
// is an error.
func Text(list []Linked) ([]byte, error) {
	of := map[string][]string{} // the names of what a text is for
	has := map[string]bool{}
	texts, err := licensesIn(library, "go")
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		of[text] = append(of[text], "Go and its standard library")
	}
	for _, p := range list {
		module := p.name()
		if below, err := filepath.Rel(p.Module.Dir, p.Dir); err != nil || !filepath.IsLocal(below) {
			return nil, fmt.Errorf("%s is not below its module %s, in %s", p.Dir, module, p.Module.Dir)
		}
		for dir := p.Dir; ; dir = filepath.Dir(dir) {
			texts, err := licensesIn(os.DirFS(dir), ".")
			if err != nil {
				return nil, err
			}
			name := strings.TrimSuffix(module+" "+strings.TrimPrefix(dir[len(p.Module.Dir):], "/"), " ")
			for _, text := range texts {
				of[text] = append(of[text], name)
				has[module] = true
			}
			if dir == p.Module.Dir {
				break
			}
		}
		if !has[module] {
			return nil, fmt.Errorf("no file with a license of %s in %s: it may not be distributed without one", module, p.Module.Dir)
		}
	}
	return joinNotices(of), nil
}

// licensesIn returns the texts of the licenses in a directory.
func licensesIn(files fs.FS, dir string) (texts []string, err error) {
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil, fmt.Errorf("look for licenses: %w", err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !licenseName.MatchString(e.Name()) || filepath.Ext(e.Name()) == ".go" {
			continue
		}
		b, err := fs.ReadFile(files, path.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read a license: %w", err)
		}
		texts = append(texts, strings.TrimSpace(strings.ReplaceAll(string(b), "\r\n", "\n")))
	}
	return texts, nil
}

// joinNotices writes each text below what it is of, in the order of the names.
func joinNotices(of map[string][]string) []byte {
	type notice struct{ names, text string }
	var list []notice
	for text, names := range of {
		slices.Sort(names)
		list = append(list, notice{strings.Join(slices.Compact(names), "\n"), text})
	}
	slices.SortFunc(list, func(a, b notice) int { return strings.Compare(a.names+a.text, b.names+b.text) })
	var b bytes.Buffer
	b.WriteString("The programs contain the following software, under these terms. Its source is in the Go modules of\n" +
		"these names and versions.\n")
	line := strings.Repeat("-", 80)
	for _, n := range list {
		fmt.Fprintf(&b, "\n%s\n%s\n%s\n\n%s\n", line, n.names, line, n.text)
	}
	return b.Bytes()
}
