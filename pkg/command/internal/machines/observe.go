package machines

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machineflags"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
)

// see observes from a command that changes nothing.
func (t *task) see(observe func(*operate.Machine) (machine.Observation, error)) (
	*operate.Machine, machine.Observation, error) {
	m, err := t.open()
	if err != nil {
		return nil, machine.Observation{}, err
	}
	if !quiet(t.cmd) {
		defer cli.Waiting(t.cmd.ErrOrStderr(), m.Pending)()
	}
	obs, err := observe(m)
	return m, obs, err
}

// A memberInfo is the local member, under the names that the retired etcdadm
// printed. ID is a decimal number, which its readers expect.
type memberInfo struct {
	ID         uint64   `json:"ID"`
	Name       string   `json:"name"`
	PeerURLs   []string `json:"peerURLs"`
	ClientURLs []string `json:"clientURLs"`
	IsLearner  bool     `json:"isLearner,omitempty"`
	// IDHex is the id as etcdctl writes it.
	IDHex string `json:"idHex"`
}

// NewInfo returns the command info.
func NewInfo() *cobra.Command {
	cmd := &cobra.Command{
		Use: "info", Short: "print this machine's member",
		Long: `info prints this machine's member as one JSON object. ID is its ID as a decimal number, idHex as etcdctl
writes it.`,
		Args: cobra.NoArgs,
	}
	t := &task{cmd: cmd, goal: machine.Goal{Action: machine.Reset}, flags: machineflags.Add(cmd, machineflags.Paths)}
	out := cli.AddOutput(cmd, cli.JSON, cli.YAML)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		_, obs, err := t.see(func(m *operate.Machine) (machine.Observation, error) {
			return m.Observe(cmd.Context(), t.goal)
		})
		if err != nil {
			return err
		}
		if obs.Local == nil {
			return cli.WithHint(fmt.Errorf("this machine's etcd does not answer: %s", cli.Plain(why(obs))), "etcdadm status")
		}
		for _, e := range obs.Remote.Members {
			if e.ID == obs.Local.ID {
				return out.Print(cmd.OutOrStdout(), cli.Versioned("MemberInfo", memberInfo{
					uint64(e.ID), string(e.Name), e.PeerURLs, e.ClientURLs, e.Learner, e.ID.String(),
				}), nil)
			}
		}
		return cli.WithHint(fmt.Errorf("the member list does not have this machine's member %s", obs.Local.ID),
			"etcdadm status")
	}
	return cmd
}

func why(obs machine.Observation) string {
	if obs.Service.State != machine.ServiceRunning {
		return "its service is " + string(obs.Service.State) + behind(obs.Service.Detail)
	}
	switch {
	case obs.Remote.Problem != "":
		return obs.Remote.Problem
	case obs.PKI.Problem != "" || len(obs.PKI.Wrong) > 0:
		return "this machine's certificates cannot be used to ask it: " + certificates(obs)
	}
	return "no answer at its client URL, while the other members answer"
}

// Status prints how this machine's member and its cluster are; the command
// status does so where no daemon is asked.
type Status struct{ t *task }

// AddStatus gives a command the flags of Status.
func AddStatus(cmd *cobra.Command, out *cli.Output) *Status {
	return &Status{&task{cmd: cmd, goal: machine.Goal{Action: machine.Reset},
		flags: machineflags.Add(cmd, machineflags.Paths), out: out, shows: true}}
}

// Run observes and prints. The error says that the member does not serve, and with
// check how the cluster is where that is not healthy.
func (s *Status) Run(cmd *cobra.Command, check bool) error {
	m, obs, err := s.t.see(func(m *operate.Machine) (machine.Observation, error) {
		obs, err := m.Observe(cmd.Context(), s.t.goal)
		if err == nil {
			obs.Remote.Apart = m.Apart(cmd.Context(), obs.Remote.Members)
		}
		return obs, err
	})
	if err != nil {
		return err
	}
	if err := s.t.out.Print(cmd.OutOrStdout(), cli.Versioned("MachineStatus", obs), func(w io.Writer) error {
		return writeStatus(w, m.Config(), obs)
	}); err != nil {
		return err
	}
	var health error
	if check {
		var because []string
		for _, e := range expired(obs) {
			because = append(because, "the certificate "+e.Name+" of this machine has expired")
		}
		for _, pair := range obs.Remote.Apart {
			because = append(because, pair.String())
		}
		health = render.CheckMembers(obs.Remote.Answered, obs.Remote.Members, obs.At, because...)
	}
	if obs.Local != nil && obs.Local.Leader != 0 {
		return health
	}
	switch {
	case unused(obs) && obs.Host.Manager != "":
		err = fmt.Errorf("the member of an etcd-manager is in %s, and no etcd-manager runs on this machine", obs.Host.Manager)
	case unused(obs):
		err = errors.New("there is no member on this machine")
	default:
		err = fmt.Errorf("this machine's etcd does not serve: %s", cli.Plain(why(obs)))
	}
	if health != nil {
		err = fmt.Errorf("%w; %w", err, health)
	}
	return cli.WithHint(err, next(m, obs))
}

// unused says that no member is on the machine: none was, or it has left. Where the init system
// cannot be asked, what is on the disk says so.
func unused(obs machine.Observation) bool {
	idle := !obs.Service.Active() || obs.Service.State == machine.ServiceUnknown
	return idle && obs.Local == nil && obs.Data.State == cluster.DiskEmpty && obs.Record.Action == ""
}

