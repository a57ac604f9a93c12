package ctl

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/contexts"
	"github.com/etcdadm/etcdadm/pkg/store"
)

const contextFlag = "context"

// addContext gives all commands --context.
func (t *tool) addContext(flags *pflag.FlagSet) {
	flags.StringVar(&t.context, contextFlag, "", "`name` of a cluster in "+contextsFile+", overrides $"+contexts.Variable+
		" and the current one")
	// It fails only for a flag that does not exist.
	_ = t.root.RegisterFlagCompletionFunc(contextFlag, contexts.Complete)
}

// contextsFile is the place of the contexts as texts have it.
const contextsFile = "~/.config/etcdadm/config"

// oneContext completes the argument of a command on one context.
func oneContext(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return contexts.Complete(cmd, args, word)
}

// locateByContext takes the store of a context; ok is false where none is chosen.
func (t *tool) locateByContext() (ok bool, err error) {
	c, how, ok, err := contexts.Choose(t.context)
	if err != nil || !ok {
		return false, err
	}
	if c.BackupStore == "" {
		return false, &cli.UsageError{Text: fmt.Sprintf("the context %s (%s) has no store", c.Name, how),
			Next: "etcd-manager-ctl config set-context " + c.Name + " --" + storeFlag + "=URL"}
	}
	t.location, t.fromPublished = c.BackupStore, c.Published
	if t.context == "" {
		note(t.root, "the store is %s, that of the context %s (%s)", store.Shown(t.location), c.Name, how)
	}
	return true, nil
}

// contextCommands are those on the contexts themselves. They ask no store.
func (t *tool) contextCommands() *cobra.Command {
	group := cli.Group("config", "remember clusters by name, and choose one")
	group.GroupID = "contexts"
	group.Long = `A context is a cluster and how it is reached: its store and, for etcdadm, its daemons. The contexts are in
` + contextsFile + ` ($XDG_CONFIG_HOME/etcdadm/config where that is set). The context is that of
--context, of $` + contexts.Variable + `, or of use-context, in this order; --backup-store and
$` + storeVariable + ` take precedence over the last two. etcdadm takes contexts as well.`
	group.AddCommand(t.getContexts(), t.currentContext(), t.useContext(), t.setContext(), t.unset(), t.deleteContext())
	return group
}

// A contextList is what get-contexts prints for programs.
type contextList struct {
	Current  string             `json:"current"`
	Contexts []contexts.Context `json:"contexts"`
}

func (t *tool) getContexts() *cobra.Command {
	return &cobra.Command{
		Use: "get-contexts [NAME]", Short: "print the contexts", Args: cobra.MaximumNArgs(1), ValidArgsFunction: oneContext,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := contexts.Read()
			if err != nil {
				return err
			}
			list := contextList{Current: f.Current, Contexts: []contexts.Context{}}
			rows := [][]string{{"CURRENT", "NAME", "BACKUP STORE", "CLUSTER", "NODES"}}
			for _, name := range f.Names() {
				if len(args) == 1 && args[0] != name {
					continue
				}
				c, err := f.Find(name)
				if err != nil {
					return err
				}
				c.BackupStore = store.Shown(c.BackupStore)
				list.Contexts = append(list.Contexts, c)
				mark := ""
				if name == f.Current {
					mark = "*"
				}
				rows = append(rows, []string{
					mark, name, dash(c.BackupStore), dash(c.ClusterName), dash(strings.Join(c.Nodes, ",")),
				})
			}
			if len(args) == 1 && len(list.Contexts) == 0 {
				_, err := f.Find(args[0])
				return err
			}
			if len(list.Contexts) == 0 {
				note(cmd, "there are no contexts in %s; make one: etcd-manager-ctl config set-context NAME --%s=URL",
					cli.Plain(contexts.Where()), storeFlag)
			}
			return t.print(cmd, list, func(w io.Writer) error {
				if len(list.Contexts) == 0 {
					return nil
				}
				return cli.Rows(w, rows...)
			})
		},
	}
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (t *tool) currentContext() *cobra.Command {
	return &cobra.Command{
		Use: "current-context", Short: "print the name of the context that commands use", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, ok, err := contexts.Choose(t.context)
			switch {
			case err != nil:
				return err
			case !ok:
				return cli.WithHint(fmt.Errorf("no context is the current one in %s", contexts.Where()),
					"etcd-manager-ctl config use-context NAME")
			}
			c.BackupStore = store.Shown(c.BackupStore)
			return t.print(cmd, c, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, c.Name)
				return err
			})
		},
	}
}

func (t *tool) useContext() *cobra.Command {
	return &cobra.Command{
		Use: "use-context NAME", Short: "choose the context that commands use from now on", Args: cobra.ExactArgs(1),
		ValidArgsFunction: oneContext,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := contexts.Edit(func(f *contexts.File) error {
				c, err := f.Find(args[0])
				f.Current = c.Name
				return err
			})
			if err != nil {
				return err
			}
			if os.Getenv(storeVariable) != "" {
				note(cmd, "%s is set in the environment and takes precedence", storeVariable)
			}
			return t.done(cmd, args[0], "commands without a store of their own use the context %s now")
		},
	}
}

