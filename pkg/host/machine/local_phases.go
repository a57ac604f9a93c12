package machine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
)

// install makes the binaries be those of the version. A static pod brings its
// own; only the tool that restores a snapshot is needed for it.
func (p *planner) install() (Operation, *Hold) {
	if p.obs.VersionOpen {
		return nil, p.unreachable() // nobody has said which, and the cluster does not say
	}
	// Before the new ones are there: the next restart would take them.
	if why := p.mayRun(); why != nil {
		return nil, why
	}
	if p.forces() {
		return &ForceSnapshot{}, p.mayRestart()
	}
	if p.cfg.Service.InitSystem == Kubelet && p.cfg.Snapshot.File == "" {
		return nil, nil
	}
	op := p.binaries()
	if have := p.obs.Binaries.Etcd; op != nil && !have.IsZero() && have != p.cfg.Version.Release() {
		if why := p.mayRestart(); why != nil {
			return nil, why
		}
	}
	return op, nil
}

// mayRestart holds what a running etcd is restarted for, before any of it is written: the
// next restart, for whatever reason, would take it. Init may have certificates to renew
// before anybody answers it, and install by itself asks nobody.
func (p *planner) mayRestart() *Hold {
	s := p.obs.Service.State
	asksNobody := p.goal.Action == Init || p.goal.Phase == "install"
	if s != ServiceRunning && s != ServiceStarting || !p.obs.Remote.Answered && asksNobody {
		return nil
	}
	return p.spared()
}

func (p *planner) binaries() Operation {
	b, want := p.obs.Binaries, p.cfg.Version.Release()
	// Archives of distributors have no etcdutl: what needs it says so.
	tools := b.Etcdctl == want && (b.Etcdutl == want || b.Etcdutl.IsZero())
	if b.Problem == "" && b.Etcd == want && tools {
		return nil
	}
	return &InstallBinaries{Version: p.cfg.Version, Dir: p.cfg.Paths.Install}
}

// clock holds while the certificate authority is not valid yet: a machine that boots may
// not have set its clock.
func (p *planner) clock() *Hold {
	if p.obs.PKI.CA != CABad || p.obs.PKI.ValidFrom.IsZero() {
		return nil
	}
	h := hold(CABroken, "set the machine's clock, or install the right ca.crt and ca.key there",
		"the certificate authority in %s cannot be used yet: %s", p.cfg.Paths.Certificates, p.obs.PKI.Problem)
	h.Wait = true
	return h
}

// certificates makes the key pairs. Only a bootstrap makes a certificate
// authority: one that a joining machine made would be trusted by nobody, and one
// beside a member that runs neither.
func (p *planner) certificates() (Operation, *Hold) {
	dir := p.cfg.Paths.Certificates
	switch p.obs.PKI.CA {
	case CAAbsent:
		if p.goal.Action == Init && p.obs.Data.State == cluster.DiskEmpty && !p.obs.Record.Served {
			return &CreateCA{Dir: dir}, nil
		}
		return nil, hold(CAMissing, fmt.Sprintf("copy ca.crt and ca.key from %s of a member to %s of this machine", dir, dir),
			"there is no certificate authority in %s", dir)
	case CABad:
		if why := p.clock(); why != nil {
			return nil, why
		}
		return nil, hold(CABroken, "install the right ca.crt and ca.key there",
			"the certificate authority in %s cannot be used: %s", dir, p.obs.PKI.Problem)
	case CAExternal:
		if len(p.obs.PKI.Wrong) > 0 {
			pair := p.obs.PKI.Wrong[0]
			next := "etcdadm certs generate-csr; have the requests signed, and put the certificates beside the keys"
			if pair.OtherKey {
				next = "put certificates and keys of the other kind there, or give --cipher-suites for keys of both kinds"
			}
			return nil, hold(ExternalCA, next,
				"the certificate authority in %s has no key here, but %s must be issued (%s)", dir, pair.Name, pair.Why)
		}
	}
	if len(p.obs.PKI.Wrong) > 0 {
		return &IssueCertificates{Dir: dir, Pairs: p.obs.PKI.Wrong}, nil
	}
	return nil, nil
}

func (p *planner) snapshot() (Operation, *Hold) {
	file := p.cfg.Snapshot.File
	if file == "" {
		return nil, nil
	}
	if p.obs.Data.State == cluster.DiskData && p.restored() {
		return nil, nil
	}
	if why := p.untouched(); why != nil {
		return nil, why
	}
	if p.obs.Data.State == cluster.DiskData {
		return nil, hold(SnapshotRestored,
			"omit --snapshot to continue with the existing data; etcdadm reset moves it aside",
			"%s holds data that does not come from %s", p.cfg.Paths.Data, file)
	}
	if op := p.binaries(); op != nil {
		return op, nil
	}
	from := cmp.Or(p.obs.Snapshot, file+" ")
	if p.obs.Record.Action != Init || p.obs.Record.Restored != from {
		return &Remember{Record{Token: p.token(), Action: Init, Restored: from}}, nil
	}
	return &RestoreSnapshot{
		File: file, DataDir: p.cfg.Paths.Data, Token: p.obs.Record.Token, InitialMember: initialMember(p.cfg),
		SkipHashCheck: p.cfg.Snapshot.SkipHashCheck,
		BumpRevision:  p.cfg.Snapshot.BumpRevision,
	}, nil
}

