package contexts

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
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

// Unset forgets one thing: "current-context", or "contexts.NAME.FIELD", where FIELD is called
// as in the file.
func (f *File) Unset(property string) error {
	if property == currentField {
		f.Current = ""
		return nil
	}
	rest, ok := strings.CutPrefix(property, "contexts.")
	dot := strings.LastIndexByte(rest, '.')
	if !ok || dot < 0 {
		return &cli.UsageError{Text: fmt.Sprintf("%q is not of the form contexts.NAME.FIELD, nor %s", property, currentField),
			Next: "etcd-manager-ctl config unset contexts.NAME.nodes; config delete-context NAME forgets all of it"}
	}
	name, field := rest[:dot], rest[dot+1:] // a name may have dots
	if _, err := f.Find(name); err != nil {
		return err
	}
	i := slices.IndexFunc(f.Contexts, func(c Context) bool { return c.Name == name })
	if !f.Contexts[i].unset(field) {
		return &cli.UsageError{Text: fmt.Sprintf("a context has no field %q", field),
			Next: "the fields are " + strings.Join(fields(), ", ")}
	}
	return nil
}

const currentField = "current-context"

// fields are the names of what can be forgotten of a context.
func fields() []string {
	names := []string{"backup-store", "cluster-name", "nodes", "insecure", "etcd-insecure", "published"}
	for name := range (&Context{}).paths() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// unset forgets a field, and reports whether there is one of that name.
func (c *Context) unset(field string) bool {
	switch field {
	case "backup-store":
		c.BackupStore = ""
	case "cluster-name":
		c.ClusterName = ""
	case "nodes":
		c.Nodes = nil
	case "insecure":
		c.Insecure = false
	case "etcd-insecure":
		c.EtcdInsecure = false
	case "published":
		c.Published = false
	default:
		path, ok := c.paths()[field]
		if ok {
			*path = ""
		}
		return ok
	}
	return true
}

// CompleteUnset proposes what [File.Unset] takes to a shell.
func CompleteUnset(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	f, err := Read()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list []string
	if f.Current != "" {
		list = append(list, currentField)
	}
	for _, c := range f.Contexts {
		for field := range c.Flags() {
			list = append(list, "contexts."+c.Name+"."+field)
		}
	}
	slices.Sort(list)
	return list, cobra.ShellCompDirectiveNoFileComp
}
