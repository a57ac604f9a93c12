package daemons

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/internal/hostaddr"
	"github.com/etcdadm/etcdadm/pkg/internal/shell"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// several says which daemons there are, and by what line each is chosen.
func several(found []Daemon, line func(Daemon, Settings) string) error {
	var list, lines []string
	for _, d := range found {
		list = append(list, fmt.Sprintf("%s of cluster %s", d.Where(), cli.Plain(d.Cluster)))
		if s, err := d.Settings(); err == nil {
			lines = append(lines, line(d, s))
		}
	}
	if len(lines) == 0 {
		lines = append(lines, "say which cluster is meant, with --nodes=HOST:PORT and --pki-dir, or --endpoints of its etcd")
	}
	verb := "run"
	if found[0].written != nil {
		verb = "are to run"
	}
	return &cli.UsageError{
		Text: fmt.Sprintf("%d daemons %s on this machine: %s", len(found), verb, strings.Join(list, ", ")),
		Next: strings.Join(lines, "\n"),
	}
}

// Reach are the flags by which a command of etcdadm reaches the daemon.
func Reach(d Daemon, s Settings) []string {
	own := ""
	if s.Address == "" {
		own = "ADDRESS" // where the machine does not show its own
		if address, err := hostaddr.Default(false); err == nil {
			own = address
		}
	}
	words := []string{"--cluster-name=" + d.ClusterName(), "--nodes=" + s.Node(own)}
	if !d.Elsewhere && store.Shown(d.Store) == d.Store { // no secret goes to the screen
		words = append(words, "--backup-store="+d.Store)
	}
	if !s.Insecure || !s.EtcdInsecure {
		words = append(words, "--pki-dir="+s.PKIDir)
	}
	if s.Insecure {
		words = append(words, "--insecure")
	}
	if s.EtcdInsecure {
		words = append(words, "--etcd-insecure")
	}
	return words
}

// Again is the command line that a person gave, with more words, for a shell.
func Again(cmd *cobra.Command, words ...string) string {
	line := strings.Fields(cmd.CommandPath())
	cmd.Flags().Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		line = append(line, "--"+f.Name+"="+value)
	})
	return shell.Line(append(append(line, words...), cmd.Flags().Args()...))
}
