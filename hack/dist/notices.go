package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// noticesFile has the licenses of what is linked into the programs. Most of them ask that
// their text goes with each copy.
const noticesFile = "THIRD-PARTY-NOTICES"

// licenseName matches the names of files with a license, or with what goes with it.
var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents|unlicense)([-._].*)?$`)

// ownModules is the beginning of the paths of this repository's modules.
const ownModules = "github.com/etcdadm/etcdadm/"

// libraryLicense is the module that has the license of Go and its standard library, which
// not every installation of Go has.
const libraryLicense = "golang.org/x/sys"

// A linked package is one that a program is made of, as "go list" tells it.
type linked struct {
	Dir    string
	Module *struct{ Path, Version, Dir string }
}

// notices returns the licenses of all that is linked into programs, each text once, with
// the modules that it is of. A module without a license is an error.
func (s source) notices(ctx context.Context, arch string) ([]byte, error) {
	args := []string{"list", "-deps", "-tags=" + buildTags, "-json=Dir,Module"}
	for _, name := range programs {
		args = append(args, "./"+name)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = s.Root
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the modules of the programs: %w\n%s", err, bytes.TrimSpace(said.Bytes()))
	}
	var list []linked
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p linked
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read the modules of the programs: %w", err)
		}
		if p.Module != nil && !strings.HasPrefix(p.Module.Path, ownModules) {
			list = append(list, p)
		}
	}
	return writeNotices(list)
}

// writeNotices reads the licenses of packages: those in a package's directory and in all
// above it, up to its module's.
func writeNotices(list []linked) ([]byte, error) {
	of := map[string][]string{} // the names of what a text is for
	has := map[string]bool{}
	for _, p := range list {
		module := p.Module.Path + " " + p.Module.Version
		for dir := p.Dir; ; dir = filepath.Dir(dir) {
			texts, err := licensesIn(dir)
			if err != nil {
				return nil, err
			}
			name := strings.TrimSuffix(module+" "+strings.TrimPrefix(dir[len(p.Module.Dir):], "/"), " ")
			for _, text := range texts {
				of[text] = append(of[text], name)
				has[module] = true
				if dir == p.Module.Dir && p.Module.Path == libraryLicense {
					of[text] = append(of[text], "Go and its standard library")
				}
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
func licensesIn(dir string) (texts []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look for licenses: %w", err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !licenseName.MatchString(e.Name()) || filepath.Ext(e.Name()) == ".go" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
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
	b.WriteString("The programs of etcdadm contain the following software, under these terms. Its source is in the\n" +
		"Go modules of these names and versions.\n")
	line := strings.Repeat("-", 80)
	for _, n := range list {
		fmt.Fprintf(&b, "\n%s\n%s\n%s\n\n%s\n", line, n.names, line, n.text)
	}
	return b.Bytes()
}
