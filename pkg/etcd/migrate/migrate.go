// Package migrate makes a snapshot of what a stopped member of etcd 2, or of etcd 3.0 to
// 3.3, has in its data directory: the keys of its v2 store as v3 keys of the same names,
// beside the v3 keys that it has.
//
// The directory is only read. The etcd of its version runs on a copy, alone, and reads its
// own log to the end; what it then writes is what is converted.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/hazards"
)

// A RefusedError says why nothing is migrated, and what to do.
type RefusedError struct{ Text, Next string }

func (e *RefusedError) Error() string { return e.Text }

// Hint says what to do about it.
func (e *RefusedError) Hint() string { return e.Next }

// Kind is the kind of its exit code.
func (e *RefusedError) Kind() string { return "refused" }

func refuse(next, format string, args ...any) error {
	return &RefusedError{fmt.Sprintf(format, args...), next}
}

// Of two keys of one name, one in each store, Keep says which stays.
const (
	KeepNone = ""
	KeepV2   = "v2"
	KeepV3   = "v3"
)

// Options say what is migrated and how.
type Options struct {
	Dir datadir.Dir
	// Work is a directory that is made for the copy, and removed at the end.
	Work   string
	Finder etcdbin.Finder
	// Version is the etcd to read the data with, zero for the newest there is of the
	// data's minor version.
	Version etcdversion.Version
	Keep    string
	// DiscardTail accepts that entries which were not known to be committed are left out.
	DiscardTail bool
	// ShareNetwork runs the copy in the network of the machine, on its loopback.
	ShareNetwork bool
	// Say receives how it goes on.
	Say func(format string, args ...any)
}

// A Plan is what will be done with a directory.
type Plan struct {
	Version etcdversion.Version `json:"etcdVersion"`
	// ClusterVersion is what the data says.
	ClusterVersion etcdversion.Version `json:"clusterVersion,omitzero"`
	Binary         string              `json:"binary"`
	Members        int                 `json:"members"`
	// Uncommitted is how many entries at the end of the log are left out.
	Uncommitted int `json:"uncommitted,omitempty"`
	// Bytes is the size of what is copied.
	Bytes int64 `json:"bytes"`

	database bool
}

// A Result is what was migrated.
type Result struct {
	Plan
	// V2Keys and V3Keys are how many keys of each store are in the snapshot.
	V2Keys int `json:"v2Keys"`
	V3Keys int `json:"v3Keys"`
	// Expired are keys of the v2 store whose time had passed, Directories those that v3
	// has no equivalent for. Leases were made of times to live.
	Expired     int `json:"expired,omitempty"`
	Directories int `json:"directories"`
	Leases      int `json:"leases"`
	// Users are the users and roles of v2's authentication, which are not migrated.
	Users int `json:"v2Users,omitempty"`
	// Replaced and Dropped are the keys of both stores that were decided by Keep: v3 keys
	// that a v2 key took the place of, and v2 keys that were left out.
	Replaced int              `json:"replaced,omitempty"`
	Dropped  int              `json:"dropped,omitempty"`
	Revision cluster.Revision `json:"revision"`
	// Source is the SHA-256 of what was read.
	Source string `json:"source"`
}

// Examine says what would be done, and refuses what cannot be. Nothing is written.
func Examine(ctx context.Context, o Options) (Plan, error) {
	c, err := hazards.Read(o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Plan{}, refuse("name the directory that contains member/, and --wal-dir if etcd had one",
			"%s is not a data directory of etcd: %v", o.Dir.Data, err)
	}
	if err != nil {
		return Plan{}, refuse("migrate the directory of another member of this cluster", "%s cannot be read: %v",
			o.Dir.Data, err)
	}
	if c.ClusterVersion.AtLeast(3, 4) {
		return Plan{}, refuse("it can be upgraded in place: etcdadm upgrade plan", "%s has data of etcd %d.%d",
			o.Dir.Data, c.ClusterVersion.Major, c.ClusterVersion.Minor)
	}
	p := Plan{ClusterVersion: c.ClusterVersion, Members: c.Members, database: c.Database}
	if p.Version, p.Binary, err = o.binary(ctx, c); err != nil {
		return Plan{}, err
	}
	// An etcd that is the only member commits what its log has; the others are not asked.
	if c.Members != 1 {
		p.Uncommitted = c.Uncommitted
	}
	if p.Uncommitted > 0 && !o.DiscardTail {
		return Plan{}, refuse("migrate the directory of a member with more entries; or run the same command with "+
			"--discard-uncommitted to drop them",
			"the log of %s ends with %d entries that may not have been committed",
			o.Dir.Data, p.Uncommitted)
	}
	p.Bytes, err = o.room()
	return p, err
}

