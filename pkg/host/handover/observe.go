package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// observe sees both sides of the machine, and changes nothing.
func (r *runner) observe(ctx context.Context) (machine.Observation, error) {
	h := &machine.Handover{DataRoot: nodestate.DataDir(r.o.ManagerDir, "")}
	obs := machine.Observation{
		At: time.Now(), Service: machine.ServiceStatus{State: machine.ServiceAbsent}, Handover: h,
	}
	var err error
	if h.Journal, err = ReadJournal(r.o.Config); err != nil {
		return obs, err
	}
	if err := r.remembered(h); err != nil {
		return obs, err
	}
	if err := r.open(h); err != nil {
		return obs, err
	}
	cfg := r.m.Config()
	if err := data(h, cfg.Paths.Data); err != nil {
		return obs, err
	}
	if err := r.authorities(h, cfg, obs.At); err != nil {
		return obs, err
	}
	theirs := operate.RenewalOfOthers(cfg.Paths)
	for _, path := range machine.StarterAndRecordPaths(cfg) {
		if _, err := os.Lstat(path); err == nil && !slices.Contains(theirs, path) {
			h.Starters = append(h.Starters, path)
		}
	}
	if h.AsksCluster(r.goal) {
		// The goal decides whom to ask: of what runs here, all members that the machine
		// knows of.
		goal := machine.Goal{Action: machine.Reset}
		if h.Asked = r.goal.Action == machine.FromManager; h.Asked {
			goal.Action = machine.Join
		}
		if obs, err = r.m.Observe(ctx, goal); err != nil {
			return obs, err
		}
		obs.Handover = h
	}
	if r.goal.Action == machine.ToManager {
		h.Etcd = r.hasEtcd(h, obs.Local)
		if h.Here.Present || h.Journal != nil {
			h.Control, r.storeErr = r.control(ctx)
		}
	}
	return obs, ctx.Err()
}

// remembered observes what the daemon remembers.
func (r *runner) remembered(h *machine.Handover) (err error) {
	var s nodestate.State
	if r.state != nil {
		s = r.state.State()
	} else {
		if h.Busy, err = hostfs.Held(filepath.Join(r.o.ManagerDir, managerLock)); err != nil {
			return err
		}
		if s, err = nodestate.Read(r.o.ManagerDir); err != nil {
			return err
		}
	}
	h.Assigned, h.Peers, h.Kept = s.Assigned, s.Peers, s.Durable()
	return nil
}

// managerLock is the file in its data directory that a daemon has locked, see
// package nodestate.
const managerLock = "etcdadm.lock"

// open opens etcdadm's side of the machine, when it is handed back for the member that the
// daemon has.
func (r *runner) open(h *machine.Handover) (err error) {
	cfg, endpoints := r.o.Config, r.o.Endpoints
	if r.goal.Action == machine.FromManager {
		j := machine.FromManagerJournal(r.goal, h)
		if j.Version.IsZero() && r.m != nil {
			return nil // it is handed back
		}
		if !j.Version.IsZero() {
			cfg, endpoints = r.desired(j), r.endpoints(j)
		}
	}
	key := fmt.Sprint(cfg.Version, cfg.Binaries.Dir, endpoints)
	if r.m != nil && r.opened == key {
		return nil
	}
	r.m, err = r.o.Open(cfg, endpoints)
	r.opened = key
	return err
}

// desired is the configuration with the version that runs, and with the daemon's
// binaries where the operator names none and they are complete.
func (r *runner) desired(j machine.Journal) machine.Config {
	cfg := r.o.Config
	cfg.Version = j.Version
	bin, err := etcdbin.Finder{Dirs: []string{r.o.EtcdDir}}.Find(j.Version)
	given := cfg.Binaries.Dir != "" || cfg.Binaries.Archive != "" || cfg.Binaries.Image != ""
	if err == nil && !given && bin.Etcdctl != "" && (bin.Etcdutl != "" || !j.Version.AtLeast(3, 5)) {
		cfg.Binaries.Dir = bin.Dir
	}
	return cfg
}

// endpoints are where the other members are: as was said, or else as was seen,
// and at the hosts of their peer URLs.
func (r *runner) endpoints(j machine.Journal) []string {
	if len(r.o.Endpoints) > 0 {
		return r.o.Endpoints
	}
	urls := slices.Clone(j.Others)
	for _, p := range j.Peers {
		for _, peer := range p.PeerURLs {
			at, err := url.Parse(peer)
			if err != nil {
				continue
			}
			u := "https://" + net.JoinHostPort(at.Hostname(), strconv.Itoa(r.o.Config.Listen.ClientPort))
			if p.Name != r.o.Config.Name && !slices.Contains(urls, u) {
				urls = append(urls, u)
			}
		}
	}
	return urls
}

// hasEtcd says whether the daemon finds the binaries of the version that runs.
func (r *runner) hasEtcd(h *machine.Handover, local *cluster.Report) bool {
	var v etcdversion.Version
	switch {
	case local != nil:
		v = local.Version
	case h.Journal != nil:
		v = h.Journal.Version
	}
	_, err := etcdbin.Finder{Dirs: []string{r.o.EtcdDir}}.Find(v)
	return err == nil // the one error there is says that there are none
}

// data observes the data of both sides.
func data(h *machine.Handover, own string) (err error) {
	if h.Here, err = memberData(own); err != nil {
		return err
	}
	entries, err := os.ReadDir(h.DataRoot)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	h.There = map[cluster.Token]machine.MemberData{}
	for _, e := range entries {
		d, err := memberData(filepath.Join(h.DataRoot, e.Name()))
		if err != nil {
			return err
		}
		if d.Present {
			h.There[cluster.Token(e.Name())] = d
		}
	}
	return nil
}

func memberData(dir string) (d machine.MemberData, err error) {
	if d.Present, err = hasMember(dir); err != nil || !d.Present {
		return d, err
	}
	if d.MemberID, d.ClusterID, err = nodestate.DiskMember(dir); err != nil {
		d.Problem = err.Error()
	}
	d.Busy, err = hostfs.Held(machine.Paths{Data: dir}.Database())
	return d, err
}

// storeTimeout bounds reading and writing the store.
const storeTimeout = 30 * time.Second

// control reads the control store.
func (r *runner) control(ctx context.Context) (*machine.Control, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if r.store == nil {
		s, err := r.o.OpenStore(ctx, r.o.BackupStore)
		if err != nil {
			return nil, err
		}
		r.store = s
	}
	view, err := r.store.Poll(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the control store: %w", err)
	}
	c := &machine.Control{Incarnations: view.Incarnations, Created: view.Created, Seeded: view.Spec != nil}
	if view.IncarnationsErr != nil {
		c.Unreadable = view.IncarnationsErr.Error()
	}
	if !r.o.NewIncarnation {
		return c, nil
	}
	raw, err := r.store.Status(ctx)
	if errors.Is(err, store.ErrAbsent) {
		return c, nil
	}
	var s struct {
		At          time.Time        `json:"at"`
		Coordinator cluster.NodeName `json:"coordinator"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		return nil, fmt.Errorf("read the coordinator's status: %w", err)
	}
	c.Coordinator, c.StatusAt = s.Coordinator, s.At
	return c, nil
}

func (r *runner) closeStore(ctx context.Context) {
	if r.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = r.store.Close(ctx) // what hangs there has no say any more
}
