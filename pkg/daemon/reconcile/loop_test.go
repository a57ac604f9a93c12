package reconcile

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

func TestOneOperationThenAnObservationAgain(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.backupDue()
		w.unmarked()
		w.pass(time.Second)
		want := "previous; observe; acquire from [a]; incarnation mark; observe; backup take; observe; observe"
		equal(t, "protocol", strings.Join(w.protocol, "; "), want)
		r := w.last(t)
		if !r.Converged || len(r.Holds) > 0 || r.Operation != "" {
			t.Errorf("the last report is %+v", r)
		}
	})
}

func TestAnOperationIsReportedBeforeAndAfter(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.backupDue()
		w.fail = func(plan.Operation) error { time.Sleep(3 * time.Second); return nil }
		began := time.Now()
		w.pass(10 * time.Second)
		before := w.reports[0]
		i := slices.IndexFunc(w.reports, func(r Report) bool { return r.Done != nil })
		if i < 0 {
			t.Fatal("the end of the operation is not reported")
		}
		after := w.reports[i]
		line := "etcdadm backup take --node=a --reason=interval"
		equal(t, "line before", before.Operation, line)
		if before.Done != nil || !before.At.Equal(began) {
			t.Errorf("before it: %+v", before)
		}
		equal(t, "line after", after.Operation, "")
		if d := after.Done; d == nil || d.Line != line || d.Took != 3*time.Second || !d.At.Equal(began) || d.Err != nil {
			t.Errorf("after it: %+v", after.Done)
		}
		equal(t, "coordinator", after.Coordinator, "a")
		equal(t, "term", after.Term, 1)
	})
}

func TestStandbyDoesNothing(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.candidate = false
		w.backupDue()
		w.pass(time.Minute)
		equal(t, "protocol", strings.Join(w.protocol, "; "), "")
		equal(t, "reports", len(w.reports), 0)
		w.change(func() { w.candidate = true })
		w.pass(standbyPause)
		equal(t, "done", w.done(), "previous; acquire from [a]; backup take")
	})
}

func TestADaemonThatStandsByTurnsRarely(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.candidate = false
		w.quiet = 10 * time.Second
		w.pass(time.Minute)
		if w.asked > 8 {
			t.Errorf("it asked %d times in a minute whether it is a candidate", w.asked)
		}
		w.change(func() { w.candidate = true })
		w.wake <- struct{}{}
		synctest.Wait()
		equal(t, "done", strings.Join(w.protocol, "; "), "previous; observe; acquire from [a]")
	})
}

func TestARefusedLeaseIsAHoldAndNothingIsDone(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.backupDue()
		w.lease.refuse = errors.New("b: a has the lease of term 3")
		w.pass(time.Minute)
		r := w.last(t)
		equal(t, "reasons", reasons(r), "no-coordinator")
		equal(t, "text", r.Holds[0].Text, "b: a has the lease of term 3")
		equal(t, "term", r.Term, 0)
		equal(t, "backups", w.count("backup take"), 0)
		// Each try uses up a term: they grow rarer, to one in maxCampaignPause.
		if n := w.count("acquire from [a]"); n < 12 || n > 20 {
			t.Errorf("%d tries in a minute", n)
		}
		w.change(func() { w.lease.refuse = nil })
		w.pass(maxCampaignPause)
		equal(t, "backups", w.count("backup take"), 1)
	})
}

func TestWithoutLeaseVotersNoLeaseIsAskedFor(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		// Before a bootstrap: nothing exists yet but a node and the spec.
		w.obs.LeaseVoters, w.obs.Members, w.obs.Leader, w.obs.Token = cluster.LeaseVoters{}, nil, 0, ""
		w.obs.Store = cluster.Store{Reachable: true, BackupsKnown: true}
		n := &w.obs.Nodes[0]
		n.Disk, n.Assigned, n.LeaseVoters, n.Process = cluster.Disk{State: cluster.DiskEmpty}, nil, cluster.LeaseVoters{},
			cluster.Process{State: cluster.ProcessStopped}
		w.obs.Nonce = "t7"
		w.pass(time.Minute)
		// The record of the bootstrap is what makes lease voters; from then on a lease is
		// needed.
		equal(t, "done", w.done(),
			"previous; member prepare; incarnation create; acquire from [a]; member start; incarnation mark; backup take")
		equal(t, "term of the bootstrap", w.reports[0].Term, 0)
	})
}

