// Package docs is the command "docs": it writes the manual pages of a tree of
// commands.
package docs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/etcdadm/etcdadm/pkg/cli"
)

// New returns the command docs of a program with its own commands. It is about the tree that
// it becomes a part of.
func New(program string) *cobra.Command {
	cmd := cli.Group("docs", "write the documentation of the commands")
	cmd.AddCommand(newMan(program))
	return cmd
}

func newMan(program string) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "man --dir=DIRECTORY", Short: "write the manual pages of all commands",
		Long:    `man writes a manual page for every command, for man(1). The pages' date is SOURCE_DATE_EPOCH, if it is set.`,
		Example: "  " + program + " docs man --dir=/usr/local/share/man/man1\n  man " + program,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return Man(cmd.Root(), dir) },
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

// A Kind is what a [Page] is.
type Kind string

// Manual is a page for man(1), the others complete command lines in a shell.
const (
	Manual Kind = "man1"
	Bash   Kind = "bash"
	Zsh    Kind = "zsh"
	Fish   Kind = "fish"
)

// A Page is a file that is installed with a program. Name is what it is to be called.
type Page struct {
	Kind Kind
	Name string
	Text string
}

// Pages returns all pages of a program: the manual pages as [Man] writes them, and what
// completes its command lines.
func Pages(root *cobra.Command) (list []Page, err error) {
	dir, err := os.MkdirTemp("", "man-")
	if err != nil {
		return nil, fmt.Errorf("write manual pages: %w", err)
	}
	defer os.RemoveAll(dir)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	if err := Man(root, dir); err != nil {
		return nil, err
	}
	manual, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read manual pages: %w", err)
	}
	for _, e := range manual {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read manual pages: %w", err)
		}
		list = append(list, Page{Manual, e.Name(), string(text)})
	}
	var bash, zsh, fish bytes.Buffer
	if err := errors.Join(root.GenBashCompletionV2(&bash, true), root.GenZshCompletion(&zsh),
		root.GenFishCompletion(&fish, true)); err != nil {
		return nil, fmt.Errorf("completion of %s: %w", root.Name(), err)
	}
	return append(list, Page{Bash, root.Name(), bash.String()}, Page{Zsh, "_" + root.Name(), zsh.String()},
		Page{Fish, root.Name() + ".fish", fish.String()}), nil
}
