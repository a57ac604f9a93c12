// Package configfile reads and writes the configuration of one machine as a
// file: YAML or JSON, of a version and a kind.
//
//	apiVersion: etcdadm.dev/v1
//	kind: Member
//	name: a
//	listen:
//	  address: 10.0.0.1
//
// The fields are those of machine.Config. Reading is strict: what is not
// understood is an error that names line and field.
package configfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// The version and kind of the files. Fields may be added to a version; when
// one changes its meaning there will be another version, and Migrate will read
// this one.
const (
	APIVersion = "etcdadm.dev/v1"
	Kind       = "Member"
)

// maxBytes bounds what is read: a file that is larger is none of these.
const maxBytes = 1 << 20

// An Error says what is wrong where in a file.
type Error struct {
	File string
	// Line and Column begin at 1; Column is 0 where it is not known.
	Line, Column int
	// Path is the field by its names, as "paths.data", empty for the whole.
	Path string
	Text string
}

func (e *Error) Error() string {
	at := fmt.Sprintf("%s:%d", e.File, e.Line)
	if e.Column > 0 {
		at += fmt.Sprintf(":%d", e.Column)
	}
	if e.Path == "" {
		return at + ": " + e.Text
	}
	return at + ": " + e.Path + ": " + e.Text
}

// Errors are all that is wrong with a file, by line.
type Errors []*Error

func (e Errors) Error() string {
	texts := make([]string, len(e))
	for i, one := range e {
		texts[i] = one.Error()
	}
	return strings.Join(texts, "\n")
}

// Kind is the kind of exit code: a file that says something impossible is like
// a flag that does.
func (e Errors) Kind() string { return "usage" }

// A File is a configuration that was read. Fields that it does not set are
// zero.
type File struct {
	// Name is its path, "standard input" for that.
	Name   string
	Config machine.Config

	positions map[string]position
}

type position struct{ line, column int }

// Locate returns an error that says where in the file a field is that is wrong;
// nil if the file does not set it.
func (f *File) Locate(e *machine.FieldError) *Error {
	p, ok := f.positions[e.Path]
	if !ok {
		return nil
	}
	return &Error{File: f.Name, Line: p.line, Column: p.column, Path: e.Path, Text: e.Text}
}

// Load reads the configuration in the file of that path, - for standard input.
// Fields that it does not set are zero. The error is an [Errors] if the file is
// read and wrong.
func Load(path string) (machine.Config, error) {
	f, err := Read(path, os.Stdin)
	if err != nil {
		return machine.Config{}, err
	}
	return f.Config, nil
}

// Read is Load with the positions of the fields, for which stdin stands in for
// standard input.
func Read(path string, stdin io.Reader) (*File, error) {
	name, from := path, stdin
	if path == "-" {
		name = "standard input"
	} else {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("configuration: %w", err)
		}
		defer file.Close()
		from = file
	}
	b, err := io.ReadAll(io.LimitReader(from, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", name, err)
	}
	if len(b) > maxBytes {
		return nil, fmt.Errorf("configuration %s has more than %d bytes", name, maxBytes)
	}
	return Parse(name, b)
}

// Parse reads a configuration. What it says must be possible, see
// [machine.Config.Validate]; where it says the version of etcd, that version
// must know its flags. The error is an [Errors].
func Parse(name string, b []byte) (*File, error) {
	f, err := decode(name, b)
	if err != nil {
		return nil, err
	}
	wrong := fieldErrors(f.Config.Validate())
	if !f.Config.Version.IsZero() {
		wrong = append(wrong, fieldErrors(f.Config.CheckFlags())...)
	}
	var found Errors
	for _, e := range wrong {
		at := f.Locate(e)
		if at == nil { // about a field that is not set
			at = &Error{File: name, Line: 1, Path: e.Path, Text: e.Text}
		}
		found = append(found, at)
	}
	if len(found) > 0 {
		return nil, byLine(found)
	}
	return f, nil
}

func fieldErrors(err error) machine.FieldErrors {
	var wrong machine.FieldErrors
	errors.As(err, &wrong)
	return wrong
}

func byLine(found Errors) Errors {
	slices.SortStableFunc(found, func(a, b *Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return found
}

// Overlay returns base with the fields that over sets: those that are not zero.
// A list replaces another, also one that is empty but not nil; what is in a map
// goes beside and before what base has.
func Overlay(base, over machine.Config) machine.Config {
	overlay(reflect.ValueOf(&base).Elem(), reflect.ValueOf(over))
	return base
}

func overlay(base, over reflect.Value) {
	switch {
	case isSection(over.Type()):
		for i := range over.NumField() {
			overlay(base.Field(i), over.Field(i))
		}
	case over.IsZero():
	case over.Kind() == reflect.Map:
		merged := reflect.MakeMap(over.Type())
		for _, m := range []reflect.Value{base, over} {
			for _, k := range m.MapKeys() {
				merged.SetMapIndex(k, m.MapIndex(k))
			}
		}
		base.Set(merged)
	default:
		base.Set(over)
	}
}
