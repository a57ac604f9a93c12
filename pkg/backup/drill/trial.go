package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdutl"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/keyspace"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// A Trial says what [Trial.Run] restores.
type Trial struct {
	// File is a snapshot file, or a database without digest.
	File string
	// Version is the etcd that the file is of; zero is for what the file itself
	// says, which is a minor version.
	Version etcdversion.Version
	// Finder finds the binaries.
	Finder etcdbin.Finder
	// TempDir is where the scratch directory is made, by default the system's
	// directory for temporary files. It needs room for the database.
	TempDir string
	// StartTimeout is how long etcd may take until it serves, by default 10
	// minutes.
	StartTimeout time.Duration
	// Progress, if not nil, receives what is being done.
	Progress func(stage string)

	// expected is what the file says, nil if that is to be read.
	expected *expectation
}

// A Result is what a trial found out.
type Result struct {
	// Etcd is the version that was started.
	Etcd etcdversion.Version `json:"etcd"`
	// Revision, Keys and Hash were read from that etcd, and are those of the file.
	// HashCompared is false for an etcd of which it is not known how it computes
	// the hash, which then counts for nothing.
	Revision     cluster.Revision `json:"revision"`
	Keys         int64            `json:"keys"`
	Hash         uint32           `json:"hash"`
	HashCompared bool             `json:"hashCompared"`
	// Size is the file's, in bytes.
	Size int64 `json:"size"`
	// Restore is how long it took to make the data directory, Start how long until
	// etcd served: together what a restore would take, besides fetching it.
	Restore time.Duration `json:"restore"`
	Start   time.Duration `json:"start"`
	// Disk is what the data directory took, Memory the most that etcd did, in
	// bytes.
	Disk   int64 `json:"disk"`
	Memory int64 `json:"memory"`
}

// A MismatchError says that a backup has not what it should: its database not
// what the description says, or an etcd that was restored from it not what
// the file says. It is a snapshot.ErrDamaged.
type MismatchError struct {
	// Where is who has Got of What instead of Want.
	Where, What, Want, Got string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("the %s has the %s %s, it should be %s", e.Where, e.What, e.Got, e.Want)
}

// Is says that a backup that becomes something else is damaged.
func (e *MismatchError) Is(target error) bool { return target == snapshot.ErrDamaged }

const (
	memberName = "drill"
	peerURL    = "http://drill.invalid:2380"

	startTimeout = 10 * time.Minute
	// askTimeout bounds the comparison, in which etcd reads its database twice.
	askTimeout = 10 * time.Minute
	// walRoom is what etcd's log takes on the disk from the start: two segments of
	// 64 MiB.
	walRoom = 160 << 20
)

// Run restores the file with etcd's own tool into a scratch directory, starts
// an etcd on it, compares what that has with what the file has, and removes
// everything. What is not the file's fault, such as a missing etcd, is not
// snapshot.ErrDamaged.
func (t Trial) Run(ctx context.Context) (Result, error) {
	r, err := t.run(ctx)
	if err != nil {
		return r, fmt.Errorf("restore %s as a trial: %w", t.File, err)
	}
	return r, nil
}

func (t Trial) stage(text string) {
	if t.Progress != nil {
		t.Progress(text)
	}
}

func (t Trial) run(ctx context.Context) (r Result, err error) {
	if !t.Version.IsZero() {
		// Reading the file takes a while.
		if _, err := choose(t.Finder.Versions(), t.Version); err != nil {
			return r, err
		}
	}
	want, err := t.expect(ctx)
	if err != nil {
		return r, err
	}
	bin, tool, err := t.programs(ctx, want.Sum)
	if err != nil {
		return r, err
	}
	r.Size = want.Sum.Size
	if r.Etcd, err = etcdbin.Probe(ctx, bin.Etcd); err != nil {
		return r, err
	}
	scratch, err := NewScratch(t.TempDir, want.Sum.Size+walRoom)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, scratch.Remove()) }()
	quietly(func() { err = t.perform(ctx, &r, want, bin, tool, scratch) })
	return r, err
}

func (t Trial) expect(ctx context.Context) (expectation, error) {
	if t.expected != nil {
		return *t.expected, nil
	}
	t.stage("read the file")
	return inspect(ctx, question{Path: t.File, Hash: true}, nil)
}

// programs finds the etcd for the file and the tool that restores for it.
func (t Trial) programs(ctx context.Context, sum keyspace.Summary) (etcdbin.Binaries, etcdutl.Tool, error) {
	want := t.Version
	if want.IsZero() {
		want = sum.StorageVersion
	}
	if want.IsZero() {
		want = sum.ClusterVersion
	}
	if want.IsZero() {
		return etcdbin.Binaries{}, etcdutl.Tool{}, errors.New("its etcd version is unknown; name it")
	}
	v, err := choose(t.Finder.Versions(), want)
	if err != nil {
		return etcdbin.Binaries{}, etcdutl.Tool{}, err
	}
	bin, err := t.Finder.Find(v)
	if err != nil {
		return bin, etcdutl.Tool{}, err
	}
	tool, err := etcdutl.Find(ctx, bin.Dir, v)
	return bin, tool, err
}