// next is what to do where this machine's etcd does not serve.
func next(m *operate.Machine, obs machine.Observation) string {
	switch {
	case unused(obs) && obs.Host.Manager != "":
		return "start it: the unit or the static pod of etcd-manager, or etcdadm auto with the URL of its store"
	case unused(obs):
		return "create a cluster with etcdadm init, or join one with etcdadm join"
	case obs.Service.Active():
		return "etcd's log: " + m.Log()
	}
	return "to start it, run the etcdadm init or join that made the member again; etcd's log: " + m.Log()
}

// Observe observes and prints all that is seen.
func (s *Status) Observe(cmd *cobra.Command) error {
	_, obs, err := s.t.see(func(m *operate.Machine) (machine.Observation, error) {
		return m.Inspect(cmd.Context(), s.t.goal)
	})
	if err != nil {
		return err
	}
	return s.t.out.Print(cmd.OutOrStdout(), cli.Versioned("MachineStatus", obs), nil)
}

func writeStatus(w io.Writer, cfg machine.Config, obs machine.Observation) error {
	rows := [][]string{
		{"machine", string(cfg.Name), cfg.Listen.Address},
		{"service", string(obs.Service.State), obs.Service.Detail},
		{"etcd", orDash(obs.Binaries.Etcd.String()), cmp.Or(obs.Binaries.Problem, versions(obs))},
		{"data", string(obs.Data.State), data(obs)},
		{"certificates", certificatesState(obs), certificates(obs)},
	}
	for _, dir := range obs.Data.SetAside {
		rows = append(rows, []string{"set aside", dir})
	}
	if err := cli.Rows(w, rows...); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if !obs.Remote.Answered {
		fmt.Fprintf(w, "the cluster does not answer: %s\n", cli.Plain(obs.Remote.Problem))
		return nil
	}
	return writeMembers(w, obs.Remote)
}

// data says whose data is on the machine, where there is any.
func data(obs machine.Observation) string {
	d := obs.Data
	switch {
	case d.State == cluster.DiskEmpty && d.Problem == "" && obs.Host.Manager != "":
		return "the member of an etcd-manager is in " + obs.Host.Manager
	case d.State == cluster.DiskEmpty:
		return cmp.Or(d.Problem, "no member")
	}
	return fmt.Sprintf("member %s, cluster %s%s", d.MemberID, d.ClusterID, behind(d.Problem))
}

// versions says which etcd the members run, where this machine has no binaries to show: it
// is in the image of a static pod.
func versions(obs machine.Observation) string {
	low, high := obs.Remote.Lowest, obs.Remote.Highest
	switch {
	case !obs.Binaries.Etcd.IsZero() || high.IsZero():
		return ""
	case low == high:
		return "the members run " + high.String()
	}
	return fmt.Sprintf("the members run %s to %s", low, high)
}

func writeMembers(w io.Writer, r machine.Remote) error {
	rows := [][]string{{"MEMBER", "ID", "ROLE", "HEALTHY", "PEER URL", "CLIENT URL", "VERSION", "DB SIZE"}}
	for _, m := range r.Members {
		size := ""
		if m.DBSize > 0 {
			size = render.Bytes(m.DBSize)
		}
		rows = append(rows, []string{
			orDash(string(m.Name)), m.ID.String(), role(m, r.Leader), strconv.FormatBool(m.Healthy) + alarms(m),
			strings.Join(m.PeerURLs, ","), orDash(strings.Join(m.ClientURLs, ",")), orDash(m.Version.String()), orDash(size),
		})
	}
	if err := cli.Rows(w, rows...); err != nil {
		return err
	}
	if text := mixed(r.Members); text != "" {
		fmt.Fprintf(w, "note: %s\n", cli.Plain(text))
	}
	for _, pair := range r.Apart {
		fmt.Fprintf(w, "warning: %s: %s\n", cli.Plain(pair.String()), machine.OpenPeerPorts)
	}
	return nil
}

// mixed says which members run which version of etcd, empty where all run one.
func mixed(members []cluster.Member) string {
	runs := map[etcdversion.Version][]string{}
	for _, m := range members {
		if !m.Version.IsZero() {
			runs[m.Version] = append(runs[m.Version], cmp.Or(string(m.Name), m.ID.String()))
		}
	}
	if len(runs) < 2 {
		return ""
	}
	versions := slices.SortedFunc(maps.Keys(runs), etcdversion.Version.Compare)
	words := make([]string, len(versions))
	for i, v := range versions {
		words[i] = fmt.Sprintf("%s (%s)", v, strings.Join(runs[v], ", "))
	}
	return fmt.Sprintf("the members run different versions of etcd: %s; what leads to one version: "+
		"etcdadm upgrade plan --to=%s", strings.Join(words, ", "), versions[len(versions)-1])
}

func alarms(m cluster.Member) string {
	if len(m.Alarms) == 0 {
		return ""
	}
	return " (" + strings.Join(m.Alarms, ",") + ")"
}

func role(m cluster.Member, leader cluster.MemberID) string {
	switch {
	case m.Learner:
		return "learner"
	case m.ID == leader:
		return "leader"
	}
	return "voter"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
