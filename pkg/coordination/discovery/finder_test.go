package discovery

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// three is a world with the running nodes b and c, whose records are there.
func three(w *world, _ *Options) {
	for i, n := range []cluster.NodeName{"b", "c"} {
		w.nodes[at(i+2)] = n
		w.records = append(w.records, Record{Name: n, Address: at(i + 2), Boot: "x"})
	}
}

func TestEverythingAtOnceOnStart(t *testing.T) {
	scenario(t, three, func(w *world, f *Finder) {
		got := w.take("")
		for _, e := range []string{"0s read", "0s publish boot1", "0s join b=" + at(2)} {
			if !strings.Contains(strings.Join(got, "|"), e) {
				t.Errorf("%q is not in %q", e, got)
			}
		}
		if p := f.Problems(); p != nil {
			t.Errorf("problems: %v", p)
		}
	})
}

func TestAnIdleNodeHardlyReads(t *testing.T) {
	scenario(t, three, func(w *world, _ *Finder) {
		later(time.Second)
		w.take("")
		later(21 * time.Minute)
		want(t, w.take(""), "5m0.1s read", "10m0.1s read", "15m0.1s read", "20m0.1s read")
	})
}

func TestTwoThatPublishAtTheSameTimeFindEachOther(t *testing.T) {
	scenario(t, func(w *world, _ *Options) {
		w.start("b", at(2))
		// b's record appears after a has read and before a has published.
		w.published = func() { w.records = append(w.records, Record{Name: "b", Address: at(2)}) }
	}, func(w *world, _ *Finder) {
		later(time.Second)
		want(t, w.take("join"), "100ms join b="+at(2))
	})
}

func TestAloneIsIdleToo(t *testing.T) {
	scenario(t, func(*world, *Options) {}, func(w *world, _ *Finder) {
		later(11 * time.Minute)
		want(t, w.take(""), "0s publish boot1", "0s read", "100ms read", "5m0.1s read", "10m0.1s read")
	})
}

func TestObservationsGrowRarerUntilTheNodeComes(t *testing.T) {
	scenario(t, func(w *world, o *Options) {
		three(w, o)
		delete(w.nodes, at(3))
		o.Interval = time.Second
	}, func(w *world, _ *Finder) {
		later(4 * time.Second)
		want(t, w.take("join c"),
			"0s join c="+at(3), "100ms join c="+at(3), "300ms join c="+at(3), "700ms join c="+at(3),
			"1.5s join c="+at(3), "2.5s join c="+at(3), "3.5s join c="+at(3))
		w.start("c", at(3))
		later(time.Second)
		want(t, w.take(""), "4.5s join c="+at(3), "4.5s read")
		later(5 * time.Minute)
		want(t, w.take(""), "5m4.5s read")
	})
}

func TestANodeThatStaysAwayIsNotAskedMoreOftenForOthers(t *testing.T) {
	scenario(t, func(w *world, o *Options) {
		three(w, o)
		delete(w.nodes, at(3))
	}, func(w *world, f *Finder) {
		later(10*time.Minute + 30*time.Second)
		w.take("")
		w.stop(at(2))
		f.Wake()
		later(10 * time.Second)
		if n := len(w.take("join b")); n < 5 {
			t.Errorf("b, just gone, is asked %d times in 10 seconds", n)
		}
		later(5 * time.Minute)
		if n := len(w.take("join c")); n > 5 {
			t.Errorf("c, long gone, is asked %d times in 5 minutes", n)
		}
		// Waking alone makes no storm.
		for range 5 {
			f.Wake()
			later(100 * time.Millisecond)
		}
		if n := len(w.take("join")); n > 2 {
			t.Errorf("%d joins because of waking", n)
		}
		later(50 * time.Second)
		if n := len(w.take("read")); n > 1 {
			t.Errorf("%d reads after waking", n)
		}
	})
}

func TestALossIsNoticedWithoutWaking(t *testing.T) {
	scenario(t, three, func(w *world, _ *Finder) {
		later(time.Minute)
		w.take("")
		w.stop(at(3))
		later(5*time.Second + 150*time.Millisecond)
		if n := len(w.take("join c")); n < 2 {
			t.Errorf("c is asked %d times in 5 seconds", n)
		}
	})
}