// restored says whether the data came from the snapshot that is asked for. The
// file may be gone since; another one in its place is another snapshot.
func (p *planner) restored() bool {
	have, file := p.obs.Record.Restored, p.cfg.Snapshot.File
	return have != "" && (have == p.obs.Snapshot || p.obs.Snapshot == "" && strings.HasPrefix(have, file+" "))
}

// token returns the token of the cluster that is being bootstrapped here.
func (p *planner) token() cluster.Token {
	if t := p.obs.Record.Token; t != "" && p.obs.Record.Action == Init {
		return t
	}
	return p.obs.Nonce
}

// remembered has the token on the disk before anything depends on it, so that
// phases that are processes of their own bootstrap the same cluster.
func (p *planner) remembered() Operation {
	r := p.obs.Record
	if p.obs.Data.State == cluster.DiskData || r.Action == p.goal.Action {
		return nil
	}
	if p.goal.Action == Init {
		return &Remember{Record{Token: p.obs.Nonce, Action: Init}}
	}
	return &Remember{Record{Action: Join}}
}

// served has it on the disk that a member has run here, as soon as an observation sees
// its data: a disk that is empty later has lost it. Members that others made, of
// the retired etcdadm or of etcd-manager, get a record so, too.
func (p *planner) served() Operation {
	r := p.obs.Record
	risk := p.goal.AcceptVersionRisk
	reported := r.Served && (risk == "" || risk == r.VersionRisk)
	if p.obs.Data.State != cluster.DiskData || reported || r.Action == Reset || p.neverCommitted() {
		return nil
	}
	if risk != "" {
		r.VersionRisk = risk
	}
	if r.Served = true; r.Action == "" {
		r.Action = p.goal.Action
	}
	return &Remember{r}
}

// neverCommitted says that the first start of this machine's etcd was cut off before it
// had anything that could be lost. One that bootstraps a cluster would wait for itself
// forever.
func (p *planner) neverCommitted() bool {
	r, d := p.obs.Record, p.obs.Data
	if !d.Uncommitted || r.Served || r.Restored != "" || r.Action != p.goal.Action {
		return false
	}
	// Without a log it has not even begun to learn of its cluster.
	return d.State == cluster.DiskUnreadable || d.State == cluster.DiskData && p.goal.Action == Init
}

// firstCommitTimeout is how long an etcd that bootstraps a cluster may take to commit that.
// It does so before it stands for election, within milliseconds after it has made
// its log; what comes before that may take a slow machine seconds.
const firstCommitTimeout = 20 * time.Second

// Stuck says that an etcd which has run for uptime never will bootstrap its cluster:
// the init system has started it again on the log of a start that was cut off.
func Stuck(d Data, uptime time.Duration) bool { return d.Uncommitted && uptime > firstCommitTimeout }

// dropNeverCommitted makes room for another first start.
func (p *planner) dropNeverCommitted() (Operation, *Hold) {
	switch {
	case !p.neverCommitted():
		return nil, nil
	case p.goal.Action == Init && Stuck(p.obs.Data, p.obs.Service.Uptime):
		return &StopService{}, nil
	case p.obs.Service.Active():
		return nil, nil
	}
	if why := p.running(); why != nil {
		return nil, why
	}
	return &DiscardData{Path: p.cfg.Paths.Data, MemberID: p.obs.Data.MemberID}, nil
}

// configure writes the files that the init system starts etcd from.
func (p *planner) configure() (Operation, *Hold) {
	if why := p.untouched(); why != nil {
		return nil, why
	}
	if op := p.remembered(); op != nil {
		return op, nil
	}
	if p.cfg.Service.InitSystem == Kubelet {
		return nil, nil // the manifest is what starts it
	}
	files, why := p.files()
	if why != nil {
		return nil, why
	}
	if p.replaces(files) {
		if why := p.mayRestart(); why != nil {
			return nil, why
		}
	}
	return p.write(files)
}

// replaces says that one of the files is there, with another content.
func (p *planner) replaces(files []initfiles.File) bool {
	return slices.ContainsFunc(files, func(f initfiles.File) bool {
		have, ok := p.obs.Files[f.Path]
		return ok && have != f.Content
	})
}

// write returns the operation that makes the files be what they must.
func (p *planner) write(files []initfiles.File) (Operation, *Hold) {
	wrong := slices.DeleteFunc(slices.Clone(files), func(f initfiles.File) bool {
		have, ok := p.obs.Files[f.Path]
		return ok && have == f.Content
	})
	if len(wrong) == 0 {
		return nil, nil
	}
	return &WriteFiles{wrong}, nil
}

