package nodeobserve

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// reported is what a reader says of readings that are numbered.
func reported(r *diskReader, do func() Facts) (cluster.Revision, bool, time.Duration) {
	f, known, pending := r.read(context.Background(), time.Now, do)
	return f.Node.Revision, known, pending
}

func TestAReadingThatHangsIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := diskReader{timeout: DefaultDiskTimeout}
		n := cluster.Revision(0)
		hang := make(chan struct{}) // a disk that hangs, closed when it goes on
		close(hang)
		do := func() Facts {
			n++
			mine := n
			<-hang
			return Facts{Node: cluster.Node{Revision: mine}}
		}
		if got, known, pending := reported(&r, do); got != 1 || !known || pending != 0 {
			t.Errorf("the first reading is %d (%t, %s)", got, known, pending)
		}
		hang = make(chan struct{})
		for i := range 3 {
			began := time.Now()
			got, known, pending := reported(&r, do)
			if took := time.Since(began); got != 1 || !known || took != DefaultDiskTimeout ||
				pending != time.Duration(i+1)*DefaultDiskTimeout {
				t.Errorf("while the disk hangs it reports %d (%t), pending for %s, after %s", got, known, pending, took)
			}
		}
		close(hang)
		synctest.Wait()
		if got, _, pending := reported(&r, do); got < 3 || pending != 0 {
			t.Errorf("when it goes on it reports %d, pending for %s", got, pending)
		}
	})
}

func TestAReadingIsNeverOlderThanTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := diskReader{timeout: DefaultDiskTimeout}
		changed, begun := false, make(chan struct{}, 1)
		do := func() Facts {
			f := Facts{Node: cluster.Node{Revision: map[bool]cluster.Revision{true: 2, false: 1}[changed]}}
			select {
			case begun <- struct{}{}:
			default:
			}
			time.Sleep(100 * time.Millisecond)
			return f
		}
		go reported(&r, do)
		<-begun
		changed = true // by an operation, while somebody observes
		if got, _, _ := reported(&r, do); got != 2 {
			t.Errorf("after a change it reports %d", got)
		}
	})
}

func TestOldFactsSayHowOldTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := New(Options{Name: "a", DataDir: "/data", Now: time.Now})
		o.reader.read(t.Context(), time.Now, func() Facts { return Facts{} })
		time.Sleep(3 * time.Second)
		hang := make(chan struct{})
		go o.reader.read(t.Context(), time.Now, func() Facts { <-hang; return Facts{} })
		synctest.Wait()
		if n := o.disk(t.Context()).Node; n.FactsAge != 3*time.Second+DefaultDiskTimeout {
			t.Errorf("they are %s old", n.FactsAge)
		}
		close(hang)
	})
}

func TestADiskThatNeverAnsweredIsNotTakenForAnEmptyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := New(Options{Name: "a", DataDir: "/data", Now: time.Now})
		hang := make(chan struct{})
		go o.reader.read(t.Context(), time.Now, func() Facts { <-hang; return Facts{} })
		time.Sleep(hungReadTimeout)
		f := o.disk(t.Context())
		n, s := f.Node, f.State
		if n.Disk.State != cluster.DiskUnreadable || s.Assigned != nil || o.storage(n.Storage).State != cluster.StorageHung {
			t.Errorf("it is reported as %+v, %+v", n.Disk, n.Storage)
		}
		close(hang)
	})
}
