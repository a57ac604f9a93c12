package auto

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/internal/storewait"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/shell"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// NewSeed returns the command seed.
func NewSeed() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "seed STORE-URL nodes=N [version=V]",
		Short: "write the spec of a cluster into a store, for auto",
		Long: `seed writes the spec of a cluster into its control and backup store: the number of members and the etcd
version. It prints the command to run on each machine. An existing spec that differs is changed only with
--force. To change single values later, use "etcd-manager-ctl configure-cluster", which also records who
asked for it.`,
		Example: "  etcdadm seed file:///mnt/etcd-store version=3.6.16 nodes=3",
		Args:    cobra.MinimumNArgs(1),
	}
	s := seed{cmd: cmd, out: cli.AddOutput(cmd, cli.Table, cli.JSON, cli.YAML)}
	cmd.Flags().StringVar(&s.cluster, "cluster-name", defaults["cluster-name"], "`name` of the cluster")
	cmd.Flags().DurationVar(&s.timeout, "timeout", 30*time.Second, "how long to wait for the store")
	cmd.Flags().BoolVar(&s.force, "force", false, "replace a spec that differs")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), args[0], args[1:]) }
	return cmd
}

type seed struct {
	cmd     *cobra.Command
	out     *cli.Output
	cluster string
	timeout time.Duration
	force   bool
}

// A seeded store is the result of seed.
type seeded struct {
	Store       string              `json:"store"`
	MemberCount int                 `json:"memberCount"`
	EtcdVersion etcdversion.Version `json:"etcdVersion"`
	// Written is false where the spec was there already.
	Written bool `json:"written"`
	// Command is to be run on each machine.
	Command string `json:"command"`
}

func (s *seed) run(ctx context.Context, location string, words []string) error {
	spec, err := parseSpec(words)
	if err != nil {
		return err
	}
	if text := cluster.EvenVoters(spec.MemberCount); text != "" {
		s.warn(text)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	st, err := storewait.Open(ctx, location, s.timeout, s.cmd.ErrOrStderr())
	if err != nil {
		return cli.Usagef("%v", err)
	}
	if text := storewait.New(location); text != "" {
		s.warn(text)
	}
	written, err := s.write(ctx, st, spec)
	// Also where ctx has ended: what is left to do is little.
	ending, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	if closing := st.Close(ending); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	result := seeded{Store: location, MemberCount: spec.MemberCount, EtcdVersion: spec.EtcdVersion, Written: written,
		Command: s.command(location)}
	if text := spec.EtcdVersion.Untried(); text != "" {
		s.warn(text)
	}
	if local(location) && spec.MemberCount > 1 {
		fmt.Fprintln(s.cmd.ErrOrStderr(),
			"note: the directory must be shared by all machines (NFS); if it is not, "+
				"each daemon needs --seeds=NAME=ADDRESS:8000,... with all machines")
	}
	return s.out.Print(s.cmd.OutOrStdout(), cli.Versioned("Seed", result), func(w io.Writer) error {
		verb := "the spec is"
		if !written {
			verb = "the spec already is:"
		}
		_, err := fmt.Fprintf(w, "%s %s of etcd %s\nrun on each of the machines:\n\n\t%s\n", verb, nodes(spec.MemberCount),
			spec.EtcdVersion, cli.Plain(result.Command))
		return err
	})
}

func (s *seed) warn(text string) {
	fmt.Fprintln(s.cmd.ErrOrStderr(), "warning: "+cli.Plain(text))
}

// nodes writes a number of nodes.
func nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// local says whether a store is a directory.
func local(location string) bool {
	return !strings.Contains(location, "://") || strings.HasPrefix(location, "file://")
}

func (s *seed) command(location string) string {
	words := []string{"etcdadm", "auto", location}
	if s.cluster != defaults["cluster-name"] {
		words = append(words, "--cluster-name="+s.cluster)
	}
	return shell.Line(words)
}

// write writes the spec, and reports whether it had to.
func (s *seed) write(ctx context.Context, st *store.Store, spec cluster.Spec) (bool, error) {
	file := store.SpecFileOf(spec)
	present, err := st.Spec(ctx)
	if errors.Is(err, store.ErrAbsent) {
		if err := st.WriteSpec(ctx, spec); err != nil {
			return false, err
		}
		// Somebody else may have been faster.
		if present, err = st.Spec(ctx); err == nil && present == file {
			return true, nil
		}
	}
	switch {
	case err == nil && present == file:
		return false, nil
	case err != nil && !errors.Is(err, store.ErrGarbage):
		return false, fmt.Errorf("read the spec: %w", err)
	case s.force:
		return true, st.PutSpec(ctx, file)
	case err != nil:
		return false, &cli.RefusedError{
			Text: fmt.Sprintf("the spec in the store cannot be read: %v", err), Next: "--force replaces it",
		}
	}
	return false, &cli.RefusedError{
		Text: fmt.Sprintf("the store has another spec: %s of etcd %s", nodes(present.MemberCount), present.EtcdVersion),
		Next: "is this the store of another cluster? To change the spec use --force, or etcd-manager-ctl " +
			"configure-cluster",
	}
}

// parseSpec reads nodes=3 and version=3.6.16.
func parseSpec(words []string) (cluster.Spec, error) {
	spec := cluster.Spec{EtcdVersion: machine.DefaultVersion}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		var err error
		switch key {
		case "nodes":
			spec.MemberCount, err = strconv.Atoi(value)
		case "version":
			spec.EtcdVersion, err = etcdversion.Parse(value)
		default:
			return spec, &cli.UsageError{
				Text: fmt.Sprintf("%q is not known", w),
				Next: "etcdadm seed STORE-URL nodes=3 version=" + machine.DefaultVersion.String(),
			}
		}
		if err != nil {
			return spec, cli.Usagef("%s: %v", w, err)
		}
	}
	if spec.MemberCount == 0 {
		return spec, &cli.UsageError{Text: "the number of nodes is missing", Next: "nodes=3 tolerates the loss of one"}
	}
	if err := spec.Validate(); err != nil {
		return spec, cli.Usagef("%v", err)
	}
	if !spec.EtcdVersion.Managed() {
		return spec, cli.Usagef("etcd %s cannot be run by auto: it must be 3.4.0 or a later 3.x", spec.EtcdVersion)
	}
	return spec, nil
}
