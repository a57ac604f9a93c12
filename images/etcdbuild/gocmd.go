package etcdbuild

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
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
// the files of the version's folder, the build flags, and the go command's
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
	return b.key(folder, g)
}

func (b *Builder) key(folder string, g goEnv) (string, error) {
	// Marshalling a map writes its keys in order.
	head, err := json.Marshal(map[string]any{"flags": buildFlags, "go": g.Settings})
	if err != nil {
		return "", fmt.Errorf("digest the settings: %w", err)
	}
	digest := sha256.New()
	digest.Write(head)
	err = filepath.WalkDir(folder, func(file string, d os.DirEntry, err error) error {
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
	if err != nil {
		return "", fmt.Errorf("digest %s: %w", folder, err)
	}
	return hex.EncodeToString(digest.Sum(nil))[:12], nil
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
	out, err := b.runGo(ctx, folder, "mod", "edit", "-json")
	if err != nil {
		return nil, fmt.Errorf("read go.mod: %w", err)
	}
	var mod struct{ Tool []struct{ Path string } }
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, fmt.Errorf("read go.mod: %w", err)
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
