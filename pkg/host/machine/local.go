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
func (w *world) install() (Operation, *Hold) {
	if w.obs.VersionOpen {
		return nil, w.unreachable() // nobody has said which, and the cluster does not say
	}
	// Before the new ones are there: the next restart would take them.
	if why := w.mayRun(); why != nil {
		return nil, why
	}
	if w.forces() {
		return &ForceSnapshot{}, w.mayRestart()
	}
	if w.cfg.Service.InitSystem == Kubelet && w.cfg.Snapshot.File == "" {
		return nil, nil
	}
	op := w.binaries()
	if have := w.obs.Binaries.Etcd; op != nil && !have.IsZero() && have != w.cfg.Version.Release() {
		if why := w.mayRestart(); why != nil {
			return nil, why
		}
	}
	return op, nil
}

// mayRestart holds what a running etcd is restarted for, before any of it is written: the
// next restart, for whatever reason, would take it. Init may have certificates to renew
// before anybody answers it, and install by itself asks nobody.
func (w *world) mayRestart() *Hold {
	s := w.obs.Service.State
	asksNobody := w.goal.Action == Init || w.goal.Phase == "install"
	if s != ServiceRunning && s != ServiceStarting || !w.obs.Remote.Answered && asksNobody {
		return nil
	}
	return w.spared()
}

func (w *world) binaries() Operation {
	b, want := w.obs.Binaries, w.cfg.Version.Release()
	// Archives of distributors have no etcdutl: what needs it says so.
	tools := b.Etcdctl == want && (b.Etcdutl == want || b.Etcdutl.IsZero())
	if b.Problem == "" && b.Etcd == want && tools {
		return nil
	}
	return &InstallBinaries{Version: w.cfg.Version, Dir: w.cfg.Paths.Install}
}

// clock holds while the certificate authority is not valid yet: a machine that boots may
// not have set its clock.
func (w *world) clock() *Hold {
	if w.obs.PKI.CA != CABad || w.obs.PKI.ValidFrom.IsZero() {
		return nil
	}
	h := hold(CABroken, "set the machine's clock, or install the right ca.crt and ca.key there",
		"the certificate authority in %s cannot be used yet: %s", w.cfg.Paths.Certificates, w.obs.PKI.Problem)
	h.Wait = true
	return h
}

// certificates makes the key pairs. Only a bootstrap makes a certificate
// authority: one that a joining machine made would be trusted by nobody, and one
// beside a member that runs neither.
func (w *world) certificates() (Operation, *Hold) {
	dir := w.cfg.Paths.Certificates
	switch w.obs.PKI.CA {
	case CAAbsent:
		if w.goal.Action == Init && w.obs.Data.State == cluster.DiskEmpty && !w.obs.Record.Served {
			return &CreateCA{Dir: dir}, nil
		}
		return nil, hold(CAMissing, fmt.Sprintf("copy ca.crt and ca.key from %s of a member to %s of this machine", dir, dir),
			"there is no certificate authority in %s", dir)
	case CABad:
		if why := w.clock(); why != nil {
			return nil, why
		}
		return nil, hold(CABroken, "install the right ca.crt and ca.key there",
			"the certificate authority in %s cannot be used: %s", dir, w.obs.PKI.Problem)
	case CAExternal:
		if len(w.obs.PKI.Wrong) > 0 {
			p := w.obs.PKI.Wrong[0]
			next := "etcdadm certs generate-csr; have the requests signed, and put the certificates beside the keys"
			if p.OtherKey {
				next = "put certificates and keys of the other kind there, or give --cipher-suites for keys of both kinds"
			}
			return nil, hold(ExternalCA, next,
				"the certificate authority in %s has no key here, but %s must be issued (%s)", dir, p.Name, p.Why)
		}
	}
	if len(w.obs.PKI.Wrong) > 0 {
		return &IssueCertificates{Dir: dir, Pairs: w.obs.PKI.Wrong}, nil
	}
	return nil, nil
}

func (w *world) snapshot() (Operation, *Hold) {
	file := w.cfg.Snapshot.File
	if file == "" {
		return nil, nil
	}
	if w.obs.Data.State == cluster.DiskData && w.restored() {
		return nil, nil
	}
	if why := w.untouched(); why != nil {
		return nil, why
	}
	if w.obs.Data.State == cluster.DiskData {
		return nil, hold(SnapshotRestored,
			"omit --snapshot to continue with the existing data; etcdadm reset moves it aside",
			"%s holds data that does not come from %s", w.cfg.Paths.Data, file)
	}
	if op := w.binaries(); op != nil {
		return op, nil
	}
	from := cmp.Or(w.obs.Snapshot, file+" ")
	if w.obs.Record.Action != Init || w.obs.Record.Restored != from {
		return &Remember{Record{Token: w.token(), Action: Init, Restored: from}}, nil
	}
	return &RestoreSnapshot{
		File: file, DataDir: w.cfg.Paths.Data, Token: w.obs.Record.Token, InitialMember: initialMember(w.cfg),
		SkipHashCheck: w.cfg.Snapshot.SkipHashCheck,
		BumpRevision:  w.cfg.Snapshot.BumpRevision,
	}, nil
}