// start has the init system run etcd with what is written. A running one is
// restarted only if it differs, and only if the quorum can spare it.
func (p *planner) start() (Operation, *Hold) {
	if why := p.untouched(); why != nil {
		return nil, why
	}
	if why := p.mayStartEmpty(); why != nil {
		return nil, why
	}
	if why := p.startable(); why != nil {
		return nil, why
	}
	if op := p.remembered(); op != nil {
		return op, nil
	}
	if op, why := p.dropNeverCommitted(); op != nil || why != nil {
		return op, why
	}
	if op := p.served(); op != nil {
		return op, nil
	}
	manifest, why := p.manifest()
	if why != nil {
		return nil, why
	}
	s := p.obs.Service
	running := s.State == ServiceRunning || s.State == ServiceStarting
	changed := s.Outdated || manifest != "" && p.obs.Files[p.cfg.Paths.Manifest()] != manifest
	switch {
	case !p.obs.Data.Ready && p.obs.Data.Foreign && s.Active():
		// The one who runs etcd now would go on making files of his own.
		if why := p.spared(); why != nil {
			return nil, why
		}
		return &StopService{}, nil
	case !p.obs.Data.Ready:
		return &MakeDataDir{p.cfg.Paths.Data}, nil
	case running && changed:
		if why := p.spared(); why != nil {
			return nil, why
		}
		if op, why := p.moveLeader(); op != nil || why != nil {
			return op, why
		}
		return &StartService{Restart: true, Manifest: manifest}, nil
	case s.State == ServiceCrashing && (changed || p.goal.Phase == "start"):
		// As a phase by itself it does not know what the one before has written.
		return &StartService{Restart: true, Manifest: manifest}, nil
	case !s.Active() || !s.Enabled || s.State == ServiceUnknown:
		return &StartService{Manifest: manifest}, nil
	}
	return nil, nil
}

// mayStartEmpty holds the start of a member on an empty disk that has run
// before: it would come back as a voter that has forgotten its votes.
func (p *planner) mayStartEmpty() *Hold {
	if p.goal.Action != Join || p.obs.Data.State == cluster.DiskData {
		return nil
	}
	if !p.obs.Remote.Answered {
		return p.unreachable()
	}
	m, ok := p.self()
	if !ok {
		return hold(NotConfigured, p.again("membership", "configure", "start"), "the cluster has no member with the peer URL %s",
			URLs(p.cfg).Peer[0])
	}
	if started(m) {
		return p.lost(m)
	}
	if p.goal.Phase == "start" && p.cfg.Service.InitSystem != Kubelet {
		return p.overtaken() // the manifest of a static pod is written by this phase
	}
	return nil
}

// spared holds a restart that the cluster cannot spare the member for, or that would be
// one with a version to which it may not change now.
func (p *planner) spared() *Hold {
	if why := p.kept(); why != nil {
		return why
	}
	return p.gates()
}

// kept holds a restart that would take the quorum away while a member is down. In a
// healthy cluster a restart is a short absence that etcd is made for, also where
// there are only one or two members.
func (p *planner) kept() *Hold {
	if !p.obs.Remote.Answered {
		switch l := p.obs.Local; {
		case l == nil && p.obs.Service.State == ServiceRunning:
			return p.unreachable() // it serves, and not us: who knows how the others do
		case p.goal.Action == Join && healthy(l) && !l.Learner:
			return p.unreachable() // there is a quorum, and the endpoints are not of it
		}
		return nil // no quorum to lose
	}
	voters, healthy := p.obs.Remote.voters()
	self, ok := p.self()
	if !ok || self.Learner || !self.Healthy || healthy == voters || healthy-1 >= cluster.Quorum(voters) {
		return nil
	}
	return lacking("restarting this machine's member would leave %d healthy voters of %d", healthy-1, voters)
}

func (p *planner) etcdctl() (Operation, *Hold) {
	files, why := p.controlFiles()
	if why != nil {
		return nil, why
	}
	return p.write(files)
}

func (p *planner) health() (Operation, *Hold) {
	if !healthy(p.obs.Local) {
		r, s := p.obs.Record, p.obs.Service
		if p.goal.Phase == "health" && r.Action == "" && p.obs.Data.State == cluster.DiskEmpty && !p.obs.Data.Ready &&
			!s.Active() && !s.Enabled {
			return nil, hold(NotConfigured, fmt.Sprintf("etcdadm %s phase start", p.goal.Action),
				"no etcd has been started on this machine")
		}
		return &AwaitHealth{Bootstrap: p.goal.Action == Init && p.goal.Phase == "" && r.Action == Init && !r.Served &&
			r.Restored == ""}, nil
	}
	if op := p.served(); op != nil {
		return op, nil
	}
	return nil, nil
}

// healthy says whether a member serves: it has a leader. A learner only ever
// answers for itself.
func healthy(r *cluster.Report) bool { return r != nil && r.Leader != 0 }
