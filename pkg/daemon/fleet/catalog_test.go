package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/snapshottest"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// A slow bucket has many backups, and takes its time for each page of a list.
type slow struct {
	driver.Bucket
	content *blob.Bucket
	page    time.Duration
	// pages counts the pages of the whole list that were read, and fail, if not
	// zero, is the one that fails, once.
	pages, fail atomic.Int64
}

var errBroken = errors.New("connection reset")

func (s *slow) ListPaged(ctx context.Context, o *driver.ListOptions) (*driver.ListPage, error) {
	select {
	case <-time.After(s.page):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	token := o.PageToken
	if len(token) == 0 {
		token = blob.FirstPageToken
	}
	if o.Prefix == "" {
		if n := s.pages.Add(1); n == s.fail.Load() {
			return nil, errBroken
		}
	}
	found, next, err := s.content.ListPage(ctx, token, o.PageSize, &blob.ListOptions{Prefix: o.Prefix})
	p := &driver.ListPage{NextPageToken: next}
	for _, f := range found {
		p.Objects = append(p.Objects, &driver.ListObject{Key: f.Key, Size: f.Size, ModTime: f.ModTime, MD5: f.MD5})
	}
	return p, err
}

func (s *slow) NewRangeReader(ctx context.Context, key string, _, _ int64, _ *driver.ReaderOptions) (
	driver.Reader, error) {
	r, err := s.content.NewReader(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	return reader{r}, nil
}

type reader struct{ *blob.Reader }

func (r reader) Attributes() *driver.ReaderAttributes {
	return &driver.ReaderAttributes{ModTime: r.ModTime(), Size: r.Size()}
}
func (reader) As(any) bool { return false }

func (*slow) ErrorCode(err error) gcerrors.ErrorCode { return gcerrors.Code(err) }
func (*slow) ErrorAs(error, any) bool                { return false }
func (*slow) As(any) bool                            { return false }
func (*slow) Close() error                           { return nil }

// A slowView is a view of a slow bucket with thousands of backups.
type slowView struct {
	t *testing.T
	*slow
	view *StoreView
}

func newSlowView(t *testing.T, backups int, page time.Duration) *slowView {
	c := &slowView{t: t, slow: &slow{content: memblob.OpenBucket(nil), page: page}}
	for i := range backups {
		c.backup(time.Now().Add(-time.Duration(i+100) * time.Hour))
	}
	c.put("control/etcd-cluster-spec", specText)
	c.view = NewStoreView(store.New(blob.NewBucket(c.slow)), time.Second, time.Now)
	t.Cleanup(c.view.Close)
	return c
}

func (c *slowView) put(key, text string) {
	c.t.Helper()
	must(c.t, c.content.WriteAll(c.t.Context(), key, []byte(text), nil))
}

func (c *slowView) backup(at time.Time) string {
	c.t.Helper()
	name := retention.Name(at, 1)
	c.put(name+"/"+retention.DataFile, "data")
	c.put(name+"/"+retention.MarkerFile, "{}")
	return name
}

// answer is what an observation gets, in at most the time that an observation gives it.
func (c *slowView) answer() observe.StoreAnswer {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
	defer cancel()
	began := time.Now()
	a := c.view.Answer(ctx)
	if took := time.Since(began); took > 2*time.Second {
		c.t.Errorf("an observation took %s", took)
	}
	return a
}

// twice observes twice: some answers come after the time of one observation.
func (c *slowView) twice() observe.StoreAnswer {
	c.t.Helper()
	c.answer()
	time.Sleep(time.Second)
	return c.answer()
}

// until observes once a second until the list is known.
func (c *slowView) until() (answers []observe.StoreAnswer) {
	c.t.Helper()
	for began := time.Now(); time.Since(began) < 10*time.Minute; time.Sleep(time.Second) {
		a := c.answer()
		answers = append(answers, a)
		if a.Store.BackupsKnown {
			return answers
		}
	}
	c.t.Fatal("the list is never known")
	return nil
}

// A list of backups that takes longer than an observation is read to its end, and the
// store is not unreachable meanwhile.
func TestALongListOfBackupsIsReadToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSlowView(t, 4500, 700*time.Millisecond) // 9 pages: 6.3s
		answers := c.until()
		if len(answers) < 2 {
			t.Fatal("it was not longer than an observation")
		}
		for _, a := range answers[:len(answers)-1] {
			if a.Err != nil || c.view.Spec() == nil {
				t.Errorf("meanwhile: spec %v, %v", c.view.Spec(), a.Err)
			}
			if a.Store.BackupsKnown || len(a.Store.Backups) > 0 || !strings.Contains(a.Store.BackupsProblem, "so far") {
				t.Errorf("meanwhile: known %t, %d, %q", a.Store.BackupsKnown, len(a.Store.Backups), a.Store.BackupsProblem)
			}
		}
		if last := answers[len(answers)-1]; len(last.Store.Backups) != 4500 || last.Store.BackupsProblem != "" {
			t.Errorf("%d backups, %q", len(last.Store.Backups), last.Store.BackupsProblem)
		}
		if n := c.pages.Load(); n != 10 {
			t.Errorf("%d pages were read, want 10", n)
		}
	})
}

