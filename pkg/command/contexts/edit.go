package contexts

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/host/hostfs"
)

// Edit reads the file, has change change it, and writes it, readable by its owner alone.
// Paths stay as they are in the file, and comments are lost. Two at the same time do not
// lose what the other one does.
func Edit(change func(f *File) error) error {
	path := Path()
	if path == "" {
		return cli.WithHint(errors.New("there is no place for the contexts"), "set HOME or XDG_CONFIG_HOME in the environment")
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write the contexts: %w", err)
	}
	lock, err := hostfs.LockDir(dir)
	if err != nil {
		return cli.WithHint(err, "another command changes the contexts: run this one again")
	}
	return errors.Join(edit(change), lock.Unlock())
}

func edit(change func(f *File) error) error {
	f, err := read()
	if err != nil {
		return err
	}
	if err := change(f); err != nil {
		return err
	}
	f.APIVersion, f.Kind = APIVersion, Kind
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(f), e.Close()); err != nil {
		return fmt.Errorf("write the contexts: %w", err)
	}
	path, err := filepath.EvalSymlinks(f.path) // the file may be kept elsewhere
	if err != nil {
		path = f.path // a new one
	}
	return hostfs.WriteFile(path, b.Bytes(), 0o600)
}

// Set puts a context into the file in place of the one of that name. It reports whether it
// is new.
func (f *File) Set(c Context) (added bool, err error) {
	if err := check(c); err != nil {
		return false, cli.Usagef("%v", err)
	}
	i := slices.IndexFunc(f.Contexts, func(o Context) bool { return o.Name == c.Name })
	if i >= 0 {
		f.Contexts[i] = c
		return false, nil
	}
	f.Contexts = append(f.Contexts, c)
	return true, nil
}

// Delete takes a context out of the file. No context is current then, if it was that one.
func (f *File) Delete(name string) error {
	if _, err := f.Find(name); err != nil {
		return err
	}
	f.Contexts = slices.DeleteFunc(f.Contexts, func(c Context) bool { return c.Name == name })
	if f.Current == name {
		f.Current = ""
	}
	return nil
}
