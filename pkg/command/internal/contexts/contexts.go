// Package contexts remembers clusters by name, so that their store and their daemons need
// not be given with each command.
//
// They are in the file config below ~/.config/etcdadm, or $XDG_CONFIG_HOME/etcdadm:
//
//	apiVersion: etcdadm.dev/v1
//	kind: Contexts
//	current-context: prod
//	contexts:
//	- name: prod
//	  backup-store: s3://bucket/prod
//
// The other fields of a context are called as the flags that they stand for.
package contexts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/spelling"
)

// The version and kind of the file.
const (
	APIVersion = "etcdadm.dev/v1"
	Kind       = "Contexts"
)

// Variable names a context in the environment, as --context does on a command line.
const Variable = "ETCDADM_CONTEXT"

// PublishedVariable stands for --published of etcd-manager-ctl in the environment.
const PublishedVariable = "ETCDADM_PUBLISHED"

// maxBytes bounds what is read: a file that is larger is none of these.
const maxBytes = 1 << 20

// A Context is a cluster and how it is reached.
type Context struct {
	Name        string   `yaml:"name" json:"name"`
	BackupStore string   `yaml:"backup-store,omitempty" json:"backupStore,omitempty"`
	ClusterName string   `yaml:"cluster-name,omitempty" json:"clusterName,omitempty"`
	Nodes       []string `yaml:"nodes,omitempty" json:"nodes,omitempty"`
	// PKIDir and the files are absolute in what is read; in the file they may be
	// relative to its directory.
	PKIDir       string `yaml:"pki-dir,omitempty" json:"pkiDir,omitempty"`
	Cert         string `yaml:"cert,omitempty" json:"cert,omitempty"`
	Key          string `yaml:"key,omitempty" json:"key,omitempty"`
	CACert       string `yaml:"cacert,omitempty" json:"cacert,omitempty"`
	EtcdCert     string `yaml:"etcd-cert,omitempty" json:"etcdCert,omitempty"`
	EtcdKey      string `yaml:"etcd-key,omitempty" json:"etcdKey,omitempty"`
	EtcdCACert   string `yaml:"etcd-cacert,omitempty" json:"etcdCacert,omitempty"`
	Insecure     bool   `yaml:"insecure,omitempty" json:"insecure,omitempty"`
	EtcdInsecure bool   `yaml:"etcd-insecure,omitempty" json:"etcdInsecure,omitempty"`
	// Published stands for --published of etcd-manager-ctl.
	Published bool `yaml:"published,omitempty" json:"published,omitempty"`
}

// Flags returns the values of the flags that c stands for, by their names: of etcdadm, of
// etcd-manager-ctl, or of both.
func (c Context) Flags() map[string]string {
	all := map[string]string{
		"backup-store": c.BackupStore, "cluster-name": c.ClusterName, "nodes": strings.Join(c.Nodes, ","),
		"insecure": isTrue(c.Insecure), "etcd-insecure": isTrue(c.EtcdInsecure),
		"published": isTrue(c.Published),
	}
	for name, path := range c.paths() {
		all[name] = *path
	}
	for name, value := range all {
		if value == "" {
			delete(all, name)
		}
	}
	return all
}

func isTrue(b bool) string {
	if b {
		return strconv.FormatBool(b)
	}
	return ""
}

// paths are the fields that are paths, by their names.
func (c *Context) paths() map[string]*string {
	return map[string]*string{
		"pki-dir": &c.PKIDir, "cert": &c.Cert, "key": &c.Key, "cacert": &c.CACert,
		"etcd-cert": &c.EtcdCert, "etcd-key": &c.EtcdKey, "etcd-cacert": &c.EtcdCACert,
	}
}

// At returns c with the paths begun at dir where they are relative.
func (c Context) At(dir string) Context {
	for _, path := range c.paths() {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	scheme, rest := "", c.BackupStore
	if after, ok := strings.CutPrefix(rest, "file://"); ok {
		scheme, rest = "file://", after
	}
	if rest != "" && !strings.Contains(rest, "://") && !filepath.IsAbs(rest) {
		c.BackupStore = scheme + filepath.Join(dir, rest)
	}
	return c
}

// A File is what the file holds. The zero value is one without contexts.
type File struct {
	APIVersion string    `yaml:"apiVersion"`
	Kind       string    `yaml:"kind"`
	Current    string    `yaml:"current-context,omitempty"`
	Contexts   []Context `yaml:"contexts"`

	path string
}

// Path returns where the file is, "" where nothing says what the directory of a person's
// configuration is.
func Path() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "etcdadm", "config")
}