// What was read before a failure is not read again.
func TestAListGoesOnAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSlowView(t, 4500, 100*time.Millisecond)
		c.fail.Store(6)
		answers := c.until()
		reported := false
		for _, a := range answers {
			reported = reported || strings.Contains(a.Store.BackupsProblem, errBroken.Error())
			if a.Err != nil {
				t.Errorf("meanwhile: %v", a.Err)
			}
		}
		if n := c.pages.Load(); !reported || n != 11 {
			t.Errorf("reported: %t, %d pages were read, want 10 and the one that failed", reported, n)
		}
	})
}

// Who has won the lease sees what the coordinator before it took.
func TestTheBackupsOfTheCoordinatorBeforeAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSlowView(t, 1, 0)
		c.until()
		taken := c.backup(time.Now())
		if a := c.answer(); len(a.Store.Backups) != 1 {
			t.Errorf("before there are %d", len(a.Store.Backups))
		}
		c.view.Relist()
		if a := c.answer(); len(a.Store.Backups) != 2 || a.Store.Backups[0].Name != taken {
			t.Errorf("afterwards there are %+v", a.Store.Backups)
		}
	})
}

// A backup that was just taken, verified or deleted is seen within two observations,
// however long the list is.
func TestChangesOfALongListAreSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSlowView(t, 4500, 500*time.Millisecond)
		c.until()
		pages := c.pages.Load()
		taken := c.backup(time.Now())
		c.view.Stale()
		time.Sleep(time.Second)
		a := c.twice()
		if len(a.Store.Backups) != 4501 || a.Store.Backups[0].Name != taken {
			t.Errorf("after a backup there are %d, the newest is %s", len(a.Store.Backups), a.Store.Backups[0].Name)
		}
		old := a.Store.Backups[4000].Name
		c.put(old+"/"+retention.VerifiedFile, "{}")
		c.view.Changed(old)
		time.Sleep(time.Second)
		if a = c.twice(); a.Store.Backups[4000].Name != old || a.Store.Backups[4000].Verified.IsZero() {
			t.Errorf("after a verification: %+v", a.Store.Backups[4000])
		}
		must(t, c.content.Delete(t.Context(), old+"/"+retention.MarkerFile))
		c.view.Pruned(old)
		if a = c.answer(); len(a.Store.Backups) != 4500 {
			t.Errorf("after a deletion there are %d", len(a.Store.Backups))
		}
		if n := c.pages.Load() - pages; n != 0 {
			t.Errorf("for that %d pages of the whole list were read", n)
		}
	})
}

// What others put into the store is seen within a minute where the list is
// short, or is of today.
func TestBackupsOfOthersAreSeen(t *testing.T) {
	for _, backups := range []int{0, 4500} {
		t.Run(fmt.Sprint(backups), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newSlowView(t, backups, 10*time.Millisecond)
				c.until()
				c.backup(time.Now())
				time.Sleep(backupsInterval + time.Second)
				if a := c.twice(); len(a.Store.Backups) != backups+1 {
					t.Errorf("there are %d", len(a.Store.Backups))
				}
			})
		})
	}
}

// A store that answers, but later than an observation waits, is not unreachable.
func TestASlowStoreIsNotUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSlowView(t, 3, 3*time.Second)
		c.until()
		for range 30 {
			time.Sleep(time.Second)
			if a := c.answer(); a.Err != nil || len(a.Store.Backups) != 3 {
				t.Errorf("%d backups, %v", len(a.Store.Backups), a.Err)
			}
		}
	})
}

func TestACatalogVets(t *testing.T) {
	h := newShop(t)
	h.backup("2026-11-20T10:00:00Z-000001")
	h.backup("2026-11-20T11:00:00Z-000001")
	h.view.catalog.vet = func(_ context.Context, listed []cluster.Backup) ([]cluster.Backup, []cluster.Uncounted, error) {
		return listed[1:], []cluster.Uncounted{{Name: listed[0].Name, Why: "not signed"}}, nil
	}
	a := h.answer()
	if len(a.Store.Backups) != 1 || len(a.Store.Uncounted) != 1 || a.Store.Uncounted[0].Why != "not signed" {
		t.Errorf("%+v", a.Store)
	}
}

