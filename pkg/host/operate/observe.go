package operate

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/hazards"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/initsystem"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// Observe checks the machine, and at the cluster if the goal needs that. What
// does not answer is a part of what is seen; an error means that the machine
// itself cannot be checked.
func (m *Machine) Observe(ctx context.Context, goal machine.Goal) (machine.Observation, error) {
	obs := machine.Observation{
		At: time.Now(), Nonce: m.nonce, Files: map[string]string{}, Snapshot: identity(m.cfg.Snapshot.File),
	}
	obs.Host = machine.Host{
		Name: string(m.cfg.Name), OS: runtime.GOOS, Arch: runtime.GOARCH, Root: os.Geteuid() == 0,
		Addresses: addresses(), Manager: m.managed(), InitSystem: m.initSystemErr == nil,
	}
	if m.owner != nil {
		uid, gid := int64(m.owner.UID), int64(m.owner.GID)
		obs.Host.UID, obs.Host.GID = &uid, &gid
	}
	var err error
	if obs.Record, err = readRecord(m.cfg); err != nil {
		return obs, err
	}
	m.readFiles(&obs)
	phase, one := machine.PhaseOf(goal.Action, goal.Phase)
	written, endpoints := obs.Written, m.endpoints(goal, obs)
	var wg sync.WaitGroup
	wg.Go(func() { obs.Binaries = m.versions.observe(ctx, m.cfg.Paths.Install) })
	wg.Go(func() { obs.PKI = m.pki() })
	certificatesOnly := one && goal.Phase == "certificates"
	if !certificatesOnly {
		mark := initfiles.UnitMark(obs.Files[m.cfg.Paths.Unit()])
		wg.Go(func() {
			var none bool
			if obs.Service, none = m.service(ctx, written, mark); none {
				obs.Host.InitSystem = false
			}
		})
		wg.Go(func() { obs.Local = m.local(ctx) })
		wg.Go(func() { obs.Renewal = m.renewal(ctx) })
		alone := goal.SkipRemoveMember || goal.Action == machine.Reset && obs.Record.Action == machine.Reset
		if (!one || phase.Network || m.versionOpen && goal.Phase == "install") && !alone {
			wg.Go(func() { obs.Remote = m.others(ctx, goal, endpoints) })
		}
	}
	wg.Wait()
	// Last, so that a member that the cluster knows to have started has data.
	obs.Data = m.data()
	obs.VersionOpen, obs.Left = m.adopt(goal, obs), m.left
	if obs.Data.State == cluster.DiskData {
		obs.Data.Version, err = hazards.DataVersion(m.dataDirs())
		if err != nil {
			obs.Data.VersionProblem = err.Error()
		}
	}
	obs.Data.Hazards = m.hazards(goal, obs)
	obs.Host.FreeBytes = freeBytes(m.cfg.Paths.Data)
	if machine.Compares(goal, m.cfg, obs) {
		obs.Remote.Compared = m.compare(ctx, obs.Remote)
	}
	return obs, ctx.Err()
}

// others observes the cluster at its endpoints. A machine that leaves may know addresses that are
// others' by now.
func (m *Machine) others(ctx context.Context, goal machine.Goal, endpoints []string) machine.Remote {
	known := cluster.ClusterID(0)
	if goal.Action == machine.Reset && len(m.o.Endpoints) == 0 ||
		goal.Action == machine.Join && goal.Phase == "health" {
		known = m.data().ClusterID
	}
	remote := m.remote(ctx, endpoints, known)
	if goal.Action == machine.Join {
		remote.Learner = m.watchLearner(ctx, remote, time.Now())
	}
	return remote
}

// managed returns the data directory of an etcd-manager that has a member to
// run on this machine.
func (m *Machine) managed() string {
	dir := cluster.ManagerDir
	// A handover says where the daemon has it.
	var journal struct {
		Direction, ManagerDir string
		Done                  bool
	}
	if b, err := os.ReadFile(m.cfg.Paths.Journal()); err == nil && json.Unmarshal(b, &journal) == nil &&
		journal.ManagerDir != "" {
		dir = journal.ManagerDir
	}
	s, err := nodestate.Read(dir)
	if s.Assigned != nil || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return dir // also where it cannot be read: it is there
	}
	return ""
}

// identity distinguishes a file from one that takes its place, "" for one that is not
// there.
func identity(path string) string {
	info, err := os.Stat(path)
	if path == "" || err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d %d", path, info.Size(), info.ModTime().UnixNano())
}

