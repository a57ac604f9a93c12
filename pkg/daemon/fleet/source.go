package fleet

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// readSource learns what is to be restored, once for each request, in the
// background too.
func (v *StoreView) readSource(ctx context.Context) {
	i := slices.IndexFunc(v.answer.Store.Requests, func(r cluster.Request) bool {
		return r.Kind == cluster.RequestRestore && !Decided(v.answer.Store.Incarnations, r)
	})
	if i < 0 {
		v.source, v.asking = nil, nil
		return
	}
	r := v.answer.Store.Requests[i]
	newest := v.catalog.newest()
	known := v.source != nil && v.source.Request == r.Name &&
		(v.source.Backup == r.Backup || r.Sealed) && (v.source.Backup != "" || v.source.Newest == newest)
	if !known && v.asking == nil {
		v.source = nil
		if r.Backup != "" { // it may have come after the last listing
			v.catalog.again = append(v.catalog.again, r.Backup)
		}
		list := slices.Clone(v.catalog.backups)
		v.asking = begin(ctx, v.quit, pollTime, func(ctx context.Context) (cluster.Source, error) {
			if r.Sealed {
				return v.describeSealed(ctx, r, list)
			}
			return v.describe(ctx, r, newest)
		})
	}
	if v.asking != nil && v.asking.over(ctx) {
		if src := v.asking.value; v.asking.err == nil && src.Request == r.Name && (src.Backup == r.Backup || r.Sealed) {
			v.source = &src
		}
		v.asking = nil
	}
	v.answer.Store.Source = v.source
}

// describe says what a request asks for. The newest backup shows a revision
// too, and the mark may be old where the store lets nothing be overwritten.
func (v *StoreView) describe(ctx context.Context, r cluster.Request, newest string) (cluster.Source, error) {
	src, err := Source(ctx, v.store, r, v.fetch)
	if err != nil || newest == "" {
		return src, err
	}
	last, err := Source(ctx, v.store, cluster.Request{Backup: newest}, v.fetch)
	src.Seen = max(src.Revision, last.Revision)
	return src, err
}

// clockSlack is how much earlier than its request a backup may seem to be that was taken
// for it: the clocks of two machines differ.
const clockSlack = time.Hour

// describeSealed looks for the backup that was taken for a sealed restore: the oldest one
// that says so, so that it stays the same one.
func (v *StoreView) describeSealed(ctx context.Context, r cluster.Request, list []cluster.Backup) (
	cluster.Source, error) {
	src := cluster.Source{Request: r.Name}
	list = cluster.Store{Backups: list}.Own()
	if len(list) > 0 {
		src.Newest = list[0].Name
	}
	for _, b := range slices.Backward(list) {
		if b.At.Before(r.At.Add(-clockSlack)) || b.Damaged {
			continue
		}
		d, err := backup.Describe(ctx, v.store, b.Name)
		if errors.Is(err, store.ErrUnreachable) || ctx.Err() != nil {
			return src, errors.Join(err, ctx.Err())
		}
		if err == nil && d.Reason == r.BackupReason() {
			found, err := v.describe(ctx, cluster.Request{Name: r.Name, Backup: b.Name}, src.Newest)
			found.Newest = src.Newest
			return found, err
		}
	}
	return src, nil
}

// Source describes the backup that a request asks for. What is wrong with it
// for good is said in it; an error says that the store did not answer.
func Source(ctx context.Context, s *store.Store, r cluster.Request, o backup.FetchOptions) (cluster.Source, error) {
	src := cluster.Source{Request: r.Name, Backup: r.Backup}
	d, err := backup.Inspect(ctx, s, r.Backup, o)
	switch {
	case errors.Is(err, store.ErrUnreachable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return src, err
	case errors.Is(err, store.ErrDenied):
		return src, err
	case err != nil:
		src.Problem = err.Error()
	default:
		src.Version, src.Storage, src.Revision, src.Size = d.EtcdVersion, d.StorageVersion, d.Revision, d.Content.Size
	}
	return src, nil
}
