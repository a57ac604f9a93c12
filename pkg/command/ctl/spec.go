package ctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/internal/storewait"
	"github.com/etcdadm/etcdadm/pkg/daemon/fleet"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// The spec of a cluster for which no flag says otherwise. The existing tool
// takes 3.2.24, which is too old to be managed.
const (
	defaultCount   = 1
	defaultVersion = "3.6.16"
)

func (t *tool) specCommands() []*cobra.Command {
	configure := &cobra.Command{
		Use: "configure-cluster", Short: "write the spec", GroupID: "spec",
		Long: "configure-cluster writes the spec. Values that no flag gives stay as they are in the store;\n" +
			"a new spec has 1 member of etcd " + defaultVersion + ".",
		Example: "  etcd-manager-ctl --backup-store=STORE --member-count=3 --etcd-version=3.6.16 configure-cluster",
		Args:    cobra.NoArgs, RunE: t.legacy(t.configure),
	}
	configure.Flags().StringVar(&t.risk, "accept-version-risk", "",
		"`reason` why members may change to the etcd version of the spec despite hazards in their data; "+
			"empty withdraws it")
	configure.Flags().BoolVar(&t.allowRestore, "allow-restore", false,
		"let the etcd version of the spec be reached, once, by a backup and a restore where no running cluster can be "+
			"changed to it: clients wait meanwhile, and nothing that was acknowledged is lost")
	return []*cobra.Command{
		configure,
		{
			Use: "get", Short: "print the spec", GroupID: "spec",
			Args: cobra.NoArgs, RunE: t.legacy(t.get),
		},
	}
}

// A desired is the spec as programs read it.
type desired struct {
	MemberCount int                 `json:"memberCount"`
	EtcdVersion etcdversion.Version `json:"etcdVersion"`
	Risk        cluster.VersionRisk `json:"acceptVersionRisk,omitzero"`
	// Restore is the name of the request by which a restore is allowed, empty for none.
	Restore string `json:"restoreRequest,omitempty"`
}

func desiredOf(s store.SpecFile) desired {
	return desired{MemberCount: s.MemberCount, EtcdVersion: s.EtcdVersion, Risk: s.Risk}
}

func (t *tool) get(ctx context.Context, cmd *cobra.Command, s *store.Store, _ []string) error {
	spec, err := s.Spec(ctx)
	switch {
	case errors.Is(err, store.ErrAbsent):
		return cli.WithHint(fmt.Errorf("no spec found in store %s", store.Shown(t.location)),
			cli.Ctl(t.location, "--member-count=3 --etcd-version="+defaultVersion+" configure-cluster"))
	case errors.Is(err, store.ErrGarbage):
		return cli.WithHint(fmt.Errorf("read the spec: %w", err), rewrite)
	case err != nil:
		return fmt.Errorf("read the spec: %w", err)
	}
	return t.print(cmd, desiredOf(spec), func(w io.Writer) error {
		_, err := fmt.Fprintln(w, specText(spec))
		return err
	})
}

const rewrite = "write a new one, with both values: etcd-manager-ctl configure-cluster --member-count=3 --etcd-version=" +
	defaultVersion

func (t *tool) configure(ctx context.Context, cmd *cobra.Command, s *store.Store, _ []string) error {
	made := storewait.New(t.location)
	before, spec, was, err := t.desired(ctx, cmd, s)
	if err != nil {
		return err
	}
	if err := t.accept(cmd, &spec); err != nil {
		return err
	}
	if err := possible(spec); err != nil {
		return cli.Usagef("%v", err)
	}
	allowed, err := t.restoreAllowed(ctx, s, spec)
	if err != nil {
		return err
	}
	// What is queued already stays as it is.
	queue := allowed != nil && allowed.Name == ""
	set := func() error {
		if made != "" {
			warn(cmd, "%s", made)
		}
		if err := s.PutSpec(ctx, spec); err != nil {
			return err
		}
		t.doubt(cmd)
		if queue {
			*allowed, err = s.PutRequest(ctx, *allowed)
		}
		return err
	}
	if spec != before || queue {
		err = t.recorded(ctx, cmd, s, t.sets(before, spec, was), set)
	} else {
		err = set()
	}
	if err != nil {
		return err
	}
	d := desiredOf(spec)
	if allowed != nil {
		d.Restore = allowed.Name
	}
	return t.print(cmd, d, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "set cluster spec to %s\n", specText(spec))
		if err == nil && d.Restore != "" {
			_, err = fmt.Fprintf(w, "allowed a restore to etcd %s, once: %s\n", spec.EtcdVersion, d.Restore)
		}
		return err
	})
}

// sets is the act of writing a spec: the flags for what is another one now, and what was there.
func (t *tool) sets(before, spec store.SpecFile, was string) act {
	a := act{words: []string{"configure-cluster"}, why: "before: " + was}
	if spec.MemberCount != before.MemberCount {
		a.flag("member-count", strconv.Itoa(spec.MemberCount))
	}
	if spec.EtcdVersion != before.EtcdVersion {
		a.flag("etcd-version", spec.EtcdVersion.String())
	}
	switch {
	case spec.Risk == before.Risk:
	case spec.Risk.Reason == "":
		a.words = append(a.words, "--accept-version-risk=")
	default:
		a.flag("accept-version-risk", spec.Risk.Reason)
	}
	if t.allowRestore {
		a.words = append(a.words, "--allow-restore")
	}
	return a
}