// restored says whether the data came from the snapshot that is asked for. The
// file may be gone since; another one in its place is another snapshot.
func (w *world) restored() bool {
	have, file := w.obs.Record.Restored, w.cfg.Snapshot.File
	return have != "" && (have == w.obs.Snapshot || w.obs.Snapshot == "" && strings.HasPrefix(have, file+" "))
}

// token returns the token of the cluster that is being bootstrapped here.
func (w *world) token() cluster.Token {
	if t := w.obs.Record.Token; t != "" && w.obs.Record.Action == Init {
		return t
	}
	return w.obs.Nonce
}

// remembered has the token on the disk before anything depends on it, so that
// phases that are processes of their own bootstrap the same cluster.
func (w *world) remembered() Operation {
	r := w.obs.Record
	if w.obs.Data.State == cluster.DiskData || r.Action == w.goal.Action {
		return nil
	}
	if w.goal.Action == Init {
		return &Remember{Record{Token: w.obs.Nonce, Action: Init}}
	}
	return &Remember{Record{Action: Join}}
}

// served has it on the disk that a member has run here, as soon as an observation sees
// its data: a disk that is empty later has lost it. Members that others made, of
// the retired etcdadm or of etcd-manager, get a record so, too.
func (w *world) served() Operation {
	r := w.obs.Record
	risk := w.goal.AcceptVersionRisk
	reported := r.Served && (risk == "" || risk == r.VersionRisk)
	if w.obs.Data.State != cluster.DiskData || reported || r.Action == Reset || w.neverCommitted() {
		return nil
	}
	if risk != "" {
		r.VersionRisk = risk
	}
	if r.Served = true; r.Action == "" {
		r.Action = w.goal.Action
	}
	return &Remember{r}
}

// neverCommitted says that the first start of this machine's etcd was cut off before it
// had anything that could be lost. One that bootstraps a cluster would wait for itself
// forever.
func (w *world) neverCommitted() bool {
	r, d := w.obs.Record, w.obs.Data
	if !d.Uncommitted || r.Served || r.Restored != "" || r.Action != w.goal.Action {
		return false
	}
	// Without a log it has not even begun to learn of its cluster.
	return d.State == cluster.DiskUnreadable || d.State == cluster.DiskData && w.goal.Action == Init
}

// firstCommitTimeout is how long an etcd that bootstraps a cluster may take to commit that.
// It does so before it stands for election, within milliseconds after it has made
// its log; what comes before that may take a slow machine seconds.
const firstCommitTimeout = 20 * time.Second

// Stuck says that an etcd which has run for uptime never will bootstrap its cluster:
// the init system has started it again on the log of a start that was cut off.
func Stuck(d Data, uptime time.Duration) bool { return d.Uncommitted && uptime > firstCommitTimeout }

// dropNeverCommitted makes room for another first start.
func (w *world) dropNeverCommitted() (Operation, *Hold) {
	switch {
	case !w.neverCommitted():
		return nil, nil
	case w.goal.Action == Init && Stuck(w.obs.Data, w.obs.Service.Uptime):
		return &StopService{}, nil
	case w.obs.Service.Active():
		return nil, nil
	}
	if why := w.running(); why != nil {
		return nil, why
	}
	return &DiscardData{Path: w.cfg.Paths.Data, MemberID: w.obs.Data.MemberID}, nil
}

// configure writes the files that the init system starts etcd from.
func (w *world) configure() (Operation, *Hold) {
	if why := w.untouched(); why != nil {
		return nil, why
	}
	if op := w.remembered(); op != nil {
		return op, nil
	}
	if w.cfg.Service.InitSystem == Kubelet {
		return nil, nil // the manifest is what starts it
	}
	files, why := w.files()
	if why != nil {
		return nil, why
	}
	if w.replaces(files) {
		if why := w.mayRestart(); why != nil {
			return nil, why
		}
	}
	return w.write(files)
}

// replaces says that one of the files is there, with another content.
func (w *world) replaces(files []initfiles.File) bool {
	return slices.ContainsFunc(files, func(f initfiles.File) bool {
		have, ok := w.obs.Files[f.Path]
		return ok && have != f.Content
	})
}

// write returns the operation that makes the files be what they must.
func (w *world) write(files []initfiles.File) (Operation, *Hold) {
	wrong := slices.DeleteFunc(slices.Clone(files), func(f initfiles.File) bool {
		have, ok := w.obs.Files[f.Path]
		return ok && have == f.Content
	})
	if len(wrong) == 0 {
		return nil, nil
	}
	return &WriteFiles{wrong}, nil
}

