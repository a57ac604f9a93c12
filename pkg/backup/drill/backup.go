package drill

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// Objects are the part of a store that backups are read from, and that what
// was found out is written to.
type Objects interface {
	backup.Objects
	// Put stores a small object over any present one.
	Put(ctx context.Context, key string, b []byte) error
}

// Options say how a backup is verified or drilled.
type Options struct {
	// Fetch says with which keys it is read, and whose signature it needs.
	// Progress of it is not used.
	Fetch backup.FetchOptions
	// TempDir is where the scratch directory is made, by default the system's
	// directory for temporary files.
	TempDir string
	// By and Tool say in the record who found it out, and with which program.
	By, Tool string
	// Machine distinguishes this machine from others, by default backup.Machine(). A backup that
	// one machine finds to be damaged is suspect only; MarkDamaged has it count as damaged for
	// all, by the operator's word.
	Machine     string
	MarkDamaged bool
	// Finder finds the etcd for a drill, and Version is the one that the backup is
	// of; zero is for what the backup says.
	Finder  etcdbin.Finder
	Version etcdversion.Version
	// Progress, if not nil, receives what is being done, and how much of it, in
	// bytes. A total of -1 is unknown.
	Progress func(stage string, done, total int64)
	// Unrecorded, if not nil, receives why a record could not be written. That the
	// store denies it is no failure: what was found out is returned.
	Unrecorded func(error)
	// Now is the clock of the record, by default time.Now.
	Now func() time.Time
}

// Took is a duration that is written as in "12.3s".
type Took time.Duration

// MarshalText writes it, to the millisecond.
func (d Took) MarshalText() ([]byte, error) {
	return []byte(time.Duration(d).Round(time.Millisecond).String()), nil
}

// UnmarshalText reads it.
func (d *Took) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Took(v)
	return err
}

// A Verified is the record of a backup that was verified with success.
type Verified struct {
	Name string    `json:"name"`
	At   time.Time `json:"at,omitzero"`
	By   string    `json:"by,omitempty"`
	Tool string    `json:"tool,omitempty"`
	Took Took      `json:"took"`
	// Size is the snapshot's in bytes; Revision and Keys are what it holds.
	Size     int64            `json:"size"`
	Revision cluster.Revision `json:"revision"`
	Keys     int64            `json:"keys"`
	// Signer is the id of the trusted key whose signature was verified.
	Signer string `json:"signer,omitempty"`
}

// A Drilled is the record of a backup that was restored for a trial, with
// success.
type Drilled struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
	By   string    `json:"by,omitempty"`
	Tool string    `json:"tool,omitempty"`
	// Version is the etcd that was started on it.
	Version etcdversion.Version `json:"version"`
	// Took is what a restore of one member took: Fetch, Restore and Start
	// together. Members are restored at the same time.
	Took    Took `json:"took"`
	Fetch   Took `json:"fetch"`
	Restore Took `json:"restore"`
	Start   Took `json:"start"`

	Size     int64            `json:"size"`
	Revision cluster.Revision `json:"revision"`
	Keys     int64            `json:"keys"`
	// HashCompared says that etcd's hash of all keys was compared, not only their
	// number.
	HashCompared bool `json:"hashCompared"`
	// Disk and Memory are what that etcd took at most, in bytes.
	Disk   int64 `json:"disk"`
	Memory int64 `json:"memory"`
}

// Verify fetches a backup with all checks of backup.Fetch and walks through
// its database. The result is recorded beside the backup, and so is damage
// (backup.ErrDamaged), which makes it suspect. Any other error says nothing of the backup, and is not
// recorded.
func Verify(ctx context.Context, objects Objects, name string, o Options) (Verified, error) {
	o = o.withDefaults()
	began := o.Now()
	v, err := o.verify(ctx, objects, name)
	if err != nil {
		return v, o.failed(ctx, objects, name, fmt.Errorf("verify backup %s: %w", name, err))
	}
	v.Name, v.At, v.By, v.Tool, v.Took = name, o.Now().UTC(), o.By, o.Tool, Took(o.Now().Sub(began))
	o.record(ctx, objects, name+"/"+retention.VerifiedFile, v)
	return v, nil
}