// perform restores, starts and compares.
func (t Trial) perform(ctx context.Context, r *Result, want expectation, bin etcdbin.Binaries, tool etcdutl.Tool,
	scratch *Scratch) error {
	t.stage("restore it")
	data := scratch.Join("data")
	began := time.Now()
	err := tool.Restore(ctx, etcdutl.RestoreOptions{
		Snapshot: t.File, SkipHashCheck: !want.Sum.Digest, DataDir: data, Name: memberName, PeerURLs: []string{peerURL},
		Token: memberName,
	})
	if err != nil {
		return err
	}
	r.Restore = time.Since(began)
	if err := openToAll(ctx, datadir.At(data).Database()); err != nil {
		return err
	}
	t.stage("start etcd on it")
	began = time.Now()
	p, err := start(bin.Etcd, scratch.Path, data, want.Sum.Size)
	if err != nil {
		return err
	}
	err = t.compare(ctx, r, want, p, scratch, began)
	r.Memory = p.peakMemory()
	return errors.Join(err, p.kill())
}

// compare waits until etcd serves and reads what it has.
func (t Trial) compare(ctx context.Context, r *Result, want expectation, p *process, scratch *Scratch,
	began time.Time) error {
	c, dir, err := dial(scratch.Path)
	if err != nil {
		return err
	}
	defer dir.Close()
	defer c.Close()
	limit := t.StartTimeout
	if limit == 0 {
		limit = startTimeout
	}
	starting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = p.await(starting, func(ctx context.Context) error {
		_, err := c.Get(ctx, "health", clientv3.WithKeysOnly())
		return err
	})
	if err != nil {
		return err
	}
	r.Start = time.Since(began)
	if r.Disk, err = hostfs.DirSize(scratch.Join("data")); err != nil {
		return err
	}
	t.stage("compare its content")
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return r.ask(asking, c, want)
}

// ask reads revision, keys and hash as of the file's revision: leases may have
// ended since.
func (r *Result) ask(ctx context.Context, c *clientv3.Client, want expectation) error {
	rev := int64(want.Sum.Revision)
	keys, err := c.Get(ctx, "", clientv3.WithFromKey(), clientv3.WithCountOnly(), clientv3.WithRev(rev))
	if err != nil {
		return fmt.Errorf("count the keys: %w", err)
	}
	r.Revision, r.Keys = want.Sum.Revision, keys.Count
	if keys.Header.Revision < rev {
		return &MismatchError{"restored etcd", "revision", strconv.FormatInt(rev, 10),
			strconv.FormatInt(keys.Header.Revision, 10)}
	}
	if r.Keys != int64(want.Sum.Keys) {
		return &MismatchError{"restored etcd", "number of keys", strconv.Itoa(want.Sum.Keys), strconv.FormatInt(r.Keys, 10)}
	}
	h, err := c.HashKV(ctx, c.Endpoints()[0], rev)
	if errors.Is(err, rpctypes.ErrCompacted) && !hashKnown(r.Etcd) {
		// etcd 3.4 has none of the last compaction's revision, and is not compared anyway.
		h, err = c.HashKV(ctx, c.Endpoints()[0], 0)
	}
	if err != nil {
		return fmt.Errorf("ask for the hash: %w", err)
	}
	r.Hash = h.Hash
	r.HashCompared = hashKnown(r.Etcd) && h.CompactRevision == int64(want.Hash.CompactRevision)
	if r.HashCompared && h.Hash != want.Hash.Hash {
		return &MismatchError{"restored etcd", "hash", fmt.Sprintf("%08x", want.Hash.Hash), fmt.Sprintf("%08x", h.Hash)}
	}
	return nil
}

// hashKnown says whether keyspace computes the hash as an etcd does.
func hashKnown(v etcdversion.Version) bool {
	return v.Compare(etcdversion.Version{Major: 3, Minor: 5, Patch: 16}) >= 0 && !v.AtLeast(3, 8)
}

// dial returns a client of the etcd in a directory. The path of a socket may
// be no longer than about a hundred bytes; through an open directory every path
// is short. The caller closes both, the client first.
func dial(dir string) (*clientv3.Client, *os.File, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	quick := backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.2, MaxDelay: 100 * time.Millisecond}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{fmt.Sprintf("unix:///proc/self/fd/%d/%s", d.Fd(), socket)},
		Logger:    zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}),
		},
	})
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	return c, d, nil
}
