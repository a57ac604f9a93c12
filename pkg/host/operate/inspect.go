package operate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// Inspect looks like Look, and besides at what only matters before a machine
// is changed for the first time: ports, disk, memory, clocks. It writes one small
// file to measure the disk, and removes it.
func (m *Machine) Inspect(ctx context.Context, goal machine.Goal) (machine.Observation, error) {
	m.inspecting = true
	defer func() { m.inspecting = false }()
	obs, err := m.Observe(ctx, goal)
	if err != nil {
		return obs, err
	}
	h := &obs.Host
	for _, at := range machine.Listeners(m.cfg) {
		if taken(at.Addr().String(), int(at.Port())) {
			h.Ports = append(h.Ports, machine.Port{Port: int(at.Port()), Ours: runsEtcd(obs)})
		}
	}
	if len(h.Ports) > 0 && !runsEtcd(obs) {
		// It may have begun since: whoever started it was killed a moment ago.
		again, err := m.Observe(ctx, goal)
		for i := range h.Ports {
			h.Ports[i].Ours = err == nil && runsEtcd(again)
		}
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		h.MemoryBytes = int64(uint64(info.Totalram) * uint64(info.Unit))
	}
	h.ReadOnly, h.Forbidden = readOnly(m.cfg)
	if obs.Data.State == cluster.DiskEmpty {
		h.SyncTime = syncTime(nearest(m.cfg.Paths.Data))
	}
	h.Leftovers = leftovers(m.cfg)
	h.SnapshotProblem = m.snapshotProblem(ctx)
	if goal.Action == machine.Join && obs.Remote.Answered {
		obs.Remote.ClockSkew = m.skew(ctx)
		obs.Remote.ClosedPeers = m.closedPeers(ctx, obs.Remote.Members)
		obs.Remote.Apart = m.Apart(ctx, obs.Remote.Members)
	}
	return obs, nil
}

// runsEtcd reports whether the machine's own etcd runs: then whoever has its ports is that.
func runsEtcd(obs machine.Observation) bool {
	return obs.Local != nil || obs.Service.Active() && obs.Service.Enabled && obs.Service.Foreign == ""
}

// snapshotProblem says why the snapshot to begin with cannot be used.
func (m *Machine) snapshotProblem(ctx context.Context) string {
	s := m.cfg.Snapshot
	if s.File == "" {
		return ""
	}
	status, err := snapshot.Read(ctx, s.File)
	switch {
	case err != nil:
		return err.Error()
	case !status.Digest && !s.SkipHashCheck:
		return fmt.Sprintf("%s has no digest: it was copied, not saved", s.File)
	case !status.StorageVersion.IsZero() &&
		!m.cfg.Version.AtLeast(status.StorageVersion.Major, status.StorageVersion.Minor):
		return fmt.Sprintf("%s is of etcd %s, and %s does not start on it", s.File, status.StorageVersion, m.cfg.Version)
	}
	return ""
}

// taken says whether somebody listens at the address: the only way to know is
// to try.
func taken(address string, port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err == nil {
		l.Close()
		return false
	}
	return errors.Is(err, syscall.EADDRINUSE)
}

// nearest returns path, or the first directory above it that exists.
func nearest(path string) string {
	for !exists(path) && path != filepath.Dir(path) {
		path = filepath.Dir(path)
	}
	return path
}

// readOnly returns the directories that are to be written and cannot be.
func readOnly(cfg machine.Config) (bad, forbidden []string) {
	dirs := []string{cfg.Paths.Data, cfg.Paths.Certificates, cfg.Paths.Environment}
	switch cfg.Service.InitSystem {
	case machine.Systemd:
		dirs = append(dirs, cfg.Paths.Install, cfg.Paths.Units)
	case machine.Process:
		dirs = append(dirs, cfg.Paths.Install)
	case machine.Kubelet:
		dirs = append(dirs, cfg.Paths.Manifests)
	}
	for _, dir := range dirs {
		at := nearest(dir)
		info, err := os.Stat(at)
		if err == nil && info.IsDir() {
			if err = unix.Access(at, unix.W_OK); err == nil {
				continue
			}
		}
		bad = append(bad, dir)
		// Of a mount that is read-only the modes of files come first.
		var fs unix.Statfs_t
		if errors.Is(err, unix.EACCES) && unix.Statfs(at, &fs) == nil && fs.Flags&unix.ST_RDONLY == 0 {
			forbidden = append(forbidden, dir)
		}
	}
	return bad, forbidden
}

// syncTime returns how long a small write takes to reach the disk below dir:
// the best of some, 0 where it cannot be measured.
func syncTime(dir string) time.Duration {
	f, err := os.CreateTemp(dir, ".etcdadm-sync-")
	if err != nil {
		return 0
	}
	defer os.Remove(f.Name())
	defer f.Close()
	best := time.Duration(0)
	for range 5 {
		began := time.Now()
		if _, err := f.Write(make([]byte, 2048)); err != nil {
			return 0
		}
		if err := f.Sync(); err != nil {
			return 0
		}
		if d := time.Since(began); best == 0 || d < best {
			best = d
		}
	}
	return best
}

// leftovers returns other things on the machine that would run an etcd.
func leftovers(cfg machine.Config) []string {
	candidates := []string{
		filepath.Join(cfg.Paths.Units, "etcd-member.service"), filepath.Join(cfg.Paths.Units, "etcd2.service"),
		filepath.Join(cfg.Paths.Manifests, "etcd.yaml"),
	}
	if cfg.Service.InitSystem == machine.Kubelet {
		candidates = append(candidates, filepath.Join(cfg.Paths.Units, "etcd.service"))
	} else {
		candidates = append(candidates, cfg.Paths.Manifest())
	}
	var found []string
	for _, path := range candidates {
		if exists(path) {
			found = append(found, path)
		}
	}
	return found
}

// skew returns the clock of the first endpoint that answers minus this
// machine's, to about a second: HTTP says no more.
func (m *Machine) skew(ctx context.Context) time.Duration {
	conf, err := m.credentials()
	if err != nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
	answers := make(chan time.Duration, len(m.o.Endpoints))
	for _, e := range m.o.Endpoints {
		go func() {
			if d, err := clockOf(ctx, client, e); err == nil {
				answers <- d
			}
		}()
	}
	select {
	case d := <-answers:
		return d
	case <-ctx.Done():
		return 0
	}
}

// clockOf returns how far the clock behind an endpoint is ahead, 0 where HTTP's
// whole seconds do not show.
func clockOf(ctx context.Context, client *http.Client, endpoint string) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/version", nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	there, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0, err
	}
	// They are cut off.
	if d := time.Until(there.Add(500 * time.Millisecond)); d.Abs() > time.Second {
		return d, nil
	}
	return 0, nil
}
