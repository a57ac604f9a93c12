package daemons

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"
)

// places are where a machine's daemons are written down, as patterns of paths.
type places struct{ units, pods []string }

var machine = places{
	units: []string{"/etc/systemd/system/*.service"},
	pods: []string{
		"/etc/kubernetes/manifests/*.yaml", "/etc/kubernetes/manifests/*.yml", "/etc/kubernetes/manifests/*.manifest",
	},
}

// written is where the command line of a daemon comes from that does not run.
type written struct {
	file string
	argv []string
	// mounts are the directories of this machine by those of the daemon's container, nil for
	// a daemon without one.
	mounts map[string]string
}

// maxFile bounds what is read of a file.
const maxFile = 1 << 20

// writtenDown returns the daemons that the units of systemd and the static pods of this machine
// start, by file. A file to which others can write is none, nor is one that cannot be read.
func (p places) writtenDown() (found []Daemon) {
	read := func(patterns []string, parse func(text []byte) []written) {
		for _, pattern := range patterns {
			files, _ := filepath.Glob(pattern) // the patterns are constants
			for _, file := range files {
				if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || info.Size() > maxFile || !Trusted(file) {
					continue
				}
				text, err := os.ReadFile(file)
				if err != nil {
					continue
				}
				for _, w := range parse(text) {
					if d, ok := parseWords(w.argv); ok {
						w.file = file
						d.written, d.Elsewhere = &w, w.elsewhere(d.Store)
						found = append(found, d)
					}
				}
			}
		}
	}
	read(p.units, units)
	read(p.pods, pods)
	return slices.CompactFunc(found, func(a, b Daemon) bool { return a.Store == b.Store && a.Cluster == b.Cluster })
}

// parseWords is parse for a command line that may be empty.
func parseWords(argv []string) (Daemon, bool) {
	if len(argv) == 0 {
		return Daemon{}, false
	}
	return parse(argv)
}

// units reads the command lines of a unit of systemd. One with something in it that systemd
// replaces is left out.
func units(text []byte) (list []written) {
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		value, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecStart=")
		if !ok {
			continue
		}
		plain := strings.NewReplacer("%%", "", "$$", "").Replace(value)
		words, whole := split(strings.TrimLeft(value, "-@:+!"))
		if !whole || strings.ContainsAny(plain, "%$") {
			continue
		}
		for i, w := range words {
			words[i] = strings.NewReplacer("%%", "%", "$$", "$").Replace(w)
		}
		list = append(list, written{argv: words})
	}
	return list
}

// split divides a line into words, with quotes and backslashes; whole is false where a quote
// does not end.
func split(line string) (words []string, whole bool) {
	var word strings.Builder
	quote, inWord, escaped := rune(0), false, false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, inWord = r, true
		case quote == 0 && unicode.IsSpace(r):
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, quote == 0 && !escaped
}

// A pod is what counts of a static pod.
type pod struct {
	Spec struct {
		Containers []struct {
			Command, Args []string
			VolumeMounts  []struct{ Name, MountPath string }
		}
		Volumes []struct {
			Name     string
			HostPath *struct{ Path string }
		}
	}
}

// pods reads the command lines of the containers of a static pod.
func pods(text []byte) (list []written) {
	var p pod
	if yaml.Unmarshal(text, &p) != nil {
		return nil
	}
	host := map[string]string{}
	for _, v := range p.Spec.Volumes {
		if v.HostPath != nil {
			host[v.Name] = v.HostPath.Path
		}
	}
	for _, c := range p.Spec.Containers {
		w := written{argv: program(slices.Concat(c.Command, c.Args)), mounts: map[string]string{}}
		for _, m := range c.VolumeMounts {
			if path := host[m.Name]; path != "" {
				w.mounts[filepath.Clean(m.MountPath)] = path
			}
		}
		list = append(list, w)
	}
	return list
}

// program takes the daemon's command line out of that of a shell, as kops has it.
func program(argv []string) []string {
	i := slices.Index(argv, "-c")
	if len(argv) == 0 || filepath.Base(argv[0]) != "sh" || i < 0 || i+1 >= len(argv) {
		return argv
	}
	words, _ := split(argv[i+1])
	begin := slices.IndexFunc(words, func(w string) bool { return filepath.Base(w) == "etcd-manager" })
	if begin < 0 {
		return nil
	}
	words = words[begin:]
	ends := func(w string) bool { return strings.ContainsAny(w[:min(1, len(w))], "<>|;&") }
	if end := slices.IndexFunc(words, ends); end > 0 {
		words = words[:end]
	}
	return words
}

// here returns where a path of the daemon is on this machine; ok is false where nowhere.
func (w *written) here(path string) (at string, ok bool) {
	if w.mounts == nil {
		return path, filepath.IsAbs(path)
	}
	path = filepath.Clean(path)
	for dir := path; ; dir = filepath.Dir(dir) {
		if to, ok := w.mounts[dir]; ok {
			return filepath.Join(to, strings.TrimPrefix(path, dir)), true
		}
		if dir == filepath.Dir(dir) {
			return "", false
		}
	}
}

// elsewhere says that the store is a directory that is not under its name on this machine.
func (w *written) elsewhere(store string) bool {
	path := strings.TrimPrefix(store, "file://")
	if strings.Contains(path, "://") {
		return false
	}
	at, ok := w.here(path)
	return !ok || at != filepath.Clean(path)
}

// settings are those of the command line.
func (w *written) settings() (Settings, error) {
	s, err := settingsOf(w.argv)
	s.EtcdDirs = slices.DeleteFunc(s.EtcdDirs, func(d string) bool { return w.mounts != nil || !Trusted(d) })
	if err != nil {
		return s, err
	}
	at, ok := w.here(s.PKIDir)
	if !ok {
		return s, fmt.Errorf("the directory %s of the daemon in %s is not on this machine", s.PKIDir, w.file)
	}
	s.PKIDir = at
	return s, nil
}