// doubt warns of what --member-count and --etcd-version say where that may be a mistake,
// and is possible.
func (t *tool) doubt(cmd *cobra.Command) {
	if text := cluster.EvenVoters(t.memberCount); text != "" {
		warn(cmd, "%s", text)
	}
	if t.etcdVersion == "" {
		return
	}
	// It has been read before.
	if v, err := etcdversion.Parse(t.etcdVersion); err == nil && v.Untried() != "" {
		warn(cmd, "%s", v.Untried())
	}
}

// desired is the spec in the store, that with what the flags change, and the text of the first one.
// What is wrong with the flags is reported before the store is read.
func (t *tool) desired(ctx context.Context, cmd *cobra.Command, s *store.Store) (before, spec store.SpecFile,
	was string, err error) {
	counted, versioned := cmd.Flags().Changed("member-count"), cmd.Flags().Changed("etcd-version")
	var version etcdversion.Version
	if versioned {
		if version, err = etcdversion.Parse(t.etcdVersion); err != nil {
			return before, spec, was, cli.Usagef("--etcd-version: %v", err)
		}
	}
	if counted {
		if err := (cluster.Spec{
			MemberCount: t.memberCount, EtcdVersion: etcdversion.Must(defaultVersion),
		}).Validate(); err != nil {
			return before, spec, was, cli.Usagef("--member-count: %v", err)
		}
	}
	before, err = s.Spec(ctx)
	spec, was = before, cmp.Or(specText(before), "none")
	switch {
	case errors.Is(err, store.ErrAbsent):
		spec = store.SpecFile{MemberCount: defaultCount}
	case errors.Is(err, store.ErrGarbage) && counted && versioned:
		was = "one that cannot be read"
		note(cmd, "the spec in the store cannot be read and is replaced: %v", err)
	case errors.Is(err, store.ErrGarbage):
		return before, spec, was, cli.WithHint(fmt.Errorf("read the spec: %w", err), rewrite)
	case err != nil:
		return before, spec, was, fmt.Errorf("read the spec: %w", err)
	}
	if counted {
		spec.MemberCount = t.memberCount
	}
	if versioned {
		spec.EtcdVersion = version
	}
	if spec.EtcdVersion.IsZero() {
		spec.EtcdVersion = etcdversion.Must(defaultVersion)
		note(cmd, "no --etcd-version is given; it is %s", defaultVersion)
	}
	return before, spec, was, nil
}

// restoreAllowed returns the request by which the operator allows the version of the spec
// to be reached by a restore, as it is in the queue already, or as it will be; nil where
// that is not allowed.
func (t *tool) restoreAllowed(ctx context.Context, s *store.Store, spec store.SpecFile) (*cluster.Request, error) {
	if !t.allowRestore {
		return nil, nil
	}
	v, err := s.Poll(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the control store: %w", err)
	}
	for _, q := range fleet.Requests(v) {
		switch {
		case q.Kind != cluster.RequestRestore || fleet.Decided(v.Incarnations, q):
		case q.Sealed && q.EtcdVersion == spec.EtcdVersion:
			return &q, nil
		case !q.Sealed: // another version's is refused as soon as the spec has changed
			return nil, &cli.RefusedError{
				Text: fmt.Sprintf("a restore of %s is queued already", q.Backup),
				Next: "wait for it, or delete it: etcd-manager-ctl delete-command " + q.Name,
			}
		}
	}
	return &cluster.Request{
		Kind: cluster.RequestRestore, At: t.now().UTC(), By: operator(), Reason: "--allow-restore",
		Sealed: true, EtcdVersion: spec.EtcdVersion,
	}, nil
}

// accept writes down, or clears, what the operator accepts. It is bound to the
// version that the spec asks for now: what was accepted for another one goes.
func (t *tool) accept(cmd *cobra.Command, spec *store.SpecFile) error {
	switch {
	case cmd.Flags().Changed("accept-version-risk") && t.risk == "":
		spec.Risk = cluster.VersionRisk{}
	case cmd.Flags().Changed("accept-version-risk"):
		spec.Risk = cluster.VersionRisk{Version: spec.EtcdVersion, Reason: t.risk}
		if err := spec.Risk.Validate(); err != nil {
			return cli.Usagef("--accept-version-risk: %v", err)
		}
	case spec.Risk != cluster.VersionRisk{} && spec.Risk.Version != spec.EtcdVersion:
		note(cmd, "the risk of etcd %s was accepted, that of %s is not", spec.Risk.Version, spec.EtcdVersion)
		spec.Risk = cluster.VersionRisk{}
	}
	return nil
}

// possible reports why no cluster can be managed as the spec says.
func possible(s store.SpecFile) error {
	if err := s.Over(cluster.Spec{}).Validate(); err != nil {
		return err
	}
	if !s.EtcdVersion.Managed() {
		return fmt.Errorf("etcd %s cannot be managed: it must be 3.4.0 or a later 3.x", s.EtcdVersion)
	}
	return nil
}

// specText writes the spec as the existing tool does, in protobuf's text form:
// fields that are zero are left out.
func specText(s store.SpecFile) string {
	var words []string
	if s.MemberCount != 0 {
		words = append(words, fmt.Sprintf("member_count:%d", s.MemberCount))
	}
	if !s.EtcdVersion.IsZero() {
		words = append(words, fmt.Sprintf("etcd_version:%q", s.EtcdVersion))
	}
	if s.Risk != (cluster.VersionRisk{}) {
		words = append(words, fmt.Sprintf("accept_version_risk:{version:%q reason:%q}", s.Risk.Version, s.Risk.Reason))
	}
	return strings.Join(words, " ")
}
