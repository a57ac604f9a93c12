// Package docs is the command "docs": it writes the manual pages of a tree of
// commands.
package docs

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/etcdadm/etcdadm/pkg/cli"
)

// New returns the command docs with its own commands. It is about the tree that
// it becomes a part of.
func New() *cobra.Command {
	cmd := cli.Group("docs", "write the documentation of the commands")
	cmd.AddCommand(newMan())
	return cmd
}

func newMan() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "man --dir=DIRECTORY", Short: "write the manual pages of all commands",
		Long: `man writes a manual page for every command, for man(1). The pages' date is SOURCE_DATE_EPOCH, if it is set.`,
		Example: "  etcdadm docs man --dir=/usr/local/share/man/man1\n" +
			"  man etcdadm-init",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return Man(cmd.Root(), dir) },
	}
	cmd.Flags().StringVar(&dir, "dir", "", "write them to this `directory`, which is made if it is not there")
	// These fail only for a flag that does not exist.
	_ = cmd.MarkFlagRequired("dir")
	_ = cmd.MarkFlagDirname("dir")
	return cmd
}

// Man writes the manual pages of root and of all commands below it to dir, one
// NAME-COMMAND.1 for each; hidden ones have none. Pages of commands that are
// not there any more are left.
func Man(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write manual pages: %w", err)
	}
	root.DisableAutoGenTag = true // the date of a build in every page
	header := &doc.GenManHeader{Section: "1", Source: root.Name() + " " + cli.BuildVersion(), Manual: root.Name()}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return fmt.Errorf("write manual pages: %w", err)
	}
	return nil
}