func TestACoordinatorElsewhereIsLeftAlone(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.backupDue()
		w.lease.refuse = &lease.HeldError{Holder: "b", Remaining: 1500 * time.Millisecond, Err: errBroken}
		w.pass(1499 * time.Millisecond)
		equal(t, "tries before the end of the other's lease", w.count("acquire from [a]"), 1)
		w.pass(time.Minute)
		equal(t, "reports", len(w.reports), 0)
		equal(t, "log", w.log.String(), "")
		equal(t, "backups", w.count("backup take"), 0)
		// What the other does is read from what it publishes.
		if n, tries := w.count("previous"), w.count("acquire from [a]"); n != tries {
			t.Errorf("the published observation was read %d times in %d tries", n, tries)
		}
		w.change(func() { w.lease.refuse = nil })
		w.pass(2 * time.Second)
		equal(t, "backups", w.count("backup take"), 1)
	})
}

func TestARunningClusterWithoutKnownLeaseVotersIsLeftAlone(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.backupDue()
		w.obs.LeaseVoters = cluster.LeaseVoters{}
		w.pass(time.Minute)
		equal(t, "done", w.done(), "previous")
		equal(t, "reasons", reasons(w.last(t)), "no-coordinator lease-voters-lost")
	})
}

func pause(w *world) {
	w.obs.Store.Requests = []cluster.Request{{Name: "r1", Kind: cluster.RequestPause, By: "eve", Reason: "repair"}}
}

func TestAPauseGivesTheLeaseBackUntilItIsOver(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.pass(time.Second)
		equal(t, "done", w.done(), "previous; acquire from [a]")
		w.change(func() {
			pause(w)
			w.obs.Store.Backups = nil
		})
		w.pass(10 * time.Second)
		equal(t, "done, paused", w.done(), "previous; acquire from [a]; release")
		r := w.last(t)
		equal(t, "reasons", reasons(r), "paused")
		equal(t, "term", r.Term, 0)
		w.change(func() { w.obs.Store.Requests = nil })
		w.pass(time.Second)
		equal(t, "done, resumed", w.done(), "previous; acquire from [a]; release; acquire from [a]; backup take")
	})
}

func TestOtherRequestsDoNotPause(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.obs.Store.Requests = []cluster.Request{{Name: "r1", Kind: cluster.RequestBackup}}
		w.backupDue()
		w.pass(time.Second)
		equal(t, "done", w.done(), "previous; acquire from [a]; backup take; request close")
	})
}

func TestALostLeaseIsAskedForAgain(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.pass(time.Second)
		w.change(func() { w.lease.held = false })
		w.pass(idlePause)
		equal(t, "done", w.done(), "previous; acquire from [a]; acquire from [a]")
		equal(t, "term", w.last(t).Term, 2)

		// The lease is lost, and another name is lower now.
		w.change(func() { w.lease.held, w.candidate = false, false })
		w.pass(time.Minute)
		equal(t, "done", w.done(), "previous; acquire from [a]; acquire from [a]")
	})
}

func TestTheHolderGoesOnWhileItHoldsTheLease(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.pass(time.Second)
		w.change(func() { w.candidate = false }) // a lower name has come up
		w.change(func() { w.obs.Store.Backups = nil })
		w.pass(idlePause)
		equal(t, "done", w.done(), "previous; acquire from [a]; backup take")
	})
}

func TestTheLeaseIsGivenBackAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		w.begin = sync.OnceFunc(func() {
			go func() {
				defer close(ended)
				New(w.options()).Run(ctx)
			}()
		})
		w.pass(time.Second)
		cancel()
		<-ended
		equal(t, "done", w.done(), "previous; acquire from [a]; release")
		if err := w.lease.release[0]; err != nil {
			t.Errorf("the lease is given back under a context that has ended: %v", err)
		}
	})
}

