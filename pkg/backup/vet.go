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
// once, as long as they do not change.
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
	// why is why it does not count, empty if it does.
	why string
}

// Vet returns the backups that count, in their order, and some of those that do
// not. An error says that the store did not answer; what has been found out is
// not asked for again.
func (v *Vetter) Vet(ctx context.Context, listed []cluster.Backup) (
	good []cluster.Backup, bad []cluster.Uncounted, err error) {
	whys, err := v.whys(ctx, listed)
	if err != nil {
		return nil, nil, err
	}
	good = make([]cluster.Backup, 0, len(listed))
	for i, b := range listed {
		switch {
		case whys[i] == "":
			good = append(good, b)
		case len(bad) < cluster.MaxUncounted:
			bad = append(bad, cluster.Uncounted{Name: b.Name, Why: whys[i]})
		}
	}
	return good, bad, nil
}

// whys returns for each backup why it does not count.
func (v *Vetter) whys(ctx context.Context, listed []cluster.Backup) ([]string, error) {
	v.mu.Lock()
	before := v.known
	v.mu.Unlock()
	whys, errs := make([]string, len(listed)), make([]error, len(listed))
	var asking errgroup.Group
	asking.SetLimit(vetReads)
	for i, b := range listed {
		if k, ok := before[b.Name]; ok && k.size == b.Size && k.files == b.Files {
			whys[i] = k.why
			continue
		}
		asking.Go(func() error {
			whys[i], errs[i] = v.why(ctx, b)
			return nil
		})
	}
	_ = asking.Wait() // none fails
	after, unread := make(map[string]vetted, len(listed)), 0
	var first error
	for i, b := range listed {
		if errs[i] == nil {
			after[b.Name] = vetted{b.Size, b.Files, whys[i]}
			continue
		}
		unread++
		whys[i], first = errs[i].Error(), errs[i]
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
		return whys, nil
	}
	// A part of the list: what is known of the rest stays.
	for name, k := range before {
		if _, ok := after[name]; !ok {
			after[name] = k
		}
	}
	v.known = after
	return whys, nil
}

// why reads about one backup. An error says nothing about it.
func (v *Vetter) why(ctx context.Context, b cluster.Backup) (string, error) {
	d, err := v.Fetch.describe(ctx, v.Store, b.Name)
	switch {
	case errors.Is(err, ErrFormat):
		return "", nil // of a later version of this project, which counts it
	case errors.Is(err, ErrDamaged), errors.Is(err, ErrSigner):
		return err.Error(), nil
	case err != nil:
		return "", err
	case d.Format == 0:
		return "", nil
	case d.Object.Size != b.Size:
		return fmt.Sprintf("its data has %d bytes, its description says %d", b.Size, d.Object.Size), nil
	case (d.Encryption != "") != b.Encrypted:
		return "its data is not in the form that its description says", nil
	}
	return "", nil
}
