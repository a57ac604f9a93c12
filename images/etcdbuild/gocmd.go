package etcdbuild

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// buildFlags are the flags that decide what a binary is. etcd releases are
// built without cgo; -trimpath and the absence of version control data make
// the binary the same wherever it is built; -s -w leave out what only a
// debugger reads.
var buildFlags = []string{"-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags=-s -w"}

// goCommand returns the go command with args, to be run in folder. It is kept
// apart from the workspace, which would replace the pinned versions, and from
// the caller's GOFLAGS (-race, -tags, -mod=vendor), which would change what is
// built. -modcacherw only says how downloads are stored, and is kept.
func (b *Builder) goCommand(ctx context.Context, folder string, args ...string) *exec.Cmd {
	flags := "-mod=readonly"
	if strings.Contains(os.Getenv("GOFLAGS"), "-modcacherw") {
		flags += " -modcacherw"
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS="+flags)
	if b.Arch != "" {
		cmd.Env = append(cmd.Env, "GOOS=linux", "GOARCH="+b.Arch)
	}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// runGo runs the go command and returns what it printed on stdout.
func (b *Builder) runGo(ctx context.Context, folder string, args ...string) ([]byte, error) {
	cmd := b.goCommand(ctx, folder, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, tail(stderr.String(), 20))
	}
	return out, nil
}

// goEnv is what the go command says about itself, in a version's folder.
type goEnv struct {
	// Settings holds what decides the output of a build.
	Settings map[string]string
	// OS and Arch say what the binaries are for.
	OS, Arch string
}

// settings names what decides the output of a build without cgo. GOVERSION
// is that of the toolchain that the folder's go.mod selects.
var settings = []string{
	"GOVERSION", "GOOS", "GOARCH", "GOEXPERIMENT", "GOFIPS140", "GOAMD64", "GOARM", "GOARM64", "GO386", "GOPPC64",
	"GORISCV64",
}

func (b *Builder) readGoEnv(ctx context.Context, folder string) (goEnv, error) {
	out, err := b.runGo(ctx, folder, append([]string{"env", "-json"}, settings...)...)
	if err != nil {
		return goEnv{}, fmt.Errorf("ask the go command for its settings: %w", err)
	}
	var g goEnv
	if err := json.Unmarshal(out, &g.Settings); err != nil {
		return goEnv{}, fmt.Errorf("read the go command's settings: %w", err)
	}
	g.OS, g.Arch = g.Settings["GOOS"], g.Settings["GOARCH"]
	return g, nil
}

// Key returns the digest of all that decides what a build of version gives:
// the files of the version's folder and of those that stand in for modules, the build flags, and the go command's
// version and target.
func (b *Builder) Key(ctx context.Context, version string) (string, error) {
	folder, err := b.folder(version)
	if err != nil {
		return "", err
	}
	g, err := b.readGoEnv(ctx, folder)
	if err != nil {
		return "", err
	}
	return b.key(ctx, folder, g)
}

func (b *Builder) key(ctx context.Context, folder string, g goEnv) (string, error) {
	// Marshalling a map writes its keys in order.
	head, err := json.Marshal(map[string]any{"flags": buildFlags, "go": g.Settings})
	if err != nil {
		return "", fmt.Errorf("digest the settings: %w", err)
	}
	digest := sha256.New()
	digest.Write(head)
	mod, err := b.readMod(ctx, folder)
	if err != nil {
		return "", err
	}
	for _, dir := range append([]string{folder}, mod.standIns(folder)...) {
		if err := digestFiles(digest, dir); err != nil {
			return "", fmt.Errorf("digest %s: %w", dir, err)
		}
	}
	return hex.EncodeToString(digest.Sum(nil))[:12], nil
}

// digestFiles adds the names and the content of a folder's files.
func digestFiles(digest hash.Hash, folder string) error {
	return filepath.WalkDir(folder, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		fmt.Fprintf(digest, "\n%q %d\n", filepath.ToSlash(name), len(content))
		digest.Write(content)
		return nil
	})
}

// A goMod is what a version's go.mod says.
type goMod struct {
	Tool    []struct{ Path string }
	Replace []struct {
		New struct{ Path, Version string }
	}
}

func (b *Builder) readMod(ctx context.Context, folder string) (mod goMod, err error) {
	out, err := b.runGo(ctx, folder, "mod", "edit", "-json")
	if err == nil {
		err = json.Unmarshal(out, &mod)
	}
	if err != nil {
		return goMod{}, fmt.Errorf("read go.mod: %w", err)
	}
	return mod, nil
}

// standIns are the folders of the tree that stand in for a module.
func (m goMod) standIns(folder string) (dirs []string) {
	for _, r := range m.Replace {
		if r.New.Version == "" {
			dirs = append(dirs, filepath.Join(folder, filepath.FromSlash(r.New.Path)))
		}
	}
	return dirs
}

// A tool is a main package to build.
type tool struct {
	pkg    string
	binary string
}

var majorSuffix = regexp.MustCompile(`/v[0-9]+$`)

// readTools returns the packages that the folder's go.mod names as tools.
// The binary has the last element of the package's path, without the module's
// major version; etcd's server package gives the binary etcd.
func (b *Builder) readTools(ctx context.Context, folder string) ([]tool, error) {
	mod, err := b.readMod(ctx, folder)
	if err != nil {
		return nil, err
	}
	if len(mod.Tool) == 0 {
		return nil, fmt.Errorf("%s has no tool line, which would name a package to build", filepath.Join(folder, "go.mod"))
	}
	var tools []tool
	for _, t := range mod.Tool {
		binary := path.Base(majorSuffix.ReplaceAllString(t.Path, ""))
		if binary == "server" {
			binary = "etcd"
		}
		tools = append(tools, tool{pkg: t.Path, binary: binary})
	}
	return tools, nil
}
