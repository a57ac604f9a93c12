package configfile

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// filled returns a configuration in which every field there is has a value of
// its own. It fails for a type of field that it does not know.
func filled(t *testing.T) machine.Config {
	t.Helper()
	var c machine.Config
	n := 0
	var fill func(v reflect.Value, path string)
	fill = func(v reflect.Value, path string) {
		n++
		switch p := v.Addr().Interface().(type) {
		case *etcdversion.Version:
			*p = etcdversion.Version{Major: 3, Minor: 6, Patch: n, Pre: "rc.1"}
			return
		case *map[string]string:
			*p = map[string]string{"k": fmt.Sprint(n), "true": "no", "": ""}
			return
		}
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
		case reflect.String:
			v.SetString(fmt.Sprintf("%d", n)) // looks like a number
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int, reflect.Int64:
			v.SetInt(int64(n))
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 3, 3))
			for i := range 2 {
				fill(v.Index(i), path)
			}
		default:
			t.Fatalf("%s is of the type %s, which this test and perhaps the file does not know", path, v.Type())
		}
	}
	fill(reflect.ValueOf(&c).Elem(), "Config")
	return c
}

func TestEveryFieldIsWrittenAndRead(t *testing.T) {
	c := filled(t)
	b, err := Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	f, err := decode("x", b)
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if !reflect.DeepEqual(f.Config, c) {
		t.Errorf("%s\nwas written of %+v\nand read as %+v", b, c, f.Config)
	}
}

// The names in a file are those of the JSON form, each once in its section.
func TestFieldsHaveNames(t *testing.T) {
	var observe func(t reflect.Type, path string)
	observe = func(typ reflect.Type, path string) {
		seen := map[string]bool{"": true, "-": true}
		for i, name := range fields(typ) {
			if seen[name] || !typ.Field(i).IsExported() {
				t.Errorf("%s has the name %q", path+"."+typ.Field(i).Name, name)
			}
			seen[name] = true
			if isSection(typ.Field(i).Type) {
				observe(typ.Field(i).Type, path+"."+name)
			}
		}
	}
	observe(reflect.TypeFor[machine.Config](), "")
}

func TestDefaultsAreAFile(t *testing.T) {
	b, err := Marshal(machine.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse("x", b)
	if err != nil || !reflect.DeepEqual(f.Config, machine.Defaults()) {
		t.Errorf("got %+v, %v", f, err)
	}
	text := string(b)
	if !strings.HasPrefix(text,
		head+"version: "+machine.DefaultVersion.String()+"\nlisten:\n  clientPort: 2379\n  peerPort: 2380\npaths:\n") {
		t.Errorf("the fields are not in their order:\n%s", text)
	}
	if again, err := Marshal(machine.Defaults()); err != nil || string(again) != text {
		t.Errorf("it is not written the same way again: %s", again)
	}
}

func TestNothingIsAFile(t *testing.T) {
	b, err := Marshal(machine.Config{})
	if err != nil || string(b) != head {
		t.Errorf("got %q, %v", b, err)
	}
	c := machine.Config{Service: machine.Service{Priorities: []string{}}}
	if b, err = Marshal(c); err != nil || string(b) != head+"service:\n  priorities: []\n" {
		t.Errorf("an empty list is written as %q, %v", b, err)
	}
}

// What is read is written, and then read as the same.
func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(head))
	f.Add([]byte(head + "etcd: {flags: {a: 0x10, b: ~x, '': \"\\u0085\"}, environment: {A: 1_0}}"))
	f.Add([]byte(head + "name: |\n  a\nservice: {user: >-\n  b}\n"))
	f.Add([]byte("%YAML 1.2\n---\n" + head + "...\n"))
	f.Add([]byte(`{"apiVersion":"etcdadm.dev/v1","kind":"Member","certificates":{"serverSANs":["\u00e4",null]}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		file, err := decode("x", in)
		if err != nil {
			var wrong Errors
			if !errors.As(err, &wrong) {
				t.Fatalf("an error of another type: %v", err)
			}
			for _, e := range wrong {
				if e.Line < 1 || e.Text == "" {
					t.Errorf("an error without line or text: %+v", e)
				}
			}
			return
		}
		b, err := Marshal(file.Config)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode("y", b)
		if err != nil {
			t.Fatalf("%v\nin %s\nwritten of %+v", err, b, file.Config)
		}
		if !reflect.DeepEqual(again.Config, file.Config) {
			t.Errorf("%+v\nis written as %s\nand read as %+v", file.Config, b, again.Config)
		}
		if _, err := Parse("x", in); err == nil {
			if _, err := Parse("y", b); err != nil {
				t.Errorf("it is valid, and what is written of it is not: %v", err)
			}
		}
	})
}