func TestAnObservationThatIsCutShortIsNotActedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.backupDue()
		ctx, cancel := context.WithCancel(t.Context())
		o := w.options()
		whole := o.Observe
		o.Observe = func(ctx context.Context, prev cluster.Observation) cluster.Observation {
			cancel() // the daemon is asked to end while it observations
			return whole(ctx, prev)
		}
		New(o).Run(ctx)
		equal(t, "backups", w.count("backup take"), 0)
		equal(t, "reports", len(w.reports), 0)
	})
}

func TestWakeEndsAPause(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.pass(100 * time.Millisecond)
		before := w.count("observe")
		w.pass(idlePause / 2)
		equal(t, "observations while idle", w.count("observe"), before)
		w.wake <- struct{}{}
		synctest.Wait()
		equal(t, "observations after a wake", w.count("observe"), before+1)
		// The pause begins again.
		w.pass(idlePause - time.Millisecond)
		equal(t, "observations just before the next", w.count("observe"), before+1)
		w.pass(time.Millisecond)
		equal(t, "observations", w.count("observe"), before+2)
	})
}

func TestThePauseFitsTheSituation(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(w *world)
		want   time.Duration
	}{
		{"idle", func(*world) {}, idlePause},
		{"held by what only a person can change", func(w *world) { w.obs.Members[0].Alarms = []string{"NOSPACE"} },
			heldPause},
		{"paused", pause, heldPause},
		{"waiting for what was started", func(w *world) {
			w.obs.Store.Created = time.Time{}
			w.obs.Leader, w.obs.Members[0].Healthy = 0, false
		}, soonPause},
		{"held by what clears by itself", func(w *world) { w.obs.Leader, w.obs.Members[0].Healthy = 0, false }, waitingPause},
		{"no spec yet", func(w *world) { w.spec = cluster.Spec{} }, waitingPause},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, func(t *testing.T, w *world) {
				tc.change(w)
				w.pass(10*tc.want + tc.want/2)
				equal(t, "observations", len(w.observations), 11)
				equal(t, "distance", w.observations[10].at.Sub(w.observations[9].at), tc.want)
			})
		})
	}
}

// The hold that clears first decides, wherever it stands.
func TestThePauseIsTheShortestOfTheHolds(t *testing.T) {
	restoring, starting := plan.Hold{Reason: plan.Restoring}, plan.Hold{Reason: plan.MemberStarting}
	away, disk := plan.Hold{Reason: plan.NodeUnreachable}, plan.Hold{Reason: plan.DiskFull}
	for _, tc := range []struct {
		holds []plan.Hold
		want  time.Duration
	}{
		{[]plan.Hold{away, disk}, heldPause},
		{[]plan.Hold{disk, restoring}, waitingPause},
		{[]plan.Hold{restoring, starting}, soonPause},
		{[]plan.Hold{starting, restoring}, soonPause},
	} {
		equal(t, "pause", pauseAfter(Report{Holds: tc.holds}), tc.want)
	}
}

// A cluster that is well is observed less often after half a minute, and as often as before once
// something has happened.
func TestACalmClusterIsObservedLessOften(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.spec.Policy.BackupInterval = 1000 * time.Hour
		distance := func() (d time.Duration) {
			w.change(func() {
				last := len(w.observations) - 1
				d = w.observations[last].at.Sub(w.observations[last-1].at)
			})
			return d
		}
		w.pass(calmDelay - time.Second)
		equal(t, "distance at first", distance(), idlePause)
		w.pass(time.Minute)
		equal(t, "distance when all is calm", distance(), calmPause)
		w.wake <- struct{}{}
		w.pass(2 * idlePause)
		equal(t, "distance after news", distance(), idlePause)
		w.pass(time.Minute)
		equal(t, "distance when all is calm again", distance(), calmPause)
		w.change(func() { w.obs.Members[0].Alarms = []string{"NOSPACE"} })
		w.pass(calmPause + 2*heldPause)
		equal(t, "distance with a hold", distance(), heldPause)
		w.change(func() { w.obs.Members[0].Alarms = nil })
		w.pass(heldPause + 2*idlePause)
		equal(t, "distance after the hold", distance(), idlePause)
	})
}