// data checks etcd's data directory.
func (m *Machine) data() machine.Data {
	dir := m.cfg.Paths.Data
	d := machine.Data{State: cluster.DiskEmpty, Discarded: exists(m.cfg.Paths.Discarded()), SetAside: dataSetAside(m.cfg)}
	d.Ready, d.Foreign = m.ready(dir)
	entries, err := os.ReadDir(datadir.At(dir).Member())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			d.State, d.Problem = cluster.DiskUnreadable, "it is not a directory"
		}
		return d
	case err != nil:
		d.State, d.Problem = cluster.DiskUnreadable, err.Error()
		return d
	case len(entries) == 0:
		return d
	}
	d.MemberID, d.ClusterID, err = nodestate.DiskMember(dir)
	if err == nil {
		d.State = cluster.DiskData
		// What cannot be read now is etcd's to complain of.
		begun, err := nodestate.Begun(dir)
		d.Uncommitted = err == nil && !begun
		return d
	}
	if !bare(datadir.At(dir).Member()) {
		d.State, d.Problem = cluster.DiskUnreadable, err.Error()
		d.Uncommitted = noLog(m.dataDirs().Log())
	}
	return d
}

// bare reports whether there are directories alone below a path: etcd makes its own before it
// writes, and that is no data yet. Below what cannot be read there may be anything.
func bare(path string) bool {
	found := false
	_ = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		found = found || ignoreMissing(err) != nil || err == nil && !e.IsDir()
		return nil
	})
	return !found
}

// noLog reports whether a directory is proved to have no file of a write-ahead log.
func noLog(dir string) bool {
	entries, err := os.ReadDir(dir)
	return ignoreMissing(err) == nil &&
		!slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), ".wal") })
}

// ready says whether the data directory is there for the one who runs etcd, and
// whether it belongs to somebody else.
func (m *Machine) ready(dir string) (ready, foreign bool) {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return false, false
	}
	foreign = !ownedBy(info, m.owner)
	return !foreign && info.Mode().Perm() == 0o700 && exists(m.cfg.Paths.Marker()), foreign
}

// readFiles reads what earlier runs have written.
func (m *Machine) readFiles(obs *machine.Observation) {
	theirs := RenewalOfOthers(m.cfg.Paths)
	for _, path := range machine.WrittenPaths(m.cfg) {
		b, err := os.ReadFile(path)
		if err != nil || slices.Contains(theirs, path) {
			continue // to write it says better what is wrong; what is a person's is not ours
		}
		obs.Files[path] = string(b)
	}
	var err error
	if m.cfg.Service.InitSystem == machine.Kubelet {
		obs.Written, err = podEnv(obs.Files[m.cfg.Paths.Manifest()])
	} else {
		obs.Written, err = initfiles.ParseEnvFile(obs.Files[m.cfg.Paths.EnvFile()])
	}
	if err != nil {
		// That it is there says something; what it says will be written again.
		obs.Written = map[string]string{"unreadable": err.Error()}
	}
}