func TestANodeComesBackAtAnotherAddress(t *testing.T) {
	scenario(t, three, func(w *world, f *Finder) {
		later(time.Second)
		w.stop(at(3))
		f.Wake()
		later(time.Second)
		w.take("")
		w.start("c", at(4))
		w.set(func() { w.records[1].Address = at(4) })
		later(2 * time.Second)
		if got := w.take("join c=" + at(4)); len(got) != 1 {
			t.Errorf("c at its new address: %q", got)
		}
		later(time.Minute)
		want(t, w.take("join"))
	})
}

func TestTheOwnRecordIsWatched(t *testing.T) {
	scenario(t, three, func(w *world, f *Finder) {
		later(time.Second)
		var r Record
		w.set(func() { r = w.records[len(w.records)-1] })
		if r.Name != "a" || r.Address != self || r.Boot != "boot1" || !r.At.Equal(w.begin) {
			t.Errorf("published %+v", r)
		}
		w.take("")
		w.set(func() { w.records[len(w.records)-1].Boot = "old" })
		later(5 * time.Minute)
		want(t, w.take(""), "5m0.1s publish boot1", "5m0.1s read", "5m0.2s read")
		w.set(func() { w.records = w.records[:2] })
		f.Wake()
		later(time.Second)
		want(t, w.take(""), "5m1s publish boot1", "5m1s read", "5m1.1s read")
	})
}

func TestPublishingIsTriedAgain(t *testing.T) {
	scenario(t, func(w *world, o *Options) {
		w.publishErr = errors.New("no permission")
		o.Interval = 400 * time.Millisecond
	}, func(w *world, f *Finder) {
		later(1200 * time.Millisecond)
		want(t, w.take("publish"), "0s publish boot1", "100ms publish boot1", "300ms publish boot1", "700ms publish boot1",
			"1.1s publish boot1")
		want(t, f.Problems(), "own record: no permission")
		w.set(func() { w.publishErr = nil })
		later(time.Second)
		want(t, w.take(""), "1.5s publish boot1", "1.5s read", "1.9s read")
		want(t, f.Problems())
		want(t, w.logs, "own record: no permission", "own record: solved")
	})
}

func TestABrokenStoreStopsNobody(t *testing.T) {
	scenario(t, func(w *world, o *Options) {
		w.start("b", at(2))
		w.readErr = errors.New("bucket not found")
		o.Seeds = []Seed{{"b", at(2)}}
	}, func(w *world, f *Finder) {
		want(t, w.take("join"), "0s join b="+at(2))
		later(10 * time.Minute)
		if n := len(w.take("read")); n < 15 || n > 22 {
			t.Errorf("%d reads in 10 minutes; one in a minute is meant, and a few at first", n)
		}
		want(t, f.Problems(), "node records: bucket not found")
		want(t, w.logs, "node records: bucket not found")
		w.set(func() { w.readErr = nil })
		later(time.Minute)
		want(t, f.Problems())
	})
}

func TestAHungStoreStopsNobody(t *testing.T) {
	scenario(t, func(w *world, o *Options) {
		w.start("b", at(2))
		w.hang["read"] = true
		o.Seeds = []Seed{{"b", at(2)}, {"", at(3)}}
	}, func(w *world, f *Finder) {
		later(8 * time.Second)
		w.start("c", at(3))
		later(10 * time.Second)
		got := strings.Join(w.take(""), "|")
		if n := strings.Count(got, "read"); n != 2 {
			t.Errorf("%d reads in 18 seconds; one at a time is meant, each of 10 seconds", n)
		}
		for _, e := range []string{"0s join b=" + at(2), "6.3s join " + at(3), "12.7s join " + at(3)} {
			if !strings.Contains(got, e) {
				t.Errorf("%q is not in %s", e, got)
			}
		}
		want(t, f.Problems(), "node records: context deadline exceeded")
	})
}