// start has the init system run etcd with what is written. A running one is
// restarted only if it differs, and only if the quorum can spare it.
func (w *world) start() (Operation, *Hold) {
	if why := w.untouched(); why != nil {
		return nil, why
	}
	if why := w.mayStartEmpty(); why != nil {
		return nil, why
	}
	if why := w.startable(); why != nil {
		return nil, why
	}
	if op := w.remembered(); op != nil {
		return op, nil
	}
	if op, why := w.dropNeverCommitted(); op != nil || why != nil {
		return op, why
	}
	if op := w.served(); op != nil {
		return op, nil
	}
	manifest, why := w.manifest()
	if why != nil {
		return nil, why
	}
	s := w.obs.Service
	running := s.State == ServiceRunning || s.State == ServiceStarting
	changed := s.Outdated || manifest != "" && w.obs.Files[w.cfg.Paths.Manifest()] != manifest
	switch {
	case !w.obs.Data.Ready && w.obs.Data.Foreign && s.Active():
		// The one who runs etcd now would go on making files of his own.
		if why := w.spared(); why != nil {
			return nil, why
		}
		return &StopService{}, nil
	case !w.obs.Data.Ready:
		return &MakeDataDir{w.cfg.Paths.Data}, nil
	case running && changed:
		if why := w.spared(); why != nil {
			return nil, why
		}
		if op, why := w.moveLeader(); op != nil || why != nil {
			return op, why
		}
		return &StartService{Restart: true, Manifest: manifest}, nil
	case s.State == ServiceCrashing && (changed || w.goal.Phase == "start"):
		// As a phase by itself it does not know what the one before has written.
		return &StartService{Restart: true, Manifest: manifest}, nil
	case !s.Active() || !s.Enabled || s.State == ServiceUnknown:
		return &StartService{Manifest: manifest}, nil
	}
	return nil, nil
}

// mayStartEmpty holds the start of a member on an empty disk that has run
// before: it would come back as a voter that has forgotten its votes.
func (w *world) mayStartEmpty() *Hold {
	if w.goal.Action != Join || w.obs.Data.State == cluster.DiskData {
		return nil
	}
	if !w.obs.Remote.Answered {
		return w.unreachable()
	}
	m, ok := w.self()
	if !ok {
		return hold(NotConfigured, w.again("membership", "configure", "start"), "the cluster has no member with the peer URL %s",
			URLs(w.cfg).Peer[0])
	}
	if started(m) {
		return w.lost(m)
	}
	if w.goal.Phase == "start" && w.cfg.Service.InitSystem != Kubelet {
		return w.overtaken() // the manifest of a static pod is written by this phase
	}
	return nil
}

// spared holds a restart that the cluster cannot spare the member for, or that would be
// one with a version to which it may not change now.
func (w *world) spared() *Hold {
	if why := w.kept(); why != nil {
		return why
	}
	return w.gates()
}

// kept holds a restart that would take the quorum away while a member is down. In a
// healthy cluster a restart is a short absence that etcd is made for, also where
// there are only one or two members.
func (w *world) kept() *Hold {
	if !w.obs.Remote.Answered {
		switch l := w.obs.Local; {
		case l == nil && w.obs.Service.State == ServiceRunning:
			return w.unreachable() // it serves, and not us: who knows how the others do
		case w.goal.Action == Join && healthy(l) && !l.Learner:
			return w.unreachable() // there is a quorum, and the endpoints are not of it
		}
		return nil // no quorum to lose
	}
	voters, healthy := w.obs.Remote.voters()
	self, ok := w.self()
	if !ok || self.Learner || !self.Healthy || healthy == voters || healthy-1 >= cluster.Quorum(voters) {
		return nil
	}
	return lacking("restarting this machine's member would leave %d healthy voters of %d", healthy-1, voters)
}

func (w *world) etcdctl() (Operation, *Hold) {
	files, why := w.controlFiles()
	if why != nil {
		return nil, why
	}
	return w.write(files)
}

func (w *world) health() (Operation, *Hold) {
	if !healthy(w.obs.Local) {
		r, s := w.obs.Record, w.obs.Service
		if w.goal.Phase == "health" && r.Action == "" && w.obs.Data.State == cluster.DiskEmpty && !w.obs.Data.Ready &&
			!s.Active() && !s.Enabled {
			return nil, hold(NotConfigured, fmt.Sprintf("etcdadm %s phase start", w.goal.Action),
				"no etcd has been started on this machine")
		}
		return &AwaitHealth{Bootstrap: w.goal.Action == Init && w.goal.Phase == "" && r.Action == Init && !r.Served &&
			r.Restored == ""}, nil
	}
	if op := w.served(); op != nil {
		return op, nil
	}
	return nil, nil
}

// healthy says whether a member serves: it has a leader. A learner only ever
// answers for itself.
func healthy(r *cluster.Report) bool { return r != nil && r.Leader != 0 }