// VerifyObject compares a backup's object with its description, which needs no
// key, see backup.VerifyObject. Damage is recorded as [Verify] does it, success
// is not: that the snapshot is whole was not seen.
func VerifyObject(ctx context.Context, objects Objects, name string, o Options) (Verified, error) {
	o = o.withDefaults()
	began := o.Now()
	d, err := backup.VerifyObject(ctx, objects, name, o.Fetch)
	if err != nil {
		return Verified{}, o.failed(ctx, objects, name, err)
	}
	v := Verified{Name: name, At: o.Now().UTC(), By: o.By, Tool: o.Tool, Took: Took(o.Now().Sub(began))}
	v.Size, v.Revision, v.Keys = d.Content.Size, d.Revision, max(d.Keys, 0)
	if d.Trusted {
		v.Signer = d.Signer
	}
	return v, nil
}

// Drill does what [Verify] does, and then restores the backup for a trial, see
// [Trial.Run]. The result is recorded beside the backup, as Verify does it.
func Drill(ctx context.Context, objects Objects, name string, o Options) (Drilled, error) {
	o = o.withDefaults()
	d, err := o.drill(ctx, objects, name)
	if err != nil {
		return d, o.failed(ctx, objects, name, fmt.Errorf("drill backup %s: %w", name, err))
	}
	d.Name, d.At, d.By, d.Tool = name, o.Now().UTC(), o.By, o.Tool
	o.record(ctx, objects, name+"/"+retention.DrilledFile, d)
	return d, nil
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Machine == "" {
		o.Machine = backup.Machine()
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if o.Unrecorded == nil {
		o.Unrecorded = func(error) {}
	}
	return o
}

func (o Options) verify(ctx context.Context, objects Objects, name string) (v Verified, err error) {
	f, err := Fetch(ctx, objects, name, o)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, f.Remove()) }()
	got, err := o.walk(ctx, f, false)
	if err != nil {
		return v, err
	}
	sum := got.Sum
	v = Verified{Size: sum.Size, Revision: sum.Newest, Keys: int64(sum.Keys)}
	if f.Description.Trusted {
		v.Signer = f.Description.Signer
	}
	return v, nil
}

// walk goes through the database of a fetched backup, in a process of its own, and compares
// it with what the backup says of itself. With hash that goes through it once more.
func (o Options) walk(ctx context.Context, f *Fetched, hash bool) (got expectation, err error) {
	got, err = inspect(ctx, question{Path: f.Path, SkipDigest: true, Hash: hash}, func(done, total int64) {
		o.Progress("read the whole database", done, total)
	})
	if err != nil {
		return got, err
	}
	sum, d := got.Sum, f.Description
	switch {
	case d.Revision > sum.Newest:
		return got, &MismatchError{"database", "revision", fmt.Sprint(d.Revision), fmt.Sprint(sum.Newest)}
	case d.Revision == sum.Newest && d.Keys > 0 && d.Keys != int64(sum.Keys):
		return got, &MismatchError{"database", "number of keys", fmt.Sprint(d.Keys), fmt.Sprint(sum.Keys)}
	}
	return got, nil
}

func (o Options) drill(ctx context.Context, objects Objects, name string) (d Drilled, err error) {
	began := time.Now()
	f, err := Fetch(ctx, objects, name, o)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, f.Remove()) }()
	d.Fetch = Took(time.Since(began))
	got, err := o.walk(ctx, f, true)
	if err != nil {
		return d, err
	}
	version := o.Version
	if version.IsZero() {
		version = f.Description.EtcdVersion
	}
	r, err := Trial{
		File: f.Path, Version: version, Finder: o.Finder, TempDir: o.TempDir,
		Progress: func(stage string) { o.Progress(stage, 0, -1) },
		expected: &got,
	}.Run(ctx)
	fetched := d.Fetch
	d = r.Drilled()
	d.Fetch = fetched
	d.Took += fetched
	return d, err
}

