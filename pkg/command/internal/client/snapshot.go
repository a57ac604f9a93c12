package client

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
)

func newSnapshot() *cobra.Command {
	group := cli.Group("snapshot", "save snapshots, check them and restore them")
	group.AddCommand(newSave(), newStatus(), newRestore())
	return group
}

func newStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status FILE",
		Short: "print what is in a snapshot file, and whether it is whole",
		Args:  cobra.ExactArgs(1),
	}
	t := &tool{cmd: cmd, out: cli.AddOutput(cmd, cli.Table, cli.JSON, cli.YAML)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := snapshot.Read(cmd.Context(), args[0])
		if err != nil {
			return damaged(err)
		}
		s = s.Served()
		return t.print("SnapshotStatus", s, rows(statusRows(s)...))
	}
	return cmd
}

// damaged adds what to do about a file that is no snapshot.
func damaged(err error) error {
	if errors.Is(err, snapshot.ErrDamaged) {
		return cli.WithHint(err, "copy it again, or take another snapshot; this one cannot be trusted")
	}
	return cli.WithHint(err, "name a file of \"etcdadm snapshot save\" that can be read")
}

func statusRows(s snapshot.Status) [][]string {
	whole := "sha256 matches"
	if !s.Digest {
		whole = "no digest: a copied database that cannot be verified"
	}
	table := [][]string{
		{"SIZE", fmt.Sprintf("%s (%d bytes)", render.Bytes(s.Size), s.Size)},
		{"INTEGRITY", whole},
		{"REVISION", fmt.Sprint(s.Revision)},
		{"KEYS", fmt.Sprint(s.Keys)},
	}
	for _, v := range []struct{ name, text string }{
		{"STORAGE VERSION", s.StorageVersion.String()}, {"CLUSTER VERSION", s.ClusterVersion.String()},
	} {
		if v.text != "" {
			table = append(table, []string{v.name, v.text})
		}
	}
	return table
}

// text returns the function that writes lines.
func text(lines ...string) func(w io.Writer) error {
	return func(w io.Writer) error {
		for _, l := range lines {
			if _, err := fmt.Fprintln(w, cli.Plain(l)); err != nil {
				return err
			}
		}
		return nil
	}
}
