package main

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/command/docs"
)

// A file is one that is installed.
type file struct {
	// Path is where it is installed, relative to the top of an archive.
	Path string
	// Type is that of nfpm: empty for a plain file, config|noreplace for one that belongs to
	// the person once it is there.
	Type string
	Mode int64
	// Content is in the file, or else the file Source is read.
	Content []byte
	Source  string
}

// Places are where a kind of installation has its files, each without a slash at its end.
type places struct {
	Bin, Units, Man, Bash, Zsh, Fish, Docs string
	// Flags is the directory of the files with what the units give to their programs.
	Flags string
	// Restarts is the directory of needrestart's settings, empty where it is not used.
	Restarts string
}

var (
	// local is the layout of /usr/local, to which archives are unpacked. Places of what is
	// in an archive are relative to it.
	local = places{
		Bin: "bin", Units: "lib/systemd/system", Man: "share/man", Bash: "share/bash-completion/completions",
		Zsh: "share/zsh/site-functions", Fish: "share/fish/vendor_completions.d", Docs: "share/doc/etcdadm",
		Flags: "share/doc/etcdadm/default",
	}
	debian = places{
		Bin: "/usr/bin", Units: "/usr/lib/systemd/system", Man: "/usr/share/man",
		Bash: "/usr/share/bash-completion/completions", Zsh: "/usr/share/zsh/vendor-completions",
		Fish: "/usr/share/fish/vendor_completions.d", Docs: "/usr/share/doc/etcdadm", Flags: "/etc/default",
		Restarts: "/etc/needrestart/conf.d",
	}
	fedora = places{
		Bin: "/usr/bin", Units: "/usr/lib/systemd/system", Man: "/usr/share/man",
		Bash: "/usr/share/bash-completion/completions", Zsh: "/usr/share/zsh/site-functions",
		Fish: "/usr/share/fish/vendor_completions.d", Docs: "/usr/share/doc/etcdadm", Flags: "/etc/sysconfig",
	}
)

// A set is what an archive holds.
type set struct {
	Name     string
	Programs []string
}

// sets are the archives: of everything, and of the programs that are also of use alone.
var sets = []set{
	{"etcdadm", programs},
	{"etcd-manager-ctl", []string{"etcd-manager-ctl"}},
	{"etcd-backup", []string{"etcd-backup"}},
}

// installed returns the files of programs at their places, sorted by their paths. bin is the
// directory of the programs, flags says where the units look for the files of p.Flags.
func installed(names []string, p places, bin, flags string, list []written) ([]file, error) {
	var files []file
	for _, name := range names {
		files = append(files, file{Path: p.Bin + "/" + name, Mode: 0o755, Source: filepath.Join(bin, name)})
	}
	dirs := map[docs.Kind]string{docs.Manual: p.Man + "/man1", docs.Bash: p.Bash, docs.Zsh: p.Zsh, docs.Fish: p.Fish}
	for _, w := range list {
		if !slices.Contains(names, w.Program) {
			continue
		}
		f := file{Path: dirs[w.Kind] + "/" + w.Name, Mode: 0o644, Content: []byte(w.Text)}
		if w.Kind == docs.Manual {
			f.Path, f.Content = f.Path+".gz", compressed(w.Text)
		}
		files = append(files, f)
	}
	programDir := p.Bin
	if !filepath.IsAbs(programDir) {
		programDir = "/usr/local/" + programDir
	}
	units, err := units(names, programDir, flags)
	if err != nil {
		return nil, err
	}
	for _, u := range units {
		files = append(files, file{Path: p.Units + "/" + u.Name, Mode: 0o644, Content: []byte(u.Text)})
	}
	for _, name := range names {
		if text := flagsFile(name); text != nil {
			f := file{Path: p.Flags + "/" + name, Mode: 0o644, Content: text}
			if filepath.IsAbs(p.Flags) {
				f.Type = "config|noreplace"
			}
			files = append(files, f)
		}
	}
	if p.Restarts != "" {
		files = append(files, file{Path: p.Restarts + "/etcdadm.conf", Mode: 0o644, Type: "config|noreplace",
			Content: embeddedFile("needrestart.conf")})
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.Path, b.Path) })
	return files, nil
}