// Drilled returns the result as a record without a name.
func (r Result) Drilled() Drilled {
	return Drilled{
		Version: r.Etcd, Took: Took(r.Restore + r.Start), Restore: Took(r.Restore), Start: Took(r.Start),
		Size: r.Size, Revision: r.Revision, Keys: r.Keys, HashCompared: r.HashCompared, Disk: r.Disk, Memory: r.Memory,
	}
}

// failed records damage, and hands the error through.
func (o Options) failed(ctx context.Context, objects Objects, name string, err error) error {
	if !errors.Is(err, backup.ErrDamaged) {
		return err
	}
	f := backup.Finding{Name: name, At: o.Now().UTC(), By: o.By, Machine: o.Machine, Tool: o.Tool, Error: err.Error()}
	report := backup.ReportDamage
	if o.MarkDamaged {
		report = backup.MarkDamaged
	}
	if err := report(ctx, objects, f); err != nil {
		o.Unrecorded(err)
	}
	return err
}

// record writes what was found out. A store may deny that.
func (o Options) record(ctx context.Context, objects Objects, key string, v any) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = objects.Put(ctx, key, append(b, '\n'))
	}
	if err != nil {
		o.Unrecorded(fmt.Errorf("record the result: %w", err))
	}
}

// A Fetched is a backup as a file of its own.
type Fetched struct {
	*Scratch
	// Path is the file, with the snapshot as etcd sent it.
	Path        string
	Description backup.Description
}

// writeBuffer joins the pieces of a snapshot.
const writeBuffer = 1 << 20

// Fetch fetches a backup into a scratch directory, with all checks of
// backup.Fetch. The caller must remove it.
func Fetch(ctx context.Context, objects backup.Objects, name string, o Options) (*Fetched, error) {
	o = o.withDefaults()
	d, err := backup.Describe(ctx, objects, name)
	if err != nil {
		return nil, err
	}
	scratch, err := NewScratch(o.TempDir, d.Content.Size)
	if err != nil {
		return nil, err
	}
	f := &Fetched{Scratch: scratch, Path: scratch.Join("snapshot.db")}
	total := d.Content.Size
	if total == 0 {
		total = -1
	}
	o.Fetch.Progress = func(n int64) { o.Progress("fetch", n, total) }
	if err := o.bound(scratch.Path); err != nil {
		return nil, errors.Join(err, scratch.Remove())
	}
	if f.Description, err = f.fill(ctx, objects, name, o.Fetch); err != nil {
		return nil, errors.Join(err, scratch.Remove())
	}
	return f, nil
}

// reserve is what fetching leaves free on a disk that has as much.
const reserve = 256 << 20

// bound has a fetch not fill the disk: what an unsigned description says of the
// size is no bound, and others write to the disk meanwhile.
func (o *Options) bound(dir string) error {
	free, err := hostfs.FreeBytes(dir)
	if err != nil {
		return err
	}
	room := max(1, free-min(reserve, free/4))
	if o.Fetch.MaxBytes == 0 || o.Fetch.MaxBytes > room {
		o.Fetch.MaxBytes = room
	}
	return nil
}

func (f *Fetched) fill(ctx context.Context, objects backup.Objects, name string, o backup.FetchOptions) (
	backup.Description, error) {
	file, err := os.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return backup.Description{}, err
	}
	w := bufio.NewWriterSize(file, writeBuffer)
	d, err := backup.Fetch(ctx, objects, name, w, o)
	if err == nil {
		err = w.Flush()
	}
	return d, errors.Join(err, file.Close())
}