func TestThePreviousObservationIsTakenOverOnce(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.previous = cluster.Observation{Token: "published"}
		w.pass(10 * time.Second)
		equal(t, "previous", w.count("previous"), 1)
		equal(t, "before the first observation", w.observations[0].prev.Token, "published")
		equal(t, "before the second observation", w.observations[1].prev.Token, "t1")
		if w.observations[1].prev.At != w.observations[0].at {
			t.Errorf("the second observation stands on the one of %s, not on the first", w.observations[1].prev.At)
		}

		// Another coordinates for a while: what this one remembers is old then.
		w.change(func() { w.candidate, w.lease.held = false, false })
		w.pass(time.Minute)
		seen := 0
		w.change(func() {
			w.candidate, w.previous = true, cluster.Observation{Token: "of the other"}
			seen = len(w.observations)
		})
		w.pass(time.Second)
		equal(t, "previous", w.count("previous"), 2)
		equal(t, "after the standby", w.observations[seen].prev.Token, "of the other")
	})
}

// A coordinator that cannot reach the store leaves no trace there: what the store has is of
// the one before it, and whoever was unhealthy then may have been well since.
func TestTimesAreOfTheLastCoordinatorOrBegin(t *testing.T) {
	for _, tt := range []struct {
		name          string
		published, by cluster.Term
		kept          bool
	}{
		{"the last coordinator published", 3, 3, true},
		{"another one was in between", 3, 5, false},
		{"the store had nothing", 0, 5, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run(t, func(t *testing.T, w *world) {
				since := time.Now().Add(-time.Minute)
				w.previousTerm, w.lease.succeeds, w.lease.term = tt.published, tt.by, 6
				w.show = func(obs *cluster.Observation) {
					obs.Members[0].Healthy, obs.Members[0].UnhealthySince = false, since
				}
				w.pass(10 * time.Second)
				first, want := w.reports[0].Observation, since
				if !tt.kept {
					want = first.At
				}
				equal(t, "unhealthy since", first.Members[0].UnhealthySince, want)
				equal(t, "to the next observation", w.observations[1].prev.Members[0].UnhealthySince, want)
				equal(t, "after that", w.last(t).Observation.Members[0].UnhealthySince, since)
			})
		})
	}
}

func TestWhileTheLeaseIsRefusedThePastIsKept(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.lease.refuse = errBroken
		w.pass(10 * time.Second)
		equal(t, "previous", w.count("previous"), 1)
		if got := w.observations[len(w.observations)-1].prev.At; got.IsZero() {
			t.Error("the last observation knew nothing of the one before")
		}
	})
}

// A daemon that was killed in a bootstrap may have lease voters on its disk that nobody else knows, and ask them
// before it observes. What it does in the next bootstrap it does not do as a coordinator: another may do so too.
func TestALeaseOfNoClusterIsNoTerm(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.early = cluster.LeaseVoters{Token: "never", Names: []cluster.NodeName{"a"}}
		w.show = func(obs *cluster.Observation) {
			obs.LeaseVoters, obs.Members, obs.Leader, obs.Token = cluster.LeaseVoters{}, nil, 0, ""
			obs.Store.Incarnations, obs.Store.Created = nil, time.Time{}
		}
		w.pass(5 * time.Second)
		if !w.lease.held || w.count("acquire from [a]") == 0 {
			t.Fatal("it has no lease")
		}
		for _, r := range w.reports {
			if r.Term != 0 {
				t.Fatalf("it reports term %d: %+v", r.Term, r.Holds)
			}
		}
		if len(w.reports) == 0 {
			t.Error("it reports nothing")
		}
	})
}
