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

// places are where a machine's daemons are written down: the directories of systemd, the most
// important one first, and patterns of static pods.
type places struct{ units, pods []string }

var machine = places{
	units: []string{"/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"},
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
	add := func(file string, list []written) {
		for _, w := range list {
			if d, ok := parseWords(w.argv); ok {
				w.file = file
				d.written, d.Elsewhere = &w, w.elsewhere(d.Store)
				found = append(found, d)
			}
		}
	}
	for _, file := range p.unitFiles() {
		add(file, units(p.unit(file)))
	}
	for _, pattern := range p.pods {
		files, _ := filepath.Glob(pattern) // the patterns are constants
		for _, file := range files {
			if text, ok := read(file); ok {
				add(file, pods(text))
			}
		}
	}
	return slices.CompactFunc(found, func(a, b Daemon) bool { return a.Store == b.Store && a.Cluster == b.Cluster })
}

// read reads a file that nobody else can have written.
func read(file string) (text string, ok bool) {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || info.Size() > maxFile || !Trusted(file) {
		return "", false
	}
	b, err := os.ReadFile(file)
	return string(b), err == nil
}

// unitFiles are the units of services; one in a more important directory takes the place of
// others of its name.
func (p places) unitFiles() (list []string) {
	known := map[string]bool{}
	for _, dir := range p.units {
		files, _ := filepath.Glob(filepath.Join(dir, "*.service"))
		for _, file := range files {
			if name := filepath.Base(file); !known[name] {
				known[name], list = true, append(list, file)
			}
		}
	}
	return list
}

// unit returns the text of a unit with that of its drop-ins behind it, "" where one of them
// cannot be read.
func (p places) unit(file string) string {
	files := []string{}
	for _, dir := range p.units {
		more, _ := filepath.Glob(filepath.Join(dir, filepath.Base(file)+".d", "*.conf"))
		files = append(files, more...)
	}
	slices.SortStableFunc(files, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	all := ""
	for _, f := range append([]string{file}, files...) {
		text, ok := read(f)
		if !ok {
			return ""
		}
		all += text + "\n"
	}
	return all
}

// parseWords is parse for a command line that may be empty.
func parseWords(argv []string) (Daemon, bool) {
	if len(argv) == 0 {
		return Daemon{}, false
	}
	return parse(argv)
}

// units reads the command lines of a unit of systemd. One is left out if there is something in
// it that systemd replaces, other than a word that stands in an EnvironmentFile.
func units(text string) (list []written) {
	var lines []string
	environment := map[string]string{}
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		key, value, _ := strings.Cut(line, "=")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "EnvironmentFile":
			variables(strings.TrimPrefix(value, "-"), environment)
		case "ExecStart":
			if value == "" {
				lines = nil // what has been said before does not count
			} else {
				lines = append(lines, value)
			}
		}
	}
	for _, line := range lines {
		list = append(list, written{argv: commandLine(line, environment)})
	}
	return list
}

// variables adds the variables of an EnvironmentFile.
func variables(file string, to map[string]string) {
	text, _ := read(file)
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if words, whole := split(value); ok && whole && !strings.HasPrefix(name, "#") && !strings.HasPrefix(name, ";") {
			to[name] = strings.Join(words, " ")
		}
	}
}

// commandLine returns the words of an ExecStart, none where they are not known.
func commandLine(line string, environment map[string]string) (argv []string) {
	words, whole := split(strings.TrimLeft(line, "-@:+!"))
	if !whole {
		return nil
	}
	for _, w := range words {
		value, known := environment[strings.TrimPrefix(w, "$")]
		if strings.HasPrefix(w, "$") && known {
			more, whole := split(value)
			if !whole {
				return nil
			}
			argv = append(argv, more...)
			continue
		}
		if strings.ContainsAny(strings.NewReplacer("%%", "", "$$", "").Replace(w), "%$") {
			return nil
		}
		argv = append(argv, strings.NewReplacer("%%", "%", "$$", "$").Replace(w))
	}
	return argv
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
func pods(text string) (list []written) {
	var p pod
	if yaml.Unmarshal([]byte(text), &p) != nil {
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

// program takes the daemon's command line out of that of a shell, or of what keeps its log, as
// kops has them.
func program(argv []string) []string {
	manager := func(w string) bool { return filepath.Base(w) == "etcd-manager" }
	if len(argv) > 0 && filepath.Base(argv[0]) == "go-runner" {
		return argv[max(0, slices.IndexFunc(argv, manager)):]
	}
	i := slices.Index(argv, "-c")
	if len(argv) == 0 || filepath.Base(argv[0]) != "sh" || i < 0 || i+1 >= len(argv) {
		return argv
	}
	words, _ := split(argv[i+1])
	begin := slices.IndexFunc(words, manager)
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