// Where a signer is trusted, what is not signed counts nowhere; and what is not
// what it says counts with nobody trusted too.
func TestWhatIsNotABackupDoesNotCount(t *testing.T) {
	h := newShop(t)
	private, public, err := backup.GenerateSigningKey()
	must(t, err)
	signer, err := backup.ParseSigner(private)
	must(t, err)
	trusted, err := backup.ParseTrusted(public)
	must(t, err)
	take := func(name string, at time.Time, signer *backup.Signer) string {
		t.Helper()
		b, err := backup.Take(t.Context(), backup.TakeOptions{
			Source: stream(snapshottest.New("3.6").Snapshot(t)), Store: h.s, Signer: signer,
			Info: backup.Info{EtcdVersion: etcdversion.Must("3.6.16"), At: at}, Facts: backup.Facts{Cluster: name},
		})
		must(t, err)
		return b.Name
	}
	signed := take("main", h.now.Add(-3*time.Hour), signer)
	unsigned := take("main", h.now.Add(-2*time.Hour), nil)
	foreign := take("events", h.now.Add(-time.Hour), signer)
	h.put("2026-11-20T11:30:00Z-000001/_etcd_backup.meta", "{}") // a marker alone
	cut := take("main", h.now.Add(-time.Minute), signer)
	h.put(cut+"/etcd.backup.gz", "cut off")
	names := func(list []cluster.Backup) (names []string) {
		for _, b := range list {
			names = append(names, b.Name)
		}
		return names
	}
	h.view.Vet(backup.FetchOptions{})
	if got, want := names(h.answer().Store.Backups), []string{foreign, unsigned, signed}; !slices.Equal(got, want) {
		t.Errorf("with nobody trusted there are %v, want %v", got, want)
	}
	h.view = NewStoreView(h.s, 6*time.Second, func() time.Time { return h.now })
	h.view.Vet(backup.FetchOptions{Cluster: "main"})
	for _, b := range h.answer().Store.Backups {
		if want := map[string]string{foreign: "events"}[b.Name]; b.Foreign != want {
			t.Errorf("%s is of the other cluster %q, want %q", b.Name, b.Foreign, want)
		}
	}
	h.view = NewStoreView(h.s, 6*time.Second, func() time.Time { return h.now })
	h.view.Vet(backup.FetchOptions{Trusted: trusted, Cluster: "main"})
	a := h.answer()
	if got, want := names(a.Store.Backups), []string{signed}; !slices.Equal(got, want) {
		t.Errorf("with a signer trusted there are %v, want %v", got, want)
	}
	if len(a.Store.Uncounted) != 4 {
		t.Errorf("reported are %+v", a.Store.Uncounted)
	}
	// Nor is it restored.
	_, err = h.s.PutRequest(t.Context(), cluster.Request{
		Name: "r1", Kind: cluster.RequestRestore, Backup: foreign, At: h.now,
	})
	must(t, err)
	h.view.Stale()
	if src := h.answer().Store.Source; src == nil || !strings.Contains(src.Problem, `a backup of "events"`) {
		t.Errorf("the backup of another cluster is described as %+v", src)
	}
}

type stream []byte

func (s stream) Snapshot(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(s)), nil
}

// The backup of a sealed restore is the oldest that was taken for it. Another one, however
// new, is none, and none is no problem.
func TestTheBackupOfASealedRestore(t *testing.T) {
	h := newShop(t)
	r, err := h.s.PutRequest(t.Context(), cluster.Request{
		Name: "r1", Kind: cluster.RequestRestore, At: h.now, Sealed: true, EtcdVersion: etcdversion.Must("3.4.25"),
	})
	must(t, err)
	take := func(reason string, after time.Duration) string {
		t.Helper()
		b, err := backup.Take(t.Context(), backup.TakeOptions{
			Source: stream(snapshottest.New("3.5").Snapshot(t)), Store: h.s,
			Info:  backup.Info{EtcdVersion: etcdversion.Must("3.5.35"), At: h.now.Add(after)},
			Facts: backup.Facts{Reason: reason},
		})
		must(t, err)
		h.view.Stale()
		return b.Name
	}
	source := func() (src *cluster.Source) {
		t.Helper()
		testwait.Until(t, "the source is known", func() bool { // it is looked for beside the list
			a := h.answer()
			src = a.Store.Source
			h.view.Stale()
			return src != nil && (src.Backup != "" || len(a.Store.Backups) == 0 || src.Newest == a.Store.Backups[0].Name)
		})
		return src
	}
	if src := source(); src.Backup != "" || src.Problem != "" {
		t.Errorf("without a backup the source is %+v", src)
	}
	other := take("interval", time.Second)
	if src := source(); src.Backup != "" || src.Newest != other {
		t.Errorf("with another backup the source is %+v", src)
	}
	own := take(r.BackupReason(), 2*time.Second)
	take("interval", 3*time.Second)
	take(r.BackupReason(), 4*time.Second)
	if src := source(); src.Backup != own || src.Version != etcdversion.Must("3.5.35") {
		t.Errorf("the source is %+v, want %s", src, own)
	}
}
