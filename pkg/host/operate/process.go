package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdrelease"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// outdated says whether the process runs with other variables of etcd than
// those that are written, from another unit, or from a file that was replaced. What cannot be read
// is taken to be right: a restart needs a reason.
func outdated(pid int, written map[string]string, mark, binary string) bool {
	if pid == 0 || len(written) == 0 {
		return false
	}
	// Before systemd's child becomes etcd, it has systemd's environment.
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil || filepath.Base(strings.TrimSuffix(exe, " (deleted)")) != filepath.Base(binary) {
		return false
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil || len(environ) == 0 {
		return false // an empty one is that of a process that is just being made
	}
	has, is := map[string]string{}, ""
	for line := range strings.SplitSeq(string(environ), "\x00") {
		if k, v, ok := strings.Cut(line, "="); ok && strings.HasPrefix(k, "ETCD_") {
			has[k] = v
		} else if k == initfiles.UnitVariable {
			is = v
		}
	}
	if is != mark {
		return true
	}
	for k, v := range written {
		if strings.HasPrefix(k, "ETCD_") && has[k] != v {
			return true
		}
	}
	for k := range has {
		if _, ok := written[k]; !ok {
			return true
		}
	}
	running, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return false
	}
	installed, err := os.Stat(binary)
	return err == nil && !os.SameFile(running, installed)
}

// ownedBy says whether a file belongs to o, or to whoever runs the command
// where nobody is wanted.
func ownedBy(info os.FileInfo, o *certs.FileOwner) bool {
	st, ok := sys(info)
	if o == nil {
		return ok && int(st.Uid) == os.Geteuid()
	}
	return ok && int(st.Uid) == o.UID && int(st.Gid) == o.GID
}

// listening says whether anybody listens at one of the URLs.
func listening(ctx context.Context, urls []string) bool {
	d := net.Dialer{Timeout: time.Second}
	for _, u := range urls {
		p, err := url.Parse(u)
		if err != nil {
			continue
		}
		if c, err := d.DialContext(ctx, "tcp", p.Host); err == nil {
			c.Close()
			return true
		}
	}
	return false
}

// versions remembers what binaries are, as long as the files stay the same:
// they are asked by running them.
type versions struct {
	mu   sync.Mutex
	key  string
	seen machine.Binary
}

func (v *versions) observe(ctx context.Context, dir string) machine.Binary {
	key, paths := "", []string(nil)
	for _, name := range []string{"etcd", "etcdctl", "etcdutl"} {
		path := dir + "/" + name
		info, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		paths = append(paths, path)
		if st, ok := sys(info); ok {
			key += fmt.Sprintf("%s %d %d %d;", path, st.Ino, st.Size, st.Ctim.Nano())
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if key == v.key && key != "" {
		return v.seen
	}
	found := etcdrelease.Present(ctx, dir)
	v.key, v.seen = key, machine.Binary{
		Etcd: found.Etcd.Version, Etcdctl: found.Etcdctl.Version, Etcdutl: found.Etcdutl.Version,
		Problem: cmp.Or(found.Etcd.Problem, found.Etcdctl.Problem, found.Etcdutl.Problem), Paths: paths,
	}
	return v.seen
}

func sys(info os.FileInfo) (*syscall.Stat_t, bool) {
	if info == nil {
		return nil, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return st, ok
}
