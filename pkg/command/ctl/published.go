package ctl

import (
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/contexts"
)

const publishedFlag = "published"

// addPublished gives a command the flag --published.
func (t *tool) addPublished(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&t.publishedOnly, publishedFlag, false,
		"show what the coordinator published last, and do not ask whether the daemons are there (default: $"+
			contexts.PublishedVariable+", or that of the context)")
	return cmd
}

// decidePublished takes from the environment, or from the context, what --published does not say,
// and says so, as a person does not see it in the command.
func (t *tool) decidePublished(cmd *cobra.Command) error {
	f := cmd.Flags().Lookup(publishedFlag)
	if f == nil || f.Changed {
		return nil
	}
	dry := cmd.Flags().Lookup("dry-run")
	if dry != nil && !dry.Changed {
		return nil // a restore that is asked for in earnest is not planned here
	}
	why := "the context has published: true"
	t.publishedOnly = t.fromPublished
	if text := os.Getenv(contexts.PublishedVariable); text != "" {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return cli.Usagef("%s is %q, it must be true or false", contexts.PublishedVariable, text)
		}
		t.publishedOnly, why = on, contexts.PublishedVariable+" is set"
	}
	if t.publishedOnly && !t.screen {
		note(t.root, "no daemon is asked whether it is there: %s", why)
	}
	return nil
}