// binary finds the etcd to read the data with.
func (o Options) binary(ctx context.Context, c hazards.Contents) (v etcdversion.Version, path string, err error) {
	want, v := c.ClusterVersion, o.Version
	if want.IsZero() && v.IsZero() {
		return v, "", refuse("name the etcd that wrote it: --etcd-version=2.3.8",
			"%s does not say which version of etcd wrote it", o.Dir.Data)
	}
	if !v.IsZero() && (v.AtLeast(3, 4) || !v.AtLeast(want.Major, want.Minor)) {
		return v, "", refuse(fmt.Sprintf("name one from %d.%d to 3.3, or none", max(want.Major, 2), want.Minor),
			"etcd %s cannot read this data, which is of %d.%d", v, want.Major, want.Minor)
	}
	if v.IsZero() {
		for _, has := range o.Finder.Versions() {
			if has.Major == want.Major && has.Minor == want.Minor {
				v = has
			}
		}
	}
	if v.IsZero() {
		return v, "", refuse(fmt.Sprintf("put a release of etcd %d.%d into a directory DIR/etcd-v%d.%d.N and name "+
			"--etcd-dir=DIR; a later minor version up to 3.3 reads it too, with --etcd-version", want.Major, want.Minor,
			want.Major, want.Minor), "the data is of etcd %d.%d, but this machine has no binary of it", want.Major,
			want.Minor)
	}
	bin, err := o.Finder.Find(v)
	if err != nil {
		return v, "", err
	}
	is, err := etcdbin.Probe(ctx, bin.Etcd)
	if err == nil && (is.Major != v.Major || is.Minor != v.Minor) {
		err = refuse("put the right release there, or name another --etcd-dir", "%s is etcd %s, and not %s", bin.Etcd, is, v)
	}
	return is, bin.Etcd, err
}

// Make writes the snapshot to the file out. It can be interrupted and called again.
// known is called with the digest of what is read before an etcd runs on it: it reports
// whether that has been migrated before, so that nothing is to be done.
func Make(ctx context.Context, o Options, out string, known func(source string) (bool, error)) (r Result, done bool,
	err error) {
	if r.Plan, err = Examine(ctx, o); err != nil {
		return r, false, err
	}
	w, err := claimWork(o.Work)
	if err != nil {
		return r, false, err
	}
	defer func() { err = errors.Join(err, w.remove()) }()
	data := filepath.Join(o.Work, "data")
	o.Say("copying %s", o.Dir.Data)
	if r.Source, err = o.copy(ctx, data); err != nil {
		return r, false, err
	}
	if there, err := known(r.Source); err != nil || there {
		return r, there, err
	}
	o.Say("reading it with etcd %s", r.Version)
	snap, err := replay(ctx, o, r.Plan, data)
	if err != nil {
		return r, false, err
	}
	store, err := readStore(snap)
	if err != nil {
		return r, false, fmt.Errorf("read the v2 store: %w", err)
	}
	o.Say("converting %d keys of the v2 store", len(store.keys))
	return r, false, convert(ctx, o, &r, store, data, out)
}

// convert writes the snapshot, and compares it with what it was made of.
func convert(ctx context.Context, o Options, r *Result, store v2Store, data, out string) error {
	now := time.Now()
	base := ""
	if r.database || exists(datadir.At(data).Database()) {
		base = datadir.At(data).Database()
	}
	old, err := readOld(ctx, base)
	if err != nil {
		return err
	}
	defer old.close()
	c, err := plan(store, old, o.Keep, now)
	if err != nil {
		return err
	}
	r.V2Keys, r.Leases, r.Expired, r.Directories, r.Users = len(c.puts), len(c.leases), c.expired, store.directories,
		store.users
	r.Replaced, r.Dropped, r.V3Keys = c.replaced, c.dropped, len(old.keys)-c.replaced
	part := out + ".db"
	defer os.Remove(part)
	if err := write(ctx, base, part, c); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	if err := seal(part, out); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	r.Revision, err = verify(ctx, out, old, c)
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
