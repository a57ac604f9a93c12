package cli

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitingSaysWhatForOnceAndThenWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		var what atomic.Value
		what.Store("waiting for a")
		stop := Waiting(&said, func() string { return what.Load().(string) })
		for _, step := range []struct {
			after time.Duration
			what  string
			want  string
		}{
			{900 * time.Millisecond, "waiting for a", ""},
			{time.Second, "waiting for a", "note: waiting for a\n"},
			{time.Minute, "waiting for b", "note: waiting for a\n"},
			{time.Minute, "", "note: waiting for a\nnote: waiting for b\n"},
			{time.Minute, "waiting for b", "note: waiting for a\nnote: waiting for b\n"},
		} {
			time.Sleep(step.after)
			synctest.Wait()
			if said.String() != step.want {
				t.Errorf("it has said %q, want %q", said.String(), step.want)
			}
			what.Store(step.what)
		}
		stop()
		stop()
		what.Store("waiting for c")
		time.Sleep(time.Minute)
		if strings.Contains(said.String(), "c\n") {
			t.Error("it goes on")
		}
	})
}
