package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/images/notices"
)

// A format of packages.
type format struct {
	// Name is nfpm's, and the end of the files' names.
	Name   string
	Places places
	// License is where the package has its license, as a file of type Type.
	License, Type string
}

var formats = []format{
	{"deb", debian, "/usr/share/doc/etcdadm/copyright", ""},
	{"rpm", fedora, "/usr/share/licenses/etcdadm/LICENSE", "license"},
}

// A recipe is what nfpm makes a package of, in the fields of its configuration.
type recipe struct {
	Name        string            `json:"name"`
	Arch        string            `json:"arch"`
	Platform    string            `json:"platform"`
	Version     string            `json:"version"`
	Schema      string            `json:"version_schema"`
	Release     string            `json:"release"`
	Section     string            `json:"section"`
	Priority    string            `json:"priority"`
	Maintainer  string            `json:"maintainer"`
	Description string            `json:"description"`
	Homepage    string            `json:"homepage"`
	License     string            `json:"license"`
	NoGlobs     bool              `json:"disable_globbing"`
	MTime       time.Time         `json:"mtime"`
	Scripts     map[string]string `json:"scripts"`
	Contents    []content         `json:"contents"`
	RPM         map[string]string `json:"rpm"`
}

// A content is a file of a recipe.
type content struct {
	Source      string   `json:"src"`
	Destination string   `json:"dst"`
	Type        string   `json:"type,omitempty"`
	Info        fileInfo `json:"file_info"`
}

type fileInfo struct {
	Owner string    `json:"owner"`
	Group string    `json:"group"`
	Mode  int64     `json:"mode"`
	MTime time.Time `json:"mtime"`
}

const description = `Automation for the etcd clusters under Kubernetes control planes
etcd-manager runs a member on each machine, and keeps the cluster as its spec says.
etcdadm does the same by hand, etcd-manager-ctl reports clusters and takes orders for
them, and etcd-backup backs up any etcd. Nothing is started before it is enabled.`

// describe returns the recipe of a package. Files that are no files yet are written to
// staging.
func describe(s source, arch string, files []file, staging string) (recipe, error) {
	version, err := packageVersion(s.Version, s.Time)
	if err != nil {
		return recipe{}, err
	}
	r := recipe{
		Name: "etcdadm", Arch: arch, Platform: "linux", Version: version, Schema: "none", Release: "1",
		Section: "admin", Priority: "optional", Maintainer: "etcdadm maintainers <noreply@etcdadm.dev>",
		Description: description, Homepage: "https://github.com/etcdadm/etcdadm", License: "Apache-2.0",
		NoGlobs: true, MTime: s.Time, Scripts: map[string]string{},
		RPM: map[string]string{
			"buildhost": "localhost", "summary": strings.SplitN(description, "\n", 2)[0], "packager": "etcdadm maintainers",
		},
	}
	for i, file := range files {
		c := content{file.Source, file.Path, file.Type, fileInfo{"root", "root", file.Mode, s.Time}}
		if c.Source == "" {
			if c.Source, err = stage(staging, fmt.Sprintf("%d-%s", i, filepath.Base(file.Path)), file.Content); err != nil {
				return r, err
			}
		}
		r.Contents = append(r.Contents, c)
	}
	for _, name := range []string{"postinstall", "postremove"} {
		if r.Scripts[name], err = stage(staging, name, embeddedFile("reload.sh")); err != nil {
			return r, err
		}
	}
	return r, nil
}

func stage(dir, name string, content []byte) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, content, 0o644)
}

// packageFiles are the files of a package.
func packageFiles(s source, f format, bin string, list []written, licenses []byte) ([]file, error) {
	files, err := installed(programs, f.Places, bin, f.Places.Flags, list)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"README.md", "CHANGELOG.md"} {
		doc := file{Path: f.Places.Docs + "/" + name, Mode: 0o644, Source: filepath.Join(s.Root, name)}
		if f.Name == "rpm" {
			doc.Type = "doc"
		}
		files = append(files, doc)
	}
	license := file{Path: f.License, Type: f.Type, Mode: 0o644, Source: filepath.Join(s.Root, "LICENSE")}
	if f.Name == "deb" {
		license.Source, license.Content = "", embeddedFile("copyright")
	}
	others := file{Path: filepath.Dir(f.License) + "/" + notices.Name, Type: f.Type, Mode: 0o644, Content: licenses}
	return append(files, license, others), nil
}

// packer builds the program that makes packages. It is a module of its own, so that nothing
// else depends on nfpm.
func (b build) packer(ctx context.Context) (string, error) {
	out := filepath.Join(b.Work, "packer")
	return out, b.Source.build(ctx, filepath.Join(b.Source.Root, "hack", "dist", "nfpm"),
		[]string{"GOWORK=off", "GOOS=" + runtime.GOOS, "GOARCH=" + runtime.GOARCH}, "-o", out, ".")
}

// pack makes a package.
func (b build) pack(ctx context.Context, packer string, f format, arch, bin string, list []written,
	licenses []byte) error {
	files, err := packageFiles(b.Source, f, bin, list, licenses)
	if err != nil {
		return err
	}
	r, err := describe(b.Source, arch, files, filepath.Join(b.Work, f.Name+"-"+arch))
	if err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, packer, f.Name, b.Out)
	cmd.Stdin = bytes.NewReader(text)
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", b.Source.Time.Unix()))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make the package %s for %s: %w\n%s", f.Name, arch, err, bytes.TrimSpace(out))
	}
	return nil
}