func TestAHungNodeStopsNobody(t *testing.T) {
	scenario(t, func(w *world, o *Options) {
		three(w, o)
		clear(w.nodes)
		w.hang[at(2)] = true
	}, func(w *world, _ *Finder) {
		later(250 * time.Millisecond)
		w.start("c", at(3))
		later(100 * time.Millisecond)
		got := w.take("join")
		want(t, got, "0s join b="+at(2), "0s join c="+at(3), "100ms join c="+at(3), "300ms join c="+at(3))
		// b is asked again only after the first join is cut off.
		later(4 * time.Second)
		want(t, w.take("join"))
		later(4 * time.Second)
		if n := len(w.take("join b")); n != 1 {
			t.Errorf("b is asked %d times", n)
		}
	})
}

func TestSeedsWithoutNames(t *testing.T) {
	scenario(t, func(w *world, o *Options) {
		o.Directory = nil
		o.Seeds = []Seed{{"", at(2)}, {"", "etcd.example.com:3996"}}
		w.start("b", at(2))
	}, func(w *world, f *Finder) {
		later(150 * time.Millisecond)
		want(t, w.take(at(2)), "0s join "+at(2))
		w.start("c", "etcd.example.com:3996")
		later(time.Minute)
		w.take("")
		later(time.Hour)
		want(t, w.take(""))

		// The gossip loses a node: nobody knows at which seed it was.
		w.stop(at(2))
		f.Wake()
		later(50 * time.Millisecond)
		if got := w.take("join"); len(got) != 2 {
			t.Errorf("asked %q", got)
		}
		later(10 * time.Minute)
		w.take("")
		w.start("b", at(2))
		later(time.Minute)
		if got := w.alive(); len(got) != 3 {
			t.Errorf("alive: %v", got)
		}
		w.take("")
		later(time.Hour)
		want(t, w.take(""))
	})
}

func TestOneAddressIsAskedOnce(t *testing.T) {
	scenario(t, func(w *world, o *Options) {
		three(w, o)
		o.Seeds = []Seed{{"", self}, {"a", at(9)}, {"", at(2)}, {"b", at(2)}}
		delete(w.nodes, at(2))
		delete(w.nodes, at(3))
	}, func(w *world, _ *Finder) {
		later(150 * time.Millisecond)
		got := w.take("100ms join")
		want(t, got, "100ms join b="+at(2), "100ms join c="+at(3))
	})
}

func TestTheSeedsDirectoryIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	scenario(t, func(w *world, o *Options) {
		o.SeedsDir, o.Port = dir, 3996
		w.start("b", at(2))
	}, func(w *world, f *Finder) {
		later(time.Second)
		want(t, w.take("join"))
		touch(t, dir, "10.0.0.2", "README")
		later(5 * time.Minute)
		want(t, w.take("join"), "5m0.1s join "+at(2))
		if p := f.Problems(); len(p) != 1 || !strings.Contains(p[0], "README") {
			t.Errorf("problems: %q", p)
		}
		later(time.Hour)
		if len(w.logs) != 1 {
			t.Errorf("logged %q, want one line", w.logs)
		}
	})
}

func TestAnAbsentNodeIsAProblemAfterAWhile(t *testing.T) {
	scenario(t, func(w *world, o *Options) {
		three(w, o)
		delete(w.nodes, at(3))
	}, func(w *world, f *Finder) {
		later(2 * time.Second)
		want(t, f.Problems())
		later(5 * time.Second)
		want(t, f.Problems(), "node c="+at(3)+": connection refused")
		later(10 * time.Minute)
		want(t, w.logs, "node c="+at(3)+": connection refused")
		w.start("c", at(3))
		later(time.Minute)
		want(t, f.Problems())
		want(t, w.logs, "node c="+at(3)+": connection refused", "node c="+at(3)+": solved")
	})
}

func TestANodeThatJoinsByItselfIsNoProblem(t *testing.T) {
	scenario(t, func(w *world, o *Options) {
		three(w, o)
		delete(w.nodes, at(3))
	}, func(w *world, f *Finder) {
		later(time.Minute)
		w.set(func() { w.joined["c"] = true })
		f.Wake()
		later(time.Second)
		want(t, f.Problems())
	})
}

func TestNewRefuses(t *testing.T) {
	w := newWorld()
	for _, c := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Join = nil }, "function are needed"},
		{func(o *Options) { o.Alive = nil }, "function are needed"},
		{func(o *Options) { o.Interval = 0 }, "interval is shorter"},
		{func(o *Options) { o.Self.Name = "" }, "node name is empty"},
	} {
		o := w.options()
		c.change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
}