// podEnv reads etcd's variables from a static pod, whoever has edited it.
func podEnv(manifest string) (map[string]string, error) {
	var pod struct {
		Spec struct {
			Containers []struct {
				Env []struct{ Name, Value string } `json:"env"`
			} `json:"containers"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(manifest), &pod); err != nil {
		return nil, fmt.Errorf("read the static pod: %w", err)
	}
	vars := map[string]string{}
	for _, c := range pod.Spec.Containers {
		for _, e := range c.Env {
			vars[e.Name] = e.Value
		}
	}
	return vars, nil
}

// pki checks the key pairs.
func (m *Machine) pki() machine.PKI {
	spec := m.certSpec()
	seen := certs.ObserveMachine(spec, time.Now())
	p := machine.PKI{
		CA: caState(seen.CA.State), Problem: seen.CA.Problem, Fingerprint: seen.CA.Fingerprint,
		NotAfter: seen.CA.NotAfter, ValidFrom: seen.CA.ValidFrom, Warnings: seen.Warnings,
	}
	wrong := seen.ToIssue()
	for _, leaf := range seen.Leaves {
		if slices.Contains(wrong, leaf.Name) {
			p.Wrong = append(p.Wrong, machine.WrongPair{
				Name: leaf.Name, Why: cmp.Or(leaf.Why, string(leaf.State)), OtherKey: leaf.OtherKey,
			})
		}
	}
	p.Expiring = expiring(seen, spec, time.Now())
	for _, lock := range []string{".lock", ".certs.lock"} {
		if path := filepath.Join(m.cfg.Paths.Certificates, lock); exists(path) {
			p.Paths = append(p.Paths, path)
		}
	}
	// A rotation has more than one.
	for _, name := range []string{"ca", "ca-next", "ca-previous", ".ca-new"} {
		p.CAPaths = append(p.CAPaths, present(m.cfg.Paths.Certificates, name)...)
	}
	for _, name := range certs.MachinePairs() {
		p.Paths = append(p.Paths, present(m.cfg.Paths.Certificates, name)...)
	}
	return p
}

// expiring returns which certificates have expired, or soon will: what has expired comes
// first, and the CA before what it issued.
func expiring(seen certs.MachinePKI, spec certs.MachineSpec, now time.Time) []machine.Expiring {
	var expired, soon []machine.Expiring
	ca := machine.Expiring{Name: certs.MachineCA, NotAfter: seen.CA.NotAfter}
	switch end := ca.NotAfter; {
	case seen.CA.State == certs.PairExpired:
		ca.Expired = true
		expired = append(expired, ca)
	case end.After(now) && end.Before(now.Add(cmp.Or(spec.Lifetime, certs.MachineLifetime))):
		soon = append(soon, ca)
	}
	for _, leaf := range seen.Leaves {
		switch e := (machine.Expiring{Name: leaf.Name, NotAfter: leaf.NotAfter}); leaf.State {
		case certs.PairExpired:
			e.Expired = true
			expired = append(expired, e)
		case certs.PairDue:
			soon = append(soon, e)
		}
	}
	return append(expired, soon...)
}

// caState says in the planner's words how a CA is.
func caState(s certs.PairState) machine.CAState {
	switch s {
	case certs.PairOK:
		return machine.CAReady
	case certs.PairMissing:
		return machine.CAAbsent
	case certs.PairExternal:
		return machine.CAExternal
	}
	return machine.CABad
}

// present returns which files of a pair are there.
func present(dir, pair string) []string {
	var paths []string
	for _, end := range []string{".crt", ".key"} {
		if path := filepath.Join(dir, pair+end); exists(path) {
			paths = append(paths, path)
		}
	}
	return paths
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (m *Machine) certSpec() certs.MachineSpec {
	c := m.cfg
	kind := suitedKeys(c)
	if (kind == x509.RSA) != (c.Certificates.KeyAlgorithm == machine.RSA) {
		kind = x509.UnknownPublicKeyAlgorithm // --key-algorithm says otherwise
	}
	return certs.MachineSpec{
		Dir: c.Paths.Certificates, Name: c.Name, Address: c.Listen.Address,
		ServerSANs: c.Certificates.ServerSANs, PeerSANs: c.Certificates.PeerSANs,
		RSA:      c.Certificates.KeyAlgorithm == machine.RSA,
		Serving:  kind,
		Lifetime: time.Duration(c.Certificates.Lifetime), CALifetime: time.Duration(c.Certificates.CALifetime),
		Owner: m.owner,
	}
}

// service asks the init system, and compares what runs with what is written. none says that the
// machine does not have it: nothing can have started etcd.
func (m *Machine) service(ctx context.Context, written map[string]string, mark string) (
	k machine.ServiceStatus, none bool) {
	absent := func(why error) (machine.ServiceStatus, bool) {
		return machine.ServiceStatus{State: machine.ServiceAbsent, Detail: why.Error()}, true
	}
	if m.initSystem == nil {
		return absent(m.initSystemErr)
	}
	answered := m.pending.ask("the init system")
	s, err := m.initSystem.Status(ctx)
	answered()
	var missing *initsystem.MissingError
	switch {
	case errors.As(err, &missing):
		return absent(err)
	case err != nil:
		return machine.ServiceStatus{State: machine.ServiceUnknown, Detail: err.Error()}, false
	}
	k = machine.ServiceStatus{
		State: machine.ServiceState(s.State), Enabled: s.Enabled, Uptime: s.Uptime, Detail: s.Detail, LastLines: s.LastLines,
		Foreign: s.Foreign,
	}
	if s.State == initsystem.Running || s.State == initsystem.Starting {
		k.Outdated = outdated(s.PID, written, mark, m.cfg.Paths.Binary("etcd"))
	}
	if s.State == initsystem.Crashing { // its process is there for a moment only
		k.Outdated = m.rewritten
	}
	return k, false
}

// gone says that no etcd answers on this machine any more.
func (m *Machine) gone(ctx context.Context) bool {
	return !listening(ctx, machine.URLs(m.cfg).Client)
}

// busy says that a process has the member's database open.
func (m *Machine) busy() bool {
	held, err := hostfs.Held(m.cfg.Paths.Database())
	return err == nil && held
}

// freeBytes returns the space on the disk where path is or will be.
func freeBytes(path string) int64 {
	for {
		if n, err := hostfs.FreeBytes(path); err == nil {
			return max(n, 1) // zero is: not known
		}
		up := filepath.Dir(path)
		if up == path {
			return 0
		}
		path = up
	}
}
