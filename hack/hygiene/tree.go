package hygiene

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Prefix is what the import paths of the project begin with.
const Prefix = "github.com/etcdadm/etcdadm/"

// Root returns the folder of go.work, in or above the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the tree: %w", err)
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.work")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no go.work in or above %s", dir)
		}
	}
}

// A Package is what the go command says about a package of the project.
type Package struct {
	ImportPath   string
	Name         string
	Doc          string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// Path returns the import path within the project: "pkg/cluster/plan".
func (p Package) Path() string { return strings.TrimPrefix(p.ImportPath, Prefix) }

// Packages returns every package of the workspace below root, those of the
// end-to-end tests included. A package that does not compile is listed too.
func Packages(ctx context.Context, root string) ([]Package, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-e", "-tags=e2e",
		"-json=ImportPath,Name,Doc,GoFiles,Imports,TestImports,XTestImports", "work")
	cmd.Dir = root
	// The workspace is the subject, whatever the caller works with.
	cmd.Env = append(os.Environ(), "GOWORK="+filepath.Join(root, "go.work"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w\n%s", err, stderr.String())
	}
	var packages []Package
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Package
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the list of packages: %w", err)
		}
		packages = append(packages, p)
	}
}

// Text calls visit with the name below root, with slashes, and the content of
// every file that people write. It leaves out what tools write (sums, build
// output, hidden folders except .ci) and what is not text.
func Text(root string, visit func(name string, content []byte) error) error {
	return filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && name != "." && name != ".ci"
			if hidden || name == "bin" {
				return filepath.SkipDir
			}
			return nil
		}
		// In a linked worktree .git is a file.
		if !d.Type().IsRegular() || name == ".git" || strings.HasSuffix(name, ".sum") {
			return nil
		}
		content, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // an editor's temporary file
		}
		if err != nil || bytes.IndexByte(content, 0) >= 0 {
			return err
		}
		return visit(name, content)
	})
}
