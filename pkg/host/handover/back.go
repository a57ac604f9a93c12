package handover

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/host/hostfs"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// back is the way to etcdadm.
type back struct {
	side
	ca pair
	// finished says that there is nothing to hand back: etcdadm has it.
	finished bool
	// resumed says that the journal is an earlier run's.
	resumed bool
}

// prepare finds out what is where.
func (b *back) prepare(ctx context.Context) error {
	state, err := nodestate.Read(b.o.ManagerDir)
	if err != nil {
		return err
	}
	here, err := hasMember(b.o.Config.Paths.Data)
	if err != nil {
		return err
	}
	if b.finished = here && state.Assigned == nil && b.j == nil; b.finished {
		return b.open(b.o.Config, b.o.Endpoints)
	}
	if state.Assigned == nil && b.j == nil {
		return hold(ManagerState, flag, "the etcd-manager of %s has no member to be handed back", b.o.ManagerDir)
	}
	b.resumed = b.j != nil && b.j.Direction == FromManager
	j := b.describe(state)
	if err := b.open(b.desired(j), b.endpoints(j)); err != nil {
		return err
	}
	if state, err = b.lockManager(b.self(b.cfg.Name, machine.URLs(b.cfg))); err != nil {
		return err
	}
	if state.Assigned != nil && (state.Assigned.Token != j.Token || state.Assigned.Version != j.Version) {
		return hold(ManagerState, "etcdadm handover from-manager",
			"what etcd-manager runs has changed meanwhile: incarnation %s, etcd %s", state.Assigned.Token,
			state.Assigned.Version)
	}
	if b.j = j; !b.resumed {
		if why := b.mayGoBack(state); why != nil {
			return why
		}
	}
	if b.ca, err = ownCA(b.cfg.Paths.Certificates, b.o.PKIDir, b.now); err != nil {
		return err
	}
	return b.whereabouts()
}

// describe returns the journal: an earlier one of this direction as it is, or a
// new one of what the daemon remembers. A handover to the daemon that was not
// finished is taken back by what its own journal says.
func (b *back) describe(state nodestate.State) *Journal {
	if b.resumed {
		return b.j
	}
	j := &Journal{Direction: FromManager, ManagerDir: b.o.ManagerDir}
	if b.j != nil {
		*j = *b.j
		j.Direction, j.Done, j.Agreement = FromManager, false, Agreement{}
	}
	if a := state.Assigned; a != nil {
		j.Token, j.Version, j.Peers = a.Token, a.Version, state.Peers
	}
	return j
}

// desired is the configuration with the version that runs, and with the daemon's
// binaries where the operator names none and they are complete.
func (b *back) desired(j *Journal) machine.Config {
	cfg := b.o.Config
	cfg.Version = j.Version
	bin, err := etcdbin.Finder{Dirs: []string{b.o.EtcdDir}}.Find(j.Version)
	given := cfg.Binaries.Dir != "" || cfg.Binaries.Archive != "" || cfg.Binaries.Image != ""
	if err == nil && !given && bin.Etcdctl != "" && (bin.Etcdutl != "" || !j.Version.AtLeast(3, 5)) {
		cfg.Binaries.Dir = bin.Dir
	}
	return cfg
}

// endpoints are where the other members are: as was said, or else as was seen,
// and at the hosts of their peer URLs.
func (b *back) endpoints(j *Journal) []string {
	if len(b.o.Endpoints) > 0 {
		return b.o.Endpoints
	}
	urls := slices.Clone(j.Others)
	for _, p := range j.Peers {
		for _, peer := range p.PeerURLs {
			u := "https://" + net.JoinHostPort(hostOf(peer), strconv.Itoa(b.o.Config.Listen.ClientPort))
			if p.Name != b.o.Config.Name && !slices.Contains(urls, u) {
				urls = append(urls, u)
			}
		}
	}
	return urls
}

// mayGoBack holds a member that etcdadm could not run as it is.
func (b *back) mayGoBack(state nodestate.State) *Hold {
	i := slices.IndexFunc(b.j.Peers, func(s cluster.InitialMember) bool { return s.Name == b.cfg.Name })
	switch {
	case state.Assigned != nil && state.Assigned.Quarantined:
		return hold(ManagerState, "etcd-manager-ctl status",
			"the member is quarantined: clients are kept away from it, and etcdadm would let them in")
	case i < 0:
		return hold(NameUnfit, "--name", "etcd-manager runs one of the members %s on this machine, and none is called %s",
			text(cluster.InitialMemberNames(b.j.Peers)), b.cfg.Name)
	case !overlap(b.j.Peers[i].PeerURLs, machine.URLs(b.cfg).Peer):
		return hold(NameUnfit, "--bind-address and --peer-port", "member %s is found at %s, and the machine's peer URL is %s",
			b.cfg.Name, strings.Join(b.j.Peers[i].PeerURLs, ", "), machine.URLs(b.cfg).Peer[0])
	}
	b.j.Node = b.cfg.Name
	return nil
}

