package machineflags

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/host/configfile"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// Config returns the spec: the defaults, over them the configuration file,
// over it the environment, over it the flags that were given. What follows
// from the machine (its host name, the address of its default route) is not
// filled in yet. Every error says which flag, variable or line of the file is
// wrong, and is a usage error.
func (f *Flags) Config() (machine.Config, error) {
	w, err := f.checked()
	if err != nil {
		return machine.Config{}, err
	}
	return w.config, nil
}

// Given is Config without the defaults: what nobody has set is zero.
func (f *Flags) Given() (machine.Config, error) {
	w, err := f.checked()
	if err != nil {
		return machine.Config{}, err
	}
	return w.given, nil
}

func (f *Flags) checked() (*desired, error) {
	w, err := f.desired()
	if err != nil {
		return nil, err
	}
	if err := w.explain(w.config.Validate()); err != nil {
		return nil, err
	}
	// A command that does not ask for the version works on what is there, whatever
	// its version: settings for it are none of its business.
	if f.cmd.Flags().Lookup("version") != nil {
		if err := w.explain(w.config.CheckFlags()); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// desired puts the sources together.
func (f *Flags) desired() (*desired, error) {
	w := &desired{by: map[string]string{}}
	if path := f.path(); path != "" {
		file, err := configfile.Read(path, f.cmd.InOrStdin())
		if err != nil {
			return nil, cli.WithHint(err, "for a complete configuration see: etcdadm config print --defaults")
		}
		w.file, w.given = file, file.Config
	}
	var environment, flags []source
	for _, v := range f.values {
		if text := strings.TrimSpace(os.Getenv(Variable(v.entry.name))); text != "" {
			environment = append(environment, source{v.entry, Variable(v.entry.name), []string{text}})
		}
		if len(v.texts) > 0 {
			flags = append(flags, source{v.entry, "--" + v.entry.name, v.texts})
		}
	}
	for _, level := range [][]source{environment, flags} {
		if err := w.put(level); err != nil {
			return nil, err
		}
	}
	if err := f.readRetry(); err != nil {
		return nil, err
	}
	clean(&w.given.Paths)
	w.config = configfile.Overlay(machine.Defaults(), w.given)
	return w, nil
}

// readRetry takes --retry from the environment, if it is not given.
func (f *Flags) readRetry() error {
	const name = "retry"
	flag, text := f.cmd.Flags().Lookup(name), strings.TrimSpace(os.Getenv(Variable(name)))
	if flag == nil || flag.Changed || text == "" {
		return nil
	}
	var err error
	if f.retry, err = strconv.ParseBool(text); err != nil {
		return cli.Usagef("%s: %q is neither true nor false", Variable(name), text)
	}
	return nil
}

// path is where the configuration file is, empty for none.
func (f *Flags) path() string {
	if f.cmd.Flags().Changed("config") {
		return f.config
	}
	return os.Getenv(Variable("config"))
}

// A source gives one field texts.
type source struct {
	entry *entry
	// name is the flag with its dashes, or the variable.
	name  string
	texts []string
}

// A desired is a configuration of which it is known where its values are from.
type desired struct {
	given, config machine.Config
	file          *configfile.File
	// by has the flag or variable that set a field, by the field's path.
	by map[string]string
}

// origins are the flags that say where the binaries come from. One of them goes
// before all that the levels below say about it: the fields have an order of
// their own, by which a directory in the file would win over an archive on the
// command line.
var origins = []string{"binaries-dir", "binaries-archive", "binaries-image", "release-url"}

// put sets the fields of one level.
func (w *desired) put(level []source) error {
	if slices.ContainsFunc(level, func(s source) bool { return slices.Contains(origins, s.entry.name) }) {
		b := &w.given.Binaries
		b.Dir, b.Archive, b.Image, b.ReleaseURL, b.SHA256 = "", "", "", "", ""
	}
	for _, s := range level {
		if err := s.entry.set(&w.given, s.texts); err != nil {
			return cli.Usagef("%s: %v", s.name, err)
		}
		path := s.entry.path()
		w.by[path] = s.name
		if _, ok := s.entry.field(&w.given).(*map[string]string); !ok {
			continue
		}
		var pairs map[string]string
		for _, text := range s.texts {
			// They were read without error just before.
			_ = addPairs(&pairs, text)
		}
		for k := range pairs {
			w.by[path+"."+k] = s.name + " " + k
		}
	}
	return nil
}

// clean makes of paths that people write (/opt/bin/) those that are compared.
// The manifests' may be relative and stays as it is.
func clean(p *machine.Paths) {
	for _, dir := range []*string{&p.Data, &p.Certificates, &p.Install, &p.Cache, &p.Environment, &p.Units} {
		if *dir != "" {
			*dir = filepath.Clean(*dir)
		}
	}
}

// path is the JSON path of the field that the flag sets.
func (e *entry) path() string {
	var c machine.Config
	want := reflect.ValueOf(e.field(&c)).Pointer()
	return find(reflect.ValueOf(&c).Elem(), want, reflect.TypeOf(e.field(&c)).Elem(), "")
}

func find(v reflect.Value, address uintptr, typ reflect.Type, path string) string {
	if v.Addr().Pointer() == address && v.Type() == typ {
		return path
	}
	if v.Kind() != reflect.Struct {
		return ""
	}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if found := find(v.Field(i), address, typ, strings.TrimPrefix(path+"."+name, ".")); found != "" {
			return found
		}
	}
	return ""
}

// explain says of an error of fields who set them: a flag, a variable or a line
// of the file.
func (w *desired) explain(err error) error {
	var wrong machine.FieldErrors
	if !errors.As(err, &wrong) {
		return err
	}
	texts := make([]string, len(wrong))
	for i, e := range wrong {
		texts[i] = w.explainOne(e)
	}
	return &cli.UsageError{Text: strings.Join(texts, "; ")}
}

func (w *desired) explainOne(e *machine.FieldError) string {
	field, _, _ := strings.Cut(e.Path, "[")
	for _, path := range []string{e.Path, field} {
		if by, ok := w.by[path]; ok {
			return by + " " + e.Text
		}
	}
	if w.file != nil {
		if at := w.file.Locate(e); at != nil {
			return at.Error()
		}
	}
	// A default that does not go with what was set.
	for i := range table {
		if table[i].path() == field {
			return fmt.Sprintf("--%s %s", table[i].name, e.Text)
		}
	}
	return e.Error()
}

// Named reports whether a flag, a variable of the environment or a configuration file
// says anything of the machine, and it is thus the one that is meant.
func (f *Flags) Named() bool {
	if f.path() != "" {
		return true
	}
	return slices.ContainsFunc(f.values, func(v *value) bool {
		return len(v.texts) > 0 || strings.TrimSpace(os.Getenv(Variable(v.entry.name))) != ""
	})
}