// Where says in words which file the contexts are in. Under sudo it is not that of the person
// who runs it.
func Where() string {
	path := Path()
	if path == "" {
		return "no file: neither HOME nor XDG_CONFIG_HOME is set"
	}
	if who := os.Getenv("SUDO_USER"); who != "" && who != "root" && os.Geteuid() == 0 {
		return path + " (under sudo, not that of " + who + ")"
	}
	return path
}

// Read reads the file. One that is not there has no contexts. Who else may write it could
// lead the one who asks to another cluster, and so it is not read.
func Read() (*File, error) {
	f, err := read()
	if err != nil {
		return nil, err
	}
	for i := range f.Contexts {
		f.Contexts[i] = f.Contexts[i].At(filepath.Dir(f.path))
	}
	return f, nil
}

// read is Read with the paths as they are in the file.
func read() (*File, error) {
	f := &File{path: Path()}
	if f.path == "" {
		return f, nil
	}
	in, err := os.Open(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err != nil:
		return nil, cli.WithHint(fmt.Errorf("read the contexts: %w", err), withoutFile)
	}
	defer in.Close()
	if err := trusted(in); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(in, maxBytes+1))
	if err == nil && len(text) > maxBytes {
		err = fmt.Errorf("it has more than %d bytes", maxBytes)
	}
	if err == nil {
		err = f.parse(text)
	}
	if err != nil {
		return nil, cli.WithHint(fmt.Errorf("%s: %w", f.path, err), "correct the file; "+withoutFile)
	}
	return f, nil
}

const withoutFile = "a command with --backup-store does not read it"

// trusted says why a file may be somebody else's word.
func trusted(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read the contexts: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && owner.Uid != 0 && int(owner.Uid) != os.Geteuid():
		return cli.WithHint(fmt.Errorf("%s belongs to another user (%d), and is not read", f.Name(), owner.Uid), withoutFile)
	case info.Mode()&0o022 != 0:
		return cli.WithHint(fmt.Errorf("%s can be written by others, and is not read", f.Name()), "chmod go-w "+f.Name())
	}
	return nil
}

func (f *File) parse(text []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(f); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if f.APIVersion != APIVersion || f.Kind != Kind {
		return fmt.Errorf("it is %q of %q, want apiVersion: %s and kind: %s", f.Kind, f.APIVersion, APIVersion, Kind)
	}
	for i, c := range f.Contexts {
		if err := check(c); err != nil {
			return err
		}
		if slices.ContainsFunc(f.Contexts[:i], func(o Context) bool { return o.Name == c.Name }) {
			return fmt.Errorf("the context %q is there twice", c.Name)
		}
	}
	return nil
}

// check says what is wrong with a context by itself.
func check(c Context) error {
	if err := cluster.NodeName(c.Name).Validate(); err != nil {
		return fmt.Errorf("a context: %s", strings.Replace(err.Error(), "node name", "name", 1))
	}
	return nil
}

// Names are those of the contexts, sorted.
func (f *File) Names() []string {
	var names []string
	for _, c := range f.Contexts {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return names
}

// Find returns the named context.
func (f *File) Find(name string) (Context, error) {
	for _, c := range f.Contexts {
		if c.Name == name {
			return c, nil
		}
	}
	e := &cli.UsageError{Text: fmt.Sprintf("there is no context %q in %s", name, Where()),
		Next: "make it: etcd-manager-ctl config set-context " + name + " --backup-store=URL"}
	names := f.Names()
	if near := spelling.Nearest(name, names); near != "" {
		e.Next = "did you mean " + near + "?"
	} else if len(names) > 0 {
		e.Next = "the contexts are " + strings.Join(names, ", ")
	}
	return Context{}, e
}

// Current is how [Choose] calls the choice of the current context.
const Current = "the current context"

// ReachesDaemons reports whether the context says how daemons are asked: it names them, or
// has certificates, or says that there are none.
func (c Context) ReachesDaemons() bool {
	return len(c.Nodes) > 0 || c.Cert != "" || c.PKIDir != "" || c.Insecure
}

// Choose returns the context of that name, which a flag gives; for "" that of the
// environment, else the current one. how says in words which one it is; ok is false for
// none.
func Choose(name string) (c Context, how string, ok bool, err error) {
	how = "--context"
	if name == "" {
		name, how = os.Getenv(Variable), "$"+Variable
	}
	f, err := Read()
	if err != nil {
		return Context{}, "", false, err
	}
	if name == "" {
		name, how = f.Current, Current
	}
	if name == "" {
		return Context{}, "", false, nil
	}
	c, err = f.Find(name)
	return c, how, err == nil, err
}

// Complete proposes the names of the contexts to a shell.
func Complete(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	f, err := Read()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.Names(), cobra.ShellCompDirectiveNoFileComp
}