// whereabouts makes sure that the data is in one place, the member's, used by
// nobody, and can be moved.
func (b *back) whereabouts() error {
	to, from := b.cfg.Paths.Data, b.dataOf(b.j.Token)
	here, err := hasMember(to)
	if err != nil {
		return err
	}
	away, err := hasMember(from)
	if err != nil {
		return err
	}
	dir := from
	switch {
	case here && away:
		return hold(DataForeign, "check which one is the member's, and move the other one away",
			"there is data in %s and in %s", to, from)
	case !here && !away:
		return hold(DataForeign, flag+" and --data-dir", "there is no data in %s and none in %s", from, to)
	case here:
		dir = to
	}
	id, c, err := nodestate.DiskMember(dir)
	if err != nil {
		return err
	}
	if b.resumed && (id != b.j.MemberID || c != b.j.ClusterID) {
		return hold(DataForeign, "", "%s does not hold the data of member %s any more", dir, b.j.MemberID)
	}
	b.j.MemberID, b.j.ClusterID = id, c
	if here {
		return nil // etcdadm may have it running
	}
	if err := idle(dir); err != nil || b.dry {
		return err
	}
	return mayMove(from, to)
}

func (b *back) result() Result { return Result{Journal: *b.j} }

// steps are those on the way back. Up to ask nothing has happened to the member.
func (b *back) steps() []Step {
	if b.finished {
		b.j = &Journal{Direction: FromManager, Done: true}
		return nil
	}
	cfg, j := b.cfg, b.j
	from := b.dataOf(j.Token)
	fresh := func() (bool, error) { return !b.resumed, nil }
	return []Step{
		b.step("certificates", fmt.Sprintf("make the certificate authority in %s of the one in %s", cfg.Paths.Certificates,
			b.o.PKIDir),
			func() (bool, error) { return b.ca.crt != nil, nil },
			func(context.Context) error { return b.ca.write(cfg.Paths.Certificates, "ca", 0o755) }),
		b.step("ask", "ask the other members whether they wait for this one", fresh, b.ask),
		b.step("journal", "write down what was decided, in "+cfg.Paths.Journal(), fresh, func(context.Context) error {
			return j.write(cfg)
		}),
		b.step("unassign", fmt.Sprintf("tell etcd-manager in %s to run nothing", b.o.ManagerDir), b.assigned,
			func(context.Context) error { return b.state.Update(unassign) }),
		b.step("move", fmt.Sprintf("move the data of member %s from %s to %s", j.MemberID, from, cfg.Paths.Data),
			func() (bool, error) { return hasMember(from) }, func(context.Context) error { return b.locking(b.move) }),
		b.step("start", "have etcdadm configure and start etcd "+j.Version.String(), always, b.start),
		b.step("done", "delete "+cfg.Paths.Journal(), always, func(context.Context) error {
			_ = os.Remove(from) // empty, or of no use
			return removeFile(cfg.Paths.Journal())
		}),
	}
}

// ask makes sure that the cluster waits for the member. Without it, etcdadm
// starts it by itself only where the others have no quorum: two members, or one.
func (b *back) ask(ctx context.Context) error {
	others := len(b.j.Peers) - 1
	b.j.Alone = b.o.Alone || others < 1
	if b.j.Alone {
		return nil
	}
	obs, err := b.m.Observe(ctx, machine.Goal{Action: machine.Join})
	if err != nil {
		return err
	}
	switch known := slices.ContainsFunc(obs.Remote.Members, func(m cluster.Member) bool { return m.ID == b.j.MemberID }); {
	case obs.Remote.Answered && (!known || obs.Remote.ClusterID != b.j.ClusterID):
		return hold(DataForeign, "etcdadm join --set-aside-data makes it a new member",
			"the other members are of cluster %s and do not know member %s", obs.Remote.ClusterID, b.j.MemberID)
	case obs.Remote.Answered:
		return nil
	case others < cluster.Quorum(len(b.j.Peers)):
		b.j.Alone = true
		return nil
	}
	return hold(ClusterUnreachable, "--endpoints names other members; --alone starts this one all the same",
		"the other members do not answer: %s", obs.Remote.Problem)
}

func (b *back) assigned() (bool, error) {
	if b.state != nil {
		return b.state.State().Assigned != nil, nil
	}
	s, err := nodestate.Read(b.o.ManagerDir)
	return s.Assigned != nil, err
}

// unassign takes the daemon's order away. What the node has promised as an
// lease voter stays: it may be one until the coordinator has replaced it.
func unassign(s *nodestate.State) error {
	s.Assigned, s.Bootstrap, s.Prepared, s.Peers = nil, false, nil, nil
	s.MemberID, s.ClusterID, s.MemberToken = 0, 0, ""
	return nil
}

func (b *back) move() error {
	to := b.cfg.Paths.Data
	if s := b.cfg.Service; s.User != "" || s.Group != "" {
		// The daemon ran etcd as root. By this, etcdadm sees that the directory is
		// not as it must be, and gives it, with all in it, to the one who runs etcd.
		if err := os.Chmod(to, 0o755); err != nil {
			return err
		}
	}
	return moveMember(b.dataOf(b.j.Token), to)
}

// start has etcdadm do the rest: certificates, binaries, files, service, health.
func (b *back) start(ctx context.Context) error {
	goal := machine.Goal{Action: machine.Join}
	if b.j.Alone {
		// Nobody is to be asked, as after an init. That there was one is on record.
		goal.Action = machine.Init
		r, err := json.Marshal(machine.Record{Token: b.j.Token, Action: machine.Init})
		if err == nil {
			err = hostfs.WriteFile(b.cfg.Paths.Record(), append(r, '\n'), 0o600)
		}
		if err != nil {
			return err
		}
	}
	_, err := b.m.Run(ctx, goal)
	return err
}
