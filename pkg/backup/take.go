package backup

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/retention"
)

// A Snapshotter streams etcd's database: clientv3.Maintenance is one. A Read of
// the stream must end when the stream is closed or the context ends.
type Snapshotter interface {
	Snapshot(ctx context.Context) (io.ReadCloser, error)
}

// A Target is the part of a store that a backup is written to.
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

// TakeOptions say what Take backs up, and where to.
type TakeOptions struct {
	Source Snapshotter
	Store  Target
	// Info goes into the marker; its EtcdVersion is that of the member behind
	// Source. Its At is the time in the backup's name, and now if it is zero.
	Info Info
}

const (
	// maxNames is how many names of one second Take tries.
	maxNames = 100
	// cleanupTime bounds the removal of what must not stay, after the context
	// may have ended.
	cleanupTime = 30 * time.Second
)

// Take takes a backup and returns it. The stream is checked on its way; one that
// breaks off or does not match its digest (ErrDamaged) leaves no
// object. When the store fails at the marker, the data stays behind without one and
// is no backup; the store's owner finds it as a leftover. Then the marker
// may in fact have been written, and the backup be complete: it is never a
// marker without data.
func Take(ctx context.Context, o TakeOptions) (cluster.Backup, error) {
	if o.Info.EtcdVersion.IsZero() {
		return cluster.Backup{}, errors.New("take backup: the etcd version is not known")
	}
	if o.Info.At.IsZero() {
		o.Info.At = time.Now()
	}
	o.Info.At = o.Info.At.UTC().Truncate(time.Second)
	marker, err := o.Info.format()
	if err != nil {
		return cluster.Backup{}, fmt.Errorf("take backup: %w", err)
	}
	for sequence := 1; sequence <= maxNames; sequence++ {
		name := retention.Name(o.Info.At, sequence)
		made, err := o.takeAs(ctx, name, marker)
		if err != nil {
			return cluster.Backup{}, fmt.Errorf("take backup %s: %w", name, err)
		}
		if made {
			return cluster.Backup{Name: name, At: o.Info.At}, nil
		}
	}
	return cluster.Backup{}, fmt.Errorf("take backup: the store has %d backups of the second %s", maxNames, o.Info.At.Format(time.RFC3339))
}

// takeAs takes a backup under a name, and reports false if the name is taken.
func (o TakeOptions) takeAs(ctx context.Context, name string, marker []byte) (bool, error) {
	dataKey, markerKey := name+"/"+retention.DataFile, name+"/"+retention.MarkerFile
	// Ask first: finding out from Upload costs a whole snapshot.
	for _, key := range []string{markerKey, dataKey} {
		if taken, err := o.Store.Exists(ctx, key); err != nil || taken {
			return false, err
		}
	}
	if made, err := o.upload(ctx, dataKey); err != nil || !made {
		return false, err
	}
	made, err := o.Store.Create(ctx, markerKey, marker)
	if err == nil && !made {
		// A marker without data came up in the meantime: not ours.
		err = o.remove(ctx, dataKey)
	}
	return made, err
}

// errAbandoned ends the feeding of an upload that no longer reads.
var errAbandoned = errors.New("upload has ended")

// upload streams a snapshot into an object, and reports false if the key is
// taken. It returns after the goroutine that reads the snapshot has ended.
func (o TakeOptions) upload(ctx context.Context, key string) (bool, error) {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	fed := make(chan error, 1)
	go func() {
		err := feed(reading, w, o.Source)
		// In this order, so that an upload that ends by err finds err in fed.
		fed <- err
		w.CloseWithError(err)
	}()
	made, err := o.Store.Upload(ctx, key, r)
	var feedErr error
	select {
	case feedErr = <-fed:
	default:
		// What feed says now is our own doing.
		r.CloseWithError(errAbandoned)
		cancel()
		feedErr = errors.Join(errAbandoned, <-fed)
	}
	switch {
	case feedErr == nil:
		return made, err
	case made:
		// The target stored what it was told not to.
		return false, errors.Join(feedErr, o.remove(ctx, key))
	case errors.Is(feedErr, errAbandoned):
		return false, err
	}
	return false, feedErr
}

// feed writes a checked and compressed snapshot to w.
func feed(ctx context.Context, w io.Writer, source Snapshotter) error {
	snapshot, err := source.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	defer snapshot.Close()
	stop := context.AfterFunc(ctx, func() { snapshot.Close() })
	defer stop()
	zip, check := gzip.NewWriter(w), newChecker()
	if _, err := io.Copy(io.MultiWriter(check, zip), snapshot); err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	if err := check.check(); err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	return zip.Close()
}

// remove deletes an object even when the context has ended.
func (o TakeOptions) remove(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	return o.Store.Delete(ctx, key)
}
