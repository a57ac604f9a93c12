package backup

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

const (
	// vetReads is how many backups are read about at a time.
	vetReads = 8
	// maxUnread is how many backups may fail to be read about before it is the
	// store that fails, and not they.
	maxUnread = 8
)

// A Vetter says which backups of a listing count: those whose description, or
// marker where there is none, is what the listing shows, and which a trusted signer has
// signed where such are given. It reads no data, and of each backup the small files
// once, as long as they do not change. Where Fetch names a cluster, those that say that they
// are of another count as Foreign.
type Vetter struct {
	// Store is the one that is listed.
	Store Objects
	// Fetch says whose signatures count, and for which cluster.
	Fetch FetchOptions

	mu    sync.Mutex
	known map[string]vetted
}

// A vetted is what was found out about a backup.
type vetted struct {
	// of is the backup as it was listed.
	size  int64
	files cluster.BackupFiles
	finding
}

// A finding is what the files of a backup say of it.
type finding struct {
	// why is why it does not count, empty if it does.
	why string
	// foreign is the cluster that it is of, if that is another one.
	foreign string
}

// Vet returns the backups that count, in their order, and some of those that do
// not. An error says that the store did not answer; what has been found out is
// not asked for again.
func (v *Vetter) Vet(ctx context.Context, listed []cluster.Backup) (
	good []cluster.Backup, bad []cluster.Uncounted, err error) {
	found, err := v.find(ctx, listed)
	if err != nil {
		return nil, nil, err
	}
	good = make([]cluster.Backup, 0, len(listed))
	for i, b := range listed {
		switch {
		case found[i].why == "":
			b.Foreign = found[i].foreign
			good = append(good, b)
		case len(bad) < cluster.MaxUncounted:
			bad = append(bad, cluster.Uncounted{Name: b.Name, Why: found[i].why})
		}
	}
	return good, bad, nil
}

// find returns what is found of each backup.
func (v *Vetter) find(ctx context.Context, listed []cluster.Backup) ([]finding, error) {
	v.mu.Lock()
	before := v.known
	v.mu.Unlock()
	found, errs := make([]finding, len(listed)), make([]error, len(listed))
	var asking errgroup.Group
	asking.SetLimit(vetReads)
	for i, b := range listed {
		if k, ok := before[b.Name]; ok && k.size == b.Size && k.files == b.Files {
			found[i] = k.finding
			continue
		}
		asking.Go(func() error {
			found[i], errs[i] = v.read(ctx, b)
			return nil
		})
	}
	_ = asking.Wait() // none fails
	after, unread := make(map[string]vetted, len(listed)), 0
	var first error
	for i, b := range listed {
		if errs[i] == nil {
			after[b.Name] = vetted{b.Size, b.Files, found[i]}
			continue
		}
		unread++
		found[i], first = finding{why: errs[i].Error()}, errs[i]
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if ctx.Err() != nil || unread > maxUnread {
		// Of those that are not in this listing nothing is forgotten either.
		for name, k := range before {
			if _, ok := after[name]; !ok {
				after[name] = k
			}
		}
		v.known = after
		return nil, fmt.Errorf("read about backups: %w", errors.Join(ctx.Err(), first))
	}
	if v.known == nil || len(listed) >= len(v.known)/2 {
		v.known = after
		return found, nil
	}
	// A part of the list: what is known of the rest stays.
	for name, k := range before {
		if _, ok := after[name]; !ok {
			after[name] = k
		}
	}
	v.known = after
	return found, nil
}

// read reads about one backup. An error says nothing about it.
func (v *Vetter) read(ctx context.Context, b cluster.Backup) (finding, error) {
	d, err := v.Fetch.describe(ctx, v.Store, b.Name)
	switch {
	case errors.Is(err, ErrFormat):
		return finding{}, nil // of a later version of this project, which counts it
	case errors.Is(err, ErrDamaged), errors.Is(err, ErrSigner):
		return finding{why: err.Error()}, nil
	case err != nil:
		return finding{}, err
	case d.Format > 0 && d.Object.Size != b.Size:
		return finding{why: fmt.Sprintf("its data has %d bytes, its description says %d", b.Size, d.Object.Size)}, nil
	case d.Format > 0 && (d.Encryption != "") != b.Encrypted:
		return finding{why: "its data is not in the form that its description says"}, nil
	}
	return finding{foreign: v.Fetch.foreign(d)}, nil
}

// foreign returns the cluster that d is of, if it says one and that is not the one of o.
func (o FetchOptions) foreign(d Description) string {
	if o.Cluster == "" || d.Cluster == o.Cluster {
		return ""
	}
	return d.Cluster
}
