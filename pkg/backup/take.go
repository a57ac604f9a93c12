package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// A Snapshotter streams etcd's database: clientv3.Maintenance is one. A Read of
// the stream must end when the stream is closed or the context ends.
type Snapshotter interface {
	Snapshot(ctx context.Context) (io.ReadCloser, error)
}

// A KeyCounter is a Snapshotter that knows how many keys there were at a
// revision.
type KeyCounter interface {
	CountKeys(ctx context.Context, at cluster.Revision) (int64, error)
}

// A Target is the part of a store that a backup is written to. A Target that
// refuses Exists, Delete and Get is good enough.
type Target interface {
	// Exists reports whether an object is there.
	Exists(ctx context.Context, key string) (bool, error)
	// Upload stores what r holds until its end, if the key is free, and reports
	// whether it did. If r fails, nothing is stored.
	Upload(ctx context.Context, key string, r io.Reader) (bool, error)
	// Create stores a small object, if the key is free, and reports whether it did.
	Create(ctx context.Context, key string, b []byte) (bool, error)
	// Delete removes an object.
	Delete(ctx context.Context, key string) error
}

// TakeOptions say what is backed up by Take, how, and where to.
type TakeOptions struct {
	Source Snapshotter
	Store  Target
	// Info goes into the marker; its EtcdVersion is that of the member behind
	// Source. Its At is the time in the backup's name, and now if it is zero.
	Info Info
	// Facts go into the description. A Source that is a [KeyCounter] is asked for
	// the number of keys at their revision, where they do not say it.
	Facts Facts
	// Compression is Gzip, also if it is empty, or Zstd.
	Compression string
	// Recipients can decrypt the backup. Without any it is not encrypted.
	Recipients []Recipient
	// Signer signs the description, nil for nobody.
	Signer *Signer
	// Tool is the name and version of the program, for the description.
	Tool string
	// Stall is how long the source may give nothing before it counts as broken;
	// zero is without limit.
	Stall time.Duration
	// Progress, if not nil, receives how many bytes of the snapshot have been
	// read so far.
	Progress func(n int64)
}

const (
	// maxNames is how many names of one second Take tries.
	maxNames = 100
	// cleanupTime bounds the removal of what must not stay, after the context
	// may have ended.
	cleanupTime = 30 * time.Second
	// countTime is how long the number of keys is waited for.
	countTime = 10 * time.Second
)

// Take takes a backup and returns it. The stream is checked on its way; one that
// breaks off or does not match its digest (ErrDamaged) leaves no
// object, if the store lets it be removed. When the store fails at the marker,
// the rest stays behind without one and is no backup; the store's owner finds it
// as a leftover. Then the marker may in fact have been written, and the backup
// be complete: it is never a marker without data.
func Take(ctx context.Context, o TakeOptions) (cluster.Backup, error) {
	if o.Info.EtcdVersion.IsZero() {
		return cluster.Backup{}, errors.New("take backup: the etcd version is unknown")
	}
	if o.Info.At.IsZero() {
		o.Info.At = time.Now()
	}
	o.Info.At = o.Info.At.UTC().Truncate(time.Second)
	if o.Compression == "" {
		o.Compression = Gzip
	}
	if o.Facts.Keys <= 0 {
		o.Facts.Keys = o.countKeys(ctx)
	}
	if err := o.tryForm(); err != nil {
		return cluster.Backup{}, fmt.Errorf("take backup: %w", err)
	}
	for sequence := 1; sequence <= maxNames; sequence++ {
		name := retention.Name(o.Info.At, sequence)
		t := &taking{TakeOptions: o, name: name}
		made, err := t.run(ctx)
		if err != nil {
			return cluster.Backup{}, fmt.Errorf("take backup %s: %w", name, err)
		}
		if made {
			return cluster.Backup{Name: name, At: o.Info.At, Size: t.object.Size, Encrypted: len(o.Recipients) > 0}, nil
		}
	}
	return cluster.Backup{},
		fmt.Errorf("take backup: the store has %d backups of the second %s", maxNames, o.Info.At.Format(time.RFC3339))
}

// countKeys returns how many keys there are at the revision of the facts, -1 where
// that cannot be known: no backup fails for that.
func (o TakeOptions) countKeys(ctx context.Context) int64 {
	counter, ok := o.Source.(KeyCounter)
	if !ok || o.Facts.Revision == 0 {
		return -1
	}
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	n, err := counter.CountKeys(ctx, o.Facts.Revision)
	if err != nil {
		return -1
	}
	return n
}