func (t *tool) unset() *cobra.Command {
	return &cobra.Command{
		Use: "unset current-context|contexts.NAME.FIELD", Short: "forget one field of a context, or which is the current one",
		Example: "  etcd-manager-ctl config unset current-context\n  etcd-manager-ctl config unset contexts.lab.nodes",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: contexts.CompleteUnset,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := contexts.Edit(func(f *contexts.File) error { return f.Unset(args[0]) }); err != nil {
				return err
			}
			return t.done(cmd, args[0], "%s is unset")
		},
	}
}

func (t *tool) deleteContext() *cobra.Command {
	return &cobra.Command{
		Use: "delete-context NAME", Short: "forget a context", Args: cobra.ExactArgs(1), ValidArgsFunction: oneContext,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := contexts.Edit(func(f *contexts.File) error { return f.Delete(args[0]) }); err != nil {
				return err
			}
			return t.done(cmd, args[0], "the context %s is gone; its cluster is not touched")
		},
	}
}

// A changedContext is what the commands that change a context print for programs.
type changedContext struct {
	Name string `json:"name"`
}

func (t *tool) done(cmd *cobra.Command, name, text string) error {
	if where := contexts.Where(); where != contexts.Path() {
		note(cmd, "the contexts are in %s", cli.Plain(where))
	}
	return t.print(cmd, changedContext{name}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, text+"\n", name)
		return err
	})
}

func (t *tool) setContext() *cobra.Command {
	var c contexts.Context
	cmd := &cobra.Command{
		Use: "set-context NAME", Short: "remember a cluster, or change what is remembered of it",
		Long: `set-context remembers how a cluster is reached, under NAME. Of a context that is there it changes what flags
say. --backup-store is enough for etcd-manager-ctl; the other flags are those of etcdadm, which reaches the
daemons. Files are remembered by their absolute paths, and are not copied.`,
		Example: "  etcd-manager-ctl config set-context prod --backup-store=s3://bucket/prod\n" +
			"  etcd-manager-ctl config set-context lab --backup-store=/mnt/etcd-store --nodes=10.0.0.1:8000 --cert=bob.crt " +
			"--key=bob.key --cacert=bob-ca.crt",
		Args: cobra.ExactArgs(1), ValidArgsFunction: oneContext,
	}
	fs := cmd.Flags()
	fs.StringVar(&c.ClusterName, "cluster-name", "", "`name` of the cluster")
	fs.Var((*contexts.Nodes)(&c.Nodes), "nodes", "daemons to ask, NAME=HOST:PORT or HOST:PORT (repeatable, or with commas)")
	for name, p := range map[string]*string{
		"pki-dir": &c.PKIDir, "cert": &c.Cert, "key": &c.Key, "cacert": &c.CACert,
		"etcd-cert": &c.EtcdCert, "etcd-key": &c.EtcdKey, "etcd-cacert": &c.EtcdCACert,
	} {
		fs.StringVar(p, name, "", "`path` that etcdadm takes as --"+name)
	}
	fs.BoolVar(&c.Insecure, "insecure", false, "the daemons have no TLS")
	fs.BoolVar(&c.EtcdInsecure, "etcd-insecure", false, "etcd has no TLS")
	fs.BoolVar(&c.Published, publishedFlag, false,
		"etcd-manager-ctl does not ask the daemons whether they are there: they cannot be reached from here")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.Name, c.BackupStore = args[0], t.location
		added := false
		err := contexts.Edit(func(f *contexts.File) (err error) {
			old := contexts.Context{Name: c.Name}
			if known, err := f.Find(c.Name); err == nil {
				old = known
			}
			if old, err = over(old, c, cmd.Flags()); err != nil {
				return err
			}
			added, err = f.Set(old)
			return err
		})
		if err != nil {
			return err
		}
		if added {
			note(cmd, "etcd-manager-ctl config use-context %s makes it the one that commands use", c.Name)
		}
		return t.done(cmd, c.Name, "the context %s is remembered")
	}
	return cmd
}

// over returns old with what the flags say.
func over(old, c contexts.Context, flags *pflag.FlagSet) (contexts.Context, error) {
	here, err := filepath.Abs(".")
	if err != nil {
		return old, fmt.Errorf("the directory of this command: %w", err)
	}
	c = c.At(here)
	any := false
	for name, set := range map[string]func(){
		storeFlag: func() { old.BackupStore = c.BackupStore }, "cluster-name": func() { old.ClusterName = c.ClusterName },
		"nodes":   func() { old.Nodes = c.Nodes },
		"pki-dir": func() { old.PKIDir = c.PKIDir }, "cert": func() { old.Cert = c.Cert }, "key": func() { old.Key = c.Key },
		"cacert": func() { old.CACert = c.CACert }, "etcd-cert": func() { old.EtcdCert = c.EtcdCert },
		"etcd-key": func() { old.EtcdKey = c.EtcdKey }, "etcd-cacert": func() { old.EtcdCACert = c.EtcdCACert },
		"insecure":      func() { old.Insecure = c.Insecure },
		"etcd-insecure": func() { old.EtcdInsecure = c.EtcdInsecure },
		publishedFlag:   func() { old.Published = c.Published },
	} {
		if flags.Changed(name) {
			set()
			any = true
		}
	}
	if !any {
		return old, &cli.UsageError{Text: "no setting given for context " + c.Name,
			Next: "etcd-manager-ctl config set-context " + c.Name + " --" + storeFlag + "=URL"}
	}
	return old, nil
}