// tryForm reports why nothing can be compressed and encrypted as it is asked
// for, before a snapshot is read.
func (o TakeOptions) tryForm() error {
	p, err := newPacker(o.Compression, o.Recipients, io.Discard)
	if err != nil {
		return err
	}
	return p.Close()
}

// A taking is the attempt to take a backup under one name.
type taking struct {
	TakeOptions
	name string
	// content and object are what was uploaded.
	content, object Digest
}

func (t *taking) encryption() string {
	if len(t.Recipients) > 0 {
		return Age
	}
	return ""
}

func (t *taking) key(file string) string { return t.name + "/" + file }

// run takes the backup, and reports false if the name is taken.
func (t *taking) run(ctx context.Context) (bool, error) {
	data := dataFile(t.Compression, t.encryption())
	if taken, err := t.taken(ctx, retention.MarkerFile, data); err != nil || taken {
		return false, err
	}
	if made, err := t.upload(ctx, t.key(data)); err != nil || !made {
		return false, err
	}
	files, err := t.files()
	if err != nil {
		return false, err
	}
	written := []string{data}
	for _, f := range files {
		made, err := t.create(ctx, f)
		if made {
			written = append(written, f.name)
			continue
		}
		if err != nil && f.name == retention.MarkerFile {
			// It may be there: what belongs to it stays.
			return false, err
		}
		// Another writer has the name, or nothing more can be written.
		if removing := t.remove(ctx, written...); err != nil && removing != nil {
			err = fmt.Errorf("%w (and it could not be removed: %w)", err, removing)
		}
		return false, err
	}
	return true, nil
}

// taken asks whether the name is taken: finding out from Upload costs a whole
// snapshot. A store that does not say is one of which only Upload shows it.
func (t *taking) taken(ctx context.Context, files ...string) (bool, error) {
	for _, file := range files {
		there, err := t.Store.Exists(ctx, t.key(file))
		if there || ctx.Err() != nil {
			return there, ctx.Err()
		}
		if err != nil {
			return false, nil
		}
	}
	return false, nil
}

// A file is a small object of a backup.
type file struct {
	name    string
	content []byte
}

// files returns the small objects in the order in which they are written.
func (t *taking) files() ([]file, error) {
	marker, err := t.Info.format()
	if err != nil {
		return nil, err
	}
	d := Description{
		Format: format, Name: t.name, Info: t.Info, Facts: t.Facts, Content: t.content, Object: t.object,
		Marker: digestOf(marker), Compression: t.Compression, Encryption: t.encryption(), Tool: t.Tool,
	}
	for _, r := range t.Recipients {
		d.Recipients = append(d.Recipients, r.String())
	}
	if t.Signer != nil {
		d.Signer = t.Signer.ID()
	}
	description, err := d.Encode()
	if err != nil {
		return nil, err
	}
	files := []file{{retention.DescriptionFile, description}}
	if t.Signer != nil {
		b, err := t.Signer.sign(files[0].content)
		if err != nil {
			return nil, err
		}
		files = append(files, file{retention.SignatureFile, b})
	}
	return append(files, file{retention.MarkerFile, marker}), nil
}

// retryWaits are the pauses between the attempts to write a small object.
var retryWaits = []time.Duration{250 * time.Millisecond, time.Second, 3 * time.Second}

// create writes a small object, in some attempts, and reports false if another
// writer has its key.
func (t *taking) create(ctx context.Context, f file) (bool, error) {
	made, err := t.Store.Create(ctx, t.key(f.name), f.content)
	if err == nil {
		return made, nil
	}
	for _, pause := range retryWaits {
		if wait.For(ctx, pause) != nil {
			return false, err
		}
		made, again := t.Store.Create(ctx, t.key(f.name), f.content)
		if again == nil {
			return made || t.ours(ctx, f), nil
		}
		err = again
	}
	return false, err
}

// ours reports whether an object that came up during a failed attempt is of
// that attempt.
func (t *taking) ours(ctx context.Context, f file) bool {
	store, ok := t.Store.(interface {
		Get(ctx context.Context, key string) ([]byte, error)
	})
	if ok {
		if b, err := store.Get(ctx, t.key(f.name)); err == nil {
			return bytes.Equal(b, f.content)
		}
	}
	// Who has written the description owns the name. Where nobody says whose
	// that is, another name is the way out.
	return f.name != retention.DescriptionFile
}

// remove deletes objects even when the context has ended, the last one first.
func (t *taking) remove(ctx context.Context, files ...string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	var all error
	for i := range files {
		all = errors.Join(all, t.Store.Delete(ctx, t.key(files[len(files)-1-i])))
	}
	return all
}
